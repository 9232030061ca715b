package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
)

// ax runs one command line and gives what it printed and its exit code.
func axRun(t *testing.T, stdin string, args ...string) (out, errOut string, code int) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(stdin), &o, &e)
	return o.String(), e.String(), code
}

// devServer is `ax dev` in this process.
type devServer struct {
	t    *testing.T
	args []string // that lead other commands to it
	out  *lines
}

// lines collects lines that a command prints.
type lines struct {
	mu   sync.Mutex
	all  []string
	more chan struct{}
}

func (l *lines) wait(t *testing.T, want string) string {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		l.mu.Lock()
		for _, line := range l.all {
			if strings.Contains(line, want) {
				l.mu.Unlock()
				return line
			}
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-deadline:
			t.Fatalf("no line with %q:\n%s", want, strings.Join(l.all, "\n"))
		}
	}
}

// startDev starts `ax dev` on free ports and stops it at the test's end.
func startDev(t *testing.T, extra ...string) *devServer {
	t.Helper()
	data := filepath.Join(t.TempDir(), "ax-data")
	httpAddr, natsAddr := freeAddress(t), freeAddress(t)
	d := &devServer{t: t, args: []string{"--data", data, "--server", "http://" + httpAddr, "--nats", "nats://" + natsAddr}, out: &lines{more: make(chan struct{})}}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		scan := bufio.NewScanner(r)
		for scan.Scan() {
			d.out.mu.Lock()
			d.out.all = append(d.out.all, scan.Text())
			close(d.out.more)
			d.out.more = make(chan struct{})
			d.out.mu.Unlock()
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	args := append([]string{"dev", "--data", data, "--http", httpAddr, "--nats-listen", natsAddr, "--log-level", "warn"}, extra...)
	go func() { ended <- run(ctx, args, strings.NewReader(""), w, w) }()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("ax dev ended with %d:\n%s", code, strings.Join(d.out.all, "\n"))
		}
		_ = w.Close()
	})
	d.out.wait(t, "AX is up")
	return d
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ax runs a command against the server; it has to succeed.
func (d *devServer) ax(args ...string) string {
	d.t.Helper()
	out, errOut, code := axRun(d.t, "", append(args, d.args...)...)
	if code != 0 {
		d.t.Fatalf("ax %s: exit %d: %s%s", strings.Join(args, " "), code, out, errOut)
	}
	return out
}

// fails runs a command that has to end with a code.
func (d *devServer) fails(code int, args ...string) string {
	d.t.Helper()
	out, errOut, got := axRun(d.t, "", append(args, d.args...)...)
	if got != code {
		d.t.Errorf("ax %s: exit %d, want %d: %s%s", strings.Join(args, " "), got, code, out, errOut)
	}
	return errOut
}

func decode[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("it did not come to pass: %s", what)
}

func TestDevRunsItsExampleWithinSeconds(t *testing.T) {
	began := time.Now()
	d := startDev(t)
	line := d.out.wait(t, "first SUCCESS")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the first SUCCESS took %s", took)
	}
	if !strings.Contains(line, "hello from hello-") {
		t.Errorf("the example said %q", line)
	}
	tasks := decode[[]api.Task](t, d.ax("get", "tasks", "-o", "json"))
	if len(tasks) != 1 || tasks[0].Name != "hello" {
		t.Errorf("tasks: %+v", tasks)
	}
}

