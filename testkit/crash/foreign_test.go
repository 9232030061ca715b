package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

// Somebody with the server's credentials writes into the log while the leader
// works: garbage, a frame of an old term, a leadership that nobody holds. None
// of it has an effect; each is recorded in an incident; the leader leads again
// and work goes on.
func TestForeignFramesAreRecordedAndChangeNothing(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	s := ps.Dev("dev")
	s.Run()
	nc := s.Connect()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	addr := testkit.Addresses()
	var tasks []events.Command
	for k := range 5 {
		tasks = append(tasks, task(t, fmt.Sprintf("job-%d", k), events.TaskSpec{
			Triggers: []events.TriggerSpec{every(200*time.Millisecond, time.Duration(k)*40*time.Millisecond)}, Executor: shell(":"),
			Overlap: events.OverlapSpec{Policy: events.OverlapAllow},
		}))
	}
	do(t, nc, tasks...)
	log := openLog(t, nc)
	stream, err := js.Stream(t.Context(), addr.LogStream(0))
	if err != nil {
		t.Fatal(err)
	}

	// A frame of this term, which is an old one once the server was started again.
	info, err := log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old, err := stream.GetMsg(t.Context(), info.Last)
	if err != nil {
		t.Fatal(err)
	}
	for name := range old.Header {
		if strings.HasPrefix(name, "Nats-") { // what it was conditional on: now it is sent by somebody without manners
			old.Header.Del(name)
		}
	}
	s.Kill()
	s.Run()

	strangers := []struct {
		what string
		send func() error
	}{
		{"garbage", func() error {
			_, err := js.Publish(t.Context(), addr.Log(0), []byte("\x00 this is no frame"))
			return err
		}},
		{"an empty message", func() error {
			_, err := js.Publish(t.Context(), addr.Log(0), nil)
			return err
		}},
		{"a frame of an old term", func() error {
			_, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: addr.Log(0), Header: old.Header, Data: old.Data})
			return err
		}},
		{"garbage as a leadership", func() error {
			_, err := js.Publish(t.Context(), addr.Led(0), []byte("I lead"))
			return err
		}},
	}
	written := 0
	for round := range testkit.Rounds(1, 10) {
		for _, x := range strangers {
			incidents := func() int {
				return len(of(records(t, log), func(r *replay.Record) bool {
					return r.Kind == events.KindIncident && r.Reason == events.ReasonForeign
				}))
			}
			before := incidents()
			began := time.Now()
			if err := x.send(); err != nil {
				t.Fatalf("%s: %v", x.what, err)
			}
			written++
			testkit.Until(t, time.Minute, "an incident records "+x.what, func() bool { return incidents() > before })
			after, err := log.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("round %d: %s was recorded after %s", round, x.what, time.Since(began).Round(time.Millisecond))
			testkit.Until(t, time.Minute, "work goes on after "+x.what, func() bool {
				return len(of(records(t, log), func(r *replay.Record) bool {
					return r.Position.Seq > after.Last && r.Kind == events.KindSucceeded
				})) > 0
			})
			s.Verify()
		}
	}

	mark := time.Now()
	testkit.Until(t, time.Minute, "every task fires again", func() bool {
		fired := map[events.TaskName]bool{}
		for _, r := range records(t, log) {
			if r.Kind == events.KindFired && r.Due.After(mark) {
				fired[r.Task] = true
			}
		}
		return len(fired) == len(tasks)
	})
	a := audit(t, log, testkit.AuditOptions{CoveredUntil: mark})
	if a.Stale+a.Strange != written {
		t.Errorf("the log has %d frames of dead terms and %d messages that are no frames, %d were written", a.Stale, a.Strange, written)
	}
	s.Verify()
}
