package replay_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

var update = flag.Bool("update", false, "add histories that are missing in testdata, and rewrite what they lead to; a history that is there is never changed")

// histories are the situations that once mattered. Each is kept in testdata as it
// was first recorded, for ever: what a later AX makes of it has to be the same.
var histories = map[string]func(s *testkit.Sim){
	"one-life": func(s *testkit.Sim) {
		s.Worker("w1", 1)
		s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Cron: "* * * * *"}}})
		s.Advance(time.Minute)
	},
	"retries-then-dead": func(s *testkit.Sim) {
		w := s.Worker("w1", 1)
		w.Result = func(*events.Run, int64) events.Report {
			return events.Report{Outcome: events.OutcomeFailed, Error: "no\nstack"}
		}
		s.Define("job", events.TaskSpec{})
		s.Trigger("job")
		s.Advance(time.Minute)
	},
	"held-after-its-time": func(s *testkit.Sim) {
		s.Advance(30 * time.Second)
		w := s.Worker("w1", 1)
		w.Takes = time.Minute
		s.Define("job", events.TaskSpec{Timeout: events.Duration(5 * time.Second), Retry: events.RetrySpec{Base: events.Duration(time.Second)}})
		s.Trigger("job")
		s.Advance(50 * time.Second)
	},
	"lost-late-and-again": func(s *testkit.Sim) {
		s.Advance(30 * time.Second)
		a := s.Worker("a", 1)
		a.Takes = 10 * time.Second
		s.Define("job", events.TaskSpec{})
		s.Trigger("job")
		a.Silent = true
		s.Worker("b", 1)
		s.Advance(30 * time.Second)
		a.Silent = false
		s.Advance(30 * time.Second)
	},
	"cancelled-in-every-state": func(s *testkit.Sim) {
		s.Define("job", events.TaskSpec{})
		queued := s.Trigger("job")
		s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(queued)})
		w := s.Worker("w1", 1)
		w.Takes = time.Hour
		running := s.Trigger("job")
		s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(running), Reason: "enough"})
		s.Advance(10 * time.Second)
	},
	"misfires": func(s *testkit.Sim) {
		s.Worker("w1", 10)
		for _, p := range []string{events.MisfireOnce, events.MisfireAll, events.MisfireSkip} {
			s.Define("job-"+p, events.TaskSpec{
				Triggers: []events.TriggerSpec{{Cron: "* * * * *", Misfire: events.MisfireSpec{Policy: p, Limit: 3}}},
				Overlap:  events.OverlapSpec{Policy: events.OverlapAllow},
			})
		}
		s.SetWall(s.Now().Add(10*time.Minute + 30*time.Second))
		s.Advance(2 * time.Minute)
	},
	"the-clock-goes-back": func(s *testkit.Sim) {
		s.Worker("w1", 10)
		s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Cron: "* * * * *"}}})
		s.Advance(2 * time.Minute)
		right := s.Now()
		s.SetWall(right.Add(time.Hour))
		s.Advance(2 * time.Minute)
		s.SetWall(right.Add(3 * time.Minute))
		s.Advance(70 * time.Minute)
	},
	"leaders-change": func(s *testkit.Sim) {
		w := s.Worker("w1", 2)
		w.Takes = 5 * time.Second
		s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Interval: &events.IntervalSpec{Every: events.Duration(7 * time.Second)}}}})
		for range 4 {
			s.Advance(10 * time.Second)
			s.NewLeader("s2")
			s.Advance(10 * time.Second)
			s.NewLeader("s1")
		}
	},
	"strangers-in-the-log": func(s *testkit.Sim) {
		s.Worker("w1", 1)
		s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Cron: "* * * * *"}}})
		s.Log.Put(&events.Message{Kind: events.MessageLog, Body: []byte("hello")})
		s.Crash(false)
		s.Advance(2 * time.Minute)
	},
	"versions-pauses-removal": func(s *testkit.Sim) {
		s.Worker("w1", 5)
		every := func(d time.Duration) events.TaskSpec {
			return events.TaskSpec{Triggers: []events.TriggerSpec{{Name: "a", Interval: &events.IntervalSpec{Every: events.Duration(d)}}, {Name: "b", Cron: "0 0 3 * * ?"}}}
		}
		s.Define("job", every(5*time.Second))
		s.Advance(12 * time.Second)
		s.Define("job", every(4*time.Second))
		s.Advance(9 * time.Second)
		s.MustDo(events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: "job", Trigger: "a", Reason: "rest"})
		s.Advance(20 * time.Second)
		s.MustDo(events.Command{Verb: events.VerbResume, Object: events.ObjectTask, Name: "job", Trigger: "a"})
		s.Advance(9 * time.Second)
		s.MustDo(events.Command{Verb: events.VerbRemove, Object: events.ObjectTask, Name: "job"})
		s.Advance(9 * time.Second)
		s.DefineGroup("default", 1)
		s.Define("job", every(6*time.Second))
		s.Advance(9 * time.Second)
	},
	"restated-and-expired": func(s *testkit.Sim) {
		w := s.Worker("w1", 1)
		w.Takes = time.Hour
		s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Name: "a", Interval: &events.IntervalSpec{Every: events.Duration(5 * time.Second)}}}, Overlap: events.OverlapSpec{Policy: events.OverlapAllow}})
		s.MustDo(events.Command{Verb: events.VerbTrigger, Name: "job", Key: "k"})
		s.Advance(20 * time.Second)
		info, err := s.Log.Info(context())
		if err != nil {
			panic(err)
		}
		s.NewLeader("s2")
		s.RestateAll()
		s.Log.Expire(info.Last + 1)
		s.Advance(10 * time.Second)
	},
}

