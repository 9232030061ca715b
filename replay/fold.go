package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Until says where a fold ends.
type Until struct {
	// Seq is the last message folded; 0: the log's last.
	Seq uint64
	// Time, if set, is the last log time: the fold ends before the first message
	// after it.
	Time time.Time
}

// flushRows is how many changed rows are written at once.
const flushRows = 20_000

// Fold folds the log from its beginning into empty views and returns the state.
// each, if set, is called after every message.
func Fold(ctx context.Context, log events.Log, views *projector.Views, until Until, each func(*events.Message, *projector.State) error) (*projector.State, error) {
	info, err := log.Info(ctx)
	if err != nil {
		return nil, err
	}
	state, err := projector.NewState(views)
	if err != nil {
		return nil, err
	}
	last := info.Last
	if until.Seq != 0 {
		if until.Seq > last {
			return nil, fmt.Errorf("the log ends at sequence %d, %d is asked for: %w", last, until.Seq, events.ErrNotFound)
		}
		last = until.Seq
	}
	if last < info.First {
		return state, nil
	}
	r, err := log.Read(ctx, info.First)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case m, ok := <-r.C():
			if !ok {
				if err := r.Err(); err != nil {
					return nil, err
				}
				return nil, errors.New("the log's reader ended")
			}
			if !until.Time.IsZero() && m.Time > until.Time.UnixNano() {
				return state, state.Flush()
			}
			if err := state.Fold(m); err != nil {
				return nil, err
			}
			if each != nil {
				if err := each(m, state); err != nil {
					return nil, err
				}
			}
			if state.Dirty() > flushRows {
				if err := state.Flush(); err != nil {
					return nil, err
				}
			}
			if m.Seq >= last {
				return state, state.Flush()
			}
		}
	}
}
