package supervise

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisorName is the name under which this program is a supervisor. No shell
// and no person calls a program by it.
const supervisorName = "ax-supervise"

// Files of a supervisor beside standard input and output.
const (
	ordersFD = 3
	statusFD = 4
)

// Orders, and what is said at the end.
const (
	orderTerminate = 'T'
	orderKill      = 'K'

	saidExit   = "exit"
	saidSignal = "signal"
	saidStart  = "start"
)

// It is here, and not a call in main, so that every program that imports package
// workers has supervisors, tests too; and first, before other packages make
// themselves ready.
func init() {
	if len(os.Args) > 2 && os.Args[0] == supervisorName {
		runtime.LockOSThread() // the command dies with this thread (Pdeathsig)
		os.Exit(supervise(os.Args[1], os.Args[2:]))
	}
}

// supervise runs a command and returns when nothing of it is left.
func supervise(path string, args []string) int {
	syscall.CloseOnExec(ordersFD)
	syscall.CloseOnExec(statusFD)
	// Nor does the command get what the worker was started with. ENOSYS, EINVAL: a
	// kernel before 5.11.
	_ = unix.CloseRange(statusFD+1, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	say := func(kind string, v any) { _, _ = fmt.Fprintf(os.NewFile(statusFD, "status"), "%s %v", kind, v) }
	// What ends a whole service is sent to everybody in it. This one ends last.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		say(saidStart, fmt.Errorf("supervisor: %w", err))
		return 1
	}
	pid, err := syscall.ForkExec(path, args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		say(saidStart, &os.PathError{Op: "exec", Path: path, Err: err})
		return 1
	}
	// The output ends with those who write it, not with this process.
	for fd := range 3 {
		_ = syscall.Close(fd)
	}
	kill := make(chan struct{})
	go obey(kill)
	ended := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		select {
		case <-kill:
		case <-ended: // what it left behind ends with it
		}
		killAll()
		close(gone)
	}()
	var status syscall.WaitStatus
	reaped := make(chan struct{})
	go func() {
		defer close(reaped)
		for {
			var ws syscall.WaitStatus
			p, err := syscall.Wait4(-1, &ws, 0, nil)
			switch {
			case err == syscall.EINTR:
			case err != nil: // ECHILD: none is left
				return
			case p == pid:
				status = ws
				close(ended)
			}
		}
	}()
	<-ended
	select {
	case <-reaped:
	case <-gone: // or only such as cannot be ended
	}
	if status.Signaled() { //nolint:misspell // that is what syscall calls it
		say(saidSignal, int(status.Signal()))
	} else {
		say(saidExit, status.ExitStatus())
	}
	return 0
}

// obey does what the worker orders. Its death is the order to kill.
func obey(kill chan struct{}) {
	orders := os.NewFile(ordersFD, "orders")
	var order [1]byte
	for {
		if n, err := orders.Read(order[:]); n == 0 || err != nil || order[0] == orderKill {
			close(kill)
			return
		}
		if order[0] == orderTerminate {
			signalAll(syscall.SIGTERM)
		}
	}
}

// killAll kills descendants until none is left, or only such as this user may not
// kill. A process may start others while it is being killed, so it is more than
// one round.
func killAll() {
	for {
		found, refused := signalAll(syscall.SIGKILL)
		if found == refused {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// signalAll sends a signal to all descendants. It gives how many there are, the
// dead but unburied not counted, and how many may not be signalled.
func signalAll(s syscall.Signal) (found, refused int) {
	for _, pid := range descendants(os.Getpid()) {
		switch err := syscall.Kill(pid, s); err {
		case nil:
			found++
		case syscall.EPERM:
			found++
			refused++
		}
	}
	return found, refused
}

// descendants gives all processes below one, the dead but unburied left out.
func descendants(root int) []int {
	children := map[int][]int{}
	names, err := readNames("/proc")
	if err != nil {
		return nil
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if parent, dead, ok := parentOf(pid); ok {
			if dead {
				pid = -pid // its children have another parent already
			}
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		for _, pid := range children[queue[0]] {
			if pid > 0 {
				all = append(all, pid)
				queue = append(queue, pid)
			}
		}
	}
	return all
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// parentOf reads /proc/PID/stat: the number, the name in parentheses, which may
// hold anything, the state and the parent (proc(5)).
func parentOf(pid int) (parent int, dead, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false, false
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(f) < 2 {
		return 0, false, false
	}
	parent, err = strconv.Atoi(string(f[1]))
	return parent, f[0][0] == 'Z' || f[0][0] == 'X', err == nil
}
