package replay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Queue is what is known of the queue that an instance waits in. It names no
// cause that it does not know: a leader learns of workers only from their beats.
type Queue struct {
	Queued      int64 // instances of the group that wait
	GroupActive int64 // offered, running or held, in the group
	GroupLimit  int64 // 0: none
	TaskActive  int64 // of the task
	TaskLimit   int64 // of the instance's version; 0: none
	Slots       int64 // of the workers that are present
	SlotsKnown  bool  // this server leads, so workers beat to it
}

// QueueOf reads what the views say of the queue that an instance waits in.
func QueueOf(v *projector.Snapshot, i *projector.Instance) (*Queue, error) {
	q := &Queue{}
	groups, err := v.Groups()
	if err != nil {
		return nil, err
	}
	for _, g := range groups {
		if g.Name == i.Group {
			q.GroupLimit = g.Limit
		}
	}
	body, err := v.Definition(i.Task, i.Version)
	if err == nil {
		var d *events.Definition
		if d, err = events.DecodeDefinition(body); err == nil {
			q.TaskLimit = d.Task.Limit
		}
	}
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		return nil, err
	}
	return q, v.OpenInstances(func(o *projector.Instance) bool {
		active := o.State == events.StateDispatched || o.State == events.StateRunning || o.Held
		if o.Group == i.Group && o.State == events.StateScheduled {
			q.Queued++
		}
		if o.Group == i.Group && active {
			q.GroupActive++
		}
		if o.Task == i.Task && active {
			q.TaskActive++
		}
		return true
	})
}

// String says it as the rest of a sentence.
func (q *Queue) String() string {
	if q == nil {
		return ""
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("%d waiting there", q.Queued)
	use := func(what string, active, limit int64) {
		switch {
		case limit == 0:
			add("%s has no limit, %d in use", what, active)
		case active >= limit:
			add("%s is at its limit: %d of %d in use", what, active, limit)
		default:
			add("%s has %d of %d in use", what, active, limit)
		}
	}
	use("the task", q.TaskActive, q.TaskLimit)
	use("the group", q.GroupActive, q.GroupLimit)
	switch {
	case q.SlotsKnown && q.Slots == 0:
		add("no worker that beats to this leader has slots for the group")
	case q.SlotsKnown:
		add("the workers that beat to this leader have %d slots for the group", q.Slots)
	}
	return " (" + strings.Join(parts, "; ") + ")"
}
