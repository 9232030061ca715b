package timer

import (
	"math"
	"time"
)

// DST names the rule for readings that a change of a zone's offset loses or
// repeats. The zero value is DSTAX.
type DST string

const (
	// DSTAX is the rule of Debian's cron. Where
	// the second, minute or hour field begins with "*" (Quartz's "/n" and "0/n"
	// count as "*/n"), every real instant whose wall reading matches is due: none
	// in a gap, and both passes of an overlap. Elsewhere a reading lost in a gap
	// of at most three hours is due right after the gap, once for all that one
	// gap loses, and a reading that comes twice at its first pass only.
	DSTAX DST = "ax"

	// DSTQuartz is the rule of Quartz 2.3.2: the search is on
	// the wall clock from the reading of after + 1 s on; readings that do not exist
	// are dropped, and of two instants the later is due. So a job of every
	// minute pauses for the length of the overlap. Quartz also drops an hour of
	// existing readings after a gap that is not one hour on the hour; that
	// fault is not copied.
	DSTQuartz DST = "quartz"

	// DSTWall is the plain rule: due is every real instant whose wall reading
	// matches; nothing in a gap, twice in an overlap.
	DSTWall DST = "wall"
)

// madeUpGap is the longest gap, in seconds, that the AX rule makes up for:
// cron's three hours. What is longer is a date that a country left out (Apia,
// 30 December 2011), not a clock put forward.
const madeUpGap = 3 * 3600

// maxSteps bounds the spans that one search may look at. Few need more than
// five; the most, some three a year over the whole width of a year field, are
// 700.
const maxSteps = 4096

// A cronWalk is one search for the next instant of a schedule in a zone.
type cronWalk struct {
	fields  *wallSchedule
	loc     *time.Location
	horizon int64 // the reading past which nothing is looked for
	steps   int
}

// forward returns the first instant at or after u whose wall reading matches. If
// fixed, with the two exceptions of a fixed time of day: the end of a gap that
// lost a matching reading is an answer too, and a reading that was there before
// is none.
//
// It goes through the spans of the zone. In each the wall clock runs straight,
// so one search on it gives the only candidate.
func (k *cronWalk) forward(u int64, fixed bool) (int64, searchEnd) {
	for ; k.steps < maxSteps; k.steps++ {
		s := spanAt(k.loc, u)
		if fixed && u == s.start && k.lostBefore(s) {
			return u, searchFound
		}
		reading, v := k.fields.next(u + s.off)
		if v == searchFound && s.holds(reading) {
			again, seen := int64(0), false
			if fixed {
				again, seen = k.seenUntil(s, reading)
			}
			if !seen {
				return reading - s.off, searchFound
			}
			if u = again - s.off; u < s.end {
				continue
			}
		}

		// Nothing is due in the rest of this span. Near its end the next one has
		// to be looked at whatever the search said, for the clock may be put back
		// there, to readings that this search did not see. Farther from it that
		// cannot be, and years go by in one step: nothing is due until the clock
		// is within a shift of the reading found.
		switch {
		case v == searchBackward:
			return 0, v
		case u >= s.end-maxShift:
			u = s.end
		case v == searchNever || reading > k.horizon:
			return 0, searchNever
		default:
			u = max(s.end, reading-s.off-2*maxShift)
		}
	}
	return 0, searchTooLong
}

// lostBefore reports whether the change that begins s put the clock forward, by
// no more than madeUpGap, over a reading that matches.
func (k *cronWalk) lostBefore(s zoneSpan) bool {
	if s.start == math.MinInt64 {
		return false
	}
	before := spanAt(k.loc, s.start-1)
	if s.off <= before.off || s.off-before.off > madeUpGap {
		return false
	}
	reading, v := k.fields.next(s.start + before.off)
	return v == searchFound && reading < s.start+s.off
}

// seenUntil reports whether a span before s showed the reading too, and the
// first reading after the stretch that it showed.
func (k *cronWalk) seenUntil(s zoneSpan, reading int64) (until int64, seen bool) {
	oldest := reading - s.off - maxShift
	for s.start > oldest {
		k.steps++
		s = spanAt(k.loc, s.start-1)
		if s.holds(reading) {
			return s.end + s.off, true
		}
	}
	return 0, false
}

// laterPass returns the later of the instants of the first matching reading
// that exists, from a reading on.
func (k *cronWalk) laterPass(from int64) (int64, searchEnd) {
	for k.steps < maxSteps {
		reading, v := k.fields.next(from)
		if v != searchFound {
			return 0, v
		}
		if reading > k.horizon {
			return 0, searchNever
		}
		instant, afterGap, exists := k.lastInstantOf(reading)
		if exists {
			return instant, searchFound
		}
		from = afterGap
	}
	return 0, searchTooLong
}

// lastInstantOf returns the last instant at which the clock shows the reading;
// if it never does, the first reading after the gap that the reading lies in.
func (k *cronWalk) lastInstantOf(reading int64) (instant, afterGap int64, exists bool) {
	afterGap = reading + 1
	s := spanAt(k.loc, reading-maxShift)
	for {
		k.steps++
		if s.holds(reading) {
			instant, exists = reading-s.off, true
		}
		if s.end > reading+maxShift {
			return instant, afterGap, exists
		}
		next := spanAt(k.loc, s.end)
		if s.end+s.off <= reading && reading < s.end+next.off {
			afterGap = s.end + next.off
		}
		s = next
	}
}
