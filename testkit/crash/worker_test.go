package crash

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

// runLease of the workers of these tests: the shortest there is.
const runLease = 6 * time.Second

// drain is how long a worker that is asked to end waits for what it runs.
const drain = time.Second

// again is the promise: what a lost worker ran runs again within a run lease and
// three seconds.
const again = runLease + 3*time.Second

// A worker is killed, stopped, or cut off from NATS while it runs commands that
// would last for ever. Its attempts run again elsewhere within the promised time;
// its own runs end, by themselves, before that; what it says later is late and
// changes nothing; and it works on when it can.
func TestAWorkerThatIsGoneLosesItsAttempts(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	n := ps.NATS()
	s := ps.Server("s1", n)
	s.Run()
	nc := n.Connect()
	t.Run("workers", func(t *testing.T) {
		t.Run("killed", func(t *testing.T) { t.Parallel(); newLoss(t, ps, s, n, "killed").killed("alone") })
		t.Run("killed and started again", func(t *testing.T) { t.Parallel(); newLoss(t, ps, s, n, "restarted").restarted() })
		t.Run("asked to end", func(t *testing.T) { t.Parallel(); newLoss(t, ps, s, n, "asked").askedToEnd() })
		t.Run("stopped", func(t *testing.T) { t.Parallel(); newLoss(t, ps, s, n, "stopped").stopped() })
		t.Run("cut off in silence", func(t *testing.T) { t.Parallel(); newLoss(t, ps, s, n, "silence").cutOff((*testkit.Proxy).Silence) })
		t.Run("cut off with resets", func(t *testing.T) { t.Parallel(); newLoss(t, ps, s, n, "resets").cutOff((*testkit.Proxy).Break) })
	})
	if t.Failed() {
		return
	}
	waitClosed(t, s, time.Minute)
	audit(t, openLog(t, nc), testkit.AuditOptions{Closed: true})
	s.Verify()
	t.Log(machine())
}

// What a command has started in the background ends, too, when the command's
// worker is killed.
func TestWhatACommandStartedEndsWithItsKilledWorker(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	n := ps.NATS()
	s := ps.Server("s1", n)
	s.Run()
	newLoss(t, ps, s, n, "parent").killed("parent")
}

// loss is one worker that is to be lost, in a group of its own, and another one
// that can take its place.
type loss struct {
	t      *testing.T
	ps     *testkit.Processes
	s      *testkit.Server
	nc     *nats.Conn
	log    events.Log
	name   string
	dir    string // where runs say which process they are
	proxy  *testkit.Proxy
	victim *testkit.Process
	other  *testkit.Process
	runs   []events.InstanceID
}

// attempts that the victim runs when it is hurt.
const lossRuns = 6

func newLoss(t *testing.T, ps *testkit.Processes, s *testkit.Server, n *testkit.NATS, name string) *loss {
	l := &loss{t: t, ps: ps, s: s, nc: n.Connect(), name: name, dir: ps.Dir("runs-" + name)}
	l.log = openLog(t, l.nc)
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	l.proxy = testkit.NewProxy(t, ps.Port(), n.Addr)
	lease := []string{"--run-lease", runLease.String(), "--group", name + "=16"}
	l.victim = ps.Worker(name+"-victim", ps.URL(l.proxy.Addr), append(lease, "--drain", drain.String())...)
	l.other = ps.Worker(name+"-other", n.URL, lease...)
	// The first attempt lasts for ever: as the command itself, or as a child of
	// it. Each process of a run writes its number into a file; the next attempt is
	// done at once. A mark makes that no other process is taken for one of these.
	const noteSelf = `echo $$ > "$DIR/$AX_INSTANCE.$AX_ATTEMPT.self"; `
	const untilTwo = `[ "$AX_ATTEMPT" = 1 ] || exit 0; `
	commands := map[string]string{
		"alone":  noteSelf + untilTwo + `exec sleep 1000`,
		"parent": noteSelf + untilTwo + `sleep 1000 & echo $! > "$DIR/$AX_INSTANCE.$AX_ATTEMPT.child"; wait`,
		"quick":  noteSelf + `exit 0`,
		"while":  noteSelf + untilTwo + `sleep 10`, // ends well by itself while its worker is away
	}
	var define []events.Command
	for kind, command := range commands {
		x := events.ExecutorSpec{Kind: "shell", Config: []byte(fmt.Sprintf(`{"command":%q,"env":{"DIR":%q}}`, command, l.dir))}
		define = append(define, task(t, name+"-"+kind, events.TaskSpec{
			Executor: x, Group: events.Group(name), Timeout: events.Duration(10 * time.Minute), Overlap: events.OverlapSpec{Policy: events.OverlapAllow},
		}))
	}
	do(t, l.nc, define...)
	return l
}

