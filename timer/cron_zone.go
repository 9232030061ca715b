package timer

import (
	"math"
	"strings"
	"time"
	_ "time/tzdata" // zones must not depend on what a container image holds
)

// loadZone finds an IANA zone by name. The machine's own zone is refused, in
// every spelling: a schedule must mean the same on every server, so its zone is
// written down or it is UTC.
func loadZone(name string) (*time.Location, string) {
	switch {
	case name == "":
		return nil, "is empty; write an IANA name such as Europe/Berlin or UTC"
	case strings.EqualFold(name, "local"):
		return nil, "is the machine's own zone and differs between servers; write an IANA name such as Europe/Berlin or UTC"
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, "is not a known IANA zone; write a name such as Europe/Berlin or UTC"
	}
	return loc, ""
}

// A zoneSpan is a stretch of time with one offset from UTC, in which the wall
// clock runs straight. Seconds since the Unix epoch; start belongs to the span,
// end does not. A wall reading is the seconds since the epoch that the clock on
// the wall would show if it were in UTC: reading = instant + off.
type zoneSpan struct{ start, end, off int64 }

// The zones of the IANA database have lain within 16 hours of UTC at all times
// (Manila before 1844: -15:56), and no change is wider than 24 hours. So two
// instants with the same reading are less than maxShift apart.
const maxShift = 26 * 3600

// spanAt returns a span that holds the instant. It need not be the widest:
// past the last entry of a zone's table (2037) time.ZoneBounds also ends spans
// at New Year, which does no harm. What would: there, on 31 December of a leap
// year, it gives an end that lies before the instant (Go 1.26, year lengths
// taken as 365 days). No zone's rule has a change on that day, so the span is
// carried on to the next midnight in UTC.
func spanAt(loc *time.Location, instant int64) zoneSpan {
	t := time.Unix(instant, 0).In(loc)
	_, off := t.Zone()
	start, end := t.ZoneBounds()
	s := zoneSpan{start: math.MinInt64, end: math.MaxInt64, off: int64(off)}
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.start > instant {
		s.start = instant
	}
	if s.end <= instant {
		const day = 24 * 3600
		s.end = (instant/day + 1) * day
	}
	return s
}

// holds reports whether the span holds the instant at which its clock shows the
// reading.
func (s zoneSpan) holds(reading int64) bool {
	instant := reading - s.off
	return s.start <= instant && instant < s.end
}
