package crash

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

// caller triggers a task with idempotency keys, one after the other, and repeats
// each until it is answered, as a client has to.
type caller struct {
	t      *testing.T
	nc     *nats.Conn
	task   string
	stop   chan struct{}
	done   sync.WaitGroup
	pause  time.Duration // between two keys
	most   int           // keys at most; 0: until end
	mu     sync.Mutex
	got    map[string]events.Done // answers by key
	errors []string               // what must not be
	tries  int
}

func startCaller(t *testing.T, nc *nats.Conn, task string, pause time.Duration, most int) *caller {
	c := &caller{t: t, nc: nc, task: task, stop: make(chan struct{}), pause: pause, most: most, got: map[string]events.Done{}}
	c.done.Go(c.run)
	return c
}

func (c *caller) run() {
	for n := 0; c.most == 0 || n < c.most; n++ {
		key := fmt.Sprintf("order-%d", n)
		for !c.ask(key) { // also after stop: what is begun is repeated until it is answered
			time.Sleep(10 * time.Millisecond)
		}
		select {
		case <-c.stop:
			return
		case <-time.After(c.pause):
		}
	}
}

// ask triggers once; an answer may get lost with the process that gives it.
func (c *caller) ask(key string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	answers, err := client(c.nc).Do(ctx, events.Command{Verb: events.VerbTrigger, Name: c.task, Key: key})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tries++
	if err != nil {
		return false
	}
	a := answers[0]
	if a.Reason == events.ReasonDiskFull {
		return false // it is to ask again when there is room
	}
	if a.Reason != "" || a.Instance == "" {
		c.errors = append(c.errors, fmt.Sprintf("key %s was refused: %+v", key, a))
		return true
	}
	c.got[key] = a
	return true
}

// answered is how many keys have their answer.
func (c *caller) answered() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.got)
}

// end waits until the key that is under way is answered, or all are.
func (c *caller) end() {
	if c.most == 0 {
		close(c.stop)
	}
	c.done.Wait()
}

// check looks in the log for what was answered: each key fired once, and as the
// instance that the caller was told.
func (c *caller) check(all []replay.Record) {
	c.t.Helper()
	for _, e := range c.errors {
		c.t.Error(e)
	}
	fired := map[string][]replay.Record{}
	for _, r := range all {
		if r.Kind == events.KindFired && string(r.Task) == c.task && r.Key != "" {
			fired[r.Key] = append(fired[r.Key], r)
		}
	}
	for key, a := range c.got {
		switch f := fired[key]; {
		case len(f) == 0:
			c.t.Errorf("key %s was answered with %s, and is not in the log", key, a.Instance)
		case len(f) > 1:
			c.t.Errorf("key %s fired %d times: %s, %s", key, len(f), f[0].Instance, f[1].Instance)
		case f[0].Instance != a.Instance:
			c.t.Errorf("key %s was answered with %s, and fired %s", key, a.Instance, f[0].Instance)
		case !a.Unchanged && f[0].Position != a.Position:
			c.t.Errorf("key %s was answered with position %s, and stands at %s", key, a.Position, f[0].Position)
		}
	}
	c.t.Logf("%d keys answered in %d tries", len(c.got), c.tries)
}

// NATS is away when the servers and the worker start, and is killed and started
// again while they work. They wait for it and go on by themselves; nothing that
// was answered is lost.
func TestNATSGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	n := ps.NewNATS()
	servers := []*testkit.Server{ps.Server("s1", n), ps.Server("s2", n)}
	worker := ps.Worker("w1", n.URL, "--group", "default=32")
	for _, s := range servers {
		s.Start()
	}
	worker.Start()
	// They have looked for NATS and have not found it.
	for _, p := range []*testkit.Process{servers[0].Process, servers[1].Process, worker} {
		p.WaitOutput("connect", time.Minute)
	}
	n.Run()
	for _, s := range servers {
		s.WaitReady()
	}
	nc := n.Connect()
	commands := []events.Command{task(t, "job", events.TaskSpec{Executor: shell(":")})}
	for k := range 10 {
		commands = append(commands, task(t, fmt.Sprintf("every-%d", k), events.TaskSpec{
			Triggers: []events.TriggerSpec{every(500*time.Millisecond, time.Duration(k)*50*time.Millisecond)}, Executor: shell(":"),
			Overlap: events.OverlapSpec{Policy: events.OverlapAllow}, MaxLost: 100,
		}))
	}
	do(t, nc, commands...)
	calls := startCaller(t, nc, "job", 5*time.Millisecond, 0)
	log := openLog(t, nc)
	rnd := random(t)

	for round := range testkit.Rounds(2, 15) {
		answered := calls.answered()
		testkit.Until(t, time.Minute, "work goes on", func() bool { return calls.answered() > answered+20 })
		time.Sleep(time.Duration(rnd.IntN(300)) * time.Millisecond) // the moment is random
		killed := time.Now()
		n.Kill()
		time.Sleep(time.Duration(rnd.IntN(3000)) * time.Millisecond) // so is how long it is away
		n.Run()
		back := time.Now()
		testkit.Until(t, time.Minute, "the test itself is connected again", nc.IsConnected)
		info, err := log.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []events.Kind{events.KindFired, events.KindSucceeded} {
			testkit.Until(t, time.Minute, fmt.Sprintf("after NATS is back: %s", want), func() bool {
				return len(of(records(t, log), func(r *replay.Record) bool { return r.Position.Seq > info.Last && r.Kind == want })) > 0
			})
			t.Logf("round %d: NATS was away for %s; first %s %s after it was back", round, back.Sub(killed).Round(time.Millisecond), want, time.Since(back).Round(time.Millisecond))
		}
	}

	calls.end()
	mark := time.Now()
	testkit.Until(t, time.Minute, "every trigger is past the end", func() bool {
		fired := map[events.TaskName]bool{}
		for _, r := range records(t, log) {
			if r.Kind == events.KindFired && r.Due.After(mark) {
				fired[r.Task] = true
			}
		}
		return len(fired) == 10
	})
	var pauses []events.Command
	for k := range 10 {
		pauses = append(pauses, events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: fmt.Sprintf("every-%d", k)})
	}
	a := audit(t, log, testkit.AuditOptions{CoveredUntil: mark})
	if a.Stale+a.Strange > 0 {
		t.Errorf("the log has %d frames of dead terms and %d messages that are no frames", a.Stale, a.Strange)
	}
	do(t, nc, pauses...)
	waitClosed(t, servers[0], 2*time.Minute)
	audit(t, log, testkit.AuditOptions{Closed: true})
	calls.check(records(t, log))
	for _, s := range servers {
		s.Verify()
	}
}

