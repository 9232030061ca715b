//go:build unix

package testkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
)

// The harness that kills processes: it builds the real binary, once, and runs
// it as its users do, each process with ports and a data folder of its own.
//
//	P1  Nothing is waited for by time: a process is ready when it says so.
//	P2  Only processes that the test started are ended, each by its pid, and all
//	    of them are, however the test ends.
//	P3  What a process wrote is kept, and shown when the test fails.

// Long reports whether the tests run at their full length: AX_LONG=1.
func Long() bool { return os.Getenv("AX_LONG") != "" }

// Rounds gives the number of rounds of a test: few of them unless Long.
func Rounds(short, long int) int {
	if Long() {
		return long
	}
	return short
}

// binaries are what the harness builds, once in the life of a test process.
var binaries struct {
	once sync.Once
	dir  string
	err  error
}

// build builds the binaries and gives their folder. AX_BUILD_FLAGS are given to
// go build, such as -race.
func build(t testing.TB) string {
	t.Helper()
	binaries.once.Do(func() {
		b := &binaries
		if b.dir, b.err = os.MkdirTemp("", "ax-binaries-"); b.err != nil {
			return
		}
		args := append([]string{"build"}, strings.Fields(os.Getenv("AX_BUILD_FLAGS"))...)
		const module = "github.com/ax-scheduler/ax/"
		args = append(args, "-o", b.dir+"/", module+"cmd/ax", module+"testkit/internal/natsd")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			b.err = fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	})
	if binaries.err != nil {
		t.Fatal(binaries.err)
	}
	return binaries.dir
}

// RemoveBinaries deletes what was built; for TestMain, after the last test.
func RemoveBinaries() {
	if binaries.dir != "" {
		_ = os.RemoveAll(binaries.dir) // the system's temporary folder is emptied some day
	}
}

// Processes are the processes of one test. All are killed at its end.
type Processes struct {
	t   testing.TB
	bin string
	dir string
	mu  sync.Mutex
	all []*Process
}

// NewProcesses makes the set of a test.
func NewProcesses(t testing.TB) *Processes {
	t.Helper()
	ps := &Processes{t: t, bin: build(t)}
	// Not t.TempDir: its name holds the test's, and paths get long.
	dir, err := os.MkdirTemp("", "ax-test-")
	if err != nil {
		t.Fatal(err)
	}
	ps.dir = dir
	t.Cleanup(func() {
		for _, p := range ps.list() {
			p.Kill()
		}
		if t.Failed() {
			for _, p := range ps.list() {
				t.Logf("%s (%s) said at last:\n%s", p.Name, p.fate(), indent(p.Tail(40)))
			}
			if os.Getenv("AX_KEEP") != "" {
				t.Logf("AX_KEEP: folders and whole outputs are kept in %s", dir)
				return
			}
			t.Log("AX_KEEP=1 keeps data folders and whole outputs")
		}
		_ = os.RemoveAll(dir) // the system's temporary folder is emptied some day
	})
	return ps
}

func indent(s string) string { return "    " + strings.ReplaceAll(s, "\n", "\n    ") }

func (ps *Processes) list() []*Process {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	return append([]*Process(nil), ps.all...)
}

// Dir gives a folder of its own below the test's.
func (ps *Processes) Dir(name string) string { return filepath.Join(ps.dir, name) }

// ports are given out once in a test process. They lie below those that the
// kernel gives to outgoing connections: one of these could take the port of a
// process that is dead for a moment.
var ports = struct {
	sync.Mutex
	next int
}{next: 20_000 + rand.IntN(10_000)}

