package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/workers"
)

// serverFlags are those of dev and server.
type serverFlags struct {
	name       string
	http       string
	natsListen string
	durability string
	logSize    string
	maxAge     time.Duration
	hosts      []string
}

func (s *serverFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.name, "name", os.Getenv("AX_NAME"), "name of this server (default: made from the host's) (AX_NAME)")
	f.StringVar(&s.http, "http", env("AX_HTTP", ax.DefaultHTTPListen), "where HTTP listens (AX_HTTP)")
	f.StringVar(&s.natsListen, "nats-listen", env("AX_NATS_LISTEN", ax.DefaultNATSListen), "where the embedded NATS listens; empty: nowhere (AX_NATS_LISTEN)")
	f.StringVar(&s.durability, "durability", env("AX_DURABILITY", "fsync"), "when a commit is on disk: fsync, or interval=1s (AX_DURABILITY)")
	f.StringVar(&s.logSize, "log-size", env("AX_LOG_SIZE", ""), "bound of the log, such as 20GiB (default: that, or half of the free disk) (AX_LOG_SIZE)")
	f.DurationVar(&s.maxAge, "max-age", ax.DefaultMaxAge, "bound of the log's age")
	f.StringSliceVar(&s.hosts, "host", nil, "name that HTTP answers for besides localhost; may be given several times")
}

// running is a server with its HTTP side.
type running struct {
	server *ax.Server
	api    *api.Server
	http   net.Listener
	nc     *nats.Conn
	served chan error
}

// start starts a server and its HTTP side.
func (c *cli) start(ctx context.Context, s *serverFlags, log *slog.Logger) (_ *running, err error) {
	durability, err := ax.ParseDurability(s.durability)
	if err != nil {
		return nil, &codedError{exitUsage, fmt.Errorf("--durability: %w", err)}
	}
	size, err := parseSize(s.logSize)
	if err != nil {
		return nil, &codedError{exitUsage, fmt.Errorf("--log-size: %w", err)}
	}
	if err := ax.CheckLoopback("HTTP", s.http); err != nil {
		return nil, &codedError{exitUsage, err}
	}
	r := &running{served: make(chan error, 1)}
	defer func() {
		if err != nil {
			_ = r.stop(context.Background())
		}
	}()
	if r.http, err = net.Listen("tcp", s.http); err != nil {
		return nil, failWith(exitFailed, "HTTP: %w; another ax may run here already, else choose another address with --http", err)
	}
	r.server, err = ax.Start(ctx, ax.Options{
		Dir: c.data, Namespace: events.Namespace(c.namespace), Name: events.ServerName(s.name), NATS: c.nats, NATSToken: os.Getenv("AX_TOKEN"),
		NATSListen: s.natsListen, Durability: durability, LogSize: size, MaxAge: s.maxAge, Log: log,
	})
	if err != nil {
		code := exitFailed
		if errors.Is(err, ax.ErrOpenBind) || errors.Is(err, events.ErrName) {
			code = exitUsage
		}
		return nil, &codedError{code, err}
	}
	r.api = api.New(api.Config{
		Token: r.server.Token(), Hosts: s.hosts, Shard: r.server.Shard(), Views: r.server.Views(), Liveness: r.server.Liveness(),
		Log: r.log, RefusesWork: r.server.RefusesWork, Version: ax.Version(), Zones: ax.ZoneVersion(), Logger: log,
	})
	go func() { r.served <- r.api.Serve(r.http) }()
	return r, nil
}

// log gives the log to read from, on a connection of its own.
func (r *running) log(ctx context.Context) (events.Log, error) {
	if r.nc == nil || r.nc.IsClosed() {
		return nil, errors.New("no connection to the log")
	}
	return events.OpenJetStreamLog(ctx, r.nc, r.server.Address(), 0)
}

// connectLog opens the connection that the HTTP side reads the log on.
func (r *running) connectLog(ctx context.Context, log *slog.Logger) (err error) {
	r.nc, err = patiently(ctx, log, func() (*nats.Conn, error) { return r.server.Connect(ctx) })
	return err
}

// connectAgain is how long patiently waits between two tries.
const connectAgain = 500 * time.Millisecond

// patiently connects as soon as NATS is there: what runs for months must not
// depend on what was started first. What waiting does not cure, such as a wrong
// token, is an error at once.
func patiently(ctx context.Context, log *slog.Logger, connect func() (*nats.Conn, error)) (*nats.Conn, error) {
	for said := false; ; said = true {
		nc, err := connect()
		var network net.Error
		away := errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, &network)
		if !away {
			return nc, err
		}
		if !said {
			log.Warn("NATS is not there; waiting for it", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(err, ctx.Err())
		case <-time.After(connectAgain):
		}
	}
}

func (r *running) stop(ctx context.Context) error {
	var errs []error
	if r.server != nil {
		r.server.HandOver() // first: whoever reads a long answer must not hold it up
	}
	if r.api != nil {
		hctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		errs = append(errs, r.api.Shutdown(hctx))
		cancel()
		errs = append(errs, <-r.served)
	} else if r.http != nil {
		errs = append(errs, r.http.Close())
	}
	if r.nc != nil {
		r.nc.Close()
	}
	if r.server != nil {
		errs = append(errs, r.server.Stop())
	}
	return errors.Join(errs...)
}

