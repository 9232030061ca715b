package timer

import (
	"time"

	cron "github.com/netresearch/go-cron"
)

// searchYears is how far ahead of a wall reading a match is looked for. The
// rarest day that the fields can ask for and that comes at all is a 29 February
// on a given weekday, or a fifth weekday in February, which is the same: once
// in 40 years at the worst, where a century without a leap day lies between.
// What has no match in 130 years (30 February) has none.
const searchYears = 130

// yearFieldYears is the limit for an expression with a year field: the whole
// width of that field, since two listed years may be its first and its last.
const yearFieldYears = quartzLastYear - quartzFirstYear + 1

// A wallSchedule is an expression's fields, looked for on a wall clock that
// never jumps. github.com/netresearch/go-cron does the search, and is only
// ever asked in UTC. Its faults lie in its parser, which is not used
// (the value sets are filled in from our own), and around changes of offset,
// which UTC has none of; there each of its steps moves forward and a January
// past its limit of years ends it, so it cannot hang.
type wallSchedule struct {
	spec cron.SpecSchedule

	// nearLast is n of the Quartz form L-nW, which the library lacks, or -1. The
	// library then walks all days of the month and accepts picks.
	nearLast int

	// firstYear is the first year of a year field, 0 without one. The search
	// starts there at the earliest, or a year field beyond the library's limit
	// would look like never.
	firstYear int
}

func utcSchedule(spec cron.SpecSchedule) wallSchedule {
	spec.Location = time.UTC
	return wallSchedule{spec: spec, nearLast: -1}
}

// A searchEnd is how a search ended.
type searchEnd uint8

const (
	searchFound    searchEnd = iota
	searchNever              // no match within the search's limit of years
	searchBackward           // the library's answer was not after what it was asked
	searchTooLong            // maxSteps reached
)

// next returns the first reading at or after from that the fields match.
func (w *wallSchedule) next(from int64) (reading int64, v searchEnd) {
	if w.spec.Second == 1 {
		// Only second 0: on to a whole minute, which the library would reach
		// second by second.
		if past := from % 60; past > 0 {
			from += 60 - past
		} else {
			from -= past
		}
	}
	t := time.Unix(from-1, 0).UTC()
	if t.Year() < w.firstYear {
		t = time.Date(w.firstYear, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Second)
	}
	limit := min(t.Year()+w.spec.MaxSearchYears, lastYear)
	for {
		asked := t
		t = w.spec.Next(asked)
		switch {
		case t.IsZero() || t.Year() > limit:
			return 0, searchNever
		case !t.After(asked):
			return 0, searchBackward
		case w.accepts(t):
			return t.Unix(), searchFound
		}
		// Another day than L-nW: on to its last second.
		y, m, d := t.Date()
		t = time.Date(y, m, d, 23, 59, 59, 0, time.UTC)
	}
}

// horizon returns the reading past which a search that began at from ends, so
// that it also ends where each match is one that the zone leaves out.
func (w *wallSchedule) horizon(from int64) int64 {
	year := max(time.Unix(from, 0).UTC().Year(), w.firstYear)
	return time.Date(year+w.spec.MaxSearchYears+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
}

// accepts reports whether a day is the weekday nearest to the n-th before the
// month's last, without leaving the month.
func (w *wallSchedule) accepts(t time.Time) bool {
	if w.nearLast < 0 {
		return true
	}
	y, m, d := t.Date()
	last := time.Date(y, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
	day := last - w.nearLast
	if day < 1 {
		return false
	}
	switch time.Date(y, m, day, 0, 0, 0, 0, time.UTC).Weekday() {
	case time.Saturday:
		if day--; day < 1 {
			day = 3
		}
	case time.Sunday:
		if day++; day > last {
			day = last - 2
		}
	}
	return d == day
}
