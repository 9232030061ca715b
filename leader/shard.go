package leader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Timing is what a shard needs of time: the schedule of what is due, and clocks.
type Timing interface {
	projector.Schedule
	// Now reads the clocks.
	Now() events.Now
	// Wait is how long to sleep until something in the schedule is due, at most
	// one second.
	Wait(now events.Now) time.Duration
	// Begin makes log time begin at, or not before, a time (Unix nanoseconds).
	Begin(logTime int64)
	// Sample takes a reading of the stream server's clock that was made between
	// two instants of the process's monotonic clock (nanoseconds).
	Sample(sent, received int64, server time.Time)
	// Reset forgets the samples: another server answers now.
	Reset()
	// Stepped reports, once, that the wall clock was set or the machine slept.
	Stepped() bool
}

// Alarm wakes a loop.
type Alarm interface {
	// C gives a value when the alarm rings; spurious ones are allowed.
	C() <-chan struct{}
	// Set makes it ring after d, instead of when it was to ring before.
	Set(d time.Duration)
}

// Config is what a shard is made of. The composition fills it in.
type Config struct {
	Address events.Address
	Shard   events.Shard
	Server  events.ServerName

	// Connect opens a connection that does not reconnect and buffers nothing
	// while it is away: a term ends with its connection.
	Connect func(ctx context.Context) (*nats.Conn, error)
	Stream  events.StreamOptions
	// AcksKept says that an acknowledged message can not be lost while the term
	// lives: the stream syncs before it answers, or it is on one server, to which
	// this process is connected, so that whatever loses a tail ends the connection
	// too (model-leader: CONN=1). Else a frame is acted on only when it was read
	// back (CONN=0).
	AcksKept bool

	Views  *projector.Views
	Timing Timing
	Alarm  Alarm

	// Handlers decode requests, by the verb in their subject.
	Handlers map[string]Handler
	// Deciders decide in this order, after the requests of a round.
	Deciders []Decider
	// Reactions make messages of events.
	Reactions map[events.Kind]Reaction
	// TermBegins is told of each term before its first round (monotonic
	// nanoseconds).
	TermBegins func(mono int64)
	// ClockStepped is told when the wall clock was set.
	ClockStepped func()
	// Commands decides commands, also those of the inbox.
	Commands *Commands

	// Led describes this server in the log.
	Led events.LedBody
	// Sign signs a checkpoint's text; nil leaves checkpoints unsigned.
	Sign func(text string) string
	// Log takes what the shard has to say.
	Log *slog.Logger
}

// Status is how a shard stands on this server.
type Status struct {
	Shard    events.Shard      `json:"shard"`
	Server   events.ServerName `json:"server"`
	Leading  bool              `json:"leading"`
	Term     string            `json:"term,omitempty"` // this server's, while it leads
	Leader   events.ServerName `json:"leader"`         // of the last led folded
	Led      uint64            `json:"led"`
	Cursor   uint64            `json:"cursor"`   // last message folded
	Inbox    uint64            `json:"inbox"`    // last inbox message answered
	LogFirst uint64            `json:"logFirst"` // what the log holds
	LogLast  uint64            `json:"logLast"`
	LogBytes uint64            `json:"logBytes"`
	LogMax   uint64            `json:"logMax,omitempty"`
	Ready    bool              `json:"ready"`             // folded up to the log's end, or leading
	Trouble  string            `json:"trouble,omitempty"` // why nothing goes on
	Now      time.Time         `json:"now"`               // log time
}

// Counters count what a shard did since the process began. All are atomic.
type Counters struct {
	Terms, Frames, Events, Folded, Bytes atomic.Uint64
	Refused, Unknown, Busy               atomic.Uint64 // appends
	Rounds, Parked, Requests, Bad, Inbox atomic.Uint64
	Rebuilds, Restated, Checkpoints      atomic.Uint64
	CommitNanos, CommitCount, FlushNanos atomic.Uint64
	StaleAnswers                         atomic.Uint64
}

// Shard runs one shard on this server: it follows the log, and leads when it
// holds the lease.
type Shard struct {
	cfg       Config
	log       *slog.Logger
	state     *projector.State
	reactions [events.NumKinds]Reaction
	deciders  []Decider

	progress atomic.Int64 // monotonic time of the last completed round
	proven   atomic.Int64 // monotonic time of the sending of what last proved the term
	status   atomic.Pointer[Status]
	info     atomic.Pointer[events.Info]
	sync     chan syncRequest
	Count    Counters

	upkeep upkeep
}

