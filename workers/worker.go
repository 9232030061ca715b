package workers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
)

// Config is what a worker is made of.
type Config struct {
	Address events.Address
	// Name is the worker's own; one process at a time may hold it.
	Name events.WorkerName
	// Groups are what it serves, with the slots for each.
	Groups map[events.Group]int
	// Executors by kind.
	Executors Registry
	// RunLease is how long its runs outlive the last answered beat. Default 15 s,
	// from 6 s to 10 min.
	RunLease time.Duration
	// Connect opens a connection that reconnects by itself and buffers nothing
	// while it is away.
	Connect func(ctx context.Context) (*nats.Conn, error)
	// DrainTimeout is how long a worker that goes away waits for what runs.
	// Default 30 s.
	DrainTimeout time.Duration
	Log          *slog.Logger
	// Started, if set, is called when a handler is about to start.
	Started func(r *events.Run)
}

// Worker claims attempts, runs them and reports how they ended. It holds no
// state that matters: killed at any moment, its attempts run again elsewhere.
type Worker struct {
	cfg         Config
	log         *slog.Logger
	incarnation int64
	nc          *nats.Conn
	shard       events.Shard

	detached context.Context // of runs: they end by themselves, not with Run's context

	mu    sync.Mutex
	held  map[heldKey]*run     // from before the first claim until the outcome is answered
	taken map[events.Group]int // slots in use: claims under way and runs
	pulls map[events.Group]*puller
	// newLeader ends when another leader begins, whom leaderBegins announces.
	newLeader    context.Context
	leaderBegins context.CancelFunc

	beatNumber atomic.Int64
	fresh      atomic.Int64 // monotonic: when the last beat that was answered was sent; 0: none
	beatNow    chan struct{}
	stopping   atomic.Bool
	released   atomic.Bool // attempts were let go that run again elsewhere
	refused    chan error  // a newer process has our name

	claims  map[events.Group]chan *run
	reports chan *run

	executors map[executorKey]Executor
	running   sync.WaitGroup
	Count     WorkerCounters
}

// WorkerCounters count what a worker did. All are atomic.
type WorkerCounters struct {
	Claimed, Refused, Started, Reported, Late, Dropped atomic.Uint64
}

// heldKey names what a worker has in hand.
type heldKey struct {
	instance events.InstanceID
	attempt  int64
	offer    int64
}

// phase is how far a run has come.
type phase uint8

const (
	claiming phase = iota
	runs
	reporting
)

// run is one attempt in hand. Its fields are guarded by Worker.mu, but for
// those that never change.
type run struct {
	key    heldKey
	group  events.Group
	nonce  string
	hash   string // of the nonce, made when a beat first lists it
	phase  phase
	stop   bool // an answer to a beat stopped it: never start it
	cancel context.CancelCauseFunc
	kill   *killSwitch
	work   *events.Run
	report events.Report
	ended  time.Time
	inbox  bool // put into the inbox too
}

