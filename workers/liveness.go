package workers

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Times of liveness.
const (
	BeatEvery       = 3 * time.Second
	DefaultRunLease = 15 * time.Second
	MinRunLease     = 6 * time.Second
	MaxRunLease     = 10 * time.Minute
	lostMargin      = 2 * time.Second // after a run lease without a beat
	termMargin      = 5 * time.Second // after a run lease since the term began
	presentFor      = 3 * BeatEvery   // a worker that was silent for longer gets no offers
	forgetAfter     = time.Hour       // a silent worker without attempts is forgotten
)

// maxWorkers bounds the workers that a leader knows.
const maxWorkers = 10_000

// Liveness is what a leader learns from beats. It lives in memory and dies with
// the term: the next leader waits before it declares anything lost.
//
// The loop writes it; Workers reads it from anywhere.
type Liveness struct {
	mu      sync.Mutex
	workers map[events.WorkerName]*worker
	began   int64 // monotonic: when the term began

	// The loop's own.
	lookedForLost int64
	beaten        bool // a beat came since
	strays        int
	straysSince   int64
}

// strayAllowed reports whether one more report about nothing may be recorded.
func (l *Liveness) strayAllowed(mono int64) bool {
	if time.Duration(mono-l.straysSince) > time.Minute {
		l.strays, l.straysSince = 0, mono
	}
	l.strays++
	return l.strays <= maxStrayReports
}

// worker is what beats said of one worker.
type worker struct {
	name        events.WorkerName
	incarnation int64
	beat        int64 // number of the last beat
	seen        int64 // monotonic: when it came; 0: in no beat of this term
	slots       map[events.Group]int64
	executors   []string
	running     int64
	omitted     map[attemptID]omission
}

// attemptID names an attempt of an instance.
type attemptID struct {
	instance events.InstanceID
	attempt  int64
}

// omission is what this leader knows of an attempt that was started.
type omission struct {
	claimBeat int64 // last beat sent before its claim
	count     int64 // beats after it that did not list the attempt
	started   int64 // monotonic; 0: by an earlier leader
}

// NewLiveness makes an empty one.
func NewLiveness() *Liveness { return &Liveness{workers: map[events.WorkerName]*worker{}} }

// TermBegins forgets everything: beats to another leader say nothing to this
// one.
func (l *Liveness) TermBegins(mono int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers, l.began = map[events.WorkerName]*worker{}, mono
}

// WorkerInfo describes a worker for people.
type WorkerInfo struct {
	Name        events.WorkerName      `json:"name"`
	Incarnation int64                  `json:"incarnation"`
	Beat        int64                  `json:"beat"`
	Silent      float64                `json:"silent"` // seconds since its last beat
	Present     bool                   `json:"present"`
	Slots       map[events.Group]int64 `json:"slots"`
	Running     int64                  `json:"running"` // attempts it listed
	Executors   []string               `json:"executors"`
}

// Workers lists the workers that beat to this leader, by name. mono is now.
func (l *Liveness) Workers(mono int64) []WorkerInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]WorkerInfo, 0, len(l.workers))
	for _, w := range l.workers {
		if w.seen == 0 {
			continue
		}
		slots := make(map[events.Group]int64, len(w.slots))
		for g, n := range w.slots {
			slots[g] = n
		}
		all = append(all, WorkerInfo{
			Name: w.name, Incarnation: w.incarnation, Beat: w.beat, Silent: time.Duration(mono - w.seen).Seconds(),
			Present: w.present(mono), Slots: slots, Running: w.running, Executors: slices.Clone(w.executors),
		})
	}
	slices.SortFunc(all, func(a, b WorkerInfo) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return all
}

func (w *worker) present(mono int64) bool {
	return w.seen != 0 && time.Duration(mono-w.seen) <= presentFor
}

// get gives what is known of a worker, made on demand.
func (l *Liveness) get(name events.WorkerName) *worker {
	w := l.workers[name]
	if w == nil {
		w = &worker{name: name, omitted: map[attemptID]omission{}}
		l.workers[name] = w
	}
	return w
}

// started notes that an attempt was started by a claim that named the last beat
// sent before it.
func (l *Liveness) started(name events.WorkerName, id attemptID, claimBeat, mono int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.get(name).omitted[id] = omission{claimBeat: claimBeat, started: mono}
}

// know notes what a worker holds since before this leader's term. The first beat
// that this leader takes from it says nothing yet: it may have been sent before
// the claim.
func (l *Liveness) know(b *events.Beat, runs []*projector.Instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[b.Worker]
	if w == nil {
		return
	}
	for _, i := range runs {
		id := attemptID{i.ID, i.RunAttempt}
		if _, known := w.omitted[id]; !known {
			w.omitted[id] = omission{claimBeat: b.Number}
		}
	}
}

// outdated reports whether a newer process than the incarnation has a worker's
// name.
func (l *Liveness) outdated(name events.WorkerName, incarnation int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[name]
	return w != nil && incarnation < w.incarnation
}

// gone says why an attempt is lost at a monotonic time, or "" if it is not.
func (l *Liveness) gone(i *projector.Instance, attempt, mono int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[i.Worker]
	lease := clampLease(time.Duration(i.RunLease) * time.Millisecond)
	// The last sign of life, as far as this leader can tell: before its term
	// another one may have answered a beat.
	last := l.began + int64(termMargin-lostMargin)
	if w != nil {
		o := w.omitted[attemptID{i.ID, attempt}]
		switch {
		case w.incarnation > i.Incarnation && i.Incarnation > 0:
			return events.ReasonNewProcess
		case o.count >= 2:
			return events.ReasonOmitted
		}
		last = max(last, w.seen, o.started)
	}
	if time.Duration(mono-last) > lease+lostMargin {
		return events.ReasonWorkerGone
	}
	return ""
}

// accept takes a beat. It reports false for one of an older process or one that
// came late: it says nothing about now.
func (l *Liveness) accept(b *events.Beat, mono int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.workers[b.Worker]
	if w == nil {
		if len(l.workers) >= maxWorkers {
			return false
		}
		w = l.get(b.Worker)
	}
	switch {
	case b.Incarnation < w.incarnation:
		return false
	case b.Incarnation > w.incarnation:
		w.incarnation, w.beat = b.Incarnation, 0
		clear(w.omitted)
	}
	if b.Number <= w.beat {
		return false
	}
	w.beat, w.seen = b.Number, mono
	l.beaten = true
	w.slots, w.executors, w.running = b.Slots, b.Executors, int64(len(b.Attempts))
	listed := make(map[attemptID]bool, len(b.Attempts))
	for _, a := range b.Attempts {
		listed[attemptID{a.Instance, a.Attempt}] = true
	}
	for id, o := range w.omitted {
		switch {
		case listed[id]:
			o.count = 0
		case b.Number > o.claimBeat:
			o.count++
		}
		w.omitted[id] = o
	}
	return true
}

func clampLease(d time.Duration) time.Duration {
	if d == 0 {
		return DefaultRunLease
	}
	return min(max(d, MinRunLease), MaxRunLease)
}

// ended forgets an attempt.
func (l *Liveness) ended(name events.WorkerName, id attemptID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.workers[name]; w != nil {
		delete(w.omitted, id)
	}
}

// forget drops workers that are silent for long and hold nothing.
func (l *Liveness) forget(mono int64, holds func(events.WorkerName) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, w := range l.workers {
		if time.Duration(mono-max(w.seen, l.began)) > forgetAfter && !holds(name) {
			delete(l.workers, name)
		}
	}
}
