package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

// explain gives what why says of an instance: its standing, and the chain below.
func explain(t *testing.T, s *testkit.Sim, id events.InstanceID) (standing, chain string) {
	t.Helper()
	v := s.Views.Snapshot()
	defer v.Close()
	row := s.Instance(id)
	queue, err := replay.QueueOf(v, row)
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := replay.Why(context(), s.Log, row, queue)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, r := range reasons[1:] {
		texts = append(texts, r.Text)
	}
	return reasons[0].Text, strings.Join(texts, "\n")
}

func says(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("it does not say %q:\n%s", w, text)
		}
	}
}

func saysNot(t *testing.T, text string, unwanted ...string) {
	t.Helper()
	for _, w := range unwanted {
		if strings.Contains(text, w) {
			t.Errorf("it says %q:\n%s", w, text)
		}
	}
}

// TestAnErrorIsOfTheAttemptThatHadIt: while attempt 2 waits, runs or has ended,
// what attempt 1 ended with stands below, with its number.
func TestAnErrorIsOfTheAttemptThatHadIt(t *testing.T) {
	for _, c := range []struct {
		outcome       string
		below, reason string
	}{
		{events.OutcomeFailed, "attempt 1 failed: killed", ""},
		{events.OutcomeTimedOut, "attempt 1 passed its time limit: killed", events.ReasonRun},
	} {
		t.Run(c.outcome, func(t *testing.T) {
			s := testkit.NewSim(t)
			w := s.Worker("w1", 1)
			w.Result = func(_ *events.Run, attempt int64) events.Report {
				if attempt == 1 {
					w.Takes = 20 * time.Second
					return events.Report{Outcome: c.outcome, Error: "killed"}
				}
				return events.Report{Outcome: events.OutcomeSucceeded}
			}
			s.Define("job", events.TaskSpec{Retry: events.RetrySpec{Base: events.Duration(5 * time.Second), Jitter: 0}})
			id := s.Trigger("job")
			check := func(state events.State, reason string, earlier bool) {
				t.Helper()
				row := s.Instance(id)
				if row.State != state {
					t.Fatalf("it is %s, want %s", row.State, state)
				}
				standing, chain := explain(t, s, id)
				saysNot(t, standing, "killed")
				says(t, chain, c.below)
				own, before := replay.Outcomes(row)
				if own.Error != "" || own.Reason != "" || (before != nil) != earlier {
					t.Errorf("%s: own %+v, earlier %+v", state, own, before)
				}
				if before != nil && *before != (replay.Outcome{Attempt: 1, Reason: reason, Error: "killed"}) {
					t.Errorf("%s: earlier %+v", state, before)
				}
			}
			check(events.StateRetrying, c.reason, true)
			s.Advance(8 * time.Second)
			check(events.StateRunning, c.reason, true)
			s.Advance(30 * time.Second)
			check(events.StateSuccess, "", false)
		})
	}
	t.Run("a cancel does not take over the error of the attempt before", func(t *testing.T) {
		s := testkit.NewSim(t)
		w := s.Worker("w1", 1)
		w.Result = func(*events.Run, int64) events.Report {
			return events.Report{Outcome: events.OutcomeTimedOut, Error: "killed"}
		}
		s.Define("job", events.TaskSpec{Retry: events.RetrySpec{Base: events.Duration(time.Minute)}})
		id := s.Trigger("job")
		s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(id)})
		own, before := replay.Outcomes(s.Instance(id))
		if own != (replay.Outcome{Attempt: 2}) || before == nil || *before != (replay.Outcome{Attempt: 1, Reason: events.ReasonRun, Error: "killed"}) {
			t.Errorf("own %+v, earlier %+v", own, before)
		}
	})
	t.Run("a dead letter has the error of its last attempt", func(t *testing.T) {
		s := testkit.NewSim(t)
		w := s.Worker("w1", 1)
		w.Result = func(*events.Run, int64) events.Report {
			return events.Report{Outcome: events.OutcomeFailed, Error: "no disk"}
		}
		s.Define("job", events.TaskSpec{})
		id := s.Trigger("job")
		s.Advance(time.Hour)
		standing, _ := explain(t, s, id)
		says(t, standing, "is DEAD", "(attempts)", "no disk", "ax redrive", "ax discard")
		if own, before := replay.Outcomes(s.Instance(id)); own.Reason != events.ReasonAttempts || own.Error != "no disk" || before != nil {
			t.Errorf("own %+v, earlier %+v", own, before)
		}
	})
}

