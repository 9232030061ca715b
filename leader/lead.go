package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
)

// Times of a term.
const (
	lookAheadEvery = 30 * time.Second
	lookAhead      = 60 * time.Second
	lookAheadRows  = 50_000 // rows loaded in one go
	ledTries       = 50
	finishTime     = 2 * time.Second
	busyWait       = time.Millisecond
)

// term is one leadership: its fence, its loop, and the goroutines around it.
type term struct {
	x     *session
	s     *Shard
	id    events.Term
	fence uint64 // sequence of its led
	loop  *Loop
	inbox *inbox

	requests chan ask
	appends  chan *Frame
	appended chan appendResult
	outbox   chan *Frame
	checks   chan checkResult

	flight   *Frame // at the appender
	acked    bool
	readBack bool

	holding   bool  // nothing is decided until everything decided is in the log
	loadAll   bool  // the due index holds more that is due within the look-ahead
	alarmAt   int64 // when the alarm goes off, as Monotonic gives it; 0: it is not set
	lookedFar time.Time
	checked   time.Time
	checking  bool
}

// lead takes the leadership and decides until the term ends; the error says why
// it did.
func (x *session) lead(ctx context.Context) error {
	s := x.s
	t := &term{x: x, s: s}
	if err := t.take(ctx); err != nil {
		return err
	}
	x.trouble = ""
	s.Count.Terms.Add(1)
	s.log.Info("leads", "term", t.id, "led", t.fence)
	// The term's goroutines outlive ctx for the moment that the last commit takes.
	outer := ctx
	inner, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var owned sync.WaitGroup
	defer owned.Wait()
	defer cancel()
	t.requests = make(chan ask, 4096)
	t.appends = make(chan *Frame, 1)
	t.appended = make(chan appendResult, 1)
	t.outbox = make(chan *Frame, 256)
	t.checks = make(chan checkResult, 1)
	owned.Go(func() { t.appender(inner) })
	owned.Go(func() { t.sender(inner) })

	s.cfg.Timing.Begin(s.state.Meta().Time)
	// What an earlier term of this process had armed means nothing to this one.
	s.cfg.Timing.Clear()
	s.state.SetSchedule(s.cfg.Timing)
	if err := t.lookFar(); err != nil {
		return err
	}
	if s.cfg.TermBegins != nil {
		s.cfg.TermBegins(s.Monotonic())
	}
	s.upkeep.termBegins()
	t.loop = NewLoop(s.state, s.deciders, &s.reactions, t.id, "server/"+string(s.cfg.Server), s.log)
	var err error
	if t.inbox, err = openInbox(ctx, x.js, s.cfg.Address, s.state.Meta().Inbox); err != nil {
		return err
	}
	defer t.inbox.close()
	subs, err := t.subscribe(inner)
	if err != nil {
		return err
	}
	defer func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe()
		}
	}()
	// Workers need not wait for their next beat to learn who leads.
	body, _ := json.Marshal(map[string]string{"term": t.id.String(), "server": string(s.cfg.Server)})
	_ = x.nc.Publish(s.cfg.Address.FeedLed(s.cfg.Shard), body)
	err = t.run(ctx)
	if outer.Err() != nil {
		t.finish()
	}
	return err
}

// finish lets the commit in flight come in before the process goes away, and
// sends what waits for it. What cannot is decided anew by the next leader.
func (t *term) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), finishTime)
	defer cancel()
	for t.flight != nil || len(t.outbox) > 0 {
		var err error
		select {
		case r := <-t.appended:
			err = t.onAppended(ctx, r)
		case m, ok := <-t.x.reader.C():
			if !ok {
				return
			}
			err = t.onRead(ctx, m)
		case <-t.x.closed:
			return
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
	_ = t.x.nc.FlushTimeout(finishTime)
}

// take appends this term's led and folds the log up to it.
func (t *term) take(ctx context.Context) error {
	s, x := t.s, t.x
	t.id = events.NewTerm()
	body, err := json.Marshal(s.cfg.Led)
	if err != nil {
		return err
	}
	for range ledTries {
		lost, err := x.lost()
		if err != nil {
			return err
		}
		if lost {
			return errLeaseLost
		}
		last := uint64(0)
		led, err := x.log.LastLed(ctx)
		switch {
		case err == nil:
			last = led.Seq
		case !errors.Is(err, events.ErrNotFound):
			return err
		}
		if last != 0 && led.Term == t.id { // our own, whose answer was lost
			t.fence = last
			break
		}
		var b events.FrameBuilder
		now := s.cfg.Timing.Now()
		b.Begin(max(now.Time, s.state.Meta().Time), "server/"+string(s.cfg.Server))
		if _, _, err := b.Add(&events.Event{Kind: events.KindLed, Body: string(body)}, b.Time()); err != nil {
			return err
		}
		m := b.Seal(t.id)
		m.Kind = events.MessageLed
		sent := s.Monotonic()
		seq, err := x.log.AppendLed(ctx, m, last)
		if err == nil {
			t.fence = seq
			s.proven.Store(sent)
			break
		}
		if ctx.Err() != nil || x.nc.IsClosed() {
			return err
		}
		if errors.Is(err, events.ErrBusy) || errors.Is(err, events.ErrFenced) {
			s.Count.Busy.Add(1)
			time.Sleep(busyWait)
			continue
		}
		s.log.Warn("the outcome of a led is not known; reading it", "error", err)
		x.trouble = fmt.Sprintf("the log takes no leadership: %v", err)
		s.publishStatus(false, events.Term{}, x.trouble)
	}
	if t.fence == 0 {
		return fmt.Errorf("%w: the leadership could not be taken", errAgain)
	}
	// The barrier: nothing of an older term can follow the led, and all before it
	// is folded before the first decision.
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for s.state.Meta().Cursor < t.fence {
		select {
		case m, ok := <-x.reader.C():
			if !ok {
				return x.readerEnd()
			}
			if err := x.fold(m); err != nil {
				return err
			}
			s.progress.Store(s.Monotonic())
			deadline.Reset(time.Minute)
		case x.holding = <-x.held:
			if !x.holding {
				return errLeaseLost
			}
		case <-x.closed:
			return nats.ErrConnectionClosed
		case <-x.ended:
			return x.leaseErr
		case <-deadline.C:
			return fmt.Errorf("the log's reader gives nothing, cursor %d, led %d", s.state.Meta().Cursor, t.fence)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.state.Meta().Term != t.id {
		return fmt.Errorf("%w: sequence %d is not our led", errAgain, t.fence)
	}
	return x.flush()
}

// lost reports, without waiting, whether the lease or the connection is gone.
func (x *session) lost() (bool, error) {
	select {
	case x.holding = <-x.held:
		return !x.holding, nil
	case <-x.closed:
		return false, nats.ErrConnectionClosed
	case <-x.ended:
		return false, x.leaseErr
	default:
		return false, nil
	}
}
