package testkit_test

import (
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/testkit"
)

// TestASingleDueTimeThatIsOverIsSkippedAndSaysSo: every due time fires once or is
// skipped in an event, also one that was over when it was defined, or while its task
// was paused. Defining the task again says nothing twice.
func TestASingleDueTimeThatIsOverIsSkippedAndSaysSo(t *testing.T) {
	s := testkit.NewSim(t)
	s.Worker("w1", 1)
	once := func(at time.Time, params string) events.TaskSpec {
		return events.TaskSpec{Triggers: []events.TriggerSpec{{Name: "main", Once: &events.OnceSpec{At: &at}}}, Params: []byte(params)}
	}
	past, soon := testkit.SimStart.Add(-time.Hour), testkit.SimStart.Add(time.Minute)
	s.Define("late", once(past, `1`))
	s.Define("paused", once(soon, `1`))
	s.Define("fires", once(soon, `1`))
	s.MustDo(events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: "paused"})
	s.Advance(2 * time.Minute)
	s.MustDo(events.Command{Verb: events.VerbResume, Object: events.ObjectTask, Name: "paused"})
	s.Define("late", once(past, `2`))
	s.Define("fires", once(soon, `2`))
	s.Advance(time.Minute)
	for task, want := range map[string]struct {
		fired, skipped int
		reason         string
	}{
		"late": {0, 1, events.ReasonMisfire}, "paused": {0, 1, events.ReasonPaused}, "fires": {1, 0, ""},
	} {
		fired, skipped := s.Of(events.KindFired, task), s.Of(events.KindSkipped, task)
		if len(fired) != want.fired || len(skipped) != want.skipped || want.skipped == 1 && skipped[0].Reason != want.reason {
			t.Errorf("%s: fired %+v, skipped %+v", task, fired, skipped)
		}
	}
	s.Check()
}
