package timer

import (
	"fmt"
	"iter"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Fires is the fire decider: it plans triggers, and makes fired and skipped
// events of what is due.
type Fires struct {
	// Server makes the ids of instances.
	Server events.ServerName
	// Calendars of the triggers.
	Calendars *Calendars
	// Refuse gives the reason why no new work is made, or "". Due times wait, and
	// the misfire policy decides about them when it is over.
	Refuse func() string

	wentBack bool // triggers may have a position in the future
}

// LookBack makes the next decision look for triggers whose position is in the
// future, because the clock went back. A term begins with it too.
func (f *Fires) LookBack() { f.wentBack = true }

// Decide implements events.Decider.
func (f *Fires) Decide(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		wall := now.Sure / 1e6
		if f.wentBack {
			for _, t := range s.TriggersBeyond(wall + stepLimit/1e6) {
				if !f.rewind(s, t, wall, yield) {
					return
				}
			}
			f.wentBack = false
		}
		for _, t := range s.Unplanned() {
			if !f.plan(s, t, yield) {
				return
			}
		}
		if f.Refuse != nil && f.Refuse() != "" {
			return
		}
		for _, t := range s.BootDue() {
			if !f.boot(s, t, yield) {
				return
			}
		}
		for _, t := range s.RipeTriggers() {
			if !f.due(s, t, wall, yield) {
				return
			}
		}
	}
}

// trigger gives a trigger's text and calendar, or stops the trigger: it fires no
// more until somebody has looked at it.
func (f *Fires) trigger(s *projector.State, t *projector.Trigger, yield func(*events.Event) bool) (*events.TriggerSpec, *events.TaskSpec, Calendar, bool) {
	s.Focus(nil, t)
	spec := s.Spec(t.Task, t.Version)
	if spec != nil {
		for i := range spec.Triggers {
			if text := &spec.Triggers[i]; text.Name == t.Trigger {
				cal, err := f.Calendars.Of(text, time.UnixMicro(t.DefinedAt))
				if err != nil {
					return nil, nil, nil, f.stop(t, err, yield)
				}
				return text, spec, cal, true
			}
		}
	}
	return nil, nil, nil, f.stop(t, fmt.Errorf("version %d of task %s has no trigger %s", t.Version, t.Task, t.Trigger), yield)
}

// stop pauses a trigger that cannot be decided about.
func (f *Fires) stop(t *projector.Trigger, err error, yield func(*events.Event) bool) bool {
	return yield(&events.Event{Kind: events.KindIncident, Reason: events.ReasonPoison, Task: t.Task, Trigger: t.Trigger, Error: err.Error()}) &&
		yield(&events.Event{Kind: events.KindPaused, Object: events.ObjectTask, Name: string(t.Task), Trigger: t.Trigger, Reason: events.ReasonInternal})
}

// next asks a calendar for the next due time after a time, both Unix
// milliseconds; 0: none will come. A calendar that does not move on is an error: it
// would be asked for ever.
func next(cal Calendar, after int64) (int64, error) {
	t, err := cal.Next(time.UnixMilli(after).UTC())
	if err != nil || t.IsZero() {
		return 0, err
	}
	due := t.UnixMilli()
	if due <= after {
		return 0, fmt.Errorf("the calendar gives %s as the due time after %s", t.Format(time.RFC3339Nano), time.UnixMilli(after).UTC().Format(time.RFC3339Nano))
	}
	return due, nil
}

