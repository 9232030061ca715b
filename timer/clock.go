package timer

import (
	"sync"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// Clock estimates the stream server's clock, the wall clock of the log, and
// keeps log time.
//
// The wall clock decides when triggers are due. It is the server's, and goes
// where the server's goes: if that is set back, so is the estimate.
//
// Log time stamps frames and measures deadlines. It runs with the process's
// monotonic clock and is drawn to the wall clock by at most one part in slew:
// after a step of the server's clock it is off for a while, but no deadline is
// cut short or prolonged by more than that part.
//
// A Clock may be used from several goroutines.
type Clock struct {
	mu    sync.Mutex
	local LocalClock
	same  bool // the stream server has this machine's clock

	samples [8]sample // ring
	count   int

	lastMono int64 // log time was lastTime at lastMono
	lastTime int64

	base    int64 // wall minus monotonic when last looked at
	based   bool
	stepped bool
}

// LocalClock reads this machine's clocks: the wall clock in Unix nanoseconds,
// and a monotonic clock in nanoseconds.
type LocalClock func() (wall, mono int64)

var processStart = time.Now()

// SystemClock is the real LocalClock.
func SystemClock() (wall, mono int64) {
	now := time.Now()
	return now.UnixNano(), int64(now.Sub(processStart))
}

const (
	slew = 10 // log time nears the wall clock by one part in slew
	// stepLimit is by how much wall and monotonic clock may part between two looks
	// before that counts as a step.
	stepLimit = int64(time.Second)
	// unsampled is the error of an estimate that no sample supports.
	unsampled = int64(100 * time.Millisecond)
)

type sample struct {
	offset int64 // server's clock minus monotonic
	trip   int64 // time between asking and answer
}

// NewClock makes a clock. same says that the stream server runs on this
// machine, so that its clock needs no estimating. A nil local is SystemClock.
func NewClock(local LocalClock, same bool) *Clock {
	if local == nil {
		local = SystemClock
	}
	return &Clock{local: local, same: same}
}

// Sample takes a reading of the server's clock that was made between two
// instants of the monotonic clock.
func (c *Clock) Sample(sent, received int64, server time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if server.IsZero() || received < sent {
		return
	}
	c.samples[c.count%len(c.samples)] = sample{server.UnixNano() - (sent + (received-sent)/2), received - sent}
	c.count++
}

// Reset forgets the samples: another server answers now.
func (c *Clock) Reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count = 0
}

// Begin makes log time not less than t, Unix nanoseconds.
func (c *Clock) Begin(t int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	c.lastTime = max(c.lastTime, t)
}

// Now reads the clocks.
func (c *Clock) Now() events.Now {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *Clock) now() events.Now {
	wall, mono := c.local()
	est, err := c.estimate(wall, mono)
	if c.lastTime == 0 {
		c.lastMono, c.lastTime = mono, est
	}
	if d := mono - c.lastMono; d > 0 {
		t := c.lastTime + d
		t += min(max(est-t, -d/slew), d/slew)
		c.lastMono, c.lastTime = mono, t
	}
	if base := est - mono; !c.based {
		c.base, c.based = base, true
	} else if part := base - c.base; part > stepLimit || part < -stepLimit {
		c.base, c.stepped = base, true
	}
	return events.Now{Time: c.lastTime, Sure: est - err, Mono: mono}
}

// estimate gives the server's clock and by how much it may be wrong.
func (c *Clock) estimate(wall, mono int64) (est, err int64) {
	if c.same {
		return wall, 0
	}
	if c.count == 0 {
		return wall, unsampled
	}
	best := c.samples[0]
	for _, s := range c.samples[1:min(c.count, len(c.samples))] {
		if s.trip < best.trip {
			best = s
		}
	}
	return mono + best.offset, best.trip/2 + int64(time.Millisecond)/10
}

// Stepped reports, once, that the wall clock was set or the machine slept.
func (c *Clock) Stepped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	was := c.stepped
	c.stepped = false
	return was
}
