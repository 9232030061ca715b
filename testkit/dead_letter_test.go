package testkit_test

import (
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/testkit"
)

// TestDeadLettersRunAgainOrArePutAway: by somebody, with a reason, and with other
// parameters if these were the fault. It begins with a full count of retries.
func TestDeadLettersRunAgainOrArePutAway(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 4)
	w.Result = func(run *events.Run, _ int64) events.Report {
		if run.Params == `"good"` {
			return events.Report{Outcome: events.OutcomeSucceeded}
		}
		return events.Report{Outcome: events.OutcomeFailed, Error: "no"}
	}
	retries := int64(1)
	s.Define("job", events.TaskSpec{Params: []byte(`"bad"`), Retry: events.RetrySpec{Max: &retries, Base: events.Duration(time.Second)}})
	again, away := s.Trigger("job"), s.Trigger("job")
	s.Advance(5 * time.Second)
	do := func(verb string, id events.InstanceID, params string) string {
		return s.Do(events.Command{Verb: verb, Name: string(id), Params: params, Reason: "by hand"})[0].Reason
	}
	state := func(id events.InstanceID, want events.State, attempt int64) {
		t.Helper()
		if i := s.Instance(id); i.State != want || i.Attempt != attempt {
			t.Errorf("%s is %s in attempt %d, want %s in %d", id, i.State, i.Attempt, want, attempt)
		}
	}
	state(again, events.StateDead, 2)

	if why := do(events.VerbRedrive, again, ""); why != "" {
		t.Errorf("redrive: %s", why)
	}
	s.Advance(5 * time.Second)
	state(again, events.StateDead, 4) // with the same parameters: a retry more, and dead again
	if why := do(events.VerbRedrive, again, `"good"`); why != "" {
		t.Errorf("redrive with other parameters: %s", why)
	}
	s.Advance(5 * time.Second)
	state(again, events.StateSuccess, 5)
	if why := do(events.VerbRedrive, again, ""); why != events.ReasonConflict {
		t.Errorf("redrive of what has succeeded: %q", why)
	}

	if why := do(events.VerbDiscard, away, ""); why != "" {
		t.Errorf("discard: %s", why)
	}
	state(away, events.StateDiscarded, 2)
	if why := do(events.VerbDiscard, away, ""); why != "" {
		t.Errorf("the same once more: %q", why)
	}
	if why := do(events.VerbRedrive, away, ""); why != events.ReasonConflict {
		t.Errorf("redrive of what was put away: %q", why)
	}
	if n := len(s.Of(events.KindDiscarded, "")); n != 1 {
		t.Errorf("%d discarded", n)
	}
	s.Check()
}

// TestADeadLetterThatMayStillRunIsLeftAlone: its worker has not let go of it.
func TestADeadLetterThatMayStillRunIsLeftAlone(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 4)
	w.Takes = time.Hour
	none := int64(0)
	s.Define("job", events.TaskSpec{Timeout: events.Duration(time.Second), Retry: events.RetrySpec{Max: &none}})
	id := s.Trigger("job")
	w.Silent = true
	s.Advance(10 * time.Second) // the leader has ended it, and its worker is not lost yet
	if i := s.Instance(id); i.State != events.StateDead || !i.Held {
		t.Fatalf("%s, held %v", i.State, i.Held)
	}
	for _, verb := range []string{events.VerbRedrive, events.VerbDiscard} {
		if a := s.Do(events.Command{Verb: verb, Name: string(id)})[0]; a.Reason != events.ReasonConflict {
			t.Errorf("%s while its worker may run it: %+v", verb, a)
		}
	}
	w.Takes = time.Second
	w.Restart() // the old process is gone, and what it ran
	if a := s.Do(events.Command{Verb: events.VerbRedrive, Name: string(id)})[0]; a.Reason != "" {
		t.Errorf("redrive when nothing runs: %+v", a)
	}
	s.Advance(5 * time.Second)
	if i := s.Instance(id); i.State != events.StateSuccess || i.Attempt != 2 {
		t.Errorf("%s in attempt %d", i.State, i.Attempt)
	}
	s.Check()
}
