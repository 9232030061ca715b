package replay

import (
	"slices"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Outcome is how an attempt ended, as far as an instance's row remembers it.
type Outcome struct {
	Attempt int64  `json:"attempt"`
	Reason  string `json:"reason,omitempty"`
	Error   string `json:"error,omitempty"`
}

// Outcomes parts what a row says of its current attempt from what it still says
// of the one before: the row keeps an error until the next attempt has ended, so
// that a dead letter or a retry can name it, and readers would take it for the
// error of the attempt that runs. earlier is nil where there is none.
func Outcomes(i *projector.Instance) (own Outcome, earlier *Outcome) {
	own = Outcome{i.Attempt, i.Reason, i.Error}
	if i.Attempt <= 1 || ended(i) {
		return own, nil
	}
	before := Outcome{Attempt: i.Attempt - 1}
	if left(i.Reason) || !i.CancelAsked && i.State != events.StateCancelled {
		own.Reason, before.Reason = "", i.Reason
	}
	if !endedByWorker(i) {
		own.Error, before.Error = "", i.Error
	}
	if before.Reason == "" && before.Error == "" {
		return own, nil
	}
	return own, &before
}

// ended reports whether the current attempt has an outcome of its own.
func ended(i *projector.Instance) bool {
	switch i.State {
	case events.StateScheduled, events.StateDispatched, events.StateRunning, events.StateRetrying:
		return false
	case events.StateCancelled:
		// In the frame that judges an attempt, the state before is its outcome.
		was := stateBefore(i)
		return was == events.StateFailed || was == events.StateTimeout || was == events.StateLost
	}
	return true
}

// endedByWorker reports whether the worker itself reported the cancel, with a
// text of its own.
func endedByWorker(i *projector.Instance) bool {
	return i.State == events.StateCancelled && stateBefore(i) == events.StateRunning
}

// stateBefore gives the state that the last change of state came from.
func stateBefore(i *projector.Instance) events.State {
	for _, t := range slices.Backward(i.Transitions) {
		if t.State != i.State {
			return t.State
		}
	}
	return events.StateNone
}

// left reports whether a reason is a code that the end of an attempt leaves in
// the row, and no text of whoever asked for a cancel.
func left(reason string) bool {
	switch reason {
	case events.ReasonRun, events.ReasonQueue, events.ReasonByWorker, events.ReasonPermanent,
		events.ReasonWorkerGone, events.ReasonNewProcess, events.ReasonOmitted:
		return true
	}
	return false
}