// syncRequest asks for views that show a position.
type syncRequest struct {
	ctx  context.Context // of who waits: when it ends nobody does
	seq  uint64
	done chan error
}

// Errors that end or restart a session.
var (
	errLeaseLost = errors.New("the lease is lost")
	errAgain     = errors.New("lead again")
)

// New makes a shard. Run runs it.
func New(cfg Config) (*Shard, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	state, err := projector.NewState(cfg.Views)
	if err != nil {
		return nil, err
	}
	s := &Shard{cfg: cfg, log: cfg.Log.With("shard", cfg.Shard), state: state, sync: make(chan syncRequest, 64)}
	s.upkeep.shard = s
	for k, r := range cfg.Reactions {
		s.reactions[k] = r
	}
	s.deciders = append(append([]Decider{{"foreign", Foreign}, {"incidents", s.upkeep.incidents}}, cfg.Deciders...),
		Decider{"trim", Trim}, Decider{"checkpoint", s.upkeep.checkpoint}, Decider{"restate", s.upkeep.restate})
	s.publishStatus(false, events.Term{}, "starting")
	return s, nil
}

// Status says how the shard stands.
func (s *Shard) Status() Status { return *s.status.Load() }

// idle is how long no round of the loop was completed.
func (s *Shard) idle() time.Duration { return time.Duration(s.Monotonic() - s.progress.Load()) }

// Monotonic is the clock that Liveness measures by.
func (s *Shard) Monotonic() int64 { return s.cfg.Timing.Now().Mono }

// provenRecently reports whether this server's term was proven a moment ago.
func (s *Shard) provenRecently() bool {
	return time.Duration(s.Monotonic()-s.proven.Load()) <= proofAge
}

// proofAge is how long a proof of a term counts for answers to beats.
const proofAge = 3 * time.Second

// Run follows and leads until ctx ends, or until the fold cannot go on.
func (s *Shard) Run(ctx context.Context) error {
	defer s.upkeep.close()
	wait := 50 * time.Millisecond
	for {
		began := time.Now()
		err := s.session(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if fatal(err) {
			s.publishStatus(false, events.Term{}, err.Error())
			s.log.Error("the shard stands still", "error", err)
			<-ctx.Done() // the process serves what it has; an operator has to act
			return err
		}
		if time.Since(began) > 10*time.Second {
			wait = 50 * time.Millisecond
		}
		s.publishStatus(false, events.Term{}, err.Error())
		s.log.Warn("session ended; connecting again", "error", err, "after", wait)
		if err := s.serveSync(ctx, wait, err); err != nil {
			return nil
		}
		wait = min(2*wait, 2*time.Second)
	}
}

// fatal reports whether trying again cannot help.
func fatal(err error) bool {
	var gap *events.GapError
	var hole *events.HoleError
	return errors.As(err, &gap) || errors.As(err, &hole) || errors.Is(err, events.ErrNewerVersion) || errors.Is(err, projector.ErrChain) || errors.Is(err, projector.ErrCorrupt)
}

// serveSync waits for d and meanwhile answers those who want fresh views.
func (s *Shard) serveSync(ctx context.Context, d time.Duration, why error) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case r := <-s.sync:
			r.done <- fmt.Errorf("no connection to the log: %w", why)
		}
	}
}

// Sync returns when the views show everything up to a sequence; 0 is everything
// that is folded now.
func (s *Shard) Sync(ctx context.Context, seq uint64) error {
	r := syncRequest{ctx, seq, make(chan error, 1)}
	select {
	case s.sync <- r:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Shard) publishStatus(leading bool, term events.Term, trouble string) {
	m := s.state.Meta()
	now := s.cfg.Timing.Now()
	st := &Status{
		Shard: s.cfg.Shard, Server: s.cfg.Server, Leading: leading, Leader: m.Leader, Led: m.Led, Cursor: m.Cursor, Inbox: m.Inbox,
		Trouble: trouble, Now: time.Unix(0, now.Time).UTC(),
	}
	if leading {
		st.Term = term.String()
	}
	if info := s.info.Load(); info != nil {
		st.LogFirst, st.LogLast, st.LogBytes, st.LogMax = info.First, max(info.Last, m.Cursor), info.Bytes, info.MaxBytes
		st.Ready = trouble == "" && (leading || m.Cursor >= info.Last)
	}
	s.status.Store(st)
}
