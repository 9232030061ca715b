//go:build unix

package workers

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runShell runs one attempt of a command and gives its decoded result.
func runShell(ctx context.Context, t *testing.T, config ShellConfig, a *Attempt) (shellResult, error) {
	t.Helper()
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	x, err := (&Shells{Allow: []string{"*"}, Env: map[string]string{"FROM_WORKER": "yes"}}).Factory(body)
	if err != nil {
		t.Fatal(err)
	}
	raw, runErr := x.Run(ctx, a)
	var r shellResult
	if raw != nil {
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatalf("result %s: %v", raw, err)
		}
	}
	return r, runErr
}

func anAttempt() *Attempt {
	return &Attempt{
		Instance: "report@daily@2026-03-29T01:00:00Z", Number: 2, Task: "report", Trigger: "daily",
		Due: time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC), Key: "k", Token: 7, Params: json.RawMessage(`{"a":1}`),
	}
}

func TestShellResults(t *testing.T) {
	for name, c := range map[string]struct {
		config ShellConfig
		exit   int
		output string
		err    string
	}{
		"success, both streams": {config: ShellConfig{Command: "echo out; echo err >&2"}, output: "out\nerr\n"},
		"failure says the last line": {
			config: ShellConfig{Command: "echo first; echo no such table; exit 3"},
			exit:   3, output: "first\nno such table\n", err: "exit status 3: no such table",
		},
		"failure without output":     {config: ShellConfig{Command: "false"}, exit: 1, err: "exit status 1: no output"},
		"ended by a signal":          {config: ShellConfig{Command: "kill -9 $$"}, exit: -1, err: "signal: killed"},
		"no such command":            {config: ShellConfig{Command: "/nonexistent/x"}, exit: 127, output: "not found", err: "exit status 127"},
		"standard input":             {config: ShellConfig{Command: "cat", Stdin: "a\nb"}, output: "a\nb"},
		"standard input not read":    {config: ShellConfig{Command: "true", Stdin: strings.Repeat("x", 1<<20)}},
		"another shell":              {config: ShellConfig{Command: "not used", Shell: []string{"/bin/echo", "-n", "hello"}}, output: "hello not used"},
		"folder":                     {config: ShellConfig{Command: "pwd", Dir: "/"}, output: "/\n"},
		"a shell that is not there":  {config: ShellConfig{Command: "true", Shell: []string{"/nonexistent/sh"}}, exit: -1, err: "did not start"},
		"a folder that is not there": {config: ShellConfig{Command: "true", Dir: "/nonexistent"}, exit: -1, err: "did not start"},
		"output that is not UTF-8":   {config: ShellConfig{Command: `printf '\377\376ok'`}, output: "\ufffdok"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := runShell(t.Context(), t, c.config, anAttempt())
			if r.ExitCode != c.exit {
				t.Errorf("exit code %d, want %d", r.ExitCode, c.exit)
			}
			if !strings.Contains(r.Output, c.output) {
				t.Errorf("output %q, want %q in it", r.Output, c.output)
			}
			switch {
			case c.err == "" && err != nil:
				t.Errorf("error %v, want none", err)
			case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
				t.Errorf("error %v, want %q in it", err, c.err)
			}
		})
	}
}

// A command sees what is declared for it and nothing of the worker's own
// environment.
func TestShellEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THE_WORKER", "must not be seen")
	r, err := runShell(t.Context(), t, ShellConfig{
		Command: "env", Env: map[string]string{"MINE": "1", "AX_TASK": "cannot be set", "BAD=NAME": "x", "NUL": "a\x00b"},
	}, anAttempt())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"FROM_WORKER=yes", "MINE=1", "AX_TASK=report", "AX_TRIGGER=daily", "AX_ATTEMPT=2", "AX_FENCING_TOKEN=7", "AX_KEY=k",
		"AX_DUE=2026-03-29T01:00:00Z", "AX_INSTANCE=report@daily@2026-03-29T01:00:00Z", `AX_PARAMS={"a":1}`, "PATH=",
	} {
		if !strings.Contains("\n"+r.Output, "\n"+want) {
			t.Errorf("no %q in the environment:\n%s", want, r.Output)
		}
	}
	for _, not := range []string{"SECRET_OF_THE_WORKER", "BAD", "NUL", "cannot be set"} {
		if strings.Contains(r.Output, not) {
			t.Errorf("%q is in the environment:\n%s", not, r.Output)
		}
	}
	// Parameters that the kernel would refuse are left out, the command still runs.
	a := anAttempt()
	a.Params = json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	if r, err := runShell(t.Context(), t, ShellConfig{Command: "echo ${AX_PARAMS-unset}"}, a); err != nil || r.Output != "unset\n" {
		t.Errorf("with 200 KiB of parameters: %q, %v", r.Output, err)
	}
}

