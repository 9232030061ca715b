package ax

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
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
type embeddedNATS struct {
	server *server.Server
	token  string
	listen string // address of its listener; "" without one
}

// startNATS starts a server that keeps its streams in dir. listen is host:port,
// or "" for no listener at all.
func startNATS(name, dir, listen, token string, d Durability, maxStore int64, log *slog.Logger) (*embeddedNATS, error) {
	o := &server.Options{
		ServerName:         name,
		NoSigs:             true, // signals are ours
		JetStream:          true,
		JetStreamDomain:    "ax", // a domain from the first day, so that the store can be mirrored elsewhere
		StoreDir:           dir,
		JetStreamMaxStore:  maxStore,
		JetStreamMaxMemory: 256 << 20,
		SyncAlways:         d.Sync,
		Authorization:      token,
		DontListen:         listen == "",
		MaxControlLine:     4096,
		MaxConn:            10_000,
	}
	o.JetStreamLimits.DefaultMaxConsumers = -1
	if !d.Sync {
		o.SyncInterval = d.Interval
	}
	if listen != "" {
		host, port, err := net.SplitHostPort(listen)
		if err != nil {
			return nil, fmt.Errorf("NATS listener %q: %w; want host:port", listen, err)
		}
		if o.Port, err = strconv.Atoi(port); err != nil {
			return nil, fmt.Errorf("NATS listener %q: port %q is no number", listen, port)
		}
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
		o.Host = host
		// The server would only log that it cannot listen.
		l, err := net.Listen("tcp", listen)
		if err != nil {
			return nil, fmt.Errorf("NATS listener: %w; choose another with --nats-listen", err)
		}
		_ = l.Close()
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("NATS: %w", err)
	}
	s.SetLoggerV2(natsLogger{log}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(30 * time.Second) {
		s.Shutdown()
		return nil, errors.New("NATS did not start within 30s; its log says why (--log-level debug)")
	}
	if !s.JetStreamEnabled() {
		s.Shutdown()
		return nil, fmt.Errorf("JetStream did not start in %s; is the folder writable, is there room on the disk?", dir)
	}
	n := &embeddedNATS{server: s, token: token}
	if a := s.Addr(); a != nil {
		n.listen = a.String()
	}
	return n, nil
}

// connect opens a connection inside the process.
func (n *embeddedNATS) connect(_ context.Context, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append([]nats.Option{nats.InProcessServer(n.server), nats.Token(n.token)}, opts...)...)
}

func (n *embeddedNATS) stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// natsLogger hands the server's log on: what goes well at DEBUG.
type natsLogger struct{ l *slog.Logger }

func (n natsLogger) Noticef(format string, v ...any) {
	n.l.Debug(fmt.Sprintf(format, v...), "part", "nats")
}
func (n natsLogger) Warnf(format string, v ...any) {
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