// The log's folder is restored from an older copy while everything is stopped.
// The views know more than the log then: they are rebuilt, an incident says so,
// and work goes on from the log as it is.
func TestALogThatWentBackIsNoticedAndRecorded(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	n := ps.NATS()
	servers := []*testkit.Server{ps.Server("s1", n), ps.Server("s2", n)}
	worker := ps.Worker("w1", n.URL)
	start := func() *nats.Conn {
		n.Run()
		for _, s := range servers {
			s.Run()
		}
		worker.Start()
		return n.Connect()
	}
	stop := func() {
		worker.End()
		for _, s := range servers {
			s.End() // in good order: their views are kept
		}
		n.End()
	}
	n.End()
	nc := start()
	do(t, nc, task(t, "every", events.TaskSpec{
		Triggers: []events.TriggerSpec{every(200*time.Millisecond, 0)}, Executor: shell(":"),
		Overlap: events.OverlapSpec{Policy: events.OverlapAllow},
	}), task(t, "job", events.TaskSpec{Executor: shell(":")}))
	for round := range testkit.Rounds(1, 5) {
		succeeded := func(log events.Log, beyond uint64) int {
			return len(of(records(t, log), func(r *replay.Record) bool { return r.Kind == events.KindSucceeded && r.Position.Seq > beyond }))
		}
		log := openLog(t, nc)
		info, err := log.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		testkit.Until(t, time.Minute, "something ran", func() bool { return succeeded(log, info.Last) > 3 })
		stop()
		backup := ps.Dir(fmt.Sprintf("backup-%d", round))
		if err := os.CopyFS(backup, os.DirFS(n.Store)); err != nil {
			t.Fatal(err)
		}
		nc = start()
		log = openLog(t, nc)
		at, err := log.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		do(t, nc, events.Command{Verb: events.VerbTrigger, Name: "job", Key: fmt.Sprintf("lost-%d", round)})
		testkit.Until(t, time.Minute, "more ran", func() bool { return succeeded(log, at.Last) > 5 })
		for _, s := range servers {
			s.Verify()
		}
		stop()

		if err := os.RemoveAll(n.Store); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(n.Store, os.DirFS(backup)); err != nil {
			t.Fatal(err)
		}
		nc = start()
		log = openLog(t, nc)
		incidents := func() []replay.Record {
			return of(records(t, log), func(r *replay.Record) bool {
				return r.Kind == events.KindIncident && r.Reason == events.ReasonLogWentBack
			})
		}
		testkit.Until(t, time.Minute, "an incident says that the log went back", func() bool { return len(incidents()) > round })
		found := incidents()[round]
		t.Logf("round %d: %s %s", round, found.Position, found.Error)
		testkit.Until(t, time.Minute, "work goes on", func() bool { return succeeded(log, found.Position.Seq) > 3 })
		for _, s := range servers {
			s.Verify()
		}
		// The key of the work that was lost may be used again: nobody knows it.
		again := do(t, nc, events.Command{Verb: events.VerbTrigger, Name: "job", Key: fmt.Sprintf("lost-%d", round)})
		if again[0].Unchanged {
			t.Errorf("a key of the part that was lost is known: %+v", again[0])
		}
	}
	mark := time.Now()
	log := openLog(t, nc)
	testkit.Until(t, time.Minute, "it fires past the end", func() bool {
		return len(of(records(t, log), func(r *replay.Record) bool { return r.Kind == events.KindFired && r.Due.After(mark) })) > 0
	})
	audit(t, log, testkit.AuditOptions{CoveredUntil: mark})
}
