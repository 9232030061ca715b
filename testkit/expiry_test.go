package testkit_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

// TestNothingLivesOnlyInTheViews: the log loses its beginning by age. What was
// stated again before that is all that lives, so a fold of what remains knows the
// same tasks, triggers, open instances, dead letters and keys, and goes on from
// there.
func TestNothingLivesOnlyInTheViews(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 2)
	w.Takes = 3 * time.Second
	s.DefineGroup("default", 5)
	for i := range 3 {
		s.Define(fmt.Sprintf("job-%d", i), events.TaskSpec{
			Triggers: []events.TriggerSpec{{Name: "often", Interval: &events.IntervalSpec{Every: events.Duration(7 * time.Second)}}, {Name: "later", Cron: "0 0 3 * * ?"}},
			Params:   json.RawMessage(`{"n":1}`),
		})
	}
	s.MustDo(events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: "job-1"})
	s.MustDo(events.Command{Verb: events.VerbTrigger, Name: "job-0", Key: "k1", Params: `{"n":2}`})
	w.Result = func(run *events.Run, _ int64) events.Report {
		if run.Task == "job-2" {
			return events.Report{Outcome: events.OutcomeFailed, Error: "no", Permanent: true}
		}
		return events.Report{Outcome: events.OutcomeSucceeded}
	}
	s.Advance(time.Minute)
	// A new version while an instance of the old one runs and others wait.
	w.Takes = time.Hour
	for range 4 {
		s.Trigger("job-0")
	}
	s.Define("job-0", events.TaskSpec{Triggers: []events.TriggerSpec{{Name: "often", Interval: &events.IntervalSpec{Every: events.Duration(9 * time.Second)}}}})
	s.Advance(30 * time.Second)
	info, err := s.Log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cut := info.Last + 1
	s.NewLeader("s2") // a leader leads again before its led expires
	s.RestateAll()
	s.Advance(2 * time.Second)
	if n := len(s.Of(events.KindRestated, "")); n < 10 {
		t.Errorf("%d facts restated", n)
	}
	want := live(t, s.Views)
	s.Log.Expire(cut)

	views := memoryViews(t)
	if _, err := replay.Fold(t.Context(), s.Log, views, replay.Until{}, nil); err != nil {
		t.Fatal(err)
	}
	got := live(t, views)
	if len(want) < 15 {
		t.Errorf("only %d live facts", len(want))
	}
	for key, fact := range want {
		if got[key] != fact {
			t.Errorf("%s:\nafter the loss %s\n       before %s", key, got[key], fact)
		}
	}
	for key := range got {
		if want[key] == "" {
			t.Errorf("%s was not there before", key)
		}
	}

	// A server that begins anew with what remains goes on firing, each due time once.
	before := len(s.Of(events.KindFired, ""))
	s.Crash(true)
	w.Takes = 0
	s.Advance(time.Minute)
	if n := len(s.Of(events.KindFired, "")) - before; n == 0 {
		t.Error("nothing fired after the loss")
	}
	if id, known := keyOf(t, s, "job-0", "k1"); !known {
		t.Errorf("the idempotency key was forgotten: %s", id)
	}
}

// TestTheLargestFactsAreRestated: whatever AX takes, it can say again. Of a
// parameter and a result that are too large together the result is given up.
func TestTheLargestFactsAreRestated(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 2)
	// What JSON for HTML would make six times as long.
	large := `"` + strings.Repeat("<&>", (events.MaxParams-2)/3) + `"`
	w.Result = func(run *events.Run, _ int64) events.Report {
		r := events.Report{Outcome: events.OutcomeFailed, Error: "no", Permanent: true, Result: `"small"`}
		if run.Task == "both" {
			r.Result = large
		}
		return r
	}
	s.Define("both", events.TaskSpec{})
	s.Define("one", events.TaskSpec{Params: json.RawMessage(large)})
	both := s.MustDo(events.Command{Verb: events.VerbTrigger, Name: "both", Params: large})[0].Instance
	one := s.MustDo(events.Command{Verb: events.VerbTrigger, Name: "one", Params: large})[0].Instance
	s.Advance(time.Second)
	info, err := s.Log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.NewLeader("s2")
	s.RestateAll()
	if n := len(s.Of(events.KindIncident, "")); n > 0 {
		t.Fatalf("%d incidents", n)
	}
	s.Log.Expire(info.Last + 1)
	views := memoryViews(t)
	if _, err := replay.Fold(t.Context(), s.Log, views, replay.Until{}, nil); err != nil {
		t.Fatal(err)
	}
	for id, result := range map[events.InstanceID]string{both: "", one: `"small"`} {
		for name, v := range map[string]*projector.Views{"of the leader": s.Views, "anew": views} {
			i, err := v.Instance(id)
			if err != nil || i == nil || i.State != events.StateDead || i.Params != large || i.Result != result {
				t.Errorf("views %s: %s: %v, %+.200v", name, id, err, i)
			}
		}
	}
	if body, err := views.Definition("one", 1); err != nil || !strings.Contains(body, large) {
		t.Errorf("the definition has %d bytes, %v", len(body), err)
	}
}

// live lists the facts that must survive, as text.
func live(t *testing.T, v *projector.Views) map[string]string {
	t.Helper()
	facts := map[string]string{}
	add := func(key string, row any) {
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		facts[key] = string(b)
	}
	var names []events.TaskName
	if err := v.Tasks("", func(task *projector.Task) bool {
		names = append(names, task.Name)
		open := task.Open
		body, err := v.Definition(task.Name, task.Version)
		if err != nil {
			t.Fatal(err)
		}
		add("task "+string(task.Name), []any{task.Version, task.Paused, open, task.Dead, task.LastDue, task.LastK, body})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		triggers, err := v.Triggers(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, tr := range triggers {
			tr.Stated = events.Position{}
			add("trigger "+string(name)+"/"+string(tr.Trigger), tr)
		}
	}
	groups, err := v.Groups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		g.Defined = events.Position{}
		add("group "+string(g.Name), g)
	}
	instance := func(i *projector.Instance) bool {
		i.Stated = events.Position{}
		// What an expired log cannot tell any more, nor does anybody need it.
		add("instance "+string(i.ID), i)
		return true
	}
	if err := v.OpenInstances(instance); err != nil {
		t.Fatal(err)
	}
	if err := v.Dead(instance); err != nil {
		t.Fatal(err)
	}
	var due []string
	if err := v.Due(func(at int64, tr *projector.TriggerID, id events.InstanceID) bool {
		due = append(due, fmt.Sprint(at, tr, id))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(due)
	add("due", len(due))
	return facts
}

// keyOf asks for an instance by its idempotency key.
func keyOf(t *testing.T, s *testkit.Sim, task, key string) (events.InstanceID, bool) {
	t.Helper()
	d := s.MustDo(events.Command{Verb: events.VerbTrigger, Name: task, Key: key})[0]
	return d.Instance, d.Unchanged
}
