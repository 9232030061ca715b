//go:build unix && !linux

package supervise

import (
	"errors"
	"os/exec"
	"syscall"
	"time"
)

// grouped is a command with its process group.
type grouped struct{ cmd *exec.Cmd }

func start(cmd *exec.Cmd) (Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &grouped{cmd}, nil
}

// Terminate implements Process.
func (g *grouped) Terminate() { _ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGTERM) } // ESRCH: it has ended

// Kill implements Process.
func (g *grouped) Kill() { _ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) }

// Wait implements Process.
func (g *grouped) Wait() (Ending, error) {
	err := g.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = nil
	}
	// What the command left behind in its group is ended with it.
	for range 200 {
		if kerr := syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL); errors.Is(kerr, syscall.ESRCH) || errors.Is(kerr, syscall.EPERM) {
			break // EPERM: only zombies are left, or a process of another user
		}
		time.Sleep(5 * time.Millisecond)
	}
	return Ending{g.cmd.ProcessState.ExitCode(), g.cmd.ProcessState.String()}, err
}