func (c *cli) serverCommand() *cobra.Command {
	var s serverFlags
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run a server: follow the log, lead when it can, keep views, answer HTTP",
		Long: `Run a server. Without --nats it embeds a NATS of its own and keeps the log in the
data folder; with --nats it uses an existing one, and several such servers of a
namespace follow each other: one leads.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger()
			if err != nil {
				return err
			}
			if c.nats != "" {
				s.natsListen = ""
			}
			r, err := c.start(cmd.Context(), &s, log)
			if err != nil {
				return err
			}
			if err := r.connectLog(cmd.Context(), log); err != nil {
				return errors.Join(err, r.stop(context.Background()))
			}
			fmt.Fprintf(c.out, "ax server: http://%s, data %s\n", r.http.Addr(), c.data)
			<-cmd.Context().Done()
			return r.stop(context.Background())
		},
	}
	s.add(cmd)
	return cmd
}

// workerFlags are those of worker, and of dev's own.
type workerFlags struct {
	name     string
	groups   []string
	slots    int
	shell    []string
	runLease time.Duration
	drain    time.Duration
}

// maxSlots of one worker in one group.
const maxSlots = 100_000

func (w *workerFlags) parseGroups() (map[events.Group]int, error) {
	groups := map[events.Group]int{}
	for _, text := range w.groups {
		name, count, counted := strings.Cut(text, "=")
		n := w.slots
		if counted {
			var err error
			if n, err = strconv.Atoi(count); err != nil {
				return nil, failWith(exitUsage, "--group %s: want NAME or NAME=SLOTS", text)
			}
		}
		if n < 1 || n > maxSlots {
			return nil, failWith(exitUsage, "--group %s: %d slots, want 1 to %d (--slots counts for groups that name none)", text, n, maxSlots)
		}
		if err := events.CheckName(name); err != nil {
			return nil, failWith(exitUsage, "--group %s: %w", text, err)
		}
		groups[events.Group(name)] = n
	}
	return groups, nil
}

func (c *cli) newWorker(w *workerFlags, connect func(context.Context) (*nats.Conn, error), log *slog.Logger) (*workers.Worker, error) {
	addr, err := c.address()
	if err != nil {
		return nil, err
	}
	groups, err := w.parseGroups()
	if err != nil {
		return nil, err
	}
	executors := workers.Registry{}
	if len(w.shell) > 0 {
		shells := &workers.Shells{Allow: w.shell}
		executors["shell"] = shells.Factory
	}
	worker, err := workers.New(workers.Config{
		Address: addr, Name: events.WorkerName(w.name), Groups: groups, Executors: executors, RunLease: w.runLease, DrainTimeout: w.drain,
		Connect: connect, Log: log,
	})
	if err != nil {
		return nil, &codedError{exitUsage, err}
	}
	return worker, nil
}

func (c *cli) workerCommand() *cobra.Command {
	var w workerFlags
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker: claim what is offered to its groups, run it, report",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := c.logger()
			if err != nil {
				return err
			}
			if w.name == "" {
				w.name = defaultWorkerName()
			}
			if len(w.shell) == 0 {
				return failWith(exitUsage, "this worker could run nothing: allow commands with --shell PATTERN, or --shell '*' for any")
			}
			worker, err := c.newWorker(&w, func(ctx context.Context) (*nats.Conn, error) {
				return patiently(ctx, log, func() (*nats.Conn, error) { return c.connect(ax.Reconnecting()...) })
			}, log)
			if err != nil {
				return err
			}
			return worker.Run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&w.name, "name", os.Getenv("AX_NAME"), "name of this worker; one process at a time may hold it (default: host and process) (AX_NAME)")
	f.StringSliceVar(&w.groups, "group", []string{"default"}, "group to serve, as NAME or NAME=SLOTS; may be given several times")
	f.IntVar(&w.slots, "slots", 8, "slots of a group that names none")
	f.StringArrayVar(&w.shell, "shell", nil, "command that may run: the command itself, its beginning with a * behind it (plain words may follow), or '*' for any; may be given several times")
	f.DurationVar(&w.runLease, "run-lease", workers.DefaultRunLease, "how long runs outlive the last answer of a leader")
	f.DurationVar(&w.drain, "drain", 30*time.Second, "how long to wait for what runs when asked to stop")
	return cmd
}

// defaultWorkerName names a worker by its host and process, so that two on one
// machine differ.
func defaultWorkerName() string {
	host, _ := os.Hostname()
	host, _, _ = strings.Cut(strings.ToLower(host), ".")
	host = strings.Trim(notInTaskName.ReplaceAllString(host, "-"), "-")
	if len(host) > 40 {
		host = strings.Trim(host[:40], "-")
	}
	return strings.Trim(fmt.Sprintf("%s-%d", host, os.Getpid()), "-")
}

// parseSize reads a number of bytes with an optional unit.
func parseSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	units := []struct {
		suffix string
		factor int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}, {"", 1}}
	for _, u := range units {
		number, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		if err != nil || n < 1 || n > 1<<50/u.factor {
			break
		}
		return n * u.factor, nil
	}
	return 0, fmt.Errorf("%q: want a number and a unit such as 512MiB or 20GiB", s)
}