// TestCorpus folds every kept history and compares what it leads to with what it
// led to when it was recorded.
func TestCorpus(t *testing.T) {
	for name, play := range histories {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".jsonl")
			if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
				if !*update {
					t.Fatalf("%s is missing; record it with: go test ./replay -run TestCorpus -update", file)
				}
				s := testkit.NewSim(t)
				play(s)
				s.Check()
				var b bytes.Buffer
				if err := testkit.WriteHistory(&b, all(t, s.Log)); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			log := load(t, file)
			views := memoryViews(t)
			state, err := replay.Fold(context(), log, views, replay.Until{}, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := describe(t, state, views)
			golden := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the history leads elsewhere now:\n%s\nit led to:\n%s", got, want)
			}
			if rep, err := replay.Verify(context(), log, dump(t, views), open); err != nil || !rep.Clean {
				t.Errorf("verify: %+v, %v", rep, err)
			}
		})
	}
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".jsonl"); histories[name] == nil {
			t.Errorf("%s is no history that this test knows", f)
		}
	}
}

// describe says in words where a fold has come to.
func describe(t *testing.T, state *projector.State, views *projector.Views) string {
	t.Helper()
	var b strings.Builder
	m := state.Meta()
	fmt.Fprintf(&b, "first %d cursor %d events %d without effect %d leader %s inbox %d\nchain %s\n", m.First, m.Cursor, m.Events, m.Passed, m.Leader, m.Inbox, m.Hash)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(views.Tasks("", func(task *projector.Task) bool {
		fmt.Fprintf(&b, "task %s version %d paused %v fired %d open %d dead %d\n", task.Name, task.Version, task.Paused, task.Fired, task.Open, task.Dead)
		triggers, err := views.Triggers(task.Name)
		must(err)
		for _, tr := range triggers {
			fmt.Fprintf(&b, "  trigger %s position %d next %d fired %d skipped %d paused %v\n", tr.Trigger, tr.Position, tr.Next, tr.Fired, tr.Skipped, tr.Paused || tr.TaskPaused)
		}
		return true
	}))
	must(views.Instances(events.Position{}, func(i *projector.Instance) bool {
		fmt.Fprintf(&b, "instance %s %s attempt %d offer %d held %v worker %q reason %q\n", i.ID, i.State, i.Attempt, i.Offer, i.Held, i.Worker, i.Reason)
		for _, tr := range i.Transitions {
			fmt.Fprintf(&b, "  %s %s %s attempt %d\n", tr.Position, tr.Kind, tr.State, tr.Attempt)
		}
		return true
	}))
	return b.String()
}
