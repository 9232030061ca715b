package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ax-scheduler/ax/workers/internal/supervise"
)

// MaxShellOutput is how much of a command's output its result keeps: the first
// and the last half, with a mark between.
const MaxShellOutput = 16 << 10

// ShellConfig is the configuration of the executor kind shell.
type ShellConfig struct {
	// Command is given to the shell as its script.
	Command string `json:"command"`
	// Shell is the program and its options before the script. Default
	// ["/bin/sh", "-c"].
	Shell []string `json:"shell,omitempty"`
	// Stdin is the command's standard input; empty: none.
	Stdin string `json:"stdin,omitempty"`
	// Env is set in the command's environment, beside PATH, HOME and AX_*.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the working folder; "~" is the command's HOME. Default: the worker's.
	Dir string `json:"dir,omitempty"`
}

// Shells is the executor kind shell. It is off unless commands are allowed:
// whoever may define tasks may then run programs as the worker's user.
type Shells struct {
	// Allow lists patterns of commands that may run: "*" is any; a pattern that ends
	// in "*" allows plain words behind its beginning (letters, digits and _./:=@%+,-,
	// no ".." and nothing that a shell would take for more); another is the command
	// itself. Where "*" is not allowed, a definition may not name another shell, nor
	// set an environment. Empty: none.
	Allow []string
	// Env is the environment that every command has.
	Env map[string]string
}

// Factory is the Factory of the kind shell.
func (s *Shells) Factory(config json.RawMessage) (Executor, error) {
	var c ShellConfig
	if err := json.Unmarshal(config, &c); err != nil || c.Command == "" {
		return nil, Permanent(fmt.Errorf("executor shell: want {command: ...}, have %.200s", config))
	}
	if !slices.Contains(s.Allow, "*") {
		if !s.allowed(c.Command) {
			return nil, Permanent(fmt.Errorf("this worker does not run the command %.100q; start it with --shell and a pattern that allows it", c.Command))
		}
		if len(c.Shell) > 0 || len(c.Env) > 0 {
			return nil, Permanent(fmt.Errorf("this worker runs the command %.100q in its own shell and environment only: leave out shell and env, or start it with --shell '*'", c.Command))
		}
	}
	if n := longest(&c); n > maxArgument {
		return nil, Permanent(fmt.Errorf("executor shell: command or a variable of %d bytes, the kernel takes %d; put it into a file, or into stdin", n, maxArgument))
	}
	if len(c.Shell) == 0 {
		c.Shell = []string{"/bin/sh", "-c"}
	}
	return &shellExecutor{c, s.Env}, nil
}

// maxArgument is what the kernel takes of one argument or variable (execve(2)), less
// a name.
const maxArgument = 128<<10 - 300

func longest(c *ShellConfig) int {
	n := len(c.Command)
	for k, v := range c.Env {
		n = max(n, len(k)+len(v))
	}
	return n
}

func (s *Shells) allowed(command string) bool {
	for _, p := range s.Allow {
		prefix, open := strings.CutSuffix(p, "*")
		rest, is := strings.CutPrefix(command, prefix)
		if command == p || open && is && plainWords.MatchString(rest) && !strings.Contains(rest, "..") {
			return true
		}
	}
	return false
}

// plainWords mean nothing to a shell but themselves.
var plainWords = regexp.MustCompile(`^[A-Za-z0-9_./:=@%+, -]*$`)

type shellExecutor struct {
	config ShellConfig
	env    map[string]string
}

// shellResult is the result of a command.
type shellResult struct {
	ExitCode int    `json:"exitCode"`
	Output   string `json:"output,omitempty"`
}

// pipeGrace is how long a command's output may stay open after the command
// itself has ended, held by what it left behind.
const pipeGrace = time.Second

// Run implements Executor: it runs the command under a supervisor, ends it and all
// that it has started by TERM when the context ends and by KILL when Killed says
// so, and captures standard output and standard error together.
func (x *shellExecutor) Run(ctx context.Context, a *Attempt) (json.RawMessage, error) {
	args := append(append([]string(nil), x.config.Shell[1:]...), x.config.Command)
	cmd := exec.Command(x.config.Shell[0], args...)
	env := x.environment(a)
	cmd.Env = listOf(env)
	if cmd.Dir = x.config.Dir; cmd.Dir == "~" {
		cmd.Dir = env["HOME"]
	}
	if x.config.Stdin != "" {
		cmd.Stdin = strings.NewReader(x.config.Stdin)
	}
	out := &cappedOutput{limit: MaxShellOutput}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = pipeGrace

	ending, err := runCommand(ctx, cmd)
	result := shellResult{ExitCode: ending.Code, Output: out.String()}
	body, merr := json.Marshal(result)
	if merr != nil {
		return nil, merr
	}
	switch {
	case err != nil && !errors.Is(err, exec.ErrWaitDelay): // that: something held its output
		err = fmt.Errorf("command did not start: %w", err)
	case ending.Code != 0:
		err = fmt.Errorf("command ended with %s: %s", ending.Text, lastLine(result.Output))
	default:
		err = nil
	}
	return body, err
}

