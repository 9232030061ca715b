package testkit_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

// The tests of this file replay public failures of schedulers, by the numbers of
// the project's collection (failures.md): what happened to others, in small form,
// and what a correct scheduler does.

func everyMinute() []events.TriggerSpec {
	return []events.TriggerSpec{{Name: "main", Cron: "* * * * *"}}
}

func every(d time.Duration) []events.TriggerSpec {
	return []events.TriggerSpec{{Name: "main", Interval: &events.IntervalSpec{Every: events.Duration(d)}}}
}

// F4: 1,000 jobs due at the same second on a slow store: the next scan saw the
// old "next time" and half of them fired twice.
func TestF4AThousandDueAtOnceFireOnceEach(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 2000)
	for i := range 1000 {
		s.Define(fmt.Sprintf("job-%d", i), events.TaskSpec{Triggers: everyMinute()})
	}
	// The store is so slow that the answer to the first frame of each minute is given
	// up: the leader looks again at everything that was due.
	for range 3 { // 12:00, 12:01, 12:02
		slow := true
		s.Log.SetFault(func(m *events.Message) events.Fault {
			if m.Kind == events.MessageLog && slow {
				slow = false
				return events.LoseAnswer
			}
			return events.NoFault
		})
		s.Advance(time.Minute)
	}
	s.Advance(15 * time.Second) // what was offered in that frame is offered again after 10 s
	if n := len(s.Of(events.KindFired, "")); n != 3000 {
		t.Errorf("%d fired, want 3000", n)
	}
	if n := len(w.Ran); n != 3000 {
		t.Errorf("%d ran, want 3000", n)
	}
	s.Check()
}

// F5: writes were visible five minutes late; each scan made the run again. Here
// the views are those of three fires ago, and later those of the very beginning,
// when the next decision is called for: what they lack is folded from the log first.
func TestF5ViewsThatLagFireNothingTwice(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 10)
	s.Define("job", events.TaskSpec{Triggers: every(10 * time.Second)})
	first, firstDigest := s.Dump()
	for range 4 {
		dump, digest := s.Dump()
		s.Advance(30 * time.Second)
		s.LagBy(dump, digest)
	}
	s.LagBy(first, firstDigest)
	s.Advance(10 * time.Second)
	if n := len(s.Of(events.KindFired, "job")); n != 13 {
		t.Errorf("%d fired, want 13", n)
	}
	if n := len(w.Ran); n != 13 {
		t.Errorf("%d ran, want 13", n)
	}
	s.Check()
}

// F6: "push to the wheel, then save the next time": a crash between the two fired
// twice, the other order lost the fire. Here the append of the fire is lost, or
// its answer is, and the process dies there.
func TestF6ACrashAroundTheFireNeitherLosesNorDoubles(t *testing.T) {
	for _, fault := range []events.Fault{events.LoseAppend, events.LoseAnswer} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			s := testkit.NewSim(t)
			w := s.Worker("w1", 10)
			s.Define("job", events.TaskSpec{Triggers: everyMinute()})
			s.DiesOnUnknown = true
			armed := true
			s.Log.SetFault(func(m *events.Message) events.Fault {
				if !armed || m.Kind != events.MessageLog {
					return events.NoFault
				}
				armed = false
				return fault
			})
			s.Advance(time.Minute)
			if armed {
				t.Fatal("nothing was lost")
			}
			s.Advance(15 * time.Second) // an offer that was lost with the process comes again
			if n := len(s.Of(events.KindFired, "job")); n != 1 {
				t.Errorf("%d fired, want 1", n)
			}
			if n := len(w.Ran); n != 1 {
				t.Errorf("%d ran, want 1", n)
			}
			s.Check()
		})
	}
}