// plan finds a trigger's next due time: the first after its position, the moment
// it was defined, and, unless it catches up, the moment it was resumed.
func (f *Fires) plan(s *projector.State, t *projector.Trigger, yield func(*events.Event) bool) bool {
	text, _, cal, ok := f.trigger(s, t, yield)
	if text == nil {
		return ok
	}
	from := max(t.Position, t.DefinedAt/1000)
	if text.CatchUp != events.CatchUpPolicy {
		from = max(from, t.ResumedAt/1000)
	}
	due, err := next(cal, from)
	if err != nil {
		return f.stop(t, err, yield)
	}
	if text.Once != nil && due == 0 {
		// The only due time it has was over before it could fire: that is said.
		switch at, err := next(cal, t.Position); {
		case err != nil:
			return f.stop(t, err, yield)
		case at != 0:
			reason := events.ReasonMisfire
			if at > t.DefinedAt/1000 {
				reason = events.ReasonPaused
			}
			return yield(&events.Event{Kind: events.KindSkipped, Task: t.Task, Trigger: t.Trigger, From: at, Due: at, Count: 1, Reason: reason})
		}
	}
	return yield(&events.Event{Kind: events.KindPlanned, Task: t.Task, Trigger: t.Trigger, Version: t.Version, Due: from, Next: due})
}

// rewind plans a trigger anew from now on, because its position is in the
// future. What fired there stays fired: the fold keeps those runs.
func (f *Fires) rewind(s *projector.State, t *projector.Trigger, wall int64, yield func(*events.Event) bool) bool {
	text, _, cal, ok := f.trigger(s, t, yield)
	if text == nil {
		return ok
	}
	due, err := next(cal, wall)
	if err != nil {
		return f.stop(t, err, yield)
	}
	return yield(&events.Event{
		Kind: events.KindPlanned, Task: t.Task, Trigger: t.Trigger, Version: t.Version, Due: wall, Next: due, Reason: events.ReasonClockStep,
	})
}

// boot fires a trigger for the machine's boot.
func (f *Fires) boot(s *projector.State, t *projector.Trigger, yield func(*events.Event) bool) bool {
	text, spec, _, ok := f.trigger(s, t, yield)
	if text == nil {
		return ok
	}
	return f.fire(s, t, spec, max(s.Meta().BootAt, t.Position+1), 0, yield)
}

// due decides about every due time of a trigger up to now.
func (f *Fires) due(s *projector.State, t *projector.Trigger, wall int64, yield func(*events.Event) bool) bool {
	text, spec, cal, ok := f.trigger(s, t, yield)
	if text == nil {
		return ok
	}
	for t.Waits() != 0 && t.Next <= wall {
		if run, fired := t.HasFired(t.Next); fired {
			after, err := next(cal, run.To)
			if err != nil {
				return f.stop(t, err, yield)
			}
			if !yield(&events.Event{Kind: events.KindPlanned, Task: t.Task, Trigger: t.Trigger, Version: t.Version, Due: run.To, Next: after}) {
				return false
			}
			continue
		}
		if wall-t.Next > text.Misfire.Threshold.Milliseconds() {
			if ok, done := f.misfire(s, t, text, spec, cal, wall, yield); !ok || done {
				return ok
			}
			continue
		}
		after, err := next(cal, t.Next)
		if err != nil {
			return f.stop(t, err, yield)
		}
		if !f.fire(s, t, spec, t.Next, after, yield) {
			return false
		}
	}
	// Not due any more, or not yet: the clock went back since it expired.
	s.Rearm(nil, t)
	return true
}

// fire makes an instance of a due time, or skips it because earlier ones are
// open. after is the due time that follows.
func (f *Fires) fire(s *projector.State, t *projector.Trigger, spec *events.TaskSpec, due, after int64, yield func(*events.Event) bool) bool {
	task := s.Task(t.Task)
	overlaps := task.Open > 0 && spec.Overlap.Policy == events.OverlapForbid || spec.Overlap.Max > 0 && task.Open >= spec.Overlap.Max
	if overlaps {
		return yield(&events.Event{
			Kind: events.KindSkipped, Task: t.Task, Trigger: t.Trigger, From: due, Due: due, Count: 1, Next: after, Reason: events.ReasonOverlap,
			Cause: task.Defined,
		})
	}
	return yield(&events.Event{
		Kind: events.KindFired, Task: t.Task, Trigger: t.Trigger, Instance: s.NextID(task, due, f.Server), Due: due, Version: t.Version, Next: after,
		Cause: task.Defined,
	})
}
