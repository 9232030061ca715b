package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// checkResult is what the log says of a term.
type checkResult struct {
	sent   int64  // monotonic, before it was asked
	folded uint64 // the cursor then: the log ends there or later
	led    *events.Message
	cursor *events.Message // the message at the cursor, if there is one
	info   events.Info
	err    error
}

// onTick does what is due now and then.
func (t *term) onTick(ctx context.Context) {
	s, x := t.s, t.x
	now := time.Now()
	s.publishStatus(true, t.id, "")
	switch {
	case s.cfg.Timing.Stepped():
		s.log.Warn("the clock was set or the machine slept; looking at everything that is due")
		s.upkeep.clockStepped()
		if s.cfg.ClockStepped != nil {
			s.cfg.ClockStepped()
		}
		t.lookedFar, t.holding = time.Time{}, true
	case t.loadAll || now.Sub(t.lookedFar) > lookAheadEvery:
		t.holding = true
	case s.upkeep.wantsFlush(s.state):
		t.holding = true
	case s.state.Dirty() > 0 && now.Sub(x.flushed) >= flushInterval:
		t.holding = true
	}
	if !t.checking && now.Sub(t.checked) >= checkInterval {
		t.checking, t.checked = true, now
		cursor, flying := s.state.Meta().Cursor, t.loop.Waiting()
		go t.check(ctx, cursor, flying)
	}
}

// check asks the log whether it is still the one that was folded, and whether
// this term is still its last.
func (t *term) check(ctx context.Context, cursor uint64, flying bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	r := checkResult{sent: t.s.Monotonic(), folded: cursor}
	r.led, r.err = t.x.log.LastLed(ctx)
	if r.err == nil && !flying {
		r.cursor, r.err = t.x.log.Get(ctx, cursor)
	}
	if r.err == nil {
		asked := t.s.Monotonic()
		if r.info, r.err = t.x.log.Info(ctx); r.err == nil {
			t.s.cfg.Timing.Sample(asked, t.s.Monotonic(), r.info.Now)
		}
	}
	select {
	case t.checks <- r:
	case <-ctx.Done():
	}
}

func (t *term) onCheck(r checkResult) error {
	s := t.s
	t.checking = false
	switch {
	case errors.Is(r.err, events.ErrNotFound):
		return fmt.Errorf("%w: the log has lost its led or what was folded", errAgain)
	case errors.Is(r.err, context.DeadlineExceeded):
		return nil // it is slow; the lease and the answers to beats run out by themselves
	case r.err != nil:
		return r.err
	case r.led.Seq != t.fence || r.led.Term != t.id:
		return fmt.Errorf("%w: the last led is %d of term %s", errAgain, r.led.Seq, r.led.Term)
	case r.cursor != nil && r.cursor.Seq == s.state.Meta().Cursor && !s.state.Folded(r.cursor):
		return fmt.Errorf("%w: sequence %d is another message than the one folded", errAgain, r.cursor.Seq)
	case r.info.Last < r.folded:
		return fmt.Errorf("%w: the log ends at %d, folded was up to %d", errAgain, r.info.Last, r.folded)
	case r.info.MaxAge > 0 && r.info.Now.Sub(time.Unix(0, s.state.Meta().LedAt)) > r.info.MaxAge/4:
		return fmt.Errorf("%w: the led gets old", errAgain) // a led that expires takes the fence with it
	case nearEnd(&r.info) && t.fence < r.info.First+(r.info.Last-r.info.First)/4:
		return fmt.Errorf("%w: the led comes near to the log's beginning", errAgain)
	}
	s.proven.Store(max(s.proven.Load(), r.sent))
	s.info.Store(&r.info)
	return nil
}

// settle does what needs views that show everything decided.
func (t *term) settle() error {
	t.holding = false
	if err := t.x.flush(); err != nil {
		return err
	}
	if t.loadAll || time.Since(t.lookedFar) > lookAheadEvery {
		if err := t.lookFar(); err != nil {
			return err
		}
	}
	return t.s.upkeep.settled(t.s.state)
}

// lookFar loads what will be due soon from the due index.
func (t *term) lookFar() error {
	now := t.s.cfg.Timing.Now()
	until := max(now.Time, now.Sure)/1e6 + lookAhead.Milliseconds()
	all, err := t.s.state.LoadDue(until, lookAheadRows)
	t.loadAll, t.lookedFar = !all, time.Now()
	return err
}
