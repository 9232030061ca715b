package workers

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// beats sends a beat every BeatEvery, and at once when something calls for one.
func (w *Worker) beats(ctx context.Context) {
	tick := time.NewTicker(BeatEvery)
	defer tick.Stop()
	for {
		go w.beat(ctx) // a beat that is not answered must not hold up the next
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-w.beatNow:
		}
	}
}

func (w *Worker) nudgeBeat() {
	select {
	case w.beatNow <- struct{}{}:
	default:
	}
}

// beat sends one beat and takes its answer. What counts is when it was sent: the
// leader counts from no later.
func (w *Worker) beat(ctx context.Context) {
	b := w.newBeat()
	body, err := json.Marshal(b)
	if err != nil {
		return
	}
	sent := monotonic()
	rctx, cancel := context.WithTimeout(ctx, BeatEvery)
	defer cancel()
	msg, err := w.nc.RequestWithContext(rctx, w.cfg.Address.RPC(w.shard, events.RPCBeat, ""), body)
	if err != nil {
		if ctx.Err() == nil {
			w.log.Debug("a beat was not answered", "number", b.Number, "error", err)
		}
		return
	}
	var answer events.BeatAnswer
	if err := json.Unmarshal(msg.Data, &answer); err != nil || answer.Number != b.Number {
		w.log.Debug("unreadable answer to a beat", "error", err)
		return
	}
	if answer.Error != "" {
		if w.outnumbered(b.Number) {
			return // one of our own newer beats was first
		}
		select {
		case w.refused <- errors.New("worker " + string(w.cfg.Name) + ": " + answer.Error + "; give each worker process its own name"):
		default:
		}
		return
	}
	for {
		last := w.fresh.Load()
		if sent <= last || w.fresh.CompareAndSwap(last, sent) {
			break
		}
	}
	w.obey(answer.Stop)
}

// outnumbered reports whether a beat with a higher number has been sent.
func (w *Worker) outnumbered(n int64) bool { return w.beatNumber.Load() > n }

// newBeat lists every attempt in hand. The number is drawn under the lock that
// guards the list: a claim that names the number was listed by every beat after
// it.
func (w *Worker) newBeat() *events.Beat {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := &events.Beat{
		Worker: w.cfg.Name, Incarnation: w.incarnation, Number: w.beatNumber.Add(1), RunLease: w.cfg.RunLease.Milliseconds(),
		Slots: map[events.Group]int64{}, Executors: w.cfg.Executors.Kinds(),
	}
	if !w.stopping.Load() {
		for g, n := range w.cfg.Groups {
			b.Slots[g] = int64(n)
		}
	}
	for _, r := range w.held {
		if r.hash == "" {
			r.hash = NonceHash(r.nonce)
		}
		b.Attempts = append(b.Attempts, events.BeatAttempt{Instance: r.key.instance, Attempt: r.key.attempt, Offer: r.key.offer, Nonce: r.hash})
	}
	return b
}

// obey ends what the leader says is to end.
func (w *Worker) obey(stops []events.StopRun) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range stops {
		r := w.held[heldKey{s.Instance, s.Attempt, s.Offer}]
		if r == nil {
			continue
		}
		cause := ErrSuperseded
		if s.Reason == events.StopCancel {
			cause = ErrCancelled
		}
		w.end(r, cause, Grace)
	}
}

// isFresh reports whether the last beat that was answered was sent less than a
// run lease, less the time to end what runs, ago.
func (w *Worker) isFresh() bool { return w.leaseLeft() > w.stopEarly() }

// leaseLeft is how much of the run lease is left.
func (w *Worker) leaseLeft() time.Duration {
	last := w.fresh.Load()
	if last == 0 {
		return 0
	}
	return w.cfg.RunLease - time.Duration(monotonic()-last)
}

// stopEarly is how long before the end of the run lease runs are asked to end,
// so that they have ended, KILL included, when it is over: a grace, at most a
// third of the run lease.
func (w *Worker) stopEarly() time.Duration { return min(Grace, w.cfg.RunLease/3) }

// killMargin is how long before the end of the run lease KILL is used.
const killMargin = 500 * time.Millisecond

// watchdog ends what runs when no leader has answered for too long.
func (w *Worker) watchdog(ctx context.Context) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		left := w.leaseLeft()
		if left > w.stopEarly() {
			continue
		}
		w.mu.Lock()
		for _, r := range w.held {
			if r.phase == runs {
				w.end(r, ErrLeaseOver, max(left-killMargin, 0))
			}
		}
		w.mu.Unlock()
	}
}
