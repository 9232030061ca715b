package timer

import (
	"sync"
	"time"
)

// Alarm wakes a goroutine that waits in a select, once for each Set, at the time
// set and usually within 0.1 ms after it.
//
// It is armed twice. The runtime's timers alone are rounded up to whole
// milliseconds when the process is otherwise idle, because an idle process sleeps
// in epoll_wait: half a millisecond late on average. A timerfd has no such
// rounding, but a goroutine that waits for a file descriptor is looked after only
// when a processor has nothing else to do, or by the runtime's monitor every 10 ms
// or later; and then the runtime's timers, which every processor looks after
// between any two goroutines, are exact. So whichever comes first wakes. Where
// there is no timerfd, the runtime's timer is alone.
//
// What holds, if the goroutine that receives from C is the one that calls Set and
// Stop:
//
//	A1  C receives a value after the duration of the last Set, never before it
//	    and at most once.
//	A2  It does, unless Set, Stop or Close is called first.
//	A3  After Set, Stop or Close has returned, nothing comes of an earlier Set.
//
// If another goroutine calls Set or Stop, a value may be received that is of an
// earlier Set; none is lost. A caller looks at its clock after every wake-up in any
// case, for the clock it follows may have been set.
//
// Durations are counted while the machine is suspended too, where the kernel allows
// that (Linux), so a machine that wakes up late wakes the goroutine at once.
//
// Measured by BenchmarkAlarm on two virtual cores, 2026-11-30: microseconds late,
// waiting 0.1 to 3 ms, in a process that does nothing else and in one whose
// processors all have work.
//
//	                  idle p50   p99    busy p50      p99
//	Alarm                   93   276          20       78
//	runtime's timer        647  1353           5       40
//	timerfd alone           93   983      90,380  208,486
type Alarm struct {
	c     chan struct{}
	start time.Time // what deadline counts from, on the monotonic clock

	mu       sync.Mutex
	deadline time.Duration // when to wake; 0 if that is done, or stopped
	closed   bool
	coarse   *time.Timer
	precise  *timerfd // nil if there is none
}

// NewAlarm returns an alarm that is not set. It holds a file descriptor and a
// goroutine until Close.
func NewAlarm() (*Alarm, error) {
	a := newCoarseAlarm()
	precise, err := newTimerfd(a.preciseExpired)
	if err != nil {
		a.Close()
		return nil, err
	}
	a.mu.Lock()
	a.precise = precise
	a.mu.Unlock()
	return a, nil
}

// newCoarseAlarm returns an alarm with the runtime's timer only.
func newCoarseAlarm() *Alarm {
	a := &Alarm{c: make(chan struct{}, 1), start: time.Now()}
	a.coarse = time.AfterFunc(time.Hour, a.coarseExpired)
	a.coarse.Stop()
	return a
}

// C returns the channel that receives a value when the alarm goes off. It has room
// for one and is never closed.
func (a *Alarm) C() <-chan struct{} { return a.c }

// Set lets the alarm go off after d, or at once if d is zero or negative, instead of
// at the time set before. It takes about a microsecond; a loop that has still the
// same time to wait for need not call it again. After Close it does nothing.
func (a *Alarm) Set(d time.Duration) {
	d = min(d, 100*365*24*time.Hour) // keeps deadline from overflowing
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.drain()
	if d <= 0 {
		a.deadline = 0 // what is armed still expires, and wakes nobody
		a.wake()
		return
	}
	a.deadline = time.Since(a.start) + d // before arming, so neither expires earlier
	a.coarse.Reset(d)
	if a.precise != nil {
		a.precise.set(d)
	}
}

// Stop keeps the alarm from going off until the next Set.
func (a *Alarm) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.disarm()
}

// Close stops the alarm for good and frees what it holds; its goroutine has ended
// when Close returns. More calls of Close do no harm.
func (a *Alarm) Close() {
	a.mu.Lock()
	if !a.closed {
		a.disarm()
	}
	a.closed = true
	precise := a.precise
	a.mu.Unlock()
	if precise != nil {
		precise.close() // waits for the goroutine, which may be waiting for mu
	}
}

func (a *Alarm) disarm() {
	a.deadline = 0
	a.drain()
	a.coarse.Stop()
	if a.precise != nil {
		a.precise.set(0)
	}
}

// drain takes back a wake-up that nobody has received (A3).
func (a *Alarm) drain() {
	select {
	case <-a.c:
	default:
	}
}

func (a *Alarm) wake() {
	select {
	case a.c <- struct{}{}:
	default: // one is waiting to be received, which will do
	}
}

// coarseExpired is called when the runtime's timer has expired. It may come late,
// when that has been set again; the deadline tells, and it comes again then.
func (a *Alarm) coarseExpired() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deadline != 0 && time.Since(a.start) >= a.deadline {
		a.deadline = 0
		a.wake()
	}
}

// preciseExpired is called when the timerfd has expired. It too may come late. But
// before the deadline it may also be right, for the timerfd has gone on counting
// while the machine was suspended, and the clock that deadline is of has not.
func (a *Alarm) preciseExpired() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.deadline == 0 {
		return
	}
	if time.Since(a.start) >= a.deadline || a.precise.expired() {
		a.deadline = 0
		a.wake()
	}
}
