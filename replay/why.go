package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Reason is one link of the chain that explains an instance.
type Reason struct {
	Text     string           `json:"text"`
	Position *events.Position `json:"position,omitempty"`
	Time     *time.Time       `json:"time,omitempty"`
	Actor    string           `json:"actor,omitempty"`
}

// maxLinks bounds a chain of causes.
const maxLinks = events.MaxDepth

// Why explains an instance: why it is in the state it is in, and the chain of
// causes from its fire back to the definition or command it came from. queue is
// what is known of the queue that it waits in, if it does.
func Why(ctx context.Context, log events.Log, row *projector.Instance, queue *Queue) ([]Reason, error) {
	history, err := History(ctx, log, row, row.ID)
	if err != nil {
		return nil, err
	}
	chain := []Reason{{Text: standing(row, history, queue)}}
	for k := len(history) - 1; k >= 0; k-- {
		r := &history[k]
		if r.Kind == events.KindFired {
			break
		}
		if text := step(r); text != "" {
			chain = append(chain, reason(r, text))
		}
	}
	pos := row.Fired
	for range maxLinks {
		r, err := At(ctx, log, pos)
		if errors.Is(err, events.ErrNotFound) {
			chain = append(chain, Reason{Text: "what came before is no longer in the log", Position: &pos})
			break
		}
		if err != nil {
			return nil, err
		}
		chain = append(chain, reason(r, cause(r)))
		if r.Cause == nil || r.Cause.Compare(r.Position) >= 0 {
			break
		}
		pos = *r.Cause
	}
	return chain, nil
}

// At gives the event at a position.
func At(ctx context.Context, log events.Log, pos events.Position) (*Record, error) {
	m, err := log.Get(ctx, pos.Seq)
	if err != nil {
		return nil, err
	}
	var d events.Decoded
	if err := d.Decode(m); err != nil {
		return nil, err
	}
	if int(pos.Index) >= len(d.Events) {
		return nil, events.ErrNotFound
	}
	r := NewRecord(&d.Events[pos.Index], pos, d.Times[pos.Index], d.Actor)
	return &r, nil
}

func reason(r *Record, text string) Reason {
	return Reason{Text: text, Position: &r.Position, Time: &r.Time, Actor: r.Actor}
}

// standing says what the state means now.
func standing(i *projector.Instance, history []Record, queue *Queue) string {
	s := fmt.Sprintf("%s is %s", i.ID, i.State)
	own, _ := Outcomes(i) // an earlier attempt's error stands in the chain below
	switch i.State {
	case events.StateScheduled:
		s += fmt.Sprintf(": attempt %d waits in the queue of group %s%s; ax get workers lists which groups have workers", i.Attempt, i.Group, queue)
	case events.StateDispatched:
		s += fmt.Sprintf(": attempt %d is offered to the workers of group %s until %s", i.Attempt, i.Group, text(i.At))
	case events.StateRunning:
		s += fmt.Sprintf(": attempt %d runs on worker %s, at longest until %s", i.Attempt, i.Worker, text(i.At))
	case events.StateRetrying:
		s += fmt.Sprintf(": attempt %d comes at %s", i.Attempt, text(i.At))
		if i.Held {
			s += fmt.Sprintf(", and not before worker %s has let go of attempt %d", i.Worker, i.HeldAttempt)
		}
	case events.StateDead:
		s += ": no attempt is left (" + i.Reason + "); ax redrive runs it again, ax discard puts it away"
	}
	if i.CancelAsked || i.State == events.StateCancelled {
		if asked := cancelOf(history); asked != nil {
			s += ": " + step(asked)
		} else if i.CancelAsked {
			s += ": it was asked to end"
		}
	}
	if own.Error != "" {
		s += ": " + firstLine(own.Error)
	}
	return s
}

// cancelOf finds the event by which somebody wanted the instance to end: it was
// asked to, or cancelled at once.
func cancelOf(history []Record) (found *Record) {
	for k := range history {
		switch r := &history[k]; r.Kind {
		case events.KindCancelAsked:
			found = r
		case events.KindCancelled:
			if found == nil {
				found = r
			}
		case events.KindRedriven:
			found = nil // that cancel was of an earlier life
		}
	}
	return found
}

// step says what an event of an attempt did.
func step(r *Record) string {
	switch r.Kind {
	case events.KindDispatched:
		return fmt.Sprintf("attempt %d was offered (offer %d)", r.Attempt, r.Offer)
	case events.KindWithdrawn:
		return fmt.Sprintf("offer %d was withdrawn: %s", r.Offer, r.Reason)
	case events.KindStarted:
		return fmt.Sprintf("attempt %d started on worker %s", r.Attempt, r.Worker)
	case events.KindSucceeded:
		return fmt.Sprintf("attempt %d succeeded", r.Attempt)
	case events.KindFailed:
		return fmt.Sprintf("attempt %d failed: %s", r.Attempt, firstLine(r.Error))
	case events.KindTimedOut:
		return with(fmt.Sprintf("attempt %d passed its time limit", r.Attempt), firstLine(r.Error))
	case events.KindLost:
		return fmt.Sprintf("attempt %d was lost with worker %s: %s", r.Attempt, r.Worker, r.Reason)
	case events.KindRetrying:
		return fmt.Sprintf("attempt %d was to follow at %s", r.Attempt, when(r.At))
	case events.KindDead:
		return "it became a dead letter: " + r.Reason
	case events.KindLate:
		return fmt.Sprintf("worker reported %s of attempt %d when that was over: recorded, without effect", r.Outcome, r.Attempt)
	case events.KindCancelAsked:
		return with(r.Actor+" asked it to end", r.Reason)
	case events.KindCancelled:
		return with("it was cancelled by "+r.Actor, r.Reason)
	case events.KindRedriven:
		return fmt.Sprintf("it was redriven as attempt %d", r.Attempt)
	case events.KindDiscarded:
		return "it was discarded"
	case events.KindReady:
		return ""
	}
	return r.Kind.String()
}

// cause says why an instance was made, or what the cause of that was.
func cause(r *Record) string {
	switch r.Kind {
	case events.KindFired:
		if r.Trigger == events.ManualTrigger {
			s := fmt.Sprintf("task %s was triggered by %s", r.Task, r.Actor)
			if r.Inbox > 0 {
				s += fmt.Sprintf(" through the inbox (message %d)", r.Inbox)
			}
			if r.Key != "" {
				s += " with key " + r.Key
			}
			return s
		}
		s := fmt.Sprintf("trigger %s of task %s was due at %s", r.Trigger, r.Task, when(r.Due))
		if r.Due != nil {
			if late := r.Time.Sub(*r.Due); late > 100*time.Millisecond {
				s += fmt.Sprintf(" and fired %s late", late.Round(time.Millisecond))
			}
		}
		return s
	case events.KindDefined:
		return fmt.Sprintf("version %d of %s %s was defined by %s", r.Version, strings.ToLower(string(r.Object)), r.Name, r.Actor)
	}
	return r.Kind.String()
}

func when(t *time.Time) string {
	if t == nil {
		return "no time"
	}
	return t.Format(time.RFC3339Nano)
}

func text(ms int64) string { return when(millis(ms)) }

// with adds a detail to a text, if there is one.
func with(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + detail
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}
