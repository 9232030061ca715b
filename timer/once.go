package timer

import "time"

// NewOnce returns the calendar of a single instant. A zero instant is never
// due.
func NewOnce(at time.Time) Calendar { return onceCalendar{at: at.Round(0)} }

type onceCalendar struct{ at time.Time }

func (o onceCalendar) Next(after time.Time) (time.Time, error) {
	if o.at.IsZero() || !o.at.After(after) {
		return time.Time{}, nil
	}
	return o.at, nil
}
