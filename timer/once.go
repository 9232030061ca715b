package timer

import "time"

// NewOnce returns the calendar of a single instant, which is due at the first whole
// millisecond that is not before it: due times are whole milliseconds. A zero
// instant is never due.
func NewOnce(at time.Time) Calendar {
	if whole := at.Truncate(time.Millisecond); whole.Before(at) {
		at = whole.Add(time.Millisecond)
	}
	return onceCalendar{at: at.Round(0)}
}

type onceCalendar struct{ at time.Time }

func (o onceCalendar) Next(after time.Time) (time.Time, error) {
	if o.at.IsZero() || !o.at.After(after) {
		return time.Time{}, nil
	}
	return o.at, nil
}
