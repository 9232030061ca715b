package supervise

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// self is this program, also when its file was replaced since.
const self = "/proc/self/exe"

type supervised struct {
	cmd     *exec.Cmd
	mark    string   // stands in the environment of all that come of the command
	control *os.File // orders to the supervisor; its end is the last one
	status  *os.File // what the supervisor says at the end
}

// markName is the variable by which the processes of a command are found when its
// supervisor is gone.
const markName = "AX_SUPERVISOR"

// sweep kills every process that has a mark in its environment.
func sweep(mark string) {
	for range 500 { // more are started while some are killed
		names, err := readNames("/proc")
		if err != nil {
			return
		}
		found := 0
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			if _, dead, ok := parentOf(pid); !ok || dead {
				continue
			}
			env, err := os.ReadFile("/proc/" + name + "/environ") // of another user: EACCES
			if err == nil && slices.Contains(strings.Split(string(env), "\x00"), mark) && syscall.Kill(pid, syscall.SIGKILL) == nil {
				found++
			}
		}
		if found == 0 {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func start(cmd *exec.Cmd) (Process, error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	if cmd.Dir != "" { // the error of a start names the program only
		if err := syscall.Access(cmd.Dir, 1); err != nil {
			return nil, &os.PathError{Op: "chdir", Path: cmd.Dir, Err: err}
		}
	}
	orders, control, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	status, said, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, orders.Close(), control.Close())
	}
	cmd.Args = append([]string{supervisorName, cmd.Path}, cmd.Args...)
	cmd.Path = self
	cmd.ExtraFiles = []*os.File{orders, said} // ordersFD and statusFD
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	mark := markName + "=" + rand.Text()
	cmd.Env = append(cmd.Environ(), mark)
	err = cmd.Start()
	_, _ = orders.Close(), said.Close()
	if err != nil {
		_, _ = control.Close(), status.Close()
		return nil, err
	}
	return &supervised{cmd: cmd, mark: mark, control: control, status: status}, nil
}

func (p *supervised) order(o byte) { _, _ = p.control.Write([]byte{o}) } // EPIPE: all have ended

// Terminate implements Process.
func (p *supervised) Terminate() { p.order(orderTerminate) }

// patience is how long a supervisor may take to kill. One that was stopped or hurt by
// its own command is killed itself then.
const patience = 2 * time.Second

// Kill implements Process.
func (p *supervised) Kill() {
	p.order(orderKill)
	time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() }) // os.ErrProcessDone: it has ended
}

// Wait implements Process.
func (p *supervised) Wait() (Ending, error) {
	err := p.cmd.Wait()
	said, _ := io.ReadAll(io.LimitReader(p.status, 1000)) // nothing: it was killed itself
	_, _ = p.control.Close(), p.status.Close()
	if len(said) == 0 {
		sweep(p.mark)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	kind, rest, _ := strings.Cut(string(said), " ")
	switch n, nerr := strconv.Atoi(rest); {
	case kind == saidStart:
		return Ending{-1, "not started"}, errors.New(rest)
	case kind == saidExit && nerr == nil:
		return Ending{n, fmt.Sprintf("exit status %d", n)}, err
	case kind == saidSignal && nerr == nil:
		return Ending{-1, "signal: " + syscall.Signal(n).String()}, err
	}
	return Ending{-1, "its supervisor's end (" + p.cmd.ProcessState.String() + ")"}, err
}
