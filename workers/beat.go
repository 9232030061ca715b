package workers

import (
	"encoding/json"
	"fmt"
	"iter"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Bounds of a beat.
const (
	maxSlots  = 100_000
	maxGroups = 1000
)

// BeatRequest is a worker's sign of life. It has the methods of a leader's
// request, and is answered only while the term was proven a moment ago: the
// answer prolongs what the worker may run.
type BeatRequest struct {
	rules  *Rules
	beat   *events.Beat
	answer events.BeatAnswer
}

// HandleBeat reads a beat.
func (r *Rules) HandleBeat(_ events.Group, body []byte) (*BeatRequest, error) {
	b, err := events.DecodeBeat(body)
	if err != nil {
		return nil, err
	}
	if err := events.CheckName(string(b.Worker)); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := inRange(number{"incarnation", b.Incarnation}, number{"number", b.Number}, number{"runLease", b.RunLease}); err != nil {
		return nil, err
	}
	for i := range b.Attempts {
		if err := inRange(number{"attempt", b.Attempts[i].Attempt}, number{"offer", b.Attempts[i].Offer}); err != nil {
			return nil, err
		}
	}
	if len(b.Slots) > maxGroups {
		return nil, fmt.Errorf("%w: a beat with %d groups, at most %d", events.ErrRequest, len(b.Slots), maxGroups)
	}
	for g, n := range b.Slots {
		if err := events.CheckName(string(g)); err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
		if n < 0 || n > maxSlots {
			return nil, fmt.Errorf("%w: %d slots in group %s, want 0 to %d", events.ErrRequest, n, g, maxSlots)
		}
	}
	return &BeatRequest{rules: r, beat: b}, nil
}

// Prompt says that a late answer is worth nothing.
func (b *BeatRequest) Prompt() {}

// Decide takes the beat in and finds out what the worker has to stop: all it
// lists that is neither started by that nonce nor the open offer. It yields no
// event: beats are not in the log.
func (b *BeatRequest) Decide(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(func(*events.Event) bool) {
		b.answer = events.BeatAnswer{Number: b.beat.Number}
		if !b.rules.accept(b.beat, now.Mono) {
			b.answer.Error = "a newer process has this worker's name, or a newer beat of this one was taken"
			return
		}
		b.rules.know(b.beat, s.WorkerRuns(b.beat.Worker))
		for k := range b.beat.Attempts {
			a := &b.beat.Attempts[k]
			i := s.Instance(a.Instance)
			stop := events.StopRun{Instance: a.Instance, Attempt: a.Attempt, Offer: a.Offer}
			switch {
			case !goesOn(i, a):
				stop.Reason = events.StopOver
			case i.CancelAsked:
				stop.Reason = events.StopCancel
			default:
				continue
			}
			b.answer.Stop = append(b.answer.Stop, stop)
		}
	}
}

func goesOn(i *projector.Instance, a *events.BeatAttempt) bool {
	switch {
	case i == nil || a.Attempt != i.Attempt:
		return false
	case i.State == events.StateRunning:
		return i.Nonce == a.Nonce
	}
	return i.State == events.StateDispatched && i.Offer == a.Offer
}

// Answer encodes the answer.
func (b *BeatRequest) Answer(term events.Term, buf []byte) []byte {
	b.answer.Term = term
	body, err := json.Marshal(&b.answer)
	if err != nil {
		return nil
	}
	return append(buf, body...)
}

// Fail answers nothing: the next beat comes.
func (b *BeatRequest) Fail(events.Term, string, []byte) []byte { return nil }
