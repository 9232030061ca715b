package timer

import (
	"fmt"
	"strings"

	cron "github.com/netresearch/go-cron"
)

// The years that Quartz's year field knows.
const (
	quartzFirstYear = 1970
	quartzLastYear  = 2199
)

const (
	quartzDayOfMonth = 3
	quartzDayOfWeek  = 5
	quartzYear       = 6
)

var quartzFields = [7]cronField{
	{name: "second", min: 0, max: 59, quartz: true, wraps: true, maxStep: 59},
	{name: "minute", min: 0, max: 59, quartz: true, wraps: true, maxStep: 59},
	{name: "hour", min: 0, max: 23, quartz: true, wraps: true, maxStep: 23},
	{name: "day of month", min: 1, max: 31, quartz: true, wraps: true, maxStep: 31},
	{name: "month", min: 1, max: 12, names: monthNames, nameBase: 1, quartz: true, wraps: true, maxStep: 12},
	{name: "day of week", min: 1, max: 7, names: dayNames, nameBase: 1, quartz: true, wraps: true, maxStep: 7},
	{name: "year", min: quartzFirstYear, max: quartzLastYear, quartz: true},
}

// quartzExpr is a Quartz expression, read.
type quartzExpr struct {
	fields wallSchedule

	// everyHour: the second, minute or hour field begins with "*" (DSTAX).
	everyHour bool
}

// parseQuartz reads six or seven fields as Quartz 2.3.2 documents them. What its
// parser accepts and misreads (testdata/cron/README.md, "the parser is lax") is
// refused.
func parseQuartz(expr string, tokens []string) (quartzExpr, *ExprError) {
	if len(tokens) != 6 && len(tokens) != 7 {
		return quartzExpr{}, newExprError(expr, "", "", fmt.Sprintf("has %d fields; a Quartz expression has 6 or 7: "+
			"second, minute, hour, day of month, month, day of week, and perhaps year", len(tokens)))
	}
	if (tokens[quartzDayOfMonth] == "?") == (tokens[quartzDayOfWeek] == "?") {
		return quartzExpr{}, newExprError(expr, "day of week", tokens[quartzDayOfWeek],
			`exactly one of day of month and day of week has to be "?"; put "?" for the one that does not matter`)
	}

	q := quartzExpr{fields: utcSchedule(cron.SpecSchedule{MaxSearchYears: searchYears})}
	var sets [6]uint64
	for i, token := range tokens {
		f := &quartzFields[i]
		switch i {
		case quartzDayOfMonth:
			if token == "?" {
				sets[i] = allDays
				continue
			}
			if special, reason := q.specialDay(token); special {
				if reason != "" {
					return quartzExpr{}, newExprError(expr, f.name, token, reason)
				}
				if q.fields.nearLast >= 0 {
					sets[i] = allDays
				}
				continue
			}
		case quartzDayOfWeek:
			if token == "?" {
				sets[i] = allDays
				continue
			}
			if strings.EqualFold(token, "L") {
				token = "7" // the week's last day, every week
			}
			if special, reason := q.specialWeekday(f, token); special {
				if reason != "" {
					return quartzExpr{}, newExprError(expr, f.name, token, reason)
				}
				continue
			}
		}

		items, value, reason := f.list(token)
		if reason != "" {
			return quartzExpr{}, newExprError(expr, f.name, value, reason)
		}
		if i < quartzDayOfMonth && items[0].star {
			q.everyHour = true
		}
		if i == quartzYear {
			q.limitYears(f, token, items)
			continue
		}
		for _, it := range items {
			f.values(it, func(v int) { sets[i] |= 1 << v })
		}
	}

	spec := &q.fields.spec
	spec.Second, spec.Minute, spec.Hour = sets[0], sets[1], sets[2]
	spec.Dom, spec.Month = sets[3], sets[4]
	spec.Dow = sets[5] >> 1 // Quartz counts from 1, the library from 0
	return q, nil
}

// allDays has every bit that a day field of the library may have.
const allDays = 1<<32 - 1

// limitYears sets the years, unless the field is "*".
func (q *quartzExpr) limitYears(f *cronField, token string, items []cronItem) {
	if token == "*" {
		return
	}
	years := make(map[int]struct{})
	first := quartzLastYear
	for _, it := range items {
		f.values(it, func(v int) {
			years[v] = struct{}{}
			first = min(first, v)
		})
	}
	q.fields.spec.Year = years
	q.fields.spec.MaxSearchYears = yearFieldYears
	q.fields.firstYear = first
}

// specialDay reads the day-of-month forms that depend on the month: L, L-n, LW,
// L-nW, nW. Each stands alone.
func (q *quartzExpr) specialDay(token string) (special bool, reason string) {
	t := strings.ToUpper(token)
	if !strings.ContainsAny(t, "LW") {
		return false, ""
	}
	add := func(kind cron.DomConstraintType, n int) {
		q.fields.spec.DomConstraints = append(q.fields.spec.DomConstraints, cron.DomConstraint{Type: kind, N: n})
	}
	if strings.Contains(t, ",") {
		return true, "L and W cannot stand in a list; write one trigger for each"
	}
	body, weekday := strings.CutSuffix(t, "W")
	if body == "L" {
		if weekday {
			add(cron.DomLastWeekday, 0)
		} else {
			add(cron.DomLast, 0)
		}
		return true, ""
	}
	if before, ok := strings.CutPrefix(body, "L-"); ok {
		n, ok := smallNumber(before)
		switch {
		case !ok || n > 30:
			return true, "L- has to be followed by a number of days from 0 to 30, and perhaps W"
		case weekday:
			q.fields.nearLast = n
		default:
			add(cron.DomLastOffset, n)
		}
		return true, ""
	}
	n, ok := smallNumber(body)
	if !weekday || !ok || n < 1 || n > 31 {
		return true, "write L, L-3, LW, L-3W or 15W"
	}
	add(cron.DomNearestWeekday, n)
	return true, ""
}

// specialWeekday reads the day-of-week forms that depend on the month: nL and
// n#k, with a number or a name. Each stands alone.
func (q *quartzExpr) specialWeekday(f *cronField, token string) (special bool, reason string) {
	t := strings.ToUpper(token)
	before, occurrence, nth := strings.Cut(t, "#")
	body, last := strings.CutSuffix(before, "L")
	if strings.Contains(t, ",") {
		if nth || last || strings.Contains(t, "L,") {
			return true, "L and # cannot stand in a list; write one trigger for each"
		}
		return false, ""
	}
	if !nth && !last {
		return false, ""
	}

	v, _, reason := f.value(body)
	if reason != "" {
		return true, "write 6L or FRIL for the last Friday, 6#3 or FRI#3 for the third"
	}
	constraint := cron.DowConstraint{Weekday: v - 1, N: -1} // -1: the last
	if nth {
		n, ok := smallNumber(occurrence)
		if !ok || n < 1 || n > 5 || last {
			return true, "# has to be followed by a number from 1 to 5"
		}
		constraint.N = n
	}
	q.fields.spec.DowConstraints = append(q.fields.spec.DowConstraints, constraint)
	return true, ""
}
