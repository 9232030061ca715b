package workers

import (
	"iter"
	"math/rand/v2"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Outcomes is the decider that ends attempts whose worker is gone or whose
// deadline is over, and judges what has ended: another attempt, a dead letter,
// or the cancel that was asked for.
func (r *Rules) Outcomes(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		if !r.lost(s, now, yield) {
			return
		}
		for _, i := range s.RipeInstances() {
			s.Focus(i, nil)
			if e := deadline(i, now); e == nil {
				s.Rearm(i, nil)
			} else if !yield(e) {
				return
			}
		}
		for {
			owed := s.Judge()
			if len(owed) == 0 {
				return
			}
			for _, i := range owed {
				s.Focus(i, nil)
				spec := s.Spec(i.Task, i.Version)
				if !yield(judge(i, spec, now)) {
					return
				}
				if i.State == events.StateRetrying && !i.Held && i.At <= now.Millis() {
					if !yield(&events.Event{Kind: events.KindReady, Instance: i.ID, Attempt: i.Attempt}) {
						return
					}
				}
			}
		}
	}
}

// deadline gives the event of a deadline that is over at now, or nil.
func deadline(i *projector.Instance, now events.Now) *events.Event {
	if i.At == 0 || i.At > now.Millis() {
		return nil
	}
	switch i.State {
	case events.StateDispatched:
		return &events.Event{Kind: events.KindWithdrawn, Instance: i.ID, Attempt: i.Attempt, Offer: i.Offer, Reason: events.ReasonUnclaimed}
	case events.StateRunning:
		if !i.CancelAsked {
			return &events.Event{
				Kind: events.KindTimedOut, Instance: i.ID, Attempt: i.Attempt, Reason: events.ReasonRun,
				Error: "the time limit is over and the worker has not said how the attempt ended",
			}
		}
	case events.StateRetrying:
		if !i.Held && !i.CancelAsked {
			return &events.Event{Kind: events.KindReady, Instance: i.ID, Attempt: i.Attempt}
		}
	}
	return nil
}

// judge decides what follows an attempt that has ended, or a hold that has.
func judge(i *projector.Instance, spec *events.TaskSpec, now events.Now) *events.Event {
	dead := func(why string) *events.Event {
		return &events.Event{Kind: events.KindDead, Instance: i.ID, Reason: why, Error: i.Error}
	}
	switch {
	case i.CancelAsked && i.State == events.StateDead:
		return &events.Event{Kind: events.KindDiscarded, Instance: i.ID}
	case i.CancelAsked:
		return &events.Event{Kind: events.KindCancelled, Instance: i.ID, Attempt: i.Attempt, Error: i.Error}
	case spec == nil:
		return dead(events.ReasonInternal)
	}
	wait := time.Duration(0)
	switch i.State {
	case events.StateLost:
		if i.Losses > spec.MaxLost {
			return dead(events.ReasonLostTooOften)
		}
	default:
		if i.Reason == events.ReasonPermanent {
			return dead(events.ReasonPermanent)
		}
		if i.Failures > *spec.Retry.Max {
			return dead(events.ReasonAttempts)
		}
		wait = Backoff(&spec.Retry, i.Failures, string(i.ID))
	}
	at := max(now.Millis()+wait.Milliseconds(), i.At)
	return &events.Event{Kind: events.KindRetrying, Instance: i.ID, Attempt: i.Attempt + 1, At: at, Reason: i.Reason}
}

// Backoff is how long the n-th retry waits, n from 1. Jitter is drawn from the
// seed and n, so that the same decision made again is the same.
func Backoff(r *events.RetrySpec, n int64, seed string) time.Duration {
	n = max(n, 1)
	var d time.Duration
	switch r.Backoff {
	case events.BackoffList:
		d = time.Duration(r.List[min(n, int64(len(r.List)))-1])
	case events.BackoffFixed:
		d = time.Duration(r.Base)
	default:
		b := backoff.NewExponentialBackOff(
			backoff.WithInitialInterval(time.Duration(r.Base)), backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0),
			backoff.WithMaxInterval(time.Duration(r.Cap)), backoff.WithMaxElapsedTime(0))
		for range min(n, 64) { // 2^63 is over any cap
			d = b.NextBackOff()
		}
	}
	if r.Jitter > 0 {
		var h uint64 = 14695981039346656037 // FNV-1a
		for k := range len(seed) {
			h = (h ^ uint64(seed[k])) * 1099511628211
		}
		part := rand.New(rand.NewPCG(h, uint64(n))).Int64N(2*r.Jitter+1) - r.Jitter
		d += d / 100 * time.Duration(part)
	}
	return d
}

// lost ends the attempts of workers that are gone. It reports false if the frame
// is full.
func (r *Rules) lost(s *projector.State, now events.Now, yield func(*events.Event) bool) bool {
	// Nothing here is younger than a second: beats come every three.
	if now.Mono-r.lookedForLost < int64(lostLook) && !r.beaten {
		return true
	}
	for _, name := range s.Workers() {
		for _, i := range s.WorkerRuns(name) {
			s.Focus(i, nil)
			attempt := i.Attempt
			if i.Held {
				attempt = i.HeldAttempt
			}
			why := r.gone(i, attempt, now.Mono)
			if why == "" {
				continue
			}
			if !yield(&events.Event{Kind: events.KindLost, Instance: i.ID, Attempt: attempt, Worker: name, Reason: why}) {
				return false
			}
			r.ended(name, attemptID{i.ID, attempt})
		}
	}
	r.lookedForLost, r.beaten = now.Mono, false
	r.forget(now.Mono, func(w events.WorkerName) bool { return s.Holds(w) })
	return true
}

// lostLook is how often workers that are silent are looked for.
const lostLook = 250 * time.Millisecond
