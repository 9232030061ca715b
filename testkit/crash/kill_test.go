package crash

import (
	"fmt"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/testkit"
)

// Everything in one process, ax dev, is killed at random moments, also while it
// starts, while triggers of every kind are due and clients trigger with keys.
// Whatever the moment: every due time fires once or is skipped in an event, every
// key fires once, an attempt has one outcome, nothing is left open, and log and
// views agree each time it comes up, and in between.
func TestADevIsKilledAtRandomMoments(t *testing.T) {
	for _, durability := range []string{"fsync", "interval=1s"} {
		t.Run(durability, func(t *testing.T) {
			t.Parallel()
			killDev(t, durability)
		})
	}
}

func killDev(t *testing.T, durability string) {
	rnd := random(t)
	ps := testkit.NewProcesses(t)
	s := ps.Dev("dev", "--durability", durability, "--slots", "32")
	began := time.Now()
	s.Run()
	nc := s.Connect()
	rounds := testkit.Rounds(4, 50)

	job := func(name string, spec events.TaskSpec) events.Command {
		spec.Executor, spec.MaxLost = shell(":"), 1000
		if spec.Overlap.Policy == "" {
			spec.Overlap.Policy = events.OverlapAllow
		}
		return task(t, name, spec)
	}
	commands := []events.Command{job("job", events.TaskSpec{})}
	repeating := 0
	repeats := func(name string, spec events.TaskSpec) {
		commands = append(commands, job(name, spec))
		repeating++
	}
	for k, zone := range []string{"UTC", "Asia/Shanghai", "America/New_York", "Europe/Berlin"} {
		repeats(fmt.Sprintf("cron-%d", k), events.TaskSpec{Triggers: []events.TriggerSpec{{Name: "cron", Cron: "* * * * * ?", TimeZone: zone}}})
		repeats(fmt.Sprintf("interval-%d", k), events.TaskSpec{Triggers: []events.TriggerSpec{every(500*time.Millisecond, time.Duration(k)*100*time.Millisecond)}})
	}
	// While the process is away for longer than the threshold, these miss due
	// times, and each policy decides in its own way.
	for k, policy := range []string{events.MisfireOnce, events.MisfireAll, events.MisfireSkip} {
		trigger := every(200*time.Millisecond, time.Duration(k)*50*time.Millisecond)
		trigger.Misfire = events.MisfireSpec{Policy: policy, Limit: 2, Threshold: events.Duration(300 * time.Millisecond)}
		repeats("misfire-"+policy, events.TaskSpec{Triggers: []events.TriggerSpec{trigger}})
	}
	repeats("forbid", events.TaskSpec{Triggers: []events.TriggerSpec{every(100*time.Millisecond, 0)}, Overlap: events.OverlapSpec{Policy: events.OverlapForbid}})
	// Single due times, spread over the time that the rounds take.
	const singles = 100
	last := time.Now().Add(time.Second + time.Duration(rounds)*time.Second)
	step := time.Until(last) / singles
	var once events.TaskSpec
	for k := range singles {
		at := last.Add(-time.Duration(k) * step).UTC().Truncate(time.Millisecond)
		once.Triggers = append(once.Triggers, events.TriggerSpec{Name: events.TriggerName(fmt.Sprintf("once-%d", k)), Once: &events.OnceSpec{At: &at}})
	}
	commands = append(commands, job("once", once))
	do(t, nc, commands...)
	var callers []*caller
	for range 2 { // two clients with the same keys
		callers = append(callers, startCaller(t, nc, "job", 100*time.Millisecond, 0))
	}

	offline, starting := 0, 0
	for round := range rounds {
		s.WaitReady()
		s.Verify()
		// The moment is random: in work, or, with one more kill, while it starts.
		time.Sleep(time.Duration(rnd.IntN(1200)) * time.Millisecond)
		s.Kill()
		if rnd.IntN(3) == 0 {
			starting++
			s.Start()
			time.Sleep(time.Duration(rnd.IntN(250)) * time.Millisecond)
			s.Kill()
		}
		if round%5 == 0 {
			offline++
			s.Verify()
		}
		if rnd.IntN(4) == 0 {
			time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond) // away for a while
		}
		s.Start()
	}
	s.WaitReady()
	s.Verify()
	for _, c := range callers {
		c.end()
	}
	took := time.Since(began)

	mark := last
	if now := time.Now(); now.After(mark) {
		mark = now
	}
	log := openLog(t, nc)
	testkit.Until(t, 2*time.Minute, "every repeating trigger is past the end", func() bool {
		decided := map[events.TaskName]bool{}
		for _, r := range records(t, log) {
			if (r.Kind == events.KindFired || r.Kind == events.KindSkipped && r.Instance == "") && r.Trigger != events.ManualTrigger && r.Task != "once" && r.Due.After(mark) {
				decided[r.Task] = true
			}
		}
		return len(decided) == repeating
	})
	audit(t, log, testkit.AuditOptions{CoveredUntil: mark})
	for _, c := range commands {
		d, err := events.DecodeDefinition(c.Definition)
		if err != nil {
			t.Fatal(err)
		}
		do(t, nc, events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: d.Metadata.Name})
	}
	waitClosed(t, s, 2*time.Minute)
	a := audit(t, log, testkit.AuditOptions{Closed: true})
	all := records(t, log)
	for _, c := range callers {
		c.check(all)
	}
	if a.Stale+a.Strange > 0 {
		t.Errorf("the log has %d frames of dead terms and %d messages that are no frames", a.Stale, a.Strange)
	}
	if testkit.Long() && (a.Kinds[events.KindFired] < 2000 || a.Reasons["lost "+events.ReasonNewProcess] == 0) {
		t.Errorf("%d fired, %d lost to a new process: too little was tested", a.Kinds[events.KindFired], a.Reasons["lost "+events.ReasonNewProcess])
	}
	s.Verify()
	s.End()
	s.Verify() // what a server in good order leaves behind agrees, too
	t.Logf("%s: %d kills (%d more while it started) in %s, %d instances; verified %d times while it was down; %s", durability, rounds, starting, took.Round(time.Second), a.Kinds[events.KindFired], offline+1, machine())
}
