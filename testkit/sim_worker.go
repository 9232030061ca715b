package testkit

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/workers"
)

// SimWorker is a worker that speaks the protocol and does what the test says.
type SimWorker struct {
	sim   *Sim
	Name  events.WorkerName
	Slots map[events.Group]int64
	// Takes is how long an attempt runs. Zero: it ends at once.
	Takes time.Duration
	// Result decides how an attempt ends; nil: it succeeds.
	Result func(run *events.Run, attempt int64) events.Report
	// Silent lets it neither beat nor claim nor report: stopped, or cut off.
	Silent bool
	// Ran lists what it started, in order.
	Ran []Ran

	incarnation int64
	beat        int64
	lastBeat    int64
	serial      int
	running     map[string]*simRun
}

// Ran is an attempt that a SimWorker started.
type Ran struct {
	Instance events.InstanceID
	Attempt  int64
	Token    uint64
	Key      string
	At       time.Time
}

type simRun struct {
	claim events.Claim
	group events.Group
	run   *events.Run
	ends  int64 // monotonic
}

// Worker adds a worker that serves the default group.
func (s *Sim) Worker(name string, slots int64) *SimWorker {
	s.t.Helper()
	w := &SimWorker{
		sim: s, Name: events.WorkerName(name), Slots: map[events.Group]int64{events.DefaultGroup: slots},
		incarnation: int64(len(s.workers) + 1), running: map[string]*simRun{},
	}
	s.workers = append(s.workers, w)
	w.Beat()
	s.Settle()
	return w
}

// Kill ends the worker's process: what it ran is gone.
func (w *SimWorker) Kill() {
	w.Silent = true
	w.running = map[string]*simRun{}
}

// Restart starts a new process under the name.
func (w *SimWorker) Restart() {
	w.sim.t.Helper()
	w.running = map[string]*simRun{}
	w.Silent, w.incarnation, w.beat = false, w.incarnation+1000, 0
	w.Beat()
	w.sim.Settle()
}

// Running is how many attempts it has in hand.
func (w *SimWorker) Running() int { return len(w.running) }

// Beat sends a beat and obeys the answer.
func (w *SimWorker) Beat() {
	w.sim.t.Helper()
	w.beat++
	w.lastBeat = w.sim.mono
	b := events.Beat{Worker: w.Name, Incarnation: w.incarnation, Number: w.beat, RunLease: workers.DefaultRunLease.Milliseconds(), Slots: w.Slots}
	for _, r := range w.runsInOrder() {
		b.Attempts = append(b.Attempts, events.BeatAttempt{Instance: r.claim.Instance, Attempt: r.claim.Attempt, Offer: r.claim.Offer, Nonce: workers.NonceHash(r.claim.Nonce)})
	}
	body, err := json.Marshal(&b)
	w.sim.must(err)
	var answer events.BeatAnswer
	w.sim.must(json.Unmarshal(w.sim.Ask(func() (leader.Request, error) { return w.sim.Rules.HandleBeat("", body) }), &answer))
	for _, stop := range answer.Stop {
		key := runKey(stop.Instance, stop.Attempt)
		if r := w.running[key]; r != nil {
			delete(w.running, key)
			w.report(r, events.Report{Outcome: events.OutcomeCancelled, Error: "stopped: " + stop.Reason})
		}
	}
}

func runKey(id events.InstanceID, attempt int64) string { return fmt.Sprintf("%s/%d", id, attempt) }

// next is when the worker has something to do, monotonic.
func (w *SimWorker) next() int64 {
	if w.Silent {
		return 0
	}
	next := w.lastBeat + int64(workers.BeatEvery)
	for _, r := range w.running {
		next = min(next, r.ends)
	}
	return next
}

// step does what time calls for: a beat.
func (w *SimWorker) step() {
	if !w.Silent && w.sim.mono-w.lastBeat >= int64(workers.BeatEvery) {
		w.Beat()
	}
}

// work claims what is offered and reports what has ended. It reports whether
// there was anything.
func (w *SimWorker) work() (did bool) {
	w.sim.t.Helper()
	if w.Silent {
		return false
	}
	for _, r := range w.runsInOrder() {
		if r.ends <= w.sim.mono {
			delete(w.running, runKey(r.claim.Instance, r.claim.Attempt))
			rep := events.Report{Outcome: events.OutcomeSucceeded}
			if w.Result != nil {
				rep = w.Result(r.run, r.claim.Attempt)
			}
			w.report(r, rep)
			did = true
		}
	}
	offers := w.sim.offers
	w.sim.offers = nil
	for _, o := range offers {
		if w.Slots[o.group] <= w.inGroup(o.group) {
			w.sim.offers = append(w.sim.offers, o)
			continue
		}
		did = true
		w.serial++
		claim := events.Claim{Instance: o.offer.Instance, Attempt: o.offer.Attempt, Offer: o.offer.Offer, Nonce: fmt.Sprintf("%s-nonce-%012d", w.Name, w.serial)}
		if run := w.Claim(o.group, claim); run != nil {
			w.running[runKey(claim.Instance, claim.Attempt)] = &simRun{claim, o.group, run, w.sim.mono + int64(w.Takes)}
			w.Ran = append(w.Ran, Ran{claim.Instance, claim.Attempt, run.Token, run.Key, w.sim.Now()})
		}
	}
	return did
}

// runsInOrder lists what runs by instance, so that runs of a Sim are repeatable.
func (w *SimWorker) runsInOrder() []*simRun {
	return sortedValues(w.running)
}

func (w *SimWorker) inGroup(g events.Group) (n int64) {
	for _, r := range w.running {
		if r.group == g {
			n++
		}
	}
	return n
}

// Claim claims one attempt and gives what to run, or nil.
func (w *SimWorker) Claim(g events.Group, claim events.Claim) *events.Run {
	w.sim.t.Helper()
	m := events.Claims{Worker: w.Name, Incarnation: w.incarnation, Beat: w.beat, RunLease: workers.DefaultRunLease.Milliseconds(), Claims: []events.Claim{claim}}
	var answers events.ClaimAnswers
	w.sim.must(answers.Decode(w.sim.Ask(func() (leader.Request, error) { return w.sim.Rules.HandleClaims(g, m.Encode(nil)) })))
	return answers.Answers[0].Run
}

// report reports an attempt's end.
func (w *SimWorker) report(r *simRun, rep events.Report) {
	w.sim.t.Helper()
	rep.Instance, rep.Attempt, rep.Offer, rep.Nonce = r.claim.Instance, r.claim.Attempt, r.claim.Offer, r.claim.Nonce
	w.Report(rep)
}

// Report sends a report and gives the answer.
func (w *SimWorker) Report(rep events.Report) events.Recorded {
	w.sim.t.Helper()
	m := events.Reports{Worker: w.Name, Incarnation: w.incarnation, Reports: []events.Report{rep}}
	var answers events.ReportAnswers
	w.sim.must(answers.Decode(w.sim.Ask(func() (leader.Request, error) { return w.sim.Rules.HandleReports("", m.Encode(nil)) })))
	if len(answers.Answers) != 1 {
		w.sim.must(errors.New("a report without an answer"))
	}
	return answers.Answers[0]
}

// EndLate reports the outcome of something that this worker once ran, though the
// leader has given it up: the last attempt it started of an instance.
func (w *SimWorker) EndLate(r Ran, outcome string, nonce string) events.Recorded {
	w.sim.t.Helper()
	return w.Report(events.Report{Instance: r.Instance, Attempt: r.Attempt, Nonce: nonce, Outcome: outcome})
}
