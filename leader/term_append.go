package leader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ax-scheduler/ax/events"
)

type appendResult struct {
	seq  uint64
	sent int64
	err  error
}

// send hands the collected frame to the appender if that is free.
func (t *term) send(ctx context.Context) error {
	f := t.loop.Seal()
	if f == nil {
		return nil
	}
	t.flight, t.acked, t.readBack = f, false, false
	select {
	case t.appends <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// appender writes one frame at a time.
func (t *term) appender(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-t.appends:
			r := t.append(ctx, f)
			select {
			case t.appended <- r:
			case <-ctx.Done():
				return
			}
		}
	}
}

func (t *term) append(ctx context.Context, f *Frame) appendResult {
	for {
		r := appendResult{sent: t.s.Monotonic()}
		r.seq, r.err = t.x.log.Append(ctx, f.Message, t.fence, f.Message.Seq-1)
		if !errors.Is(r.err, events.ErrBusy) {
			if r.err == nil {
				t.s.Count.CommitNanos.Add(uint64(t.s.Monotonic() - r.sent))
				t.s.Count.CommitCount.Add(1)
			}
			return r
		}
		t.s.Count.Busy.Add(1)
		time.Sleep(busyWait)
	}
}

func (t *term) onAppended(ctx context.Context, r appendResult) error {
	s := t.s
	switch {
	case r.err == nil && r.seq == t.flight.Message.Seq:
	case r.err == nil:
		return fmt.Errorf("%w: a frame got sequence %d in place of %d", errAgain, r.seq, t.flight.Message.Seq)
	case errors.Is(r.err, events.ErrFenced) || errors.Is(r.err, events.ErrMoved):
		s.Count.Refused.Add(1)
		return fmt.Errorf("%w: %w", errAgain, r.err)
	default:
		s.Count.Unknown.Add(1)
		return fmt.Errorf("%w: %w", errAgain, r.err)
	}
	s.proven.Store(r.sent)
	t.acked = true
	if s.cfg.AcksKept {
		t.readBack = true
	}
	return t.commit(ctx)
}

// onRead takes what the log's reader gives a leader: its own frames, or the end
// of its term.
func (t *term) onRead(ctx context.Context, m *events.Message) error {
	s := t.s
	cursor := s.state.Meta().Cursor
	switch {
	case m.Seq <= cursor:
		return nil // an own frame that is committed already
	case t.flight != nil && m.Seq == t.flight.Message.Seq && m.Kind == events.MessageLog && m.Term == t.id && bytes.Equal(m.Body, t.flight.Message.Body):
		t.readBack = true
		return t.commit(ctx)
	}
	return fmt.Errorf("%w: sequence %d is of term %s, not of ours", errAgain, m.Seq, m.Term)
}

// commit lets go what rests on the frame in flight, once it is in the log.
func (t *term) commit(ctx context.Context) error {
	if !t.acked || !t.readBack {
		return nil
	}
	f, err := t.loop.Commit()
	if err != nil {
		return err
	}
	t.flight = nil
	t.s.Count.Frames.Add(1)
	t.s.Count.Events.Add(uint64(f.Events))
	t.s.Count.Bytes.Add(uint64(len(f.Message.Body)))
	// The next frame first: it is what others wait for.
	if err := t.send(ctx); err != nil {
		return err
	}
	return t.post(ctx, f)
}

func (t *term) post(ctx context.Context, f *Frame) error {
	if len(f.answers)+len(f.effects)+len(f.summaries) == 0 {
		return nil
	}
	select {
	case t.outbox <- f:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sender sends what a commit has set free.
func (t *term) sender(ctx context.Context) {
	publish := func(subject string, body []byte) {
		if err := t.x.nc.Publish(subject, body); err != nil {
			t.s.log.Debug("a message could not be sent; its deadline brings it again", "subject", subject, "error", err)
		}
	}
	var buf []byte
	lines := summariser{log: t.s.log}
	for {
		select {
		case <-ctx.Done():
			return
		case f := <-t.outbox:
			prompt := t.s.provenRecently()
			if !prompt {
				t.s.Count.StaleAnswers.Add(1)
			}
			buf = f.Send(t.id, publish, prompt, buf)
			lines.write(f.summaries)
		}
	}
}
