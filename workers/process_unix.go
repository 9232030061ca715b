//go:build unix

package workers

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// ownGroup lets the command lead a process group of its own.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithParent(cmd.SysProcAttr)
}

// runInGroup runs the command and ends its whole group when ctx ends: by TERM,
// and by KILL when Killed says so. It returns when the command has ended
// and nothing of its group is left, or could not be started.
func runInGroup(ctx context.Context, cmd *exec.Cmd) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// The kernel ends the command when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	group := -cmd.Process.Pid
	ended := make(chan struct{})
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		_ = syscall.Kill(group, syscall.SIGTERM) // ESRCH: it has ended
		select {
		case <-ended:
		case <-Killed(ctx):
			_ = syscall.Kill(group, syscall.SIGKILL)
		}
	}()
	err := cmd.Wait()
	close(ended)
	<-killed
	// What the command left behind in its group is ended with it.
	endGroup(group)
	return err
}

// endGroup kills what is left of a process group and waits until it is gone.
func endGroup(group int) {
	for range 200 {
		if err := syscall.Kill(group, syscall.SIGKILL); errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPERM) {
			return // EPERM: only zombies are left, or a process of another user
		}
		time.Sleep(5 * time.Millisecond)
	}
}