// New makes a worker.
func New(cfg Config) (*Worker, error) {
	if err := events.CheckName(string(cfg.Name)); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if len(cfg.Groups) == 0 {
		return nil, errors.New("worker: no group to serve; name at least one with its slots")
	}
	for g, n := range cfg.Groups {
		if err := events.CheckName(string(g)); err != nil {
			return nil, fmt.Errorf("group: %w", err)
		}
		if n < 1 || n > maxSlots {
			return nil, fmt.Errorf("group %s: %d slots, want 1 to %d", g, n, maxSlots)
		}
	}
	if cfg.RunLease == 0 {
		cfg.RunLease = DefaultRunLease
	}
	if cfg.RunLease < MinRunLease || cfg.RunLease > MaxRunLease {
		return nil, fmt.Errorf("run lease %s: want %s to %s", cfg.RunLease, MinRunLease, MaxRunLease)
	}
	if cfg.DrainTimeout == 0 {
		cfg.DrainTimeout = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Worker{
		cfg: cfg, log: cfg.Log.With("worker", cfg.Name), incarnation: time.Now().UnixMicro(),
		held: map[heldKey]*run{}, taken: map[events.Group]int{}, pulls: map[events.Group]*puller{}, executors: map[executorKey]Executor{}, beatNow: make(chan struct{}, 1), refused: make(chan error, 1),
		claims: map[events.Group]chan *run{}, reports: make(chan *run, 100_000),
	}
	w.newLeader, w.leaderBegins = context.WithCancel(context.Background())
	for g, n := range cfg.Groups {
		w.claims[g] = make(chan *run, 2*n)
	}
	return w, nil
}

// Run serves until ctx ends, and then drains: it takes no more work, waits for
// what runs, reports it, and returns.
func (w *Worker) Run(ctx context.Context) error {
	nc, err := w.cfg.Connect(ctx)
	if err != nil {
		return fmt.Errorf("worker %s: connect to NATS: %w", w.cfg.Name, err)
	}
	defer nc.Close()
	w.nc = nc
	nc.SetReconnectHandler(func(*nats.Conn) {
		w.mu.Lock()
		pulls := slices.Collect(maps.Values(w.pulls))
		w.mu.Unlock()
		for _, p := range pulls {
			p.reset() // what was pulled for on the old connection will not come
		}
		w.nudgeBeat()
	})
	w.detached = context.WithoutCancel(ctx)
	// What serves the attempts in hand lives on while the worker drains.
	serve, stop := context.WithCancel(context.WithoutCancel(ctx))
	var owned sync.WaitGroup
	defer owned.Wait()
	defer stop()

	subs, err := w.listen(serve)
	if err != nil {
		return err
	}
	defer func() {
		for _, s := range subs {
			_ = s.Unsubscribe()
		}
	}()
	owned.Go(func() { w.beats(serve) })
	owned.Go(func() { w.watchdog(serve) })
	owned.Go(func() { w.reporter(serve) })
	for g := range w.cfg.Groups {
		owned.Go(func() { w.claimer(serve, g) })
	}
	pulling, endPulling := context.WithCancel(ctx)
	defer endPulling()
	for g, n := range w.cfg.Groups {
		p := newPuller(w, g, n)
		w.mu.Lock()
		w.pulls[g] = p
		w.mu.Unlock()
		owned.Go(func() { p.run(pulling) })
	}
	w.log.Info("worker serves", "groups", w.cfg.Groups, "executors", w.cfg.Executors.Kinds())
	var refused error
	select {
	case <-ctx.Done():
	case refused = <-w.refused:
		w.endAll(ErrSuperseded)
	}
	endPulling()
	w.drain(serve)
	return refused
}

// drain waits for what is in hand, then asks it to end.
func (w *Worker) drain(serve context.Context) {
	w.stopping.Store(true)
	w.nudgeBeat() // no slots any more: the leader offers elsewhere
	deadline := time.NewTimer(w.cfg.DrainTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	asked := false
	if n := w.inHand(); n > 0 {
		w.log.Info("ending; waiting for what runs", "attempts", n, "atMost", w.cfg.DrainTimeout)
	}
	for w.inHand() > 0 {
		select {
		case <-tick.C:
		case <-deadline.C:
			if asked {
				w.log.Warn("going away with attempts in hand; they run again elsewhere", "attempts", w.inHand())
				return
			}
			asked = true
			w.endAll(ErrShutdown)
			deadline.Reset(Grace + reportSlack)
		case <-serve.Done():
			return
		}
	}
	w.running.Wait()
	if w.released.Load() {
		// Two beats without an attempt are the proof that it runs here no more.
		for range 2 {
			w.beat(serve)
		}
	}
}

func (w *Worker) inHand() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

// endAll asks every run to end.
func (w *Worker) endAll(cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.held {
		w.end(r, cause, Grace)
	}
}

// end asks one run to end; a claim that is under way is never started. The lock
// is held.
func (w *Worker) end(r *run, cause error, grace time.Duration) {
	r.stop = true
	if r.cancel == nil {
		return
	}
	r.cancel(cause)
	if grace <= 0 {
		r.kill.kill()
	} else {
		time.AfterFunc(grace, r.kill.kill)
	}
}

// listen subscribes to what leaders say unasked.
func (w *Worker) listen(ctx context.Context) ([]*nats.Subscription, error) {
	var subs []*nats.Subscription
	for subject, heard := range map[string]func(){
		w.cfg.Address.Stop(w.cfg.Name): w.nudgeBeat,
		w.cfg.Address.FeedLedAll(): func() {
			w.askAgain() // what the old leader was asked it answers no more
			w.nudgeBeat()
			w.wakePullers() // the new leader has made the work stream, if it was gone
		},
	} {
		s, err := w.nc.Subscribe(subject, func(*nats.Msg) { heard() })
		if err != nil {
			return subs, fmt.Errorf("worker %s: subscribe %s: %w", w.cfg.Name, subject, err)
		}
		subs = append(subs, s)
	}
	return subs, ctx.Err()
}

// newNonce makes the secret of a claim.
func newNonce() string { return rand.Text() }

var workerStart = time.Now()

// monotonic is the process's monotonic clock in nanoseconds, never 0.
func monotonic() int64 { return int64(time.Since(workerStart)) + 1 }