// F7: several schedulers fired the same job because a lock was silently not
// held. Here an old leader goes on as if it had the lease.
func TestF7AnOldLeaderCanNotAppend(t *testing.T) {
	s := testkit.NewSim(t)
	s.Worker("w1", 10)
	s.Define("job", events.TaskSpec{Triggers: everyMinute()})
	old, err := s.Log.LastLed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.NewLeader("s2")
	s.NewLeader("s3")
	s.Advance(2 * time.Minute)
	info, err := s.Log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b events.FrameBuilder
	b.Begin(s.Now().UnixNano(), "server/s1")
	due := s.Now().Truncate(time.Minute).Add(time.Minute).UnixMilli() // nobody has fired it yet
	if _, _, err := b.Add(&events.Event{
		Kind: events.KindFired, Task: "job", Trigger: "main", Due: due, Version: 1, Instance: events.NewInstanceID("job", due, "s1", 0),
	}, b.Time()); err != nil {
		t.Fatal(err)
	}
	stale := b.Seal(old.Term)
	if _, err := s.Log.Append(t.Context(), stale, old.Seq, info.Last); !errors.Is(err, events.ErrFenced) {
		t.Fatalf("an append of an old leader: %v", err)
	}
	// The second fence: even in the log it changes nothing, and is recorded.
	s.Log.Put(stale)
	s.Crash(false)
	s.Advance(3 * time.Minute)
	for _, r := range s.Of(events.KindFired, "job") {
		if r.Actor == "server/s1" && r.Position.Seq > info.Last {
			t.Logf("%s is in the log without effect", r.Position)
		}
	}
	if tr := s.TriggerRow("job", "main"); tr.Fired != 5 {
		t.Errorf("the trigger fired %d times, want 5", tr.Fired)
	}
	if n := len(s.Of(events.KindIncident, "")); n != 1 {
		t.Errorf("%d incidents, want 1", n)
	}
	s.Check()
}

// F8: a one-shot written as cron with a year fired five times in its second.
func TestF8AOneShotWithAYearFiresOnceAndIsExhausted(t *testing.T) {
	s := testkit.NewSim(t)
	s.Worker("w1", 10)
	s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Name: "main", Cron: "30 0 12 30 11 ? 2026"}}, Overlap: events.OverlapSpec{Policy: events.OverlapAllow}})
	s.Advance(5 * time.Minute)
	if n := len(s.Of(events.KindFired, "job")); n != 1 {
		t.Errorf("%d fired, want 1", n)
	}
	s.Crash(true)
	s.NewLeader("s2")
	s.Advance(time.Hour)
	if n := len(s.Of(events.KindFired, "job")); n != 1 {
		t.Errorf("%d fired after a crash and under another leader, want 1", n)
	}
	if tr := s.TriggerRow("job", "main"); tr.Next != 0 || tr.Unplanned {
		t.Errorf("the trigger is not exhausted: %+v", tr)
	}
	s.Check()
}

// T27: after more than 100 missed times the schedule stopped for good.
func TestT27ALongAbsenceDoesNotStopASchedule(t *testing.T) {
	for _, policy := range []string{events.MisfireOnce, events.MisfireAll, events.MisfireSkip} {
		t.Run(policy, func(t *testing.T) {
			s := testkit.NewSim(t)
			w := s.Worker("w1", 200)
			s.Define("job", events.TaskSpec{
				Triggers: []events.TriggerSpec{{Name: "main", Cron: "* * * * *", Misfire: events.MisfireSpec{Policy: policy, Limit: 5}}},
				Overlap:  events.OverlapSpec{Policy: events.OverlapAllow},
			})
			s.Advance(2 * time.Minute)
			before := len(s.Of(events.KindFired, "job"))
			s.SetWall(s.Now().Add(12*time.Hour + 30*time.Second)) // the machine was off for the night
			w.Beat()
			s.Settle()
			// What is late by less than the threshold fires as well.
			want := map[string]int{events.MisfireOnce: 2, events.MisfireAll: 6, events.MisfireSkip: 1}[policy]
			if n := len(s.Of(events.KindFired, "job")) - before; n != want {
				t.Errorf("%d fired after the absence, want %d", n, want)
			}
			skipped := s.Of(events.KindSkipped, "job")
			if len(skipped) != 1 || skipped[0].Count < 700 || skipped[0].Reason != events.ReasonMisfire {
				t.Errorf("skipped: %+v", skipped)
			}
			after := len(s.Of(events.KindFired, "job"))
			s.Advance(10 * time.Minute)
			if n := len(s.Of(events.KindFired, "job")) - after; n != 10 {
				t.Errorf("%d fired in the ten minutes after, want 10", n)
			}
			s.Check()
		})
	}
}

