package events

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ax-scheduler/ax/events/internal/jsonline"
)

// AppendJSON appends the event as one JSON object, without a line end. dt is
// the event's time after the frame's, in microseconds, where it differs from
// the event before; -1 says it does not.
//
// The order of fields is fixed, so equal events have equal bytes.
func (e *Event) AppendJSON(b []byte, dt int64) []byte {
	o := jsonline.Begin(b)
	o.String("kind", e.Kind.String())
	if dt > 0 {
		o.Int("dt", dt)
	}
	o.String("task", string(e.Task))
	o.String("trigger", string(e.Trigger))
	o.String("instance", string(e.Instance))
	o.String("object", string(e.Object))
	o.String("name", e.Name)
	o.Int("version", e.Version)
	o.Int("due", e.Due)
	o.Int("next", e.Next)
	o.Int("from", e.From)
	o.Int("count", e.Count)
	o.Int("generation", e.Generation)
	o.Int("attempt", e.Attempt)
	o.Int("offer", e.Offer)
	o.Int("at", e.At)
	o.String("worker", string(e.Worker))
	o.Int("incarnation", e.Incarnation)
	o.Int("lease", e.Lease)
	o.String("nonce", e.Nonce)
	o.String("key", e.Key)
	o.Raw("params", e.Params)
	o.Raw("result", e.Result)
	if e.Outcome != kindNone {
		o.String("outcome", e.Outcome.String())
	}
	o.String("reason", e.Reason)
	o.String("error", e.Error)
	o.Bool("permanent", e.Permanent)
	if e.Cause.Seq != 0 {
		o.String("cause", e.Cause.String())
	}
	if e.Root.Seq != 0 {
		o.String("root", e.Root.String())
	}
	o.Int("depth", e.Depth)
	o.Uint("inbox", e.Inbox)
	o.String("by", e.Actor)
	o.Raw("body", e.Body)
	return o.End()
}

// decode reads one event line into e, which must be zero, and returns its time
// after the frame's in microseconds, or -1 where the line does not say.
func (e *Event) decode(line string) (dt int64, err error) {
	dt = -1
	var have fieldSet
	var r jsonline.Reader
	r.Reset(line)
	r.Object()
	for {
		name, ok := r.Field()
		if !ok {
			break
		}
		var f fieldSet
		switch name {
		case "kind":
			s := r.String()
			k, known := ParseKind(s)
			if !known || e.Kind != kindNone {
				r.Fail(fmt.Errorf("%w: event kind %.40q", ErrMalformed, s))
			}
			e.Kind = k
			continue
		case "dt":
			if dt != -1 {
				r.Fail(fmt.Errorf("%w: field \"dt\" twice", ErrMalformed))
			}
			if dt = r.Int(); dt <= 0 {
				r.Fail(fmt.Errorf("%w: dt %d", ErrMalformed, dt))
			}
			continue
		case "task":
			f, e.Task = fTask, TaskName(r.String())
		case "trigger":
			f, e.Trigger = fTrigger, TriggerName(r.String())
		case "instance":
			f, e.Instance = fInstance, InstanceID(r.String())
		case "object":
			f, e.Object = fObject, ObjectKind(r.String())
		case "name":
			f, e.Name = fName, r.String()
		case "version":
			f, e.Version = fVersion, r.Int()
		case "due":
			f, e.Due = fDue, r.Int()
		case "next":
			f, e.Next = fNext, r.Int()
		case "from":
			f, e.From = fFrom, r.Int()
		case "count":
			f, e.Count = fCount, r.Int()
		case "generation":
			f, e.Generation = fGeneration, r.Int()
		case "attempt":
			f, e.Attempt = fAttempt, r.Int()
		case "offer":
			f, e.Offer = fOffer, r.Int()
		case "at":
			f, e.At = fAt, r.Int()
		case "worker":
			f, e.Worker = fWorker, WorkerName(r.String())
		case "incarnation":
			f, e.Incarnation = fIncarnation, r.Int()
		case "lease":
			f, e.Lease = fLease, r.Int()
		case "nonce":
			f, e.Nonce = fNonce, r.String()
		case "key":
			f, e.Key = fKey, r.String()
		case "params":
			f, e.Params = fParams, r.Raw()
		case "result":
			f, e.Result = fResult, r.Raw()
		case "outcome":
			s := r.String()
			k, known := ParseKind(s)
			if !known {
				r.Fail(fmt.Errorf("%w: outcome %.40q", ErrMalformed, s))
			}
			f, e.Outcome = fOutcome, k
		case "reason":
			f, e.Reason = fReason, r.String()
		case "error":
			f, e.Error = fError, r.String()
		case "permanent":
			f, e.Permanent = fPermanent, r.Bool()
		case "cause":
			f, e.Cause = fCause, readPosition(&r)
		case "root":
			f, e.Root = fRoot, readPosition(&r)
		case "depth":
			f, e.Depth = fDepth, r.Int()
		case "inbox":
			f, e.Inbox = fInbox, r.Uint()
		case "by":
			f, e.Actor = fActor, r.String()
		case "body":
			f, e.Body = fBody, r.Raw()
		default:
			r.Fail(fmt.Errorf("%w: unknown field %.40q", ErrMalformed, name))
		}
		if have&f != 0 {
			r.Fail(fmt.Errorf("%w: field %q twice", ErrMalformed, name))
		}
		have |= f
	}
	r.End()
	if err := r.Err(); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if zero := have &^ e.fields(); zero != 0 {
		return 0, fmt.Errorf("%w: %s empty: zero is absent", ErrMalformed, zero)
	}
	if err := e.check(have); errors.Is(err, ErrMalformed) {
		return 0, err
	} else if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return dt, nil
}

func readPosition(r *jsonline.Reader) Position {
	s := r.String()
	p, err := ParsePosition(s)
	if err != nil || !strings.Contains(s, ".") {
		r.Fail(fmt.Errorf("%w: position %.40q", ErrMalformed, s))
	}
	return p
}
