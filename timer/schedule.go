package timer

import (
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// maxSleep bounds a sleep, so that a clock that was set and a machine that
// slept are noticed.
const maxSleep = time.Second

// Schedule is what is due soon, by two clocks: triggers by the wall clock,
// deadlines by log time. The wheels belong to the loop that owns the state; the
// clock may be used from anywhere.
type Schedule struct {
	*Clock
	wheels [projector.NumClocks]*Wheel
}

// NewSchedule makes an empty schedule over a clock.
func NewSchedule(c *Clock) *Schedule {
	s := &Schedule{Clock: c}
	now := c.Now()
	s.wheels[projector.WallClock] = NewWheel(now.Sure / 1e6)
	s.wheels[projector.LogClock] = NewWheel(now.Time / 1e6)
	return s
}

// Add implements projector.Schedule.
func (s *Schedule) Add(c projector.Clock, due int64, ref uint64) (uint64, bool) {
	h, ok := s.wheels[c].Add(due, ref)
	return uint64(h), ok
}

// Cancel implements projector.Schedule.
func (s *Schedule) Cancel(c projector.Clock, handle uint64) { s.wheels[c].Cancel(Handle(handle)) }

// Expire implements projector.Schedule.
func (s *Schedule) Expire(c projector.Clock, now int64, yield func(due int64, ref uint64) bool) {
	s.wheels[c].Expire(now, yield)
}

// Clear implements projector.Schedule.
func (s *Schedule) Clear() {
	now := s.Now()
	s.wheels[projector.WallClock].Clear(now.Sure / 1e6)
	s.wheels[projector.LogClock].Clear(now.Time / 1e6)
}

// Wait is how long to sleep until something is due, at most maxSleep.
func (s *Schedule) Wait(now events.Now) time.Duration {
	wait := maxSleep
	if due, ok := s.wheels[projector.WallClock].Next(); ok {
		wait = min(wait, time.Duration(due*1e6-now.Sure))
	}
	if due, ok := s.wheels[projector.LogClock].Next(); ok {
		wait = min(wait, time.Duration(due*1e6-now.Time))
	}
	return max(wait, 0)
}
