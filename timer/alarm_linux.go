package timer

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// timerfd is a kernel timer with a goroutine that waits for it through the
// runtime's poller. Its user sees to it that set and expired are not called during
// or after close.
type timerfd struct {
	fd   int // of file
	file *os.File
	done chan struct{} // closed when the goroutine has ended
}

// newTimerfd returns a timer that is not set and calls expire, from its goroutine,
// after each expiry.
func newTimerfd(expire func()) (*timerfd, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err == unix.EINVAL { // no such clock: a kernel before 3.15, or an emulation of one
		fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	}
	if err != nil {
		return nil, fmt.Errorf("timer: create timerfd: %w", err)
	}
	t := &timerfd{fd: fd, file: os.NewFile(uintptr(fd), "timerfd"), done: make(chan struct{})}
	go t.wait(expire)
	return t, nil
}

// wait ends when the file is closed. Should reading fail for any other reason, the
// alarm has the runtime's timer still.
func (t *timerfd) wait(expire func()) {
	defer close(t.done)
	var expirations [8]byte
	for {
		if _, err := t.file.Read(expirations[:]); err != nil {
			return
		}
		expire()
	}
}

// set lets the timer expire after d, which is not negative, instead of when it was
// set to before; 0 stops it. The only errors possible are of arguments that are
// never given.
func (t *timerfd) set(d time.Duration) {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	_ = unix.TimerfdSettime(t.fd, 0, &spec, nil)
}

// expired reports whether the timer has expired since it was set last, or is not
// set.
func (t *timerfd) expired() bool {
	var spec unix.ItimerSpec
	err := unix.TimerfdGettime(t.fd, &spec)
	return err == nil && spec.Value == unix.Timespec{}
}

func (t *timerfd) close() {
	_ = t.file.Close() // an error means that it is closed already
	<-t.done
}