// begin lets the victim run attempts of kinds of task, and the other worker wait
// for it to fail.
func (l *loss) begin(kinds ...string) {
	l.t.Helper()
	l.victim.Start()
	for k := range lossRuns {
		kind := kinds[k%len(kinds)]
		done := do(l.t, l.nc, events.Command{Verb: events.VerbTrigger, Name: l.name + "-" + kind, Key: fmt.Sprint("first-", k)})
		l.runs = append(l.runs, done[0].Instance)
	}
	testkit.Until(l.t, time.Minute, "the victim runs all attempts", func() bool {
		want := 0
		for k := range lossRuns {
			if want++; kinds[k%len(kinds)] == "parent" {
				want++
			}
		}
		return len(l.processes()) == want
	})
	l.other.Start()
	testkit.Until(l.t, time.Minute, "the other worker is there", func() bool {
		var all []struct {
			Name    string `json:"name"`
			Present bool   `json:"present"`
		}
		if l.s.Get("/api/v1/workers", &all) != nil {
			return false
		}
		for _, w := range all {
			if w.Name == l.other.Name && w.Present {
				return true
			}
		}
		return false
	})
}

// processes gives the processes of first attempts that have said who they are,
// by what they are.
func (l *loss) processes() map[string]int {
	l.t.Helper()
	files, err := os.ReadDir(l.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	all := map[string]int{}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(l.dir, f.Name()))
		if pid, perr := strconv.Atoi(string(bytes.TrimSpace(b))); err == nil && perr == nil && strings.Contains(f.Name(), ".1.") {
			all[f.Name()] = pid
		}
	}
	return all
}

// living gives the processes of first attempts that run.
func (l *loss) living() (names []string) {
	for name, pid := range l.processes() {
		if running(pid, l.dir) {
			names = append(names, name)
		}
	}
	return names
}

// running reports whether a process runs that has a folder in its environment:
// the number of one that is gone may be another's.
func running(pid int, dir string) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && bytes.Contains(b, []byte("DIR="+dir+"\x00")) // that of a zombie is empty
}