// However much a command writes, the result keeps its first and last part, and
// the command is neither blocked nor ended by it.
func TestShellOutputCapped(t *testing.T) {
	r, err := runShell(t.Context(), t, ShellConfig{Command: "echo first; head -c 5000000 /dev/zero | tr '\\0' x; echo; echo last"}, anAttempt())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Output) > MaxShellOutput+100 || !strings.HasPrefix(r.Output, "first\n") || !strings.HasSuffix(r.Output, "\nlast\n") {
		t.Errorf("kept %d bytes, from %.20q to %q", len(r.Output), r.Output, r.Output[len(r.Output)-20:])
	}
	if !strings.Contains(r.Output, "bytes not kept") {
		t.Error("the result does not say that something is missing")
	}
}

func TestCappedOutput(t *testing.T) {
	for _, c := range []struct {
		writes []string
		want   string
	}{
		{nil, ""},
		{[]string{"abc"}, "abc"},
		{[]string{"abcdef", "gh"}, "abcdefgh"},
		{[]string{"abcdefghi"}, "abcd\n... 1 bytes not kept ...\nfghi"},
		{[]string{"ab", "cd", "ef", "gh", "ij", "k"}, "abcd\n... 3 bytes not kept ...\nhijk"},
		{[]string{"a", "bcdefghijklmnopqrst", "u"}, "abcd\n... 13 bytes not kept ...\nrstu"},
	} {
		o := &cappedOutput{limit: 8}
		for _, w := range c.writes {
			if n, err := o.Write([]byte(w)); n != len(w) || err != nil {
				t.Fatalf("Write(%q) = %d, %v", w, n, err)
			}
		}
		if got := o.String(); got != c.want {
			t.Errorf("%q: kept %q, want %q", c.writes, got, c.want)
		}
	}
}

// Only allowed commands run; what is not allowed fails for good.
func TestShellAllow(t *testing.T) {
	for _, c := range []struct {
		allow   []string
		command string
		ok      bool
	}{
		{nil, "true", false},
		{[]string{"*"}, "anything; at all", true},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a b", true},
		{[]string{"/opt/jobs/*"}, "/opt/job", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/../../bin/echo", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a; id", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a $(id)", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a `id`", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a | b", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a > b", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a\nid", false},
		{[]string{"/opt/jobs/*"}, "/opt/jobs/a --on=2026-11-30 @x", true},
		{[]string{"true"}, "true", true},
		{[]string{"true"}, "true && rm", false},
	} {
		body, _ := json.Marshal(ShellConfig{Command: c.command})
		_, err := (&Shells{Allow: c.allow}).Factory(body)
		if (err == nil) != c.ok {
			t.Errorf("allow %q, command %q: %v", c.allow, c.command, err)
		}
		var p permanentError
		if err != nil && !errors.As(err, &p) {
			t.Errorf("allow %q, command %q: the refusal is not permanent", c.allow, c.command)
		}
	}
	for _, c := range []ShellConfig{{Command: "true", Shell: []string{"/usr/bin/env"}}, {Command: "true", Env: map[string]string{"LD_PRELOAD": "x"}}} {
		body, _ := json.Marshal(c)
		if _, err := (&Shells{Allow: []string{"true"}}).Factory(body); err == nil {
			t.Errorf("with a pattern %+v is taken", c)
		}
	}
	for _, c := range []ShellConfig{{Command: strings.Repeat(":", 200_000)}, {Command: ":", Env: map[string]string{"X": strings.Repeat("x", 200_000)}}} {
		body, _ := json.Marshal(c)
		if _, err := (&Shells{Allow: []string{"*"}}).Factory(body); err == nil || !strings.Contains(err.Error(), "put it into a file") {
			t.Errorf("a command that no kernel takes: %v", err)
		}
	}
	for _, bad := range []string{``, `{}`, `[]`, `{"command":7}`} {
		if _, err := (&Shells{Allow: []string{"*"}}).Factory(json.RawMessage(bad)); err == nil {
			t.Errorf("configuration %q is taken", bad)
		}
	}
}

// begunShell runs a command in the background, and waits until it has written
// the ids of its processes to the pipe $PIDS.
func begunShell(ctx context.Context, t *testing.T, command string) (pids []int, ended <-chan error) {
	t.Helper()
	fifo := filepath.Join(t.TempDir(), "pids")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := runShell(ctx, t, ShellConfig{Command: command, Env: map[string]string{"PIDS": fifo}}, anAttempt())
		done <- err
	}()
	text, err := os.ReadFile(fifo) // blocks until the command has written
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			t.Fatalf("the command wrote %q", text)
		}
		pids = append(pids, pid)
	}
	return pids, done
}

