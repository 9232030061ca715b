package ax

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Durability says when an acknowledged message is on disk.
type Durability struct {
	// Sync syncs every message before it is acknowledged. Nothing acknowledged is
	// lost, whatever ends.
	Sync bool
	// Interval, if not Sync, is how often the log is synced: a crash of the
	// machine (not of the process) may lose that much.
	Interval time.Duration
}

// ParseDurability reads "fsync" or "interval=1s".
func ParseDurability(s string) (Durability, error) {
	if s == "" || s == "fsync" {
		return Durability{Sync: true}, nil
	}
	const prefix = "interval="
	if len(s) > len(prefix) && s[:len(prefix)] == prefix {
		if d, err := time.ParseDuration(s[len(prefix):]); err == nil && d >= 10*time.Millisecond && d <= time.Minute {
			return Durability{Interval: d}, nil
		}
	}
	return Durability{}, fmt.Errorf("durability %q: want fsync, or interval=D with D from 10ms to 1m", s)
}

// String gives what ParseDurability reads.
func (d Durability) String() string {
	if d.Sync {
		return "fsync"
	}
	return "interval=" + d.Interval.String()
}

// embeddedNATS is a NATS server in this process.
//
// After one failed write, as on a full disk, a stream of this server refuses every
// later one, until the server starts again. So it is watched, and started again
// when there is room; connections in the process find the new one by themselves.
type embeddedNATS struct {
	name, dir  string
	token      string
	listen     string // address of its listener; "" without one
	durability Durability
	maxStore   int64
	log        *slog.Logger

	mu     sync.RWMutex
	server *server.Server
}

// start starts the server. It keeps its streams in n.dir and listens on n.listen,
// host:port, or nowhere if that is empty.
func (n *embeddedNATS) start() error {
	o := &server.Options{
		ServerName:         n.name,
		NoSigs:             true, // signals are ours
		JetStream:          true,
		JetStreamDomain:    "ax", // a domain from the first day, so that the store can be mirrored elsewhere
		StoreDir:           n.dir,
		JetStreamMaxStore:  n.maxStore,
		JetStreamMaxMemory: 256 << 20,
		SyncAlways:         n.durability.Sync,
		Authorization:      n.token,
		DontListen:         n.listen == "",
		MaxControlLine:     4096,
		MaxConn:            10_000,
	}
	o.JetStreamLimits.DefaultMaxConsumers = -1
	if !n.durability.Sync {
		o.SyncInterval = n.durability.Interval
	}
	if n.listen != "" {
		host, port, err := net.SplitHostPort(n.listen)
		if err != nil {
			return fmt.Errorf("NATS listener %q: %w; want host:port", n.listen, err)
		}
		if o.Port, err = strconv.Atoi(port); err != nil {
			return fmt.Errorf("NATS listener %q: port %q is no number", n.listen, port)
		}
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
		o.Host = host
		// The server would only log that it cannot listen.
		l, err := net.Listen("tcp", n.listen)
		if err != nil {
			return fmt.Errorf("NATS listener: %w; choose another with --nats-listen", err)
		}
		_ = l.Close()
	}
	s, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("NATS: %w", err)
	}
	s.SetLoggerV2(natsLogger{n.log}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		s.Shutdown()
		return errors.New("NATS did not start within 30s; its log says why (--log-level debug)")
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		return fmt.Errorf("JetStream did not start in %s; is the folder writable, is there room on the disk?", n.dir)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.server = s
	if a := s.Addr(); a != nil && o.Port == server.RANDOM_PORT {
		n.listen = a.String() // workers find it there again after another start
	}
	return nil
}

func (n *embeddedNATS) current() *server.Server {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return n.server
}

// InProcessConn implements nats.InProcessConnProvider.
func (n *embeddedNATS) InProcessConn() (net.Conn, error) { return n.current().InProcessConn() }

// connect opens a connection inside the process.
func (n *embeddedNATS) connect(_ context.Context, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(n), nats.Token(n.token)}, opts...)...)
}

func (n *embeddedNATS) stop() {
	s := n.current()
	s.Shutdown()
	s.WaitForShutdown()
}

const natsWatchEvery = time.Second

// watch starts the server again when its streams cannot be written and there is
// room on the disk.
func (n *embeddedNATS) watch(ctx context.Context) {
	tick := time.NewTicker(natsWatchEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		why := n.broken()
		if why == "" {
			continue
		}
		if free, _, err := diskSpace(n.dir); err != nil || free < minDiskFree {
			continue
		}
		n.log.Warn("the embedded NATS cannot write; starting it again", "why", why)
		n.stop()
		if err := n.start(); err != nil {
			n.log.Error("the embedded NATS did not start again; trying on", "error", err)
		}
	}
}

// broken says why the server has to be started again, or "".
func (n *embeddedNATS) broken() string {
	s := n.current()
	if !s.Running() {
		return "it does not run"
	}
	if !s.JetStreamEnabled() {
		return "JetStream is off"
	}
	if h := s.Healthz(&server.HealthzOptions{}); strings.Contains(h.Error, "write error") {
		return h.Error
	}
	return ""
}

// natsLogger hands the server's log on: what goes well at DEBUG.
type natsLogger struct{ l *slog.Logger }

func (n natsLogger) Noticef(format string, v ...any) {
	n.l.Debug(fmt.Sprintf(format, v...), "part", "nats")
}
func (n natsLogger) Warnf(format string, v ...any) {
	if text := fmt.Sprintf(format, v...); strings.Contains(text, "prior state file") {
		n.l.Debug(text, "part", "nats") // after a kill it reads its messages instead
		return
	}
	n.l.Warn(fmt.Sprintf(format, v...), "part", "nats")
}
func (n natsLogger) Fatalf(format string, v ...any) {
	n.l.Error(fmt.Sprintf(format, v...), "part", "nats")
}
func (n natsLogger) Errorf(format string, v ...any) {
	n.l.Error(fmt.Sprintf(format, v...), "part", "nats")
}
func (n natsLogger) Debugf(format string, v ...any) {
	n.l.Debug(fmt.Sprintf(format, v...), "part", "nats")
}
func (n natsLogger) Tracef(format string, v ...any) {
	n.l.Debug(fmt.Sprintf(format, v...), "part", "nats")
}
