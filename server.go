package ax

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/timer"
	"github.com/ax-scheduler/ax/workers"
)

// Defaults of a server.
const (
	DefaultNamespace  = events.Namespace("default")
	DefaultNATSListen = "127.0.0.1:4280"
	DefaultHTTPListen = "127.0.0.1:8480"
	DefaultMaxAge     = 90 * 24 * time.Hour
	defaultLogSize    = 20 << 30
	minLogSize        = 64 << 20
)

// Options of a server. The zero value with a Dir is a server of its own on this
// machine that syncs every commit and listens nowhere.
type Options struct {
	// Dir is the data folder. Required.
	Dir string
	// Namespace separates installations on one NATS. Default "default".
	Namespace events.Namespace
	// Name is the server's own; it stands in ids. Default: made from the host's.
	Name events.ServerName
	// NATS is the URL of an existing NATS; empty embeds one.
	NATS string
	// NATSToken is the token for an existing NATS.
	NATSToken string
	// NATSListen is where the embedded NATS listens, host:port on loopback; empty
	// is nowhere: only this process can connect.
	NATSListen string
	// Durability of the embedded NATS. Default fsync. For an existing NATS it says
	// what that is set to: its acknowledgements are not trusted unless Sync.
	Durability Durability
	// LogSize bounds the log's bytes. Default 20 GiB or half of what is free.
	LogSize int64
	// MaxAge bounds the log's age. Default 90 days.
	MaxAge time.Duration
	// Log takes what the server has to say.
	Log *slog.Logger
}

// Server is one AX server: a shard that follows the log, leads when it holds the
// lease, and keeps views.
type Server struct {
	opt   Options
	log   *slog.Logger
	addr  events.Address
	data  *Data
	token string
	nats  *embeddedNATS // nil with an existing NATS

	views    *projector.Views
	shard    *leader.Shard
	rules    *workers.Rules
	disk     *diskGuard
	alarm    *timer.Alarm
	cancel   context.CancelFunc
	done     sync.WaitGroup
	shardErr error
}

// Start starts a server. Stop it.
func Start(ctx context.Context, opt Options) (_ *Server, err error) {
	if err := opt.complete(); err != nil {
		return nil, err
	}
	s := &Server{opt: opt, log: opt.Log}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close())
		}
	}()
	if s.addr, err = events.NewAddress(opt.Namespace); err != nil {
		return nil, err
	}
	if s.data, err = OpenData(opt.Dir); err != nil {
		return nil, err
	}
	if s.token, err = s.data.Token(); err != nil {
		return nil, err
	}
	key, err := s.data.Key()
	if err != nil {
		return nil, err
	}
	s.disk = newDiskGuard(opt.Dir)
	if err := s.disk.checkRoom(); err != nil {
		return nil, err
	}
	logSize := opt.LogSize
	if logSize == 0 {
		logSize = s.disk.defaultLogSize()
	}
	if opt.NATS == "" {
		// The store may take what the log may, twice: snapshots and the inbox too.
		store := 2*logSize + 2<<30
		n := &embeddedNATS{
			name: string(opt.Name), dir: s.data.Path("nats"), token: s.token, listen: opt.NATSListen,
			durability: opt.Durability, maxStore: store, log: opt.Log,
		}
		if err := n.start(); err != nil {
			return nil, err
		}
		s.nats = n
	}
	if s.views, err = projector.OpenViews(projector.Options{Dir: s.data.Path("views"), Logger: opt.Log}); err != nil {
		return nil, err
	}
	if s.alarm, err = timer.NewAlarm(); err != nil {
		return nil, fmt.Errorf("alarm: %w", err)
	}
	if err := s.makeShard(logSize, key); err != nil {
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel = cancel
	s.done.Go(func() { s.disk.watch(run) })
	if s.nats != nil {
		s.done.Go(func() { s.nats.watch(run) })
	}
	s.done.Go(func() { s.shardErr = s.shard.Run(run) })
	return s, nil
}