// ended waits until no process of a first attempt runs, and gives when that was.
func (l *loss) ended(limit time.Duration) time.Time {
	l.t.Helper()
	deadline := time.Now().Add(limit)
	for {
		left := l.living()
		if len(left) == 0 {
			return time.Now()
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("after %s these processes of the victim's runs still run: %v", limit, left)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// of gives the events of the victim's runs.
func (l *loss) of(kind events.Kind, attempt int64) (found []replay.Record) {
	l.t.Helper()
	mine := map[events.InstanceID]bool{}
	for _, id := range l.runs {
		mine[id] = true
	}
	return of(records(l.t, l.log), func(r *replay.Record) bool {
		return mine[r.Instance] && r.Kind == kind && (attempt == 0 || r.Attempt == attempt)
	})
}

// everyRun waits until each of the victim's runs has an event, and gives them.
func (l *loss) everyRun(kind events.Kind, attempt int64, limit time.Duration) []replay.Record {
	l.t.Helper()
	var found []replay.Record
	testkit.Until(l.t, limit, fmt.Sprintf("%s of attempt %d of all runs", kind, attempt), func() bool {
		found = l.of(kind, attempt)
		return len(found) >= len(l.runs)
	})
	return found
}

// runAgain waits for the second attempts and holds them to a limit since the
// victim was hurt.
func (l *loss) runAgain(hurt time.Time, limit time.Duration, reason string) (lost []replay.Record) {
	l.t.Helper()
	if reason == events.ReasonWorkerGone {
		// A leader declares nothing lost before its own term is old enough: until
		// then an earlier one may have answered beats.
		led, err := l.log.LastLed(l.t.Context())
		if err != nil {
			l.t.Fatal(err)
		}
		limit = max(limit, time.Unix(0, led.Stored).Add(runLease+6*time.Second).Sub(hurt))
	}
	lost = l.everyRun(events.KindLost, 1, time.Minute)
	for _, r := range lost {
		if r.Reason != reason {
			l.t.Errorf("%s is lost for the reason %s, want %s", r.Instance, r.Reason, reason)
		}
	}
	var worst time.Duration
	for _, r := range l.everyRun(events.KindStarted, 2, time.Minute) {
		worst = max(worst, r.Time.Sub(hurt))
	}
	if worst > limit {
		l.t.Errorf("the attempts ran again %s after the worker was hurt, want at most %s", worst, limit)
	}
	l.everyRun(events.KindSucceeded, 2, time.Minute)
	l.t.Logf("ran again %s after the worker was hurt (bar %s)", worst.Round(time.Millisecond), limit.Round(time.Millisecond))
	return lost
}

// late waits until the victim has said what became of its runs, and looks whether
// that changed nothing.
func (l *loss) late(limit time.Duration) {
	l.t.Helper()
	l.everyRun(events.KindLate, 1, limit)
	for _, id := range l.runs {
		var i struct {
			State   string `json:"state"`
			Attempt int64  `json:"attempt"`
		}
		if err := l.s.Get("/api/v1/instances/"+string(id), &i); err != nil {
			l.t.Fatal(err)
		}
		if i.State != events.StateSuccess.String() || i.Attempt != 2 {
			l.t.Errorf("%s is %s by attempt %d, want SUCCESS by attempt 2; its last events:\n%s", id, i.State, i.Attempt, testkit.LastEvents(l.log, id, 12))
		}
	}
}

// works looks whether the victim runs something anew.
func (l *loss) works() {
	l.t.Helper()
	l.other.End()
	began := time.Now()
	id := do(l.t, l.nc, events.Command{Verb: events.VerbTrigger, Name: l.name + "-quick", Key: "after"})[0].Instance
	testkit.Until(l.t, time.Minute, "the victim works on", func() bool {
		return len(of(records(l.t, l.log), func(r *replay.Record) bool { return r.Instance == id && r.Kind == events.KindSucceeded })) == 1
	})
	l.t.Logf("the worker works on: the next instance succeeded after %s", time.Since(began).Round(time.Millisecond))
}

func (l *loss) killed(kinds ...string) {
	l.begin(kinds...)
	hurt := time.Now()
	l.victim.Kill()
	gone := l.ended(5 * time.Second)
	l.t.Logf("the runs ended %s after their worker", gone.Sub(hurt).Round(time.Millisecond))
	l.runAgain(hurt, again, events.ReasonWorkerGone)
}

// restarted: a newer process of the same name is proof that the old one is gone.
func (l *loss) restarted() {
	l.begin("alone")
	hurt := time.Now()
	l.victim.Kill()
	l.victim.Start()
	l.victim.WaitOutput("worker serves", time.Minute)
	l.runAgain(hurt, time.Since(hurt)+time.Second, events.ReasonNewProcess)
	l.ended(time.Second)
	l.works()
}

// askedToEnd: what does not end by itself while its worker ends has not failed. It is
// ended, let go, and runs again elsewhere without waiting for the run lease.
func (l *loss) askedToEnd() {
	l.begin("alone", "parent")
	hurt := time.Now()
	l.victim.End()
	l.ended(0)
	l.runAgain(hurt, drain+3*time.Second, events.ReasonOmitted)
}

func (l *loss) stopped() {
	l.begin("alone", "parent", "while")
	hurt := time.Now()
	l.victim.Stop()
	l.runAgain(hurt, again, events.ReasonWorkerGone)
	time.Sleep(time.Until(hurt.Add(3 * runLease))) // what is tested is the length of the stop
	if left := l.living(); len(left) == 0 {
		l.t.Error("the runs of a stopped worker have ended; nothing is tested")
	}
	l.victim.Continue()
	on := time.Now()
	gone := l.ended(10 * time.Second)
	l.t.Logf("the runs ended %s after their worker went on", gone.Sub(on).Round(time.Millisecond))
	l.late(time.Minute)
	l.works()
}

func (l *loss) cutOff(cut func(*testkit.Proxy)) {
	l.begin("alone", "parent")
	hurt := time.Now()
	cut(l.proxy)
	// What a lost worker runs has ended when its run lease is over, while it is
	// still cut off. It counts from a beat that was answered before the cut.
	gone := l.ended(runLease + 10*time.Second)
	if took := gone.Sub(hurt); took > runLease {
		l.t.Errorf("the runs ended %s after the cut, the run lease is %s", took, runLease)
	} else {
		l.t.Logf("the runs ended %s after the cut (run lease %s)", took.Round(time.Millisecond), runLease)
	}
	for _, r := range l.runAgain(hurt, again, events.ReasonWorkerGone) {
		if r.Time.Before(gone) {
			l.t.Errorf("%s was declared lost %s before its run had ended", r.Instance, gone.Sub(r.Time))
		}
	}
	l.proxy.Heal()
	l.late(time.Minute)
	l.works()
}
