package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
)

// Times of a session.
const (
	flushInterval = 100 * time.Millisecond // how old changes may be that the views do not show
	checkInterval = time.Second            // how often the log is asked how it stands
	flushRows     = 20_000                 // changed rows that are flushed at once
)

// session is one connection with everything that lives on it.
type session struct {
	s      *Shard
	nc     *nats.Conn
	js     jetstream.JetStream
	log    events.Log
	reader events.Reader
	lease  *lease
	held   chan bool
	closed chan struct{} // the connection has ended
	ended  chan struct{} // the lease's keeper has ended; leaseErr says why
	tick   *time.Ticker

	leaseErr error
	trouble  string // why the leadership could not be taken
	holding  bool   // this process holds the lease
	waiting  []syncRequest
	flushed  time.Time
}

// session opens a connection and follows the log on it, and leads while the
// lease is held, until the connection ends.
func (s *Shard) session(ctx context.Context) (err error) {
	nc, err := s.cfg.Connect(ctx)
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	defer nc.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	x := &session{s: s, nc: nc, held: make(chan bool), closed: make(chan struct{}), tick: time.NewTicker(flushInterval)}
	defer x.tick.Stop()
	gone := nc.StatusChanged(nats.CLOSED, nats.DISCONNECTED, nats.RECONNECTING)
	go func() {
		select {
		case <-gone:
		case <-ctx.Done():
		}
		close(x.closed)
	}()
	if x.js, err = jetstream.New(nc); err != nil {
		return err
	}
	// Nothing is decided or appended on a new connection before the log was
	// compared with what was folded.
	if x.log, err = x.openLog(ctx); err != nil {
		return err
	}
	s.cfg.Timing.Reset()
	if err := x.compare(ctx); err != nil {
		return err
	}
	if err := s.restoreViews(ctx, x.js, x.log); err != nil {
		return err
	}
	if err := x.read(ctx); err != nil {
		return err
	}
	defer func() { x.reader.Close() }()
	defer x.refuseWaiting()
	if x.lease, err = newLease(ctx, x.js, s.cfg.Address, s.cfg.Shard, s.cfg.Server, s.idle); err != nil {
		return err
	}
	x.ended = make(chan struct{})
	s.progress.Store(s.Monotonic())
	go func() {
		defer close(x.ended)
		x.leaseErr = x.lease.run(ctx, x.held)
	}()
	defer func() {
		cancel()
		<-x.ended
		if x.holding && !nc.IsClosed() {
			rctx, rcancel := context.WithTimeout(context.Background(), time.Second)
			defer rcancel()
			x.lease.release(rctx)
		}
	}()
	for {
		if err := x.follow(ctx); err != nil {
			return err
		}
		err := x.lead(ctx)
		// What was decided and is not in the log is forgotten with the term, and so
		// is what was asked: who asked asks again.
		s.state.SetSchedule(nil)
		if lerr := s.state.Load(); lerr != nil {
			return lerr
		}
		s.publishStatus(false, events.Term{}, x.trouble)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.log.Info("term ended", "reason", err)
		if !errors.Is(err, errAgain) && !errors.Is(err, errLeaseLost) {
			return err
		}
		x.reader.Close()
		if err := x.compare(ctx); err != nil {
			return err
		}
		if err := x.read(ctx); err != nil {
			return err
		}
	}
}

func (x *session) openLog(ctx context.Context) (events.Log, error) {
	s := x.s
	log, err := events.CreateJetStreamLog(ctx, x.nc, s.cfg.Address, s.cfg.Shard, s.cfg.Stream)
	if err != nil {
		return nil, err
	}
	if err := createInbox(ctx, x.js, s.cfg.Address, s.cfg.Stream.Replicas); err != nil {
		return nil, err
	}
	if err := createWork(ctx, x.js, s.cfg.Address, s.cfg.Stream.Replicas); err != nil {
		return nil, err
	}
	return log, nil
}