// T29: disabled for a while and enabled again with a lateness limit, it never
// fired again.
func TestT29AResumedScheduleGoesOn(t *testing.T) {
	for _, c := range [][3]string{
		{events.CatchUpNone, events.MisfireOnce, ""}, {events.CatchUpPolicy, events.MisfireOnce, ""},
		{events.CatchUpNone, events.MisfireSkip, "main"}, {events.CatchUpPolicy, events.MisfireSkip, "main"},
	} {
		catchUp, policy, trigger := c[0], c[1], events.TriggerName(c[2])
		t.Run(strings.Join(c[:], " "), func(t *testing.T) {
			s := testkit.NewSim(t)
			s.Worker("w1", 10)
			s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{
				Name: "main", Cron: "* * * * *", CatchUp: catchUp, Misfire: events.MisfireSpec{Threshold: events.Duration(10 * time.Second), Policy: policy},
			}}})
			s.Advance(90 * time.Second)
			s.MustDo(events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: "job", Trigger: trigger})
			before := len(s.Of(events.KindFired, "job"))
			s.Advance(5 * time.Hour)
			if n := len(s.Of(events.KindFired, "job")) - before; n != 0 {
				t.Errorf("%d fired while paused", n)
			}
			s.MustDo(events.Command{Verb: events.VerbResume, Object: events.ObjectTask, Name: "job", Trigger: trigger})
			caught := len(s.Of(events.KindFired, "job")) - before
			want := 0
			if catchUp == events.CatchUpPolicy && policy == events.MisfireOnce {
				want = 1
			}
			if caught != want {
				t.Errorf("%d fired at the resume, want %d", caught, want)
			}
			s.Advance(5 * time.Minute)
			if n := len(s.Of(events.KindFired, "job")) - before - caught; n != 5 {
				t.Errorf("%d fired in the five minutes after, want 5", n)
			}
			s.Check()
		})
	}
}

// T36: the clock put forward by an hour made "@every 5s" run about 720 times.
func TestT36AClockPutForwardDoesNotStorm(t *testing.T) {
	s := testkit.NewSim(t)
	s.Worker("w1", 50)
	s.Define("job", events.TaskSpec{Triggers: every(5 * time.Second), Overlap: events.OverlapSpec{Policy: events.OverlapAllow}})
	s.Advance(30 * time.Second)
	before := len(s.Of(events.KindFired, "job"))
	s.SetWall(s.Now().Add(time.Hour))
	s.Advance(time.Millisecond)
	if n := len(s.Of(events.KindFired, "job")) - before; n < 12 || n > 14 {
		t.Errorf("%d fired at the jump, want 12 to 14: one for all that was missed, and what is late by less than a minute", n)
	}
	after := len(s.Of(events.KindFired, "job"))
	s.Advance(time.Minute)
	if n := len(s.Of(events.KindFired, "job")) - after; n != 12 {
		t.Errorf("%d fired in the minute after, want 12", n)
	}
	s.Check()
}

// T37: the clock was two hours ahead, the job ran, the clock was set back: no run
// for two hours.
func TestT37AClockSetBackDoesNotSilenceASchedule(t *testing.T) {
	s := testkit.NewSim(t)
	s.Worker("w1", 50)
	s.Define("job", events.TaskSpec{Triggers: everyMinute(), Overlap: events.OverlapSpec{Policy: events.OverlapAllow}})
	s.Advance(2 * time.Minute)
	right := s.Now()
	s.SetWall(right.Add(2 * time.Hour))
	s.Advance(3 * time.Minute) // fires by the wrong clock
	s.SetWall(right.Add(4 * time.Minute))
	before := len(s.Of(events.KindFired, "job"))
	s.Advance(10 * time.Minute)
	if n := len(s.Of(events.KindFired, "job")) - before; n != 10 {
		t.Errorf("%d fired in the ten minutes after the clock was set back, want 10", n)
	}
	s.Advance(3 * time.Hour) // over the times that fired by the wrong clock
	dues := map[time.Time]int{}
	for _, r := range s.Of(events.KindFired, "job") {
		dues[*r.Due]++
	}
	for due, n := range dues {
		if n > 1 {
			t.Errorf("%s fired %d times", due, n)
		}
	}
	if len(dues) < 180 {
		t.Errorf("%d due times fired", len(dues))
	}
}