// TestWhyItWaits: a queue is told as it stands, and no cause is claimed.
func TestWhyItWaits(t *testing.T) {
	s := testkit.NewSim(t)
	s.DefineGroup("slow", 5)
	s.Define("job", events.TaskSpec{Group: "slow", Limit: 1})
	first := s.Trigger("job")
	standing, _ := explain(t, s, first)
	says(t, standing, "queue of group slow", "1 waiting there", "the task has 0 of 1 in use", "the group has 0 of 5 in use", "ax get workers")
	saysNot(t, standing, "free slot", "no worker") // nobody knows here

	w := s.Worker("w1", 9)
	w.Slots = map[events.Group]int64{"slow": 9}
	w.Takes = time.Hour
	s.Advance(10 * time.Second)
	second := s.Trigger("job")
	standing, _ = explain(t, s, second)
	says(t, standing, "the task is at its limit: 1 of 1 in use", "the group has 1 of 5 in use")

	s.DefineGroup("slow", 1)
	standing, _ = explain(t, s, second)
	says(t, standing, "the group is at its limit: 1 of 1 in use")
	for _, c := range []struct {
		queue replay.Queue
		want  string
	}{
		{replay.Queue{SlotsKnown: true}, "no worker that beats to this leader has slots"},
		{replay.Queue{SlotsKnown: true, Slots: 3}, "have 3 slots"},
		{replay.Queue{GroupActive: 2}, "the group has no limit, 2 in use"},
	} {
		says(t, c.queue.String(), c.want)
	}
}

// TestWhySaysWhoCancelledAndWhy, while it ends and afterwards, and whether it was
// cancelled at once.
func TestWhySaysWhoCancelledAndWhy(t *testing.T) {
	s := testkit.NewSim(t)
	s.Define("job", events.TaskSpec{})
	queued := s.Trigger("job")
	s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(queued), Reason: "not today"})
	actor := s.Of(events.KindCancelled, "")[0].Actor
	standing, _ := explain(t, s, queued)
	says(t, standing, "is CANCELLED: it was cancelled by "+actor+": not today")

	s.Worker("w1", 1).Takes = time.Hour
	s.Advance(4 * time.Second)
	running := s.Trigger("job")
	if state := s.Instance(running).State; state != events.StateRunning {
		t.Fatalf("it is %s", state)
	}
	s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(running), Reason: "enough"})
	standing, _ = explain(t, s, running)
	says(t, standing, "is RUNNING", actor+" asked it to end: enough")
	s.Advance(10 * time.Second)
	standing, chain := explain(t, s, running)
	says(t, standing, "is CANCELLED: "+actor+" asked it to end: enough")
	says(t, chain, actor+" asked it to end: enough")
}

// TestEventsOfATask are those of its definition, its triggers and its instances,
// and of no other task whose name begins alike.
func TestEventsOfATask(t *testing.T) {
	s := testkit.NewSim(t)
	s.Worker("w1", 5)
	for _, name := range []string{"a", "a-1", "a-1800000000000-s"} {
		s.Define(name, events.TaskSpec{})
		s.Trigger(name)
	}
	s.Advance(time.Second)
	for _, name := range []events.TaskName{"a", "a-1", "a-1800000000000-s"} {
		found, _, err := replay.Events(context(), s.Log, replay.Filter{Task: name}, 100)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []string
		for _, r := range found {
			kinds = append(kinds, r.Kind.String())
			if r.Instance != "" && !strings.HasPrefix(string(r.Instance), string(name)+"-17") && !strings.HasPrefix(string(r.Instance), string(name)+"-18") {
				t.Errorf("task %s: %s", name, r.Instance)
			}
		}
		if got := strings.Join(kinds, " "); got != "defined fired dispatched started succeeded" {
			t.Errorf("task %s: %s", name, got)
		}
	}
}