// Port gives a free port of 127.0.0.1 as host:port.
func (ps *Processes) Port() string {
	ps.t.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range 1000 {
		if ports.next++; ports.next >= 32_000 {
			ports.next = 20_000
		}
		address := fmt.Sprintf("127.0.0.1:%d", ports.next)
		if l, err := net.Listen("tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	ps.t.Fatal("no free port")
	return ""
}

// Process is one process, which may be started again after its end.
type Process struct {
	Name string
	Args []string // the first is the program
	Env  []string // beside what every process gets

	ps   *Processes
	file string // its output, of all its lives

	mu      sync.Mutex
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process is gone
	err     error         // of its end
	from    int64         // where this life's output begins
	stopped bool
}

// New makes a process that is not started yet.
func (ps *Processes) New(name, program string, args ...string) *Process {
	p := &Process{Name: name, Args: append([]string{filepath.Join(ps.bin, program)}, args...), ps: ps, file: ps.Dir(name + ".out")}
	ps.mu.Lock()
	ps.all = append(ps.all, p)
	ps.mu.Unlock()
	return p
}

// launches are served by one goroutine that keeps its thread: the kernel takes
// the end of the thread that started a process for the end of its parent.
var launches = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// Start starts the process.
func (p *Process) Start() {
	p.ps.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !p.gone() {
		p.ps.t.Fatalf("%s runs already", p.Name)
	}
	// A file, and no pipe: what a killed process leaves behind cannot hold it.
	out, err := os.OpenFile(p.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.ps.t.Fatal(err)
	}
	defer out.Close()
	p.from, _ = out.Seek(0, io.SeekEnd)
	cmd := exec.Command(p.Args[0], p.Args[1:]...)
	cmd.Env = append(environment(), p.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Dir = p.ps.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	dieWithTest(cmd.SysProcAttr)
	started := make(chan error)
	launches() <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		p.ps.t.Fatalf("%s: %v", p.Name, err)
	}
	ended := make(chan struct{})
	p.cmd, p.ended, p.err, p.stopped = cmd, ended, nil, false
	go func() {
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
}

// environment is the test's own without AX's variables.
func environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "AX_") {
			env = append(env, v)
		}
	}
	return env
}

// gone reports whether the process has ended; the lock is held.
func (p *Process) gone() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Alive reports whether the process runs, or is stopped.
func (p *Process) Alive() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd != nil && !p.gone()
}

// Pid is the number of the process that was started last.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// fate says how the process stands.
func (p *Process) fate() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.cmd == nil:
		return "never started"
	case !p.gone():
		return "running"
	}
	return p.cmd.ProcessState.String()
}

// signal sends a signal to the process, if it is there: the pid of one that was
// waited for may be another's.
func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !p.gone() {
		_ = p.cmd.Process.Signal(s) // it may end in this moment
		p.stopped = s == syscall.SIGSTOP || p.stopped && s != syscall.SIGCONT
	}
}