// W6: the executor was killed, runs stayed "running" for ever.
func TestW6AKilledWorkersRunsAreLostAndRunAgain(t *testing.T) {
	s := testkit.NewSim(t)
	s.Advance(10 * time.Second) // a new leader waits longer before it declares anything lost
	w1 := s.Worker("w1", 4)
	w1.Takes = time.Hour
	s.Define("job", events.TaskSpec{Timeout: events.Duration(2 * time.Hour)})
	id := s.Trigger("job")
	if st := s.Instance(id).State; st != events.StateRunning {
		t.Fatalf("state %s", st)
	}
	w1.Kill()
	w2 := s.Worker("w2", 4)
	killed := s.Now()
	s.Advance(15*time.Second + 3*time.Second)
	i := s.Instance(id)
	if i.State != events.StateSuccess || i.Worker != "w2" {
		t.Fatalf("run lease + 3 s after the kill: %s on %s", i.State, i.Worker)
	}
	lost := s.Of(events.KindLost, "")
	if len(lost) != 1 || lost[0].Reason != events.ReasonWorkerGone {
		t.Fatalf("lost: %+v", lost)
	}
	t.Logf("offered again %s after the kill", w2.Ran[0].At.Sub(killed))
	s.Check()
}

// W6, the other way: a worker that comes back under its name says at once that
// its runs are gone.
func TestW6ARestartedWorkersRunsAreLostAtOnce(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 4)
	w.Takes = time.Minute
	s.Define("job", events.TaskSpec{Timeout: events.Duration(time.Hour)})
	id := s.Trigger("job")
	w.Kill()
	s.Advance(2 * time.Second)
	w.Restart()
	s.Advance(time.Second)
	i := s.Instance(id)
	if i.Attempt != 2 || i.State != events.StateRunning {
		t.Fatalf("%s, attempt %d", i.State, i.Attempt)
	}
	if lost := s.Of(events.KindLost, ""); len(lost) != 1 || lost[0].Reason != events.ReasonNewProcess {
		t.Fatalf("lost: %+v", lost)
	}
	s.Check()
}

// W12: after a restart with a no-overlap job alive it was "still running" for
// ever and never fired again.
func TestW12ForbidGoesOnAfterEverybodyWasKilled(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 4)
	w.Takes = 50 * time.Second
	s.Define("job", events.TaskSpec{Triggers: every(10 * time.Second), Timeout: events.Duration(10 * time.Minute)})
	s.Advance(15 * time.Second)
	w.Kill()
	s.Crash(false) // the server too
	open := len(s.Of(events.KindFired, "job"))
	s.Advance(10 * time.Second)
	if n := len(s.Of(events.KindFired, "job")) - open; n != 0 || len(s.Of(events.KindSkipped, "job")) == 0 {
		t.Errorf("%d fired while the run of the killed worker was open, want them skipped", n)
	}
	w2 := s.Worker("w2", 4)
	w2.Takes = time.Second
	s.Advance(time.Minute)
	before := len(s.Of(events.KindFired, "job"))
	s.Advance(time.Minute)
	if n := len(s.Of(events.KindFired, "job")) - before; n != 6 {
		t.Errorf("%d fired in a minute, want 6", n)
	}
	s.Check()
}

