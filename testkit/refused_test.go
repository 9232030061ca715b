package testkit_test

import (
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/testkit"
)

// TestWhatCannotBeDoneIsRefused: every command that makes no sense gets its reason
// and a text, and changes nothing. Who waits for the answer has it; only what comes
// through the inbox is recorded.
func TestWhatCannotBeDoneIsRefused(t *testing.T) {
	s := testkit.NewSim(t)
	s.Define("job", events.TaskSpec{Triggers: everyMinute()})
	w := s.Worker("w1", 1)
	w.Result = func(*events.Run, int64) events.Report { return events.Report{Outcome: events.OutcomeSucceeded} }
	ended := s.Trigger("job")
	s.Advance(time.Second)
	task := func(spec string) string {
		return `{"apiVersion":"ax/v1","kind":"Task","metadata":{"name":"bad"},"spec":` + spec + `}`
	}
	deep := strings.Repeat("[", events.MaxNesting+2) + strings.Repeat("]", events.MaxNesting+2)
	large := `"` + strings.Repeat("x", events.MaxParams) + `"`
	for _, c := range []struct {
		name    string
		command events.Command
		reason  string
		text    string
	}{
		{"a verb that nobody knows", events.Command{Verb: "explode", Name: "job"}, events.ReasonUnusable, "explode"},
		{"a task that is not there", events.Command{Verb: events.VerbTrigger, Name: "nobody"}, events.ReasonNoSuchTask, "nobody"},
		{"parameters that are too large", events.Command{Verb: events.VerbTrigger, Name: "job", Params: large}, events.ReasonTooLarge, "262146 bytes, at most 262144"},
		{"parameters that nest too deep", events.Command{Verb: events.VerbTrigger, Name: "job", Params: deep}, events.ReasonUnusable, "nested too deep"},
		{"a key that is too long", events.Command{Verb: events.VerbTrigger, Name: "job", Key: strings.Repeat("k", events.MaxText+1)}, events.ReasonTooLarge, "1025 bytes"},
		{"a definition with an unknown field", events.Command{Verb: events.VerbDefine, Definition: task(`{"executor":{"shell":{}},"retries":3}`)}, events.ReasonUnusable, "retries"},
		{"a definition with a bad cron", events.Command{Verb: events.VerbDefine, Definition: task(`{"executor":{"shell":{}},"triggers":[{"cron":"61 * * * *"}]}`)}, events.ReasonUnusable, "61"},
		{"a definition that is too large", events.Command{Verb: events.VerbDefine, Definition: task(`{"executor":{"external":{"x":"` + strings.Repeat("x", events.MaxDefinition) + `"}}}`)}, events.ReasonTooLarge, "at most"},
		{"a definition with deep parameters", events.Command{Verb: events.VerbDefine, Definition: task(`{"executor":{"shell":{}},"params":` + deep + `}`)}, events.ReasonUnusable, "nested too deep"},
		{"an instance that is not there", events.Command{Verb: events.VerbCancel, Name: "job-1-s1"}, events.ReasonNoSuchInstance, "job-1-s1"},
		{"an instance that has ended", events.Command{Verb: events.VerbCancel, Name: string(ended)}, events.ReasonOver, "SUCCESS"},
		{"a task to pause that is not there", events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: "nobody"}, events.ReasonNoSuchTask, "nobody"},
		{"a group to pause", events.Command{Verb: events.VerbPause, Object: events.ObjectGroup, Name: "job"}, events.ReasonUnusable, "Group"},
		{"a trigger to pause that is not there", events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: "job", Trigger: "none"}, events.ReasonNotFound, "none"},
		{"a group to remove that is not there", events.Command{Verb: events.VerbRemove, Object: events.ObjectGroup, Name: "nobody"}, events.ReasonNotFound, "nobody"},
		{"a thing to remove that nobody knows", events.Command{Verb: events.VerbRemove, Object: "Planet", Name: "job"}, events.ReasonUnusable, "Planet"},
	} {
		before := len(s.Events())
		a := s.Do(c.command)[0]
		if a.Reason != c.reason || !strings.Contains(a.Error, c.text) || a.Error == "" || len(a.Error) > 2000 {
			t.Errorf("%s: %q, %.300q; want %q with %q", c.name, a.Reason, a.Error, c.reason, c.text)
		}
		all := s.Events()[before:]
		if len(all) != 0 {
			t.Errorf("%s: it led to %+v", c.name, all)
		}
	}
	if n := len(s.Of(events.KindIncident, "")); n > 0 {
		t.Errorf("%d incidents", n)
	}
	s.Check()
}
