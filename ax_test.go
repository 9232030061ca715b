package ax_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/workers"
)

func TestATaskThatIsDefinedFiresAndSucceeds(t *testing.T) {
	level := slog.LevelInfo
	if os.Getenv("AX_TEST_DEBUG") != "" {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	s, err := ax.Start(t.Context(), ax.Options{Dir: t.TempDir(), Name: "s1", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	ran := make(chan *workers.Attempt, 10)
	funcs := &workers.Funcs{}
	funcs.Register("hello", func(_ context.Context, a *workers.Attempt) (json.RawMessage, error) {
		ran <- a
		return json.RawMessage(`{"said":"hello"}`), nil
	})
	w, err := workers.New(workers.Config{
		Address: s.Address(), Name: "w1", Groups: map[events.Group]int{"default": 4}, Executors: workers.Registry{"func": funcs.Factory},
		Connect: s.Connect, Log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	wctx, stopWorker := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- w.Run(wctx) }()
	defer func() {
		stopWorker()
		if err := <-worked; err != nil {
			t.Error(err)
		}
	}()
	nc, err := s.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: "hello"}, Task: &events.TaskSpec{
		Triggers: []events.TriggerSpec{{Interval: &events.IntervalSpec{Every: events.Duration(time.Second)}}},
		Executor: events.ExecutorSpec{Kind: "func", Config: json.RawMessage(`{"name":"hello"}`)},
	}}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	done, err := ax.NewClient(nc, s.Address(), "test").Do(ctx, events.Command{Verb: events.VerbDefine, Definition: body})
	if err != nil || done[0].Reason != "" {
		t.Fatal(done, err)
	}
	for range 2 {
		select {
		case a := <-ran:
			t.Logf("%+v late by %v", a, time.Since(a.Due))
		case <-ctx.Done():
			t.Fatalf("nothing ran: %+v", s.Shard().Status())
		}
	}
	for {
		if err := s.Shard().Sync(ctx, 0); err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := s.Views().Instances(events.Position{}, func(i *projector.Instance) bool {
			if i.State == events.StateSuccess {
				n++
			}
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if n >= 2 {
			break
		}
	}
}