// attemptContext is what the runtime gives an executor.
func attemptContext(t *testing.T) (ctx context.Context, end context.CancelCauseFunc, kill func()) {
	k := &killSwitch{c: make(chan struct{})}
	ctx, cancel := context.WithCancelCause(context.WithValue(t.Context(), killKey{}, k))
	return ctx, cancel, k.kill
}

// gone fails unless the processes are gone, or are zombies that nobody awaits.
func gone(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, 0); err == nil && !zombie(pid) {
			t.Errorf("process %d still runs", pid)
		}
	}
}

func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}

// At the end of its time a command gets TERM, and so does what it started.
func TestShellTerminates(t *testing.T) {
	ctx, end, _ := attemptContext(t)
	pids, ended := begunShell(ctx, t, `sleep 1000 & echo $$ $! > "$PIDS"; wait`)
	end(ErrTimeout)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "terminated") {
		t.Errorf("error %v, want that it was terminated", err)
	}
	gone(t, pids)
}

// What ignores TERM is killed, with all of its group, when Killed says so.
func TestShellKills(t *testing.T) {
	ctx, end, kill := attemptContext(t)
	pids, ended := begunShell(ctx, t, `trap '' TERM; (trap '' TERM; while :; do sleep 1000; done) & echo $$ $! > "$PIDS"; while :; do wait; done`)
	end(ErrTimeout)
	kill()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("error %v, want that it was killed", err)
	}
	gone(t, pids)
}

// What a command leaves in the background when it ends well is ended with it, and
// does not hold the attempt open through the output it inherited.
func TestShellLeavesNothingBehind(t *testing.T) {
	pids, ended := begunShell(t.Context(), t, `sleep 1000 & echo $! > "$PIDS"; exit 0`)
	if err := <-ended; err != nil {
		t.Errorf("error %v, want none: the command itself ended well", err)
	}
	gone(t, pids)
}

// A command that ends by itself on TERM within its grace is over then.
func TestShellEndsGently(t *testing.T) {
	ctx, end, _ := attemptContext(t)
	pids, ended := begunShell(ctx, t, `trap 'kill $!; exit 0' TERM; sleep 1000 & echo $$ $! > "$PIDS"; wait`)
	end(ErrCancelled)
	if err := <-ended; err != nil {
		t.Errorf("error %v, want none", err)
	}
	gone(t, pids)
}

// A context that has ended starts nothing.
func TestShellNotStarted(t *testing.T) {
	ctx, end, _ := attemptContext(t)
	end(ErrSuperseded)
	mark := filepath.Join(t.TempDir(), "ran")
	if _, err := runShell(ctx, t, ShellConfig{Command: "touch " + mark}, anAttempt()); !errors.Is(err, ErrSuperseded) {
		t.Errorf("error %v, want %v", err, ErrSuperseded)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the command ran")
	}
}

// A worker that is killed takes its commands with it. The test process starts
// itself as that worker.
func TestShellDiesWithWorker(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux ends a child with its parent")
	}
	const asWorker = "AX_TEST_SHELL_WORKER"
	if fifo := os.Getenv(asWorker); fifo != "" {
		_, _ = runShell(t.Context(), t, ShellConfig{Command: `echo $$ > "$PIDS"; exec sleep 1000`, Env: map[string]string{"PIDS": fifo}}, anAttempt())
		return
	}
	fifo := filepath.Join(t.TempDir(), "pid")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(self, []string{self, "-test.run", "^TestShellDiesWithWorker$"}, &os.ProcAttr{Env: append(os.Environ(), asWorker+"="+fifo)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(fifo)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	for range 2000 { // it becomes a zombie, or goes, as soon as the kernel gets to it
		if zombie(pid) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("process %d outlived its worker", pid)
}