// compare holds the log's message at the cursor against the one that was folded
// there. Where they differ the log is another one, or lost its tail and grew
// again: the views are rebuilt, and the next leader records it.
func (x *session) compare(ctx context.Context) error {
	s := x.s
	if err := x.look(ctx); err != nil {
		return err
	}
	info := s.info.Load()
	if info.Missing > 0 {
		return &events.HoleError{Missing: info.Missing, First: info.First, Last: info.Last} // before anything is thrown away
	}
	cursor := s.state.Meta().Cursor
	if cursor == 0 {
		return nil
	}
	var why string
	switch {
	case cursor > info.Last:
		why = fmt.Sprintf("it ends at %d, folded was up to %d", info.Last, cursor)
	case cursor < info.First:
		return nil // expired: the reader finds out whether there is a gap
	default:
		m, err := x.log.Get(ctx, cursor)
		if errors.Is(err, events.ErrNotFound) {
			why = fmt.Sprintf("it has no sequence %d", cursor)
		} else if err != nil {
			return err
		} else if !s.state.Folded(m) {
			why = fmt.Sprintf("sequence %d is another message than the one folded", cursor)
		}
	}
	if why == "" {
		return nil
	}
	s.log.Error("the log went back; the views are rebuilt", "why", why)
	s.Count.Rebuilds.Add(1)
	s.upkeep.wentBack(why, cursor)
	if err := s.cfg.Views.Empty(); err != nil {
		return err
	}
	return s.state.Load()
}

// read opens a reader after the cursor.
func (x *session) read(ctx context.Context) (err error) {
	from := x.s.state.Meta().Cursor + 1
	if from == 1 {
		from = x.s.info.Load().First // an empty state begins with what there is
	}
	x.reader, err = x.log.Read(ctx, from)
	return err
}

// follow folds the log until this process holds the lease.
func (x *session) follow(ctx context.Context) error {
	s := x.s
	checked := time.Now()
	for {
		if x.holding {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-x.closed:
			return nats.ErrConnectionClosed
		case <-x.ended:
			return x.leaseErr
		case x.holding = <-x.held:
		case m, ok := <-x.reader.C():
			if !ok {
				return x.readerEnd()
			}
			if err := x.fold(m); err != nil {
				return err
			}
		case r := <-s.sync:
			x.waiting = append(x.waiting, r)
			if err := x.flush(); err != nil {
				return err
			}
		case <-x.tick.C:
			if s.state.Dirty() > 0 {
				if err := x.flush(); err != nil {
					return err
				}
			}
			if time.Since(checked) > checkInterval {
				checked = time.Now()
				if err := x.look(ctx); err != nil {
					return err
				}
			}
			s.publishStatus(false, events.Term{}, x.trouble)
		}
	}
}

// look asks the log how it stands.
func (x *session) look(ctx context.Context) error {
	cctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	sent := x.s.Monotonic()
	info, err := x.log.Info(cctx)
	if err != nil {
		return err
	}
	x.s.cfg.Timing.Sample(sent, x.s.Monotonic(), info.Now)
	x.s.info.Store(&info)
	return nil
}

func (x *session) readerEnd() error {
	if err := x.reader.Err(); err != nil {
		return err
	}
	return errors.New("the reader ended")
}

// fold folds a message of somebody else's.
func (x *session) fold(m *events.Message) error {
	if err := x.s.state.Fold(m); err != nil {
		return err
	}
	x.s.Count.Folded.Add(1)
	if x.s.state.Dirty() > flushRows {
		return x.flush()
	}
	return nil
}

// flush writes what has changed and answers those who waited for it.
func (x *session) flush() error {
	began := time.Now()
	if err := x.s.state.Flush(); err != nil {
		return err
	}
	x.flushed = time.Now()
	x.s.Count.FlushNanos.Add(uint64(time.Since(began)))
	cursor := x.s.state.Meta().Cursor
	kept := x.waiting[:0]
	for _, r := range x.waiting {
		switch {
		case r.seq <= cursor:
			r.done <- nil
		case r.ctx.Err() == nil:
			kept = append(kept, r)
		}
	}
	x.waiting = kept
	return nil
}

func (x *session) refuseWaiting() {
	for _, r := range x.waiting {
		r.done <- nats.ErrConnectionClosed
	}
}
