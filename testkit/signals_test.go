package testkit_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/testkit"
)

// scenario is a busy quarter of an hour: schedules of all kinds, triggers by
// hand, failures, time-outs, cancels, a worker that goes silent, a change of
// leader. The same seed does the same.
func scenario(t *testing.T, seed uint64, forget bool) *testkit.Sim {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	s := testkit.NewSim(t)
	s.Forget = forget
	var ws []*testkit.SimWorker
	for i := range 3 {
		w := s.Worker(fmt.Sprintf("w%d", i), 3)
		w.Takes = time.Duration(rng.IntN(4000)) * time.Millisecond
		w.Result = func(run *events.Run, attempt int64) events.Report {
			switch run.Token / 7 % 5 {
			case 0:
				return events.Report{Outcome: events.OutcomeFailed, Error: "no", RetryAfter: 500}
			case 1:
				return events.Report{Outcome: events.OutcomeTimedOut}
			}
			return events.Report{Outcome: events.OutcomeSucceeded, Result: fmt.Sprint(attempt)}
		}
		ws = append(ws, w)
	}
	s.DefineGroup("default", 7)
	for i := range 8 {
		spec := events.TaskSpec{
			Triggers: []events.TriggerSpec{{Name: "a", Interval: &events.IntervalSpec{Every: events.Duration(time.Duration(1+rng.IntN(9)) * time.Second)}}},
			Timeout:  events.Duration(5 * time.Second),
			Retry:    events.RetrySpec{Base: events.Duration(300 * time.Millisecond), Cap: events.Duration(2 * time.Second), Jitter: 20},
			Limit:    int64(rng.IntN(3)),
		}
		if i%2 == 0 {
			spec.Overlap.Policy = events.OverlapAllow
			spec.Triggers = append(spec.Triggers, events.TriggerSpec{Name: "b", Cron: "*/7 * * * * ?"})
		}
		if i%3 == 0 {
			spec.Triggers = append(spec.Triggers, events.TriggerSpec{Name: "c", Once: &events.OnceSpec{Delay: events.Duration(time.Duration(rng.IntN(200)) * time.Second)}})
		}
		p := int64(rng.IntN(10))
		spec.Priority = &p
		s.Define(fmt.Sprintf("task-%d", i), spec)
	}
	var ids []events.InstanceID
	for range 60 {
		s.Advance(time.Duration(rng.IntN(5000)) * time.Millisecond)
		task := fmt.Sprintf("task-%d", rng.IntN(8))
		switch rng.IntN(8) {
		case 0, 1, 2:
			ids = append(ids, s.Trigger(task))
		case 3:
			if len(ids) > 0 {
				s.Do(events.Command{Verb: events.VerbCancel, Name: string(ids[rng.IntN(len(ids))])})
			}
		case 4:
			verb := []string{events.VerbPause, events.VerbResume}[rng.IntN(2)]
			s.Do(events.Command{Verb: verb, Object: events.ObjectTask, Name: task})
		case 5:
			w := ws[rng.IntN(len(ws))]
			w.Silent = !w.Silent
		case 6:
			w := ws[rng.IntN(len(ws))]
			w.Kill()
			w.Restart()
		case 7:
			s.NewLeader(events.ServerName(fmt.Sprintf("s%d", 1+rng.IntN(2))))
		}
	}
	for _, w := range ws {
		w.Silent = false
	}
	s.Advance(2 * time.Minute)
	return s
}

// TestEverySignalDroppedGivesTheSameLog runs a scenario as it is, and once more
// with everything in memory that is not the folded state thrown away before each
// round: the wheel, the queues, what is ripe, what is owed. What is owed is in
// the state, so both logs are equal byte for byte.
func TestEverySignalDroppedGivesTheSameLog(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 2
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			a, b := scenario(t, seed, false), scenario(t, seed, true)
			a.Check()
			ctx := t.Context()
			ia, err := a.Log.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			ib, err := b.Log.Info(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for seq := uint64(1); seq <= min(ia.Last, ib.Last); seq++ {
				ma, err := a.Log.Get(ctx, seq)
				if err != nil {
					t.Fatal(err)
				}
				mb, err := b.Log.Get(ctx, seq)
				if err != nil {
					t.Fatal(err)
				}
				if ma.Time != mb.Time || !bytes.Equal(ma.Body, mb.Body) {
					t.Fatalf("sequence %d:\n%s\nwith signals dropped:\n%s", seq, ma.Body, mb.Body)
				}
			}
			if ia.Last != ib.Last {
				t.Fatalf("%d messages, %d with signals dropped", ia.Last, ib.Last)
			}
			if ia.Last < 500 {
				t.Errorf("only %d messages", ia.Last)
			}
			ra, rb := a.Events(), b.Events()
			kinds := map[events.Kind]int{}
			for _, r := range ra {
				kinds[r.Kind]++
			}
			t.Logf("%d messages, %d events: %v", ia.Last, len(rb), kinds)
		})
	}
}