// TestTheCommandLine walks through the verbs as a user would.
func TestTheCommandLine(t *testing.T) {
	d := startDev(t, "--example=false")
	file := filepath.Join(t.TempDir(), "job.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	job := func(command string) string {
		return fmt.Sprintf("apiVersion: ax/v1\nkind: Task\nmetadata: {name: job, title: 订单同步}\nspec:\n  executor: {shell: {command: %q}}\n  retry: {max: 0}\n", command)
	}
	write(job("echo hello; exit 0"))
	if out := d.ax("apply", "-f", file); !strings.Contains(out, "task job defined") {
		t.Errorf("apply: %s", out)
	}
	if out := d.ax("apply", "-f", file); !strings.Contains(out, "task job unchanged") {
		t.Errorf("apply again: %s", out)
	}
	id := strings.TrimSpace(d.ax("trigger", "job", "--params", `{"n":1}`, "--key", "k1"))
	// A script takes the id from the output, whether the key is new or known.
	again, remark, code := axRun(t, "", append([]string{"trigger", "job", "--key", "k1"}, d.args...)...)
	if code != 0 || again != id+"\n" || !strings.Contains(remark, "k1 is known") {
		t.Errorf("the same key gave exit %d, %q and %q, want %s", code, again, remark, id)
	}
	state := func(id string) events.State {
		all := decode[[]api.Instance](t, d.ax("get", "instances", "--task", "job", "-o", "json"))
		for _, i := range all {
			if string(i.ID) == id {
				return i.State
			}
		}
		return 0
	}
	eventually(t, "the instance succeeds", func() bool { return state(id) == events.StateSuccess })

	history := decode[[]replay.Record](t, d.ax("history", id, "-o", "json"))
	var kinds []string
	for _, r := range history {
		kinds = append(kinds, r.Kind.String())
	}
	if got := strings.Join(kinds, " "); got != "fired dispatched started succeeded" {
		t.Errorf("history: %s", got)
	}
	for _, want := range []string{"is SUCCESS", "was triggered by cli", "version 1 of task job was defined by cli"} {
		if out := d.ax("why", id); !strings.Contains(out, want) {
			t.Errorf("why does not say %q:\n%s", want, out)
		}
	}
	ofTask := decode[[]replay.Record](t, d.ax("get", "events", "--task", "job", "-o", "json"))
	if n := len(ofTask); n != 5 || ofTask[n-1].Kind != events.KindSucceeded {
		t.Errorf("events of the task: %+v", ofTask)
	}
	led := decode[[]replay.Record](t, d.ax("get", "events", "--kind", "led", "-o", "json"))
	if table := d.ax("get", "events", "--kind", "led"); !strings.Contains(table, "server ") || !strings.Contains(table, "term "+led[0].Term) || led[0].Term == "" {
		t.Errorf("a leadership: %s", table)
	}
	fired := decode[[]replay.Record](t, d.ax("get", "events", "--kind", "fired", "--task", "job", "-o", "json"))
	if len(fired) != 1 || string(fired[0].Instance) != id || fired[0].Due == nil || fired[0].Actor == "" {
		t.Errorf("events: %+v", fired)
	}

	t.Run("an instance is cancelled while it runs", func(t *testing.T) {
		write(job("sleep 60"))
		d.ax("apply", "-f", file)
		id := strings.TrimSpace(d.ax("trigger", "job"))
		eventually(t, "it runs", func() bool { return state(id) == events.StateRunning })
		if out := d.ax("cancel", id, "--reason", "enough"); !strings.Contains(out, "asked to end") {
			t.Errorf("cancel of what runs: %s", out)
		}
		eventually(t, "it is cancelled", func() bool { return state(id) == events.StateCancelled })
		d.fails(exitConflict, "cancel", id)
		if out := d.ax("why", id); !strings.Contains(out, "asked it to end: enough") {
			t.Errorf("why does not say who cancelled, and why:\n%s", out)
		}
	})
	t.Run("an instance is cancelled while it waits", func(t *testing.T) {
		queued := filepath.Join(t.TempDir(), "queued.yaml")
		if err := os.WriteFile(queued, []byte("apiVersion: ax/v1\nkind: Task\nmetadata: {name: queued}\nspec:\n  group: nobody\n  executor: {shell: {command: 'true'}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		d.ax("apply", "-f", queued)
		id := strings.TrimSpace(d.ax("trigger", "queued"))
		if out := d.ax("why", id); !strings.Contains(out, "no worker that beats to this leader has slots for the group") {
			t.Errorf("why does not say that nobody serves the group:\n%s", out)
		}
		if out := d.ax("cancel", id); !strings.HasSuffix(out, " cancelled\n") {
			t.Errorf("cancel of what waits: %s", out)
		}
		d.ax("delete", "task", "queued")
	})
	t.Run("a command that fails is a dead letter", func(t *testing.T) {
		write(job("echo broken >&2; exit 3"))
		d.ax("apply", "-f", file)
		id := strings.TrimSpace(d.ax("trigger", "job"))
		eventually(t, "it is dead", func() bool { return state(id) == events.StateDead })
		dead := decode[[]api.Instance](t, d.ax("get", "dead", "-o", "json"))
		if len(dead) != 1 || !strings.Contains(dead[0].Error, "exit status 3: broken") {
			t.Errorf("dead letters: %+v", dead)
		}
		d.ax("redrive", id, "--reason", "once more")
		eventually(t, "it is dead again", func() bool {
			all := decode[[]api.Instance](t, d.ax("get", "dead", "-o", "json"))
			return len(all) == 1 && all[0].Attempt > dead[0].Attempt
		})
		d.ax("discard", id, "--reason", "known")
		if s := state(id); s != events.StateDiscarded {
			t.Errorf("after discard it is %s", s)
		}
		_, errOut, code := axRun(t, "", append([]string{"redrive", id}, d.args...)...)
		if code != exitConflict || !strings.Contains(errOut, "DISCARDED") {
			t.Errorf("redrive of a discarded one: exit %d, %s", code, errOut)
		}
	})
	t.Run("a task is paused, resumed, deleted", func(t *testing.T) {
		d.ax("pause", "task", "job", "--reason", "maintenance")
		if !decode[[]api.Task](t, d.ax("get", "tasks", "-o", "json"))[0].Paused {
			t.Error("not paused")
		}
		d.ax("resume", "task", "job")
		d.ax("delete", "task", "job")
		if all := decode[[]api.Task](t, d.ax("get", "tasks", "-o", "json")); len(all) != 0 {
			t.Errorf("still there: %+v", all)
		}
	})
	t.Run("what is wrong has its exit code", func(t *testing.T) {
		d.fails(exitNotFound, "trigger", "nobody")
		d.fails(exitNotFound, "history", "nobody-1-s1")
		d.fails(exitNotFound, "why", "nobody-1-s1")
		d.fails(exitNotFound, "delete", "task", "nobody")
		d.fails(exitNotFound, "cancel", "nobody-1-s1")
		d.fails(exitUsage, "trigger", "job", "--params", "no json")
		d.fails(exitUsage, "get", "instances", "--state", "ASLEEP")
		d.fails(exitUsage, "get", "events", "--kind", "eaten")
		d.fails(exitUsage, "get", "instances", "--limit", "0")
		d.fails(exitUsage, "get", "instances", "--since", "yesterday")
		d.fails(exitUsage, "nonsense")
		d.fails(exitUsage, "get", "tasks", "--no-such-flag")
		d.fails(exitUsage, "get", "tasks", "-o", "xml")
		write("apiVersion: ax/v1\nkind: Task\nmetadata: {name: x}\nspec:\n  triggers:\n    - {name: main, cron: '61 * * * *'}\n  executor: {shell: {command: 'true'}}\n  retires: 3\n")
		got := d.fails(exitUsage, "apply", "-f", file)
		for _, want := range []string{":6:", "spec.triggers[0].cron", ":8:", "retires", "retry"} {
			if !strings.Contains(got, want) {
				t.Errorf("apply does not say %q:\n%s", want, got)
			}
		}
	})
	t.Run("the log verifies, and the past can be seen", func(t *testing.T) {
		if out := d.ax("verify"); !strings.Contains(out, "clean") {
			t.Errorf("verify: %s", out)
		}
		past := decode[replayed](t, d.ax("replay", "--at", history[1].Position.String(), "-o", "json"))
		if past.States["DISPATCHED"]+past.States["SCHEDULED"] != 1 {
			t.Errorf("at %s: %+v", history[1].Position, past.States)
		}
		if out := d.ax("replay", "--at", history[0].Time.Add(-time.Hour).Format(time.RFC3339)); !strings.Contains(out, "0 tasks") {
			t.Errorf("an hour before: %s", out)
		}
		d.fails(exitNotFound, "replay", "--at", "99999")
		if got := d.fails(exitNotFound, "replay", "--instance", "nobody-1-s1"); !strings.Contains(got, "no instance nobody-1-s1") {
			t.Errorf("replay of nobody: %s", got)
		}
		if got := d.fails(exitNotFound, "replay", "--task", "nobody"); !strings.Contains(got, "no task nobody") {
			t.Errorf("replay of no task: %s", got)
		}
		d.ax("replay", "--task", "job", "--instance", id)
	})
}

func TestNextIsForScripts(t *testing.T) {
	for _, c := range []struct {
		args []string
		out  string
		code int
	}{
		{[]string{"0 30 9 ? * MON-FRI", "--zone", "Europe/Berlin", "--from", "2026-11-27T12:00:00Z", "-n", "2"}, "2026-11-30T09:30:00+01:00\n2026-12-01T09:30:00+01:00\n", 0},
		{[]string{"*/15 * * * *", "--from", "2026-11-30T12:00:00Z", "-n", "1"}, "2026-11-30T12:15:00Z\n", 0},
		{[]string{"0 0 0 30 2 ?", "-n", "1"}, "", 0},
		{[]string{"0 0 12 1 1 ? 2020", "-n", "3"}, "", 0},
		{[]string{"@reboot"}, "", 0},
		{[]string{"61 * * * *"}, "", exitUsage},
		{[]string{"* * * * *", "--zone", "Nowhere/City"}, "", exitUsage},
		{[]string{"* * * * *", "--from", "noon"}, "", exitUsage},
		{[]string{"* * * * *", "-n", "0"}, "", exitUsage},
		{nil, "", exitUsage},
	} {
		out, errOut, code := axRun(t, "", append([]string{"next"}, c.args...)...)
		if out != c.out || code != c.code || (out == "") != (errOut != "") {
			t.Errorf("ax next %q: exit %d, %q, %q", c.args, code, out, errOut)
		}
	}
}

func TestWithoutAServerCommandsSayWhatToDo(t *testing.T) {
	data := filepath.Join(t.TempDir(), "none")
	for _, args := range [][]string{{"get", "tasks"}, {"trigger", "job"}, {"why", "x"}} {
		_, errOut, code := axRun(t, "", append(args, "--data", data, "--server", "http://127.0.0.1:1")...)
		if code != exitUnavailable || !strings.Contains(errOut, "ax dev") {
			t.Errorf("ax %v: exit %d, %s", args, code, errOut)
		}
	}
	if _, errOut, code := axRun(t, "", "verify", "--data", data); code != exitNotFound {
		t.Errorf("verify: exit %d, %s", code, errOut)
	}
}

// TestNoOpenBind: nothing listens where other machines could reach it.
func TestNoOpenBind(t *testing.T) {
	for _, args := range [][]string{
		{"dev", "--http", "0.0.0.0:0"}, {"dev", "--http", ":0"}, {"dev", "--http", "[::]:0"}, {"dev", "--nats-listen", "0.0.0.0:4280", "--http", "127.0.0.1:0"},
		{"server", "--http", "192.0.2.1:8480"}, {"server", "--http", "example.com:80"},
	} {
		_, errOut, code := axRun(t, "", append(args, "--data", filepath.Join(t.TempDir(), "d"))...)
		if code != exitUsage || !strings.Contains(errOut, "loopback") {
			t.Errorf("ax %v: exit %d, %s", args, code, errOut)
		}
	}
}

func TestABusyPortOrFolderIsAClearError(t *testing.T) {
	d := startDev(t, "--example=false")
	data, httpURL := d.args[1], d.args[3]
	other := filepath.Join(t.TempDir(), "other")
	_, errOut, code := axRun(t, "", "dev", "--data", other, "--http", strings.TrimPrefix(httpURL, "http://"))
	if code != exitFailed || !strings.Contains(errOut, "--http") {
		t.Errorf("HTTP port in use: exit %d, %s", code, errOut)
	}
	_, errOut, code = axRun(t, "", "dev", "--data", other, "--http", freeAddress(t), "--nats-listen", strings.TrimPrefix(d.args[5], "nats://"))
	if code != exitFailed || !strings.Contains(errOut, "--nats-listen") {
		t.Errorf("NATS port in use: exit %d, %s", code, errOut)
	}
	_, errOut, code = axRun(t, "", "dev", "--data", data, "--http", freeAddress(t), "--nats-listen", freeAddress(t))
	if code != exitFailed || !strings.Contains(errOut, "in use") {
		t.Errorf("data folder in use: exit %d, %s", code, errOut)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut, code = axRun(t, "", "dev", "--data", filepath.Join(file, "sub"), "--http", freeAddress(t))
	if code != exitFailed || !strings.Contains(errOut, "--data") {
		t.Errorf("a data folder that cannot be made: exit %d, %s", code, errOut)
	}
}
