package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// Filter says which events are wanted. A zero field wants any.
type Filter struct {
	Kind     events.Kind
	Task     events.TaskName
	Instance events.InstanceID
	Since    time.Time
}

func (f *Filter) wants(e *events.Event, at int64) bool {
	return (f.Kind == 0 || e.Kind == f.Kind) && (f.Task == "" || isOf(e, f.Task)) &&
		(f.Instance == "" || e.Instance == f.Instance) && (f.Since.IsZero() || at >= f.Since.UnixNano())
}

// isOf reports whether an event is of a task: of its definition, its triggers or
// its instances.
func isOf(e *events.Event, task events.TaskName) bool {
	switch {
	case e.Task != "":
		return e.Task == task
	case e.Object == events.ObjectTask:
		return e.Name == string(task)
	case e.Object == events.ObjectInstance:
		return events.InstanceID(e.Name).Task() == task
	}
	return e.Instance != "" && e.Instance.Task() == task
}

// scanStep is how many messages are read at once when a log is read backward.
const scanStep = 1000

// maxScan bounds the messages that a search reads backward, if it finds less
// than it wants.
const maxScan = 2_000_000

// maxFound bounds the bytes of what a search gives: a few events may be as large as
// many.
const maxFound = 16 << 20

// size is about what a record takes as JSON.
func (r *Record) size() int { return 300 + len(r.Params) + len(r.Result) + len(r.Body) + len(r.Error) }

// Events gives the newest events that the filter wants, at most limit of them,
// the newest last. It reads the log backward; truncated says that it gave up
// before the log's beginning, or that there are more than maxFound bytes of them.
func Events(ctx context.Context, log events.Log, f Filter, limit int) (found []Record, truncated bool, err error) {
	info, err := log.Info(ctx)
	if err != nil {
		return nil, false, err
	}
	size := 0 // of found and part
	for to := info.Last; to >= info.First && to > 0; {
		from := info.First
		if to-info.First >= scanStep {
			from = to - scanStep + 1
		}
		var part []Record
		older := false // the part reaches back before Since
		cut := false   // there are more than fit
		err := Messages(ctx, log, from, to, func(m *events.Message, d *events.Decoded) error {
			older = older || !f.Since.IsZero() && m.Time < f.Since.UnixNano()
			for k := range d.Events {
				if f.wants(&d.Events[k], d.Times[k]) {
					r := NewRecord(&d.Events[k], events.Position{Seq: m.Seq, Index: uint32(k)}, d.Times[k], d.Actor)
					if r.Kind == events.KindLed {
						r.Term = m.Term.String()
					}
					part = append(part, r)
					size += r.size()
				}
			}
			for size > maxFound && len(part) > 0 {
				size -= part[0].size()
				part, cut = part[1:], true
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		found = append(slices.Clone(part), found...)
		if cut {
			return slices.Clone(found[max(len(found)-limit, 0):]), true, nil
		}
		if len(found) >= limit {
			return slices.Clone(found[len(found)-limit:]), false, nil
		}
		if older || from == info.First {
			break
		}
		to = from - 1
		if info.Last-to > maxScan {
			return found, true, nil
		}
	}
	return found, false, nil
}

// Messages reads the messages from one sequence to another and calls f with each
// and its events. A message that is no frame has none.
func Messages(ctx context.Context, log events.Log, from, to uint64, f func(*events.Message, *events.Decoded) error) error {
	if from > to {
		return nil
	}
	r, err := log.Read(ctx, from)
	if err != nil {
		return err
	}
	defer r.Close()
	var d events.Decoded
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case m, ok := <-r.C():
			if !ok {
				if err := r.Err(); err != nil {
					return err
				}
				return errors.New("the log's reader ended")
			}
			if err := d.Decode(m); errors.Is(err, events.ErrNewerVersion) {
				return err
			} else if err != nil {
				d = events.Decoded{}
			}
			if err := f(m, &d); err != nil {
				return fmt.Errorf("sequence %d: %w", m.Seq, err)
			}
			if m.Seq >= to {
				return nil
			}
		}
	}
}