// W15: a lock field was not cleared when a run ended in an unusual way: the
// schedule was silent until somebody unlocked it. Here every end state releases.
func TestW15EveryEndReleasesTheSchedule(t *testing.T) {
	ends := map[string]func(s *testkit.Sim, w *testkit.SimWorker, id events.InstanceID){
		"success": func(*testkit.Sim, *testkit.SimWorker, events.InstanceID) {},
		"failed for good": func(s *testkit.Sim, w *testkit.SimWorker, _ events.InstanceID) {
			w.Result = func(*events.Run, int64) events.Report {
				return events.Report{Outcome: events.OutcomeFailed, Error: "no", Permanent: true}
			}
		},
		"retries used up": func(s *testkit.Sim, w *testkit.SimWorker, _ events.InstanceID) {
			w.Result = func(*events.Run, int64) events.Report {
				return events.Report{Outcome: events.OutcomeFailed, Error: "no"}
			}
		},
		"cancelled while running": func(s *testkit.Sim, w *testkit.SimWorker, id events.InstanceID) {
			s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(id)})
		},
		"timed out by the worker": func(s *testkit.Sim, w *testkit.SimWorker, _ events.InstanceID) {
			w.Result = func(*events.Run, int64) events.Report { return events.Report{Outcome: events.OutcomeTimedOut} }
		},
		"timed out by the leader": func(s *testkit.Sim, w *testkit.SimWorker, _ events.InstanceID) {
			w.Takes = time.Hour
			s.Advance(6 * time.Minute)
			w.Takes = 2 * time.Second
			w.Restart() // it held its attempt to the end
		},
		"lost too often": func(s *testkit.Sim, w *testkit.SimWorker, _ events.InstanceID) {
			for range 4 {
				w.Takes = time.Hour
				w.Restart()
				s.Advance(5 * time.Second)
			}
			w.Takes = 2 * time.Second
			w.Restart()
		},
		"cancelled while it waits for a retry": func(s *testkit.Sim, w *testkit.SimWorker, id events.InstanceID) {
			w.Result = func(*events.Run, int64) events.Report {
				return events.Report{Outcome: events.OutcomeFailed, Error: "no", RetryAfter: 3_600_000}
			}
			s.Advance(5 * time.Second)
			s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(id)})
			w.Result = nil // the next one would wait as long
		},
		"cancelled while it is queued": func(s *testkit.Sim, w *testkit.SimWorker, id events.InstanceID) {
			w.Kill()
			s.Advance(25 * time.Second) // lost, and back in the queue
			s.MustDo(events.Command{Verb: events.VerbCancel, Name: string(id)})
			w.Restart()
		},
		"worker killed": func(s *testkit.Sim, w *testkit.SimWorker, _ events.InstanceID) {
			w.Kill()
			s.Advance(20 * time.Second)
			w.Restart()
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			s := testkit.NewSim(t)
			w := s.Worker("w1", 4)
			w.Takes = 2 * time.Second
			s.Define("job", events.TaskSpec{Triggers: every(10 * time.Second), Timeout: events.Duration(5 * time.Minute), Retry: events.RetrySpec{Base: events.Duration(time.Second), Cap: events.Duration(2 * time.Second)}})
			s.Advance(61 * time.Second) // 12:00:01: an instance runs
			fired := s.Of(events.KindFired, "job")
			end(s, w, fired[len(fired)-1].Instance)
			s.Advance(time.Minute)
			w.Result = nil
			s.Advance(30 * time.Second)
			before := len(s.Of(events.KindFired, "job"))
			s.Advance(time.Minute)
			if n := len(s.Of(events.KindFired, "job")) - before; n != 6 {
				t.Errorf("%d fired in a minute, want 6; %+v", n, s.Of(events.KindSkipped, "job"))
			}
			s.Check()
		})
	}
}

