package timer

import (
	"testing"
	"time"
)

// turnedClock is a LocalClock that a test turns.
type turnedClock struct{ wall, mono int64 }

func (c *turnedClock) read() (wall, mono int64) { return c.wall, c.mono }

// run lets both clocks go on.
func (c *turnedClock) run(d time.Duration) { c.wall += int64(d); c.mono += int64(d) }

// set steps the wall clock.
func (c *turnedClock) set(by time.Duration) { c.wall += int64(by) }

var clockStart = time.Date(2026, 3, 29, 0, 59, 0, 0, time.UTC).UnixNano()

func newTurnedClock(same bool) (*turnedClock, *Clock) {
	local := &turnedClock{wall: clockStart, mono: 5 * int64(time.Second)}
	return local, NewClock(local.read, same)
}

// The wall clock is followed at once, log time only by a tenth.
func TestClockStep(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour, 90 * time.Second} {
		local, c := newTurnedClock(true)
		c.Now()
		local.run(time.Second)
		before := c.Now()
		local.set(step)
		now := c.Now()
		if got := time.Duration(now.Sure - before.Sure); got != step {
			t.Errorf("step of %s: the wall clock went by %s", step, got)
		}
		if now.Time != before.Time {
			t.Errorf("step of %s: log time went by %s without time passing", step, time.Duration(now.Time-before.Time))
		}
		if !c.Stepped() {
			t.Errorf("step of %s: not reported", step)
		}
		if c.Stepped() {
			t.Errorf("step of %s: reported twice", step)
		}
		local.run(10 * time.Second)
		after := c.Now()
		want := 10*time.Second + time.Second
		if step < 0 {
			want = 10*time.Second - time.Second
		}
		if got := time.Duration(after.Time - now.Time); got != want {
			t.Errorf("step of %s: in 10s log time went by %s, want %s", step, got, want)
		}
	}
}

// Log time comes to the wall clock and then stays with it.
func TestClockLogTimeNears(t *testing.T) {
	local, c := newTurnedClock(true)
	c.Now()
	local.set(2 * time.Second)
	for range 30 {
		local.run(time.Second)
		c.Now()
	}
	if now := c.Now(); now.Time != local.wall {
		t.Errorf("30s after a step of 2s log time is still off by %s", time.Duration(local.wall-now.Time))
	}
}

// Log time never goes back, whatever the clocks do, and a new leader goes on from
// the log's last time.
func TestClockLogTimeOnlyGrows(t *testing.T) {
	local, c := newTurnedClock(true)
	c.Begin(clockStart + int64(time.Minute))
	last := c.Now().Time
	if last < clockStart+int64(time.Minute) {
		t.Fatalf("log time begins at %d, before the log's last time", last)
	}
	for i, step := range []time.Duration{-time.Hour, time.Hour, 0, -time.Millisecond, -3 * time.Hour, 24 * time.Hour} {
		local.set(step)
		local.run(time.Duration(i) * 17 * time.Millisecond)
		now := c.Now().Time
		if now < last {
			t.Fatalf("log time went back by %s", time.Duration(last-now))
		}
		last = now
	}
}

// The clock of another machine is taken from the sample with the shortest trip,
// and half that trip is what the estimate may be wrong by.
func TestClockSamples(t *testing.T) {
	const ahead = 3 * time.Second
	local, c := newTurnedClock(false)
	if now := c.Now(); now.Sure >= local.wall {
		t.Errorf("without a sample, the estimate is sure of %d, not before its own clock %d", now.Sure, local.wall)
	}
	ask := func(out, back time.Duration) {
		sent := local.mono
		local.run(out)
		server := time.Unix(0, local.wall).Add(ahead)
		local.run(back)
		c.Sample(sent, local.mono, server)
	}
	ask(40*time.Millisecond, 2*time.Millisecond)
	ask(200*time.Microsecond, 300*time.Microsecond)
	ask(time.Millisecond, 90*time.Millisecond)
	now := c.Now()
	truth := local.wall + int64(ahead)
	if now.Sure > truth {
		t.Errorf("sure of %s after the server's clock", time.Duration(now.Sure-truth))
	}
	if off := time.Duration(truth - now.Sure); off > time.Millisecond {
		t.Errorf("the estimate is %s behind the server's clock, though one trip took 500us", off)
	}
	// What cannot be a sample is not one.
	c.Sample(local.mono, local.mono-1, time.Unix(0, 1))
	c.Sample(local.mono, local.mono, time.Time{})
	if again := c.Now(); again.Sure != now.Sure {
		t.Errorf("bad samples moved the estimate by %s", time.Duration(again.Sure-now.Sure))
	}
	c.Reset()
	if again := c.Now(); again.Sure >= local.wall {
		t.Error("after Reset the samples of the server before still count")
	}
}

// Old samples go: a server whose clock was set is followed.
func TestClockFollowsServer(t *testing.T) {
	local, c := newTurnedClock(false)
	for i := range 40 {
		ahead := time.Duration(0)
		if i >= 20 {
			ahead = -time.Hour
		}
		c.Sample(local.mono, local.mono, time.Unix(0, local.wall).Add(ahead))
		local.run(time.Second)
	}
	if off := time.Duration(c.Now().Sure - local.wall); off > -59*time.Minute {
		t.Errorf("the estimate is off by %s, want by an hour back", off)
	}
}