func (o *Options) complete() error {
	if o.Dir == "" {
		return errors.New("no data folder given")
	}
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.Name == "" {
		o.Name = defaultServerName()
	}
	if err := events.CheckServerName(string(o.Name)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if !o.Durability.Sync && o.Durability.Interval == 0 {
		o.Durability.Sync = true
	}
	if o.MaxAge == 0 {
		o.MaxAge = DefaultMaxAge
	}
	if o.MaxAge < time.Minute {
		return fmt.Errorf("the log's age %s: want at least 1m", o.MaxAge)
	}
	if o.LogSize != 0 && o.LogSize < minLogSize {
		return fmt.Errorf("log size %d: want at least %d bytes", o.LogSize, int64(minLogSize))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.NATSListen != "" {
		if err := CheckLoopback("NATS", o.NATSListen); err != nil {
			return err
		}
	}
	return nil
}

// ErrOpenBind is returned where a listener would be open to other machines.
var ErrOpenBind = errors.New("refused to listen off loopback")

// CheckLoopback refuses an address that other machines can reach: without
// credentials of their own and TLS, whoever reaches it may run programs here.
func CheckLoopback(what, listen string) error {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return fmt.Errorf("%s listener %q: %w; want host:port", what, listen, err)
	}
	if host == "localhost" {
		return nil
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return fmt.Errorf("%w: %s on %s: this needs credentials and TLS, which this version cannot set up; listen on 127.0.0.1 and put a proxy with both before it", ErrOpenBind, what, listen)
	}
	return nil
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// defaultServerName makes a name of the host's.
func defaultServerName() events.ServerName {
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	name := strings.Trim(notInName.ReplaceAllString(host, "-"), "-")
	if len(name) > 30 {
		name = strings.Trim(name[:30], "-")
	}
	if events.CheckServerName(name) != nil { // a number at its beginning, or one like a time in it
		name = strings.Trim("ax_"+strings.ReplaceAll(name, "-", "_"), "_")
	}
	return events.ServerName(name)
}

func (s *Server) makeShard(logSize int64, key ed25519.PrivateKey) error {
	schedule := timer.NewSchedule(timer.NewClock(nil, s.nats != nil))
	calendars := &timer.Calendars{}
	fires := &timer.Fires{Server: s.opt.Name, Calendars: calendars, Refuse: s.disk.refuse}
	s.rules = &workers.Rules{Liveness: workers.NewLiveness(), Address: s.addr}
	commands := &leader.Commands{
		Server: s.opt.Name, CheckTask: calendars.CheckTask, Refuse: s.disk.refuse,
		Reports: handler(s.rules.HandleReports),
	}
	boot := ""
	if s.nats != nil {
		boot = bootID()
	}
	cfg := leader.Config{
		Address: s.addr, Server: s.opt.Name,
		Connect: s.connectOnce,
		Stream:  events.StreamOptions{MaxBytes: logSize, MaxAge: s.opt.MaxAge},
		// The log of a NATS server in this process loses nothing that was acknowledged
		// without ending this process's connection, and the term with it.
		AcksKept: s.opt.Durability.Sync || s.nats != nil,
		Views:    s.views, Timing: schedule, Alarm: s.alarm,
		Handlers: map[string]leader.Handler{
			events.RPCClaim:   handler(s.rules.HandleClaims),
			events.RPCReport:  handler(s.rules.HandleReports),
			events.RPCBeat:    handler(s.rules.HandleBeat),
			events.RPCCommand: commands.Handle,
		},
		Deciders: []leader.Decider{
			{Name: "outcomes", Decide: s.rules.Outcomes},
			{Name: "fire", Decide: fires.Decide},
			{Name: "dispatch", Decide: s.rules.Dispatch},
		},
		Reactions: map[events.Kind]leader.Reaction{
			events.KindDispatched:  s.offer,
			events.KindCancelAsked: s.stopRun,
			events.KindTimedOut:    s.stopRun,
		},
		TermBegins: func(mono int64) {
			s.rules.TermBegins(mono)
			fires.LookBack()
		},
		ClockStepped: fires.LookBack,
		Commands:     commands,
		Led: events.LedBody{
			Server: s.opt.Name, Version: Version(), Zones: ZoneVersion(), Boot: boot,
			PublicKey: base64.RawURLEncoding.EncodeToString(key.Public().(ed25519.PublicKey)),
		},
		Sign: func(text string) string { return base64.RawURLEncoding.EncodeToString(ed25519.Sign(key, []byte(text))) },
		Log:  s.log,
	}
	var err error
	s.shard, err = leader.New(cfg)
	return err
}

// handler makes a leader's handler of one of the workers' room.
func handler[R leader.Request](h func(events.Group, []byte) (R, error)) leader.Handler {
	return func(g events.Group, body []byte) (leader.Request, error) {
		r, err := h(g, body)
		if err != nil {
			return nil, err
		}
		return r, nil
	}
}

func (s *Server) offer(st *projector.State, e *events.Event) (leader.Effect, bool) {
	subject, offer := s.rules.OfferEffect(st, e)
	return leader.Effect{Subject: subject, Body: offer}, offer != nil
}

// stopRun tells a worker that its next beat's answer will have news.
func (s *Server) stopRun(st *projector.State, e *events.Event) (leader.Effect, bool) {
	i := st.Instance(e.Instance)
	if i == nil || i.Worker == "" {
		return leader.Effect{}, false
	}
	return leader.Effect{Subject: s.addr.Stop(i.Worker)}, true
}

// connectOnce opens a connection that ends when it is cut.
func (s *Server) connectOnce(ctx context.Context) (*nats.Conn, error) {
	return s.connect(ctx, nats.NoReconnect(), nats.Name("ax-server "+string(s.opt.Name)))
}

func (s *Server) connect(ctx context.Context, opts ...nats.Option) (*nats.Conn, error) {
	if s.nats != nil {
		return s.nats.connect(ctx, opts...)
	}
	return DialNATS(s.opt.NATS, s.opt.NATSToken, opts...)
}

// DialNATS connects to a NATS by its URL.
func DialNATS(address, token string, opts ...nats.Option) (*nats.Conn, error) {
	if u, err := url.Parse(address); err == nil && u.User != nil {
		token = "" // the URL has its own credentials
	}
	if token != "" {
		opts = append(opts, nats.Token(token))
	}
	nc, err := nats.Connect(address, append([]nats.Option{nats.Timeout(5 * time.Second)}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("NATS at %s: %w", redact(address), err)
	}
	return nc, nil
}

// redact takes the credentials out of an address: a token stands where others
// have the user's name.
func redact(address string) string {
	if u, err := url.Parse(address); err == nil {
		if u.User != nil {
			u.User = url.User("xxxxx")
		}
		return u.String()
	}
	return "the given address"
}

// Connect opens a connection that lives on when it is cut and buffers nothing
// meanwhile, for workers and clients.
func (s *Server) Connect(ctx context.Context) (*nats.Conn, error) {
	return s.connect(ctx, Reconnecting()...)
}

// Reconnecting are the options of a connection that lives on when it is cut.
func Reconnecting() []nats.Option {
	return []nats.Option{
		nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond), nats.ReconnectJitter(50*time.Millisecond, 50*time.Millisecond),
		nats.ReconnectBufSize(-1), // what cannot be sent now fails now
	}
}

// Shard gives the server's shard.
func (s *Server) Shard() *leader.Shard { return s.shard }

// Views gives the folded state.
func (s *Server) Views() *projector.Views { return s.views }

// Liveness tells which workers beat to this server.
func (s *Server) Liveness() *workers.Liveness { return s.rules.Liveness }

// Address gives the namespace's addresses.
func (s *Server) Address() events.Address { return s.addr }

// Token is what everybody needs who talks to this server.
func (s *Server) Token() string { return s.token }

// NATSListen is where the embedded NATS listens; "" if it does not.
func (s *Server) NATSListen() string {
	if s.nats == nil {
		return ""
	}
	return s.nats.listen
}

// RefusesWork gives the reason why the server takes no new work, or "".
func (s *Server) RefusesWork() string { return s.disk.refuse() }

// WaitReady returns when the shard leads or has folded everything there is.
func (s *Server) WaitReady(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		st := s.shard.Status()
		if st.Leading || st.Ready && st.Leader != s.opt.Name && st.Leader != "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the server is not ready: %s: %w", st.Trouble, ctx.Err())
		case <-tick.C:
		}
	}
}

// HandOver ends the shard alone: it finishes the commit in flight and gives its
// lease up, so that another server can lead at once. The views can still be read.
func (s *Server) HandOver() {
	s.cancel()
	s.done.Wait()
}

// Stop ends the server: the shard finishes the commit in flight and gives its
// lease up, then clients, NATS and views are closed.
func (s *Server) Stop() error {
	err := s.close()
	return errors.Join(err, s.shardErr)
}

func (s *Server) close() error {
	var errs []error
	if s.cancel != nil {
		s.HandOver()
	}
	if s.nats != nil {
		s.nats.stop()
	}
	if s.views != nil {
		errs = append(errs, s.views.Close())
	}
	if s.alarm != nil {
		s.alarm.Close()
	}
	if s.data != nil {
		errs = append(errs, s.data.Close())
	}
	return errors.Join(errs...)
}

// Version is the version of this binary.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 && !strings.Contains(v, s.Value[:12]) {
			v += "+" + s.Value[:12]
		}
	}
	return v
}

// version is set by the linker in a release.
var version string
