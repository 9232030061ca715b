package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

type appendResult struct {
	seq  uint64
	sent int64
	err  error
}

// checkResult is what the log says of a term.
type checkResult struct {
	sent   int64  // monotonic, before it was asked
	folded uint64 // the cursor then: the log ends there or later
	led    *events.Message
	cursor *events.Message // the message at the cursor, if there is one
	info   events.Info
	err    error
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

// subscribe takes requests from now on.
func (t *term) subscribe(ctx context.Context) ([]*nats.Subscription, error) {
	s := t.s
	var subs []*nats.Subscription
	for verb, handle := range s.cfg.Handlers {
		subject := s.cfg.Address.RPC(s.cfg.Shard, verb, "")
		for _, subject := range []string{subject, subject + ".*"} {
			sub, err := t.x.nc.Subscribe(subject, func(m *nats.Msg) {
				_, group, err := s.cfg.Address.RPCParts(m.Subject)
				var req Request
				if err == nil {
					req, err = handle(group, m.Data)
				}
				if err != nil {
					s.Count.Bad.Add(1)
					answer := events.CommandAnswers{Term: t.id, Error: err.Error()}
					_ = m.Respond(answer.Encode(nil))
					return
				}
				a := ask{req: req}
				if m.Reply != "" {
					a.reply = func(b []byte) { _ = m.Respond(b) }
				}
				select {
				case t.requests <- a:
				case <-ctx.Done():
				}
			})
			if err != nil {
				return subs, fmt.Errorf("subscribe %s: %w", subject, err)
			}
			subs = append(subs, sub)
		}
	}
	return subs, t.x.nc.FlushTimeout(5 * time.Second)
}

// createWork makes the stream of offers if it is not there. It is in memory:
// what it loses is offered again.
func createWork(ctx context.Context, js jetstream.JetStream, addr events.Address, replicas int) error {
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:        addr.WorkStream(),
		Description: "AX offers: rebuilt from the log",
		Subjects:    []string{addr.WorkAll()},
		Storage:     jetstream.MemoryStorage,
		Discard:     jetstream.DiscardOld,
		MaxAge:      10 * time.Minute,
		MaxBytes:    64 << 20,
		Replicas:    max(replicas, 1),
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", addr.WorkStream(), err)
	}
	return nil
}
