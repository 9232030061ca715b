package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// load triggers instances of one task as fast as they end. Several requests are
// under way at once, and so many instances wait that no slot is ever empty.
type load struct {
	instances int64
	slots     int
	fired     atomic.Int64
	started   atomic.Int64
	wake      chan struct{}
}

const (
	loadTask    = "bench"
	loadBatch   = 100 // instances in a request
	loadAskers  = 4
	loadPayload = 86 // bytes of text: 100 bytes of parameters
)

func newLoad(o *benchOptions) *load {
	return &load{instances: o.instances, slots: o.slots, wake: make(chan struct{}, 1)}
}

// onStart is told of each attempt that starts.
func (l *load) onStart() {
	l.started.Add(1)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *load) define(ctx context.Context, b *bench) error {
	return b.define(ctx, loadTask, &events.TaskSpec{
		Executor: events.ExecutorSpec{Kind: "func", Config: json.RawMessage(`{"name":"noop"}`)},
		Overlap:  events.OverlapSpec{Policy: events.OverlapAllow},
	})
}

// run returns when all instances have ended.
func (l *load) run(ctx context.Context, b *bench) error {
	errs := make(chan error, loadAskers)
	for range loadAskers {
		go func() { errs <- l.ask(ctx, b) }()
	}
	for range loadAskers {
		if err := <-errs; err != nil {
			return err
		}
	}
	return b.finished(ctx, loadTask, l.instances)
}

func (l *load) ask(ctx context.Context, b *bench) error {
	params := `{"payload":"` + strings.Repeat("x", loadPayload) + `"}`
	for {
		n := min(loadBatch, l.instances-l.fired.Add(loadBatch)+loadBatch)
		if n <= 0 {
			return nil
		}
		for l.fired.Load()-l.started.Load() > int64(2*l.slots+loadAskers*loadBatch) {
			select {
			case <-l.wake:
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(5 * time.Millisecond):
			}
		}
		commands := make([]events.Command, n)
		for i := range commands {
			commands[i] = events.Command{Verb: events.VerbTrigger, Name: loadTask, Params: params}
		}
		if _, err := b.client.Do(ctx, commands...); err != nil {
			return err
		}
	}
}
