package timer

import (
	"fmt"
	"math"
	"time"
)

// The bounds of an interval. Below the first a trigger would do little but fill
// the log; above the second it is a date, and better written as one.
const (
	MinInterval = 100 * time.Millisecond
	MaxInterval = 3660 * 24 * time.Hour // some ten years
)

// NewInterval returns the calendar of a fixed rate: the instants offset + n *
// every after the Unix epoch, for every whole n. Being tied to the epoch and
// not to a first fire, it needs no state, cannot drift, and is the same on
// every server. Zones and DST do not touch it: "every 24h" is 24 hours of real
// time, and "every day at two" is a cron expression.
//
// The offset has to lie in [0, every). Instants are counted in int64
// nanoseconds, so the calendar covers 1677-09-21 to 2262-04-11: asked about an
// earlier instant it answers the first it has, later ones are never. Answers are
// in UTC.
func NewInterval(every, offset time.Duration) (Calendar, error) {
	text := fmt.Sprintf("every %s offset %s", every, offset)
	switch {
	case every < MinInterval:
		return nil, newExprError(text, "every", every.String(), fmt.Sprintf("is shorter than %s; use a longer interval", MinInterval))
	case every > MaxInterval:
		return nil, newExprError(text, "every", every.String(), fmt.Sprintf("is longer than %s; use a cron expression", MaxInterval))
	case offset < 0 || offset >= every:
		return nil, newExprError(text, "offset", offset.String(), fmt.Sprintf("has to be at least 0s and less than the interval of %s", every))
	}
	return intervalCalendar{every: int64(every), offset: int64(offset)}, nil
}

// intervalCalendar counts in nanoseconds.
type intervalCalendar struct{ every, offset int64 }

var (
	firstNano = time.Unix(0, math.MinInt64)
	lastNano  = time.Unix(0, math.MaxInt64)
)

func (i intervalCalendar) Next(after time.Time) (time.Time, error) {
	if !after.Before(lastNano) {
		return time.Time{}, nil
	}
	if after.Before(firstNano) {
		after = firstNano
	}
	t := after.UnixNano()
	// How far t lies past a multiple, brought into [0, every): Go's % keeps the
	// sign of t. Reduced first, so that nothing here can overflow.
	past := ((t%i.every-i.offset)%i.every + i.every) % i.every
	step := i.every - past
	if t > math.MaxInt64-step {
		return time.Time{}, nil
	}
	return time.Unix(0, t+step).UTC(), nil
}