// Kill sends SIGKILL and waits until the process is gone.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// Stop sends SIGSTOP: the process stands still, and its connections stay open.
func (p *Process) Stop() { p.signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on.
func (p *Process) Continue() { p.signal(syscall.SIGCONT) }

// Terminate asks the process to end, and does not wait.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// WaitEnd waits until the process has ended by itself and gives how it did.
func (p *Process) WaitEnd(limit time.Duration) error {
	p.ps.t.Helper()
	p.mu.Lock()
	ended := p.ended
	p.mu.Unlock()
	select {
	case <-ended:
	case <-time.After(limit):
		p.ps.t.Fatalf("%s has not ended within %s", p.Name, limit)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// End asks the process to end, and fails the test if it does not end well.
func (p *Process) End() {
	p.ps.t.Helper()
	p.Terminate()
	if err := p.WaitEnd(time.Minute); err != nil {
		p.ps.t.Errorf("%s was asked to end, and ended with %v", p.Name, err)
	}
}

// Output gives what the process wrote in its present life.
func (p *Process) Output() string {
	b, err := os.ReadFile(p.file)
	if err != nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return string(b[min(p.from, int64(len(b))):])
}

// Tail gives the last lines of what the process wrote in all its lives.
func (p *Process) Tail(lines int) string {
	b, err := os.ReadFile(p.file)
	if err != nil {
		return "nothing"
	}
	all := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// WaitOutput waits until the process has written a text in its present life.
func (p *Process) WaitOutput(text string, limit time.Duration) {
	p.ps.t.Helper()
	p.until(limit, fmt.Sprintf("%s says %q", p.Name, text), func() bool { return strings.Contains(p.Output(), text) })
}

// until is Until, and fails at once when the process is gone.
func (p *Process) until(limit time.Duration, what string, done func() bool) {
	p.ps.t.Helper()
	Until(p.ps.t, limit, what, func() bool {
		if done() {
			return true
		}
		if !p.Alive() {
			p.ps.t.Fatalf("waiting for: %s; but it has ended: %s", what, p.fate())
		}
		return false
	})
}

// Until waits for a condition that it looks at often, and fails the test when it
// does not come. Limits are generous: they are no measurement.
func Until(t testing.TB, limit time.Duration, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain for: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Kill is Process.Kill, and waits until the data folder is free: a command that
// the server was just starting holds, between fork and exec, everything that its
// parent had open.
func (s *Server) Kill() {
	s.ps.t.Helper()
	s.Process.Kill()
	Until(s.ps.t, time.Minute, "the data folder of "+s.Name+" is free", func() bool {
		f, err := os.OpenFile(filepath.Join(s.Dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			return true // killed before it made one
		}
		defer f.Close()
		return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
	})
}

// readyTime is how long a process may take until it is ready.
const readyTime = 2 * time.Minute

// NATS is an existing NATS, as ax server --nats uses it.
type NATS struct {
	*Process
	URL   string // with the token
	Addr  string // host:port
	Store string // folder of the streams
}

// NATS starts a NATS of its own that syncs every message before it acknowledges
// it.
func (ps *Processes) NATS() *NATS {
	ps.t.Helper()
	n := ps.NewNATS()
	n.Run()
	return n
}

// NewNATS makes a NATS that does not run yet.
func (ps *Processes) NewNATS() *NATS {
	ps.t.Helper()
	const token = "a-token-for-tests"
	n := &NATS{Addr: ps.Port(), Store: ps.Dir("nats")}
	n.URL = ps.URL(n.Addr)
	n.Process = ps.New("nats", "natsd", "--dir", n.Store, "--listen", n.Addr, "--token", token)
	return n
}

// URL gives the URL of the test's NATS as it is reached at an address.
func (ps *Processes) URL(addr string) string { return "nats://a-token-for-tests@" + addr }

// Run starts NATS and waits until it is ready.
func (n *NATS) Run() {
	n.ps.t.Helper()
	n.Start()
	n.WaitOutput("natsd: ready", readyTime)
}

// Connect opens a connection that lives on when NATS is away.
func (n *NATS) Connect() *nats.Conn {
	n.ps.t.Helper()
	nc, err := ax.DialNATS(n.URL, "", quietly()...)
	if err != nil {
		n.ps.t.Fatal(err)
	}
	n.ps.t.Cleanup(nc.Close)
	return nc
}

// Server is an ax dev or ax server.
type Server struct {
	*Process
	ServerName events.ServerName
	Dir        string // data folder
	HTTP       string // host:port
	NATS       string // URL: of the embedded NATS, or the one that is used
	embedded   bool
}

// Dev makes an `ax dev` that does not run yet: server, NATS and worker in one.
func (ps *Processes) Dev(name string, args ...string) *Server {
	ps.t.Helper()
	s := &Server{ServerName: events.ServerName(name), Dir: ps.Dir(name), HTTP: ps.Port(), embedded: true}
	listen := ps.Port()
	s.NATS = "nats://" + listen
	s.Process = ps.New(name, "ax", append([]string{
		"dev", "--example=false", "--name", name, "--data", s.Dir, "--http", s.HTTP, "--nats-listen", listen,
	}, args...)...)
	return s
}

// Server makes an `ax server` on a NATS that does not run yet.
func (ps *Processes) Server(name string, n *NATS, args ...string) *Server {
	ps.t.Helper()
	s := &Server{ServerName: events.ServerName(name), Dir: ps.Dir(name), HTTP: ps.Port(), NATS: n.URL}
	s.Process = ps.New(name, "ax", append([]string{
		"server", "--name", name, "--data", s.Dir, "--http", s.HTTP, "--nats", s.NATS,
	}, args...)...)
	return s
}

// Worker makes an `ax worker` that may run any command, on the NATS at a URL. It
// does not run yet.
func (ps *Processes) Worker(name, url string, args ...string) *Process {
	return ps.New(name, "ax", append([]string{"worker", "--name", name, "--nats", url, "--shell", "*", "--data", ps.Dir("nobody")}, args...)...)
}

// Run starts the server and waits until it leads or follows closely.
func (s *Server) Run() {
	s.ps.t.Helper()
	s.Start()
	s.WaitReady()
}

// WaitReady waits until the server says that it is ready.
func (s *Server) WaitReady() {
	s.ps.t.Helper()
	s.until(readyTime, s.Name+" is ready", s.Ready)
}

// Ready reports whether the server says that it is ready.
func (s *Server) Ready() bool {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.fetch(ctx, "/readyz", "", io.Discard) == nil
}

// Token gives what the server's HTTP side wants, and its embedded NATS too.
func (s *Server) Token() (string, error) { return ax.ReadToken(s.Dir) }

// Get reads a path of the server's HTTP side, such as /api/v1/leaders, into v.
func (s *Server) Get(path string, v any) error {
	var b bytes.Buffer
	if err := s.GetText(path, &b); err != nil {
		return err
	}
	if err := json.Unmarshal(b.Bytes(), v); err != nil {
		return fmt.Errorf("%s%s: %w", s.Name, path, err)
	}
	return nil
}

// GetText copies what stands at a path of the server's HTTP side.
func (s *Server) GetText(path string, w io.Writer) error {
	token, err := s.Token()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return s.fetch(ctx, path, token, w)
}

func (s *Server) fetch(ctx context.Context, path, token string, w io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.HTTP+path, nil)
	if err != nil {
		return err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := harnessHTTP.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		return fmt.Errorf("%s%s: %s: %s", s.Name, path, resp.Status, bytes.TrimSpace(b))
	}
	_, err = io.Copy(w, resp.Body)
	return err
}

// harnessHTTP keeps no connections: the processes it asks are killed.
var harnessHTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// Leading reports whether the server says that it leads.
func (s *Server) Leading() bool {
	var all []struct {
		Leading bool `json:"leading"`
	}
	return s.Get("/api/v1/leaders", &all) == nil && len(all) == 1 && all[0].Leading
}

// Metric reads one metric of the server.
func (s *Server) Metric(name string) (value float64, err error) {
	var b bytes.Buffer
	if err := s.GetText("/metrics", &b); err != nil {
		return 0, err
	}
	for line := range strings.Lines(b.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			_, err := fmt.Sscan(rest, &value)
			return value, err
		}
	}
	return 0, fmt.Errorf("%s has no metric %s", s.Name, name)
}

// Connect opens a connection to the server's NATS that lives on when it is away.
func (s *Server) Connect() *nats.Conn {
	s.ps.t.Helper()
	nc, err := s.connect()
	if err != nil {
		s.ps.t.Fatal(err)
	}
	s.ps.t.Cleanup(nc.Close)
	return nc
}

func (s *Server) connect() (*nats.Conn, error) {
	token, err := s.Token()
	if err != nil {
		return nil, err
	}
	return ax.DialNATS(s.NATS, token, quietly()...)
}

// quietly are the options of the harness's own connections: that they are cut is
// what the tests are about.
func quietly() []nats.Option {
	return append(ax.Reconnecting(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
}

// Run runs one command line of the binary and gives what it printed and how it
// ended.
func (ps *Processes) Run(args ...string) (stdout, stderr string, code int) {
	ps.t.Helper()
	cmd := exec.Command(filepath.Join(ps.bin, "ax"), args...)
	cmd.Env = environment()
	cmd.Dir = ps.dir
	var out, errw bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errw
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		ps.t.Fatalf("ax %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), errw.String(), cmd.ProcessState.ExitCode()
}

// AX runs a command line of the binary against the server, or against its data
// folder while it does not run.
func (s *Server) AX(args ...string) (stdout, stderr string, code int) {
	s.ps.t.Helper()
	return s.ps.Run(append(args, "--data", s.Dir, "--server", "http://"+s.HTTP, "--nats", s.NATS)...)
}

// Verify runs `ax verify` and fails the test if log and views do not agree.
func (s *Server) Verify() *replay.Report {
	s.ps.t.Helper()
	out, errs, code := s.AX("verify", "-o", "json")
	rep := &replay.Report{}
	if err := json.Unmarshal([]byte(out), rep); err != nil || code != 0 || !rep.Clean {
		s.ps.t.Fatalf("ax verify on %s ended with %d: %s\n%s", s.Name, code, errs, out)
	}
	return rep
}

// Folder opens the log in the data folder of a server that does not run, and
// calls f with it.
func (s *Server) Folder(f func(events.Log)) {
	s.ps.t.Helper()
	folder, err := ax.OpenFolder(s.Dir, ax.DefaultNamespace)
	if err != nil {
		s.ps.t.Fatal(err)
	}
	defer func() {
		if err := folder.Close(); err != nil {
			s.ps.t.Error(err)
		}
	}()
	log, err := folder.Log(context.Background())
	if err != nil {
		s.ps.t.Fatal(err)
	}
	f(log)
}

// Addresses gives the addresses of the namespace that all processes are in.
func Addresses() events.Address {
	addr, err := events.NewAddress(ax.DefaultNamespace)
	if err != nil {
		panic(err) // a constant
	}
	return addr
}

// OpenLog opens the log over a connection.
func OpenLog(ctx context.Context, nc *nats.Conn) (events.Log, error) {
	return events.OpenJetStreamLog(ctx, nc, Addresses(), 0)
}
