package supervise

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// self is this program, also when its file was replaced since.
const self = "/proc/self/exe"

type supervised struct {
	cmd     *exec.Cmd
	control *os.File // orders to the supervisor; its end is the last one
	status  *os.File // what the supervisor says at the end
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
	err = cmd.Start()
	_, _ = orders.Close(), said.Close()
	if err != nil {
		_, _ = control.Close(), status.Close()
		return nil, err
	}
	return &supervised{cmd, control, status}, nil
}

func (p *supervised) order(o byte) { _, _ = p.control.Write([]byte{o}) } // EPIPE: all have ended

// Terminate implements Process.
func (p *supervised) Terminate() { p.order(orderTerminate) }

// Kill implements Process.
func (p *supervised) Kill() { p.order(orderKill) }

// Wait implements Process.
func (p *supervised) Wait() (Ending, error) {
	err := p.cmd.Wait()
	said, _ := io.ReadAll(io.LimitReader(p.status, 1000)) // nothing: it was killed itself
	_, _ = p.control.Close(), p.status.Close()
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