// E1: an ack of an old delivery was accepted after the message was given to
// another consumer. Here worker A stalls, B gets the next attempt, A reports.
func TestE1AReportOfASupersededAttemptChangesNothing(t *testing.T) {
	s := testkit.NewSim(t)
	s.Advance(10 * time.Second)
	a := s.Worker("a", 1)
	a.Takes = time.Hour
	s.Define("job", events.TaskSpec{Timeout: events.Duration(2 * time.Hour)})
	id := s.Trigger("job")
	a.Silent = true
	b := s.Worker("b", 1)
	b.Takes = time.Hour
	s.Advance(20 * time.Second)
	i := s.Instance(id)
	if i.Worker != "b" || i.Attempt != 2 || i.State != events.StateRunning {
		t.Fatalf("%s, attempt %d on %s", i.State, i.Attempt, i.Worker)
	}
	got := a.EndLate(a.Ran[0], events.OutcomeSucceeded, "a-nonce-000000000001")
	s.Settle()
	if got.Outcome != events.KindLate.String() || len(s.Of(events.KindLate, "")) != 1 {
		t.Errorf("the report was recorded as %q, %+v", got.Outcome, s.Of(events.KindLate, ""))
	}
	if i := s.Instance(id); i.State != events.StateRunning || i.Attempt != 2 || i.Worker != "b" {
		t.Errorf("the late report moved the instance: %s, attempt %d on %s", i.State, i.Attempt, i.Worker)
	}
	s.Check()
}

// E4: a task with a delay longer than the visibility timeout was copied at each
// timeout.
func TestE4ALongDelayIsOneRun(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 10)
	s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Name: "main", Once: &events.OnceSpec{Delay: events.Duration(20 * time.Hour)}}}})
	s.Advance(21 * time.Hour)
	if n := len(w.Ran); n != 1 {
		t.Errorf("%d runs, want 1", n)
	}
	if n := len(s.Of(events.KindDispatched, "")); n != 1 {
		t.Errorf("%d offers, want 1", n)
	}
	s.Check()
}

// E5: the losing duplicate attempt finished late and overwrote the output of a
// task that had ended.
func TestE5TheFirstOutcomeStands(t *testing.T) {
	s := testkit.NewSim(t)
	s.Advance(10 * time.Second)
	a := s.Worker("a", 1)
	a.Takes = time.Hour
	s.Define("job", events.TaskSpec{Timeout: events.Duration(2 * time.Hour)})
	id := s.Trigger("job")
	a.Silent = true
	b := s.Worker("b", 1)
	b.Result = func(*events.Run, int64) events.Report {
		return events.Report{Outcome: events.OutcomeSucceeded, Result: `"of b"`}
	}
	s.Advance(20 * time.Second)
	if i := s.Instance(id); i.State != events.StateSuccess || i.Result != `"of b"` {
		t.Fatalf("%s %s", i.State, i.Result)
	}
	got := a.Report(events.Report{Instance: id, Attempt: 1, Offer: 1, Nonce: "a-nonce-000000000001", Outcome: events.OutcomeSucceeded, Result: `"of a"`})
	s.Settle()
	if i := s.Instance(id); i.State != events.StateSuccess || i.Result != `"of b"` {
		t.Errorf("after the late report: %s %s", i.State, i.Result)
	}
	late := s.Of(events.KindLate, "")
	if got.Outcome != "late" || len(late) != 1 || string(late[0].Result) != `"of a"` {
		t.Errorf("the late report is no evidence: %+v, %+v", got, late)
	}
	s.Check()
}