// runCommand returns when the command and everything that it has started have
// ended, or it could not be started.
func runCommand(ctx context.Context, cmd *exec.Cmd) (supervise.Ending, error) {
	if ctx.Err() != nil {
		return supervise.Ending{Code: -1}, context.Cause(ctx)
	}
	p, err := supervise.Start(cmd)
	if err != nil {
		return supervise.Ending{Code: -1}, err
	}
	ended := make(chan struct{})
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		p.Terminate()
		select {
		case <-ended:
		case <-Killed(ctx):
			p.Kill()
		}
	}()
	ending, err := p.Wait()
	close(ended)
	<-told
	return ending, err
}

// environment is declared and clean: nothing of the worker's own gets in. What the
// login of the worker's user would set is set, as cron does.
func (x *shellExecutor) environment(a *Attempt) map[string]string {
	env := map[string]string{"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/", "SHELL": x.config.Shell[0]}
	if u, err := currentUser(); err == nil {
		env["LOGNAME"], env["USER"] = u.Username, u.Username
		if u.HomeDir != "" {
			env["HOME"] = u.HomeDir
		}
	}
	for k, v := range x.env {
		env[k] = v
	}
	for k, v := range x.config.Env {
		env[k] = v
	}
	env["AX_TASK"] = string(a.Task)
	env["AX_INSTANCE"] = string(a.Instance)
	env["AX_ATTEMPT"] = strconv.FormatInt(a.Number, 10)
	env["AX_TRIGGER"] = string(a.Trigger)
	env["AX_DUE"] = a.Due.UTC().Format(time.RFC3339Nano)
	env["AX_KEY"] = a.Key
	env["AX_FENCING_TOKEN"] = strconv.FormatUint(a.Token, 10)
	if len(a.Params) <= 64<<10 { // the kernel bounds a variable at 128 KiB
		env["AX_PARAMS"] = string(a.Params)
	}
	return env
}

// currentUser is asked once: it reads files.
var currentUser = sync.OnceValues(user.Current)

func listOf(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for k, v := range env {
		if !strings.ContainsAny(k, "=\x00") && !strings.Contains(v, "\x00") {
			list = append(list, k+"="+v)
		}
	}
	return list
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\r\n")
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	if s == "" {
		return "no output"
	}
	return clipText(s, 500)
}

// cappedOutput keeps the first and the last half of limit bytes that are written
// to it. It never blocks and never fails, so output cannot change an outcome.
type cappedOutput struct {
	limit   int
	head    []byte
	tail    []byte // ring
	tailPos int
	total   int64
}

// Write implements io.Writer. exec calls it from one goroutine.
func (o *cappedOutput) Write(p []byte) (int, error) {
	n := len(p)
	o.total += int64(n)
	half := o.limit / 2
	if room := half - len(o.head); room > 0 {
		k := min(room, len(p))
		o.head = append(o.head, p[:k]...)
		p = p[k:]
	}
	if len(p) > half {
		p = p[len(p)-half:]
	}
	for len(p) > 0 {
		if len(o.tail) < half {
			k := min(half-len(o.tail), len(p))
			o.tail = append(o.tail, p[:k]...)
			p = p[k:]
			continue
		}
		k := copy(o.tail[o.tailPos:], p)
		o.tailPos = (o.tailPos + k) % half
		p = p[k:]
	}
	return n, nil
}

// String gives what was kept, as valid UTF-8.
func (o *cappedOutput) String() string {
	var b bytes.Buffer
	b.Write(o.head)
	if lost := o.total - int64(len(o.head)+len(o.tail)); lost > 0 {
		fmt.Fprintf(&b, "\n... %d bytes not kept ...\n", lost)
	}
	b.Write(o.tail[o.tailPos:])
	b.Write(o.tail[:o.tailPos])
	return strings.ToValidUTF8(b.String(), string('�'))
}
