package replay

import (
	"context"
	"errors"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// ErrNoInstance is returned where neither views nor log know an instance.
var ErrNoInstance = errors.New("no such instance")

// History gives every event of an instance, in order. row is its row in the
// views, which tells where to look; without one the log is searched.
func History(ctx context.Context, log events.Log, row *projector.Instance, id events.InstanceID) ([]Record, error) {
	if row == nil {
		found, _, err := Events(ctx, log, Filter{Instance: id}, 10_000)
		if err == nil && len(found) == 0 {
			err = ErrNoInstance
		}
		return found, err
	}
	var all []Record
	collect := func(m *events.Message, d *events.Decoded) error {
		for k := range d.Events {
			if e := &d.Events[k]; e.Instance == id {
				all = append(all, NewRecord(e, events.Position{Seq: m.Seq, Index: uint32(k)}, d.Times[k], d.Actor))
			}
		}
		return nil
	}
	if len(row.Transitions) >= projector.MaxTransitions {
		return all, Messages(ctx, log, row.Fired.Seq, row.Updated.Seq, collect)
	}
	var d events.Decoded
	last := uint64(0)
	for _, t := range row.Transitions {
		if t.Position.Seq == last {
			continue
		}
		last = t.Position.Seq
		m, err := log.Get(ctx, last)
		if errors.Is(err, events.ErrNotFound) {
			continue // removed by age or size: the row remembers the step, the log does not
		}
		if err != nil {
			return nil, err
		}
		if err := d.Decode(m); err != nil {
			return nil, err
		}
		if err := collect(m, &d); err != nil {
			return nil, err
		}
	}
	return all, nil
}
