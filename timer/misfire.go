package timer

import (
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// maxMissed bounds the due times that one decision counts. A trigger that
// missed more is decided about in several steps.
const maxMissed = 100_000

// misfire decides about all due times of a trigger that are late by more than
// its threshold, by its policy: fire-once the last of them, fire-all the newest
// Limit, skip none. The others are passed over in one skipped event. done says
// that the trigger was stopped.
func (f *Fires) misfire(s *projector.State, t *projector.Trigger, text *events.TriggerSpec, spec *events.TaskSpec, cal Calendar, wall int64,
	yield func(*events.Event) bool) (ok, done bool) {
	keep := int64(0)
	switch text.Misfire.Policy {
	case events.MisfireOnce:
		keep = 1
	case events.MisfireAll:
		keep = text.Misfire.Limit
	}
	missed := []int64{t.Next} // the newest keep+1 of them; the oldest of these is the last to skip
	count := int64(1)
	var after int64
	limit := wall - text.Misfire.Threshold.Milliseconds()
	for {
		var err error
		if after, err = next(cal, missed[len(missed)-1]); err != nil {
			return f.stop(t, err, yield), true
		}
		if after == 0 || after >= limit || count == maxMissed {
			break
		}
		if missed = append(missed, after); int64(len(missed)) > 2*keep+2 {
			missed = append(missed[:0], missed[int64(len(missed))-keep-1:]...)
		}
		count++
	}
	if over := int64(len(missed)) - keep - 1; over > 0 {
		missed = missed[over:]
	}
	if skip := count - keep; skip > 0 {
		last := missed[0]
		first := after // the due time after the last skipped one
		if len(missed) > 1 {
			first = missed[1]
		}
		if !yield(&events.Event{
			Kind: events.KindSkipped, Task: t.Task, Trigger: t.Trigger, From: t.Next, Due: last, Count: skip, Next: first,
			Reason: events.ReasonMisfire, Cause: s.Task(t.Task).Defined,
		}) {
			return false, false
		}
		missed = missed[1:]
		if count == maxMissed {
			return true, false // there are more: they decide which are the newest
		}
	}
	for i, due := range missed {
		follows := after
		if i+1 < len(missed) {
			follows = missed[i+1]
		}
		if !f.fire(s, t, spec, due, follows, yield) {
			return false, false
		}
	}
	return true, false
}
