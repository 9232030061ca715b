package projector

import (
	"strings"

	"github.com/ax-scheduler/ax/events"
)

// applyToInstance folds an event that acts on one instance: the state table
// says whether and where it goes, this says what else changes.
func (s *State) applyToInstance(e *events.Event, pos events.Position, at int64) string {
	i := s.Instance(e.Instance)
	if i == nil {
		return events.Lookup(events.StateNone, e.Kind).Why
	}
	cell := events.Lookup(i.State, e.Kind)
	if cell.Verdict == events.Passed || cell.Verdict == events.Unset {
		return cell.Why
	}
	if !holds(cell.Guard, i, e) {
		return whyGuard
	}
	wasOpen, wasState := i.Open(), i.State
	if cell.Verdict == events.Moves {
		i.State = cell.To
	}
	i.take(e, pos, at)
	i.note(e.Kind, e.Attempt, pos, at)
	s.count(i, wasState, wasOpen, at)
	s.touch(i)
	s.place(i)
	return ""
}

// holds reports whether the table's guard lets the event act on the instance.
func holds(g events.Guard, i *Instance, e *events.Event) bool {
	switch g {
	case events.Always:
		return true
	case events.SameAttempt:
		return e.Attempt == i.Attempt
	case events.SameOffer:
		return e.Attempt == i.Attempt && e.Offer == i.Offer
	case events.NextOffer:
		return e.Attempt == i.Attempt && e.Offer == i.Offer+1 && !i.Held
	case events.NextAttempt:
		return e.Attempt == i.Attempt+1
	case events.SameAttemptFree:
		return e.Attempt == i.Attempt && !i.Held
	case events.NextAttemptFree:
		return e.Attempt == i.Attempt+1 && !i.Held
	case events.Free:
		return !i.Held
	case events.Held:
		return i.Held
	case events.HeldAttempt:
		return i.Held && e.Attempt == i.HeldAttempt
	}
	return false
}

// take changes the row's fields as the event says. The state has moved already.
func (i *Instance) take(e *events.Event, pos events.Position, at int64) {
	switch e.Kind {
	case events.KindReady:
		i.At = 0
	case events.KindDispatched:
		i.Offer, i.At = e.Offer, e.At
	case events.KindWithdrawn:
		i.At = 0
	case events.KindStarted:
		i.Worker, i.Incarnation = events.WorkerName(strings.Clone(string(e.Worker))), e.Incarnation
		i.Nonce = strings.Clone(e.Nonce)
		i.RunLease, i.RunAttempt = e.Lease, e.Attempt
		i.Token, i.StartedAt, i.At = pos, at, e.At
	case events.KindSucceeded:
		i.At = 0
		i.Result, i.Error, i.Reason = strings.Clone(e.Result), strings.Clone(e.Error), strings.Clone(e.Reason)
	case events.KindFailed:
		i.Failures++
		i.At = 0
		i.Error, i.Reason = strings.Clone(e.Error), strings.Clone(e.Reason)
		i.Result = strings.Clone(e.Result)
		if e.Permanent {
			i.Reason = events.ReasonPermanent
		}
		i.At = e.At // earliest next attempt, if the worker named one
	case events.KindTimedOut:
		i.Failures++
		i.At = 0
		i.Error, i.Reason = strings.Clone(e.Error), strings.Clone(e.Reason)
		i.Result = strings.Clone(e.Result)
		// The worker itself says so: it has ended the work. Otherwise it holds the
		// instance until its report or its loss.
		if e.Reason == events.ReasonRun && e.Worker == "" {
			i.Held, i.HeldAttempt = true, e.Attempt
		}
	case events.KindLost:
		if i.State == events.StateLost {
			i.Losses++
			i.At = 0
			i.Error, i.Reason = "", strings.Clone(e.Reason)
		} else {
			i.Held, i.HeldAttempt = false, 0
		}
	case events.KindLate:
		if i.Held && e.Attempt == i.HeldAttempt {
			i.Held, i.HeldAttempt = false, 0
		}
	case events.KindRetrying:
		i.Attempt, i.At = e.Attempt, e.At
	case events.KindDead:
		if i.runsUnended() {
			i.Held, i.HeldAttempt = true, i.Attempt
		}
		i.At = 0
		i.Reason = strings.Clone(e.Reason)
		if e.Error != "" {
			i.Error = strings.Clone(e.Error)
		}
		i.Ended, i.EndedAt = pos, at
	case events.KindRedriven:
		i.Attempt = e.Attempt
		i.At, i.Failures, i.Losses = 0, 0, 0
		i.CancelAsked = false
		i.Error, i.Reason, i.Result = "", "", ""
		i.Ended, i.EndedAt = events.Position{}, 0
		if e.Params != "" {
			i.Params = strings.Clone(e.Params)
		}
	case events.KindCancelAsked:
		i.CancelAsked = true
		if e.Reason != "" {
			i.Reason = strings.Clone(e.Reason)
		}
	case events.KindCancelled, events.KindSkipped, events.KindNodeSkipped, events.KindDiscarded:
		i.At = 0
		if e.Reason != "" {
			i.Reason = strings.Clone(e.Reason)
		}
		if e.Error != "" {
			i.Error = strings.Clone(e.Error)
		}
	}
	if i.State.Final() && i.Ended != pos && e.Kind != events.KindLate {
		i.Ended, i.EndedAt = pos, at
		i.CancelAsked = false
	}
}

// runsUnended reports whether the last transition was into RUNNING: an instance
// that is parked while a worker runs it stays held until that worker ends.
func (i *Instance) runsUnended() bool {
	n := len(i.Transitions)
	return n > 0 && i.Transitions[n-1].State == events.StateRunning
}

// count keeps the task's counters true over a change of state.
func (s *State) count(i *Instance, was events.State, wasOpen bool, at int64) {
	t := i.task
	if open := i.Open(); open != wasOpen {
		if open {
			t.Open++
		} else {
			t.Open--
		}
		s.touchTask(t)
	}
	if (was == events.StateDead) != (i.State == events.StateDead) {
		if was == events.StateDead {
			t.Dead--
		} else {
			t.Dead++
		}
		s.touchTask(t)
	}
	if i.State.Final() && !was.Final() {
		if t.Finished == 0 {
			t.Oldest = at
		}
		t.Finished++
		if t.Finished > KeepFinished {
			s.meta.TrimOwed++
		}
		t.done = append(t.done, i)
		s.touchTask(t)
	}
}
