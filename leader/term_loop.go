package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// run is the term's loop.
func (t *term) run(ctx context.Context) error {
	s, x := t.s, t.x
	full, decide := false, true
	for {
		if decide && !t.holding {
			full = t.loop.Round(s.cfg.Timing.Now())
			s.Count.Rounds.Add(1)
			s.Count.Parked.Store(t.loop.Parked)
		}
		if err := s.state.Err(); err != nil {
			return err
		}
		s.progress.Store(s.Monotonic())
		if err := t.send(ctx); err != nil {
			return err
		}
		if f := t.loop.Loose(); f != nil {
			if err := t.post(ctx, f); err != nil {
				return err
			}
		}
		settled := !t.loop.Waiting() && t.loop.Collected() == 0
		if t.holding && settled {
			if err := t.settle(); err != nil {
				return err
			}
			decide = true
			continue
		}
		if full && settled {
			decide = true
			continue // there is more than one frame can take
		}
		if !t.holding {
			t.setAlarm(s.cfg.Timing.Wait(s.cfg.Timing.Now()))
		}
		var err error
		if decide, err = t.wait(ctx, full); err != nil {
			return err
		}
		if x.nc.IsClosed() {
			return nats.ErrConnectionClosed
		}
	}
}

// alarmSlack is how much earlier than asked for the alarm may stay set: setting it
// is a system call.
const alarmSlack = 20 * time.Microsecond

// setAlarm lets the alarm go off after d, if it is not set to that already.
func (t *term) setAlarm(d time.Duration) {
	at := t.s.Monotonic() + int64(d)
	if t.alarmAt <= at && at-t.alarmAt < int64(alarmSlack) {
		return
	}
	t.alarmAt = at
	t.s.cfg.Alarm.Set(d)
}

// wait sleeps until there is something to do and takes it in. decide is false if
// nothing came that a decision could rest on, as when a frame was committed: what
// is in it was folded when it was decided.
func (t *term) wait(ctx context.Context, full bool) (decide bool, err error) {
	s, x := t.s, t.x
	requests, inboxC, alarm := t.requests, t.inbox.c, s.cfg.Alarm.C()
	if full || t.holding { // no room for more until the frame in flight is in the log
		requests, inboxC, alarm = nil, nil, nil
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-x.closed:
		return false, nats.ErrConnectionClosed
	case <-x.ended:
		return false, x.leaseErr
	case x.holding = <-x.held:
		if !x.holding {
			return false, errLeaseLost
		}
	case a := <-requests:
		t.ask(a)
		t.askMore()
	case m := <-inboxC:
		t.askInbox(m)
		t.askMore()
	case <-t.inbox.stop:
		return false, fmt.Errorf("inbox: %w", t.inbox.err)
	case r := <-t.appended:
		return full, t.onAppended(ctx, r)
	case m, ok := <-x.reader.C():
		if !ok {
			return false, x.readerEnd()
		}
		return full, t.onRead(ctx, m)
	case <-alarm:
		t.alarmAt = 0
	case r := <-s.sync:
		x.waiting = append(x.waiting, r)
		t.holding = true
	case r := <-t.checks:
		return true, t.onCheck(r)
	case <-x.tick.C:
		t.onTick(ctx)
	}
	return true, nil
}

func (t *term) ask(a ask) {
	t.s.Count.Requests.Add(1)
	t.loop.asks = append(t.loop.asks, a)
}

// askMore takes what else is there, so that one round decides it together.
func (t *term) askMore() {
	for len(t.loop.asks) < 4096 {
		select {
		case a := <-t.requests:
			t.ask(a)
		case m := <-t.inbox.c:
			t.askInbox(m)
		default:
			return
		}
	}
}

func (t *term) askInbox(m *inboxMessage) {
	if m.seq <= t.s.state.Meta().Inbox {
		return // answered in an earlier term
	}
	t.s.Count.Inbox.Add(1)
	t.loop.Ask(t.s.cfg.Commands.inboxRequest(t.s.cfg.Address, m), nil)
}