// E7: events out of order lost the attempt counter. Here the events of two
// attempts are permuted and doubled: whatever order they have in the log, the
// fold agrees with the reference, and no attempt has two outcomes.
func TestE7AnyOrderOfTheEventsOfTwoAttempts(t *testing.T) {
	id := events.NewInstanceID("job", 1_800_000_000_000, "s1", 0)
	life := []events.Event{
		{Kind: events.KindDispatched, Instance: id, Attempt: 1, Offer: 1, At: 1},
		{Kind: events.KindStarted, Instance: id, Attempt: 1, Offer: 1, Worker: "w1", Nonce: "n1"},
		{Kind: events.KindFailed, Instance: id, Attempt: 1, Error: "no"},
		{Kind: events.KindRetrying, Instance: id, Attempt: 2, At: 1},
		{Kind: events.KindReady, Instance: id, Attempt: 2},
		{Kind: events.KindDispatched, Instance: id, Attempt: 2, Offer: 2, At: 1},
		{Kind: events.KindStarted, Instance: id, Attempt: 2, Offer: 2, Worker: "w2", Nonce: "n2"},
		{Kind: events.KindSucceeded, Instance: id, Attempt: 2, Result: `2`},
	}
	// Events of attempts that are over, or never were.
	wrong := func(e events.Event, attempt int64) events.Event { e.Attempt = attempt; return e }
	strangers := []events.Event{
		wrong(life[2], 2), wrong(life[2], 9), wrong(life[7], 1), wrong(life[7], 3), wrong(life[3], 3), wrong(life[3], 1), wrong(life[1], 2), wrong(life[4], 1),
		{Kind: events.KindTimedOut, Instance: id, Attempt: 1, Reason: events.ReasonRun}, {Kind: events.KindLost, Instance: id, Attempt: 2, Reason: events.ReasonWorkerGone},
	}
	rng := rand.New(rand.NewPCG(7, 7))
	finished := 0
	for n := range 3000 {
		order := append([]events.Event{}, life...)
		switch {
		case n == 0:
		case n%2 == 0: // any order
			order = append(order, life[rng.IntN(len(life))], life[rng.IntN(len(life))])
			rng.Shuffle(len(order), func(a, b int) { order[a], order[b] = order[b], order[a] })
		default: // strangers and repetitions among events in their order, which so go on
			for range 1 + rng.IntN(6) {
				e := strangers[rng.IntN(len(strangers))]
				if rng.IntN(2) == 0 {
					e = life[rng.IntN(len(life))]
				}
				order = slices.Insert(order, rng.IntN(len(order)+1), e)
			}
		}
		v, ref := foldLife(t, id, order)
		compareWithReference(t, ref, v)
		if n == 0 {
			if i, err := v.Instance(id); err != nil || i.State != events.StateSuccess || i.Attempt != 2 {
				t.Fatalf("in order: %+v, %v", i, err)
			}
		}
		if i, err := v.Instance(id); err == nil && i.State == events.StateSuccess {
			finished++
		}
		_ = v.Close()
		if t.Failed() {
			t.Fatalf("order %+v", order)
		}
	}
	if finished < 500 {
		t.Errorf("only %d of the orders come to an end: too little is tested", finished)
	}
}

// foldLife folds an instance's fired and then the given events.
func foldLife(t *testing.T, id events.InstanceID, life []events.Event) (*projector.Views, *testkit.Reference) {
	t.Helper()
	v, err := projector.OpenViews(projector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := newState(t, v)
	ref := testkit.NewReference()
	h := testkit.NewHistory()
	h.Add(t, definedJob(t))
	h.Add(t, events.Event{Kind: events.KindFired, Task: "job", Trigger: "manual", Instance: id, Due: 1_800_000_000_000, Version: 1})
	for _, e := range life {
		h.Add(t, e)
	}
	for _, m := range h.Messages(t) {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
		ref.Take(m)
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	return v, ref
}

func definedJob(t *testing.T) events.Event {
	t.Helper()
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: "job"}, Task: &events.TaskSpec{
		Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{"name":"work"}`)},
	}}
	if err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return events.Event{Kind: events.KindDefined, Object: events.ObjectTask, Name: "job", Version: 1, Body: body}
}

// E8: workers sent the same completion several times; the tracker assumed once.
func TestE8TheSameReportThreeTimesIsOneOutcome(t *testing.T) {
	s := testkit.NewSim(t)
	w := s.Worker("w1", 1)
	s.Define("job", events.TaskSpec{})
	id := s.Trigger("job")
	s.Settle()
	for range 3 {
		got := w.Report(events.Report{Instance: id, Attempt: 1, Offer: 1, Nonce: "w1-nonce-000000000001", Outcome: events.OutcomeSucceeded})
		if got.Outcome != events.KindSucceeded.String() {
			t.Errorf("answered %+v", got)
		}
	}
	s.Settle()
	var of []replay.Record
	for _, r := range s.Events() {
		if r.Instance == id {
			of = append(of, r)
		}
	}
	if len(of) != 4 {
		t.Errorf("events of the instance: %+v", of)
	}
	s.Check()
}
