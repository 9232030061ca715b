package timer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// This file has a second opinion on the calendar: a slow one, which knows no
// spans and no library. It looks at the clock on the wall every quarter of a
// minute and applies the sentences of DSTAX, DSTQuartz and DSTWall word for
// word.

// modelTick is the model's step: all times it can express are multiples of it.
const modelTick = 15 // seconds

// A modelField is a field drawn at random: its text, and what it selects, found
// by counting and not by the parser.
type modelField struct {
	text   string
	values map[int]bool
	star   bool // begins with "*"
}

func drawField(t *rapid.T, label string, min, max int, open bool) modelField {
	f := modelField{values: map[int]bool{}}
	var parts []string
	for i := range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, label+" items") {
		lo := rapid.IntRange(min, max).Draw(t, label+" from")
		hi := rapid.IntRange(lo, max).Draw(t, label+" to")
		step := rapid.IntRange(1, max).Draw(t, label+" step")
		var text string
		forms := 5
		if open {
			forms = 6
		}
		switch rapid.IntRange(0, forms-1).Draw(t, label+" form") {
		case 0:
			text, lo, hi, step = "*", min, max, 1
		case 1:
			text, lo, hi = fmt.Sprintf("*/%d", step), min, max
		case 2:
			text, hi = fmt.Sprint(lo), lo
		case 3:
			text, step = fmt.Sprintf("%d-%d", lo, hi), 1
		case 4:
			text = fmt.Sprintf("%d-%d/%d", lo, hi, step)
		case 5:
			text, hi = fmt.Sprintf("%d/%d", lo, step), max
		}
		for v := lo; v <= hi; v += step {
			f.values[v] = true
		}
		if i == 0 {
			f.star = text[0] == '*' || open && strings.HasPrefix(text, "0/")
		}
		parts = append(parts, text)
	}
	f.text = strings.Join(parts, ",")
	return f
}

// A modelExpr is an expression drawn at random.
type modelExpr struct {
	text                                string
	dialect                             Dialect
	second, minute, hour, day, mon, dow modelField
	eitherDay                           bool // Unix with both day fields restricted
	everyHour                           bool
}

func drawExpr(t *rapid.T) modelExpr {
	every := modelField{text: "*", star: true}
	field := func(label string, min, max, always int, open bool) modelField {
		if rapid.IntRange(0, 9).Draw(t, label+" restricted") < always {
			return every
		}
		return drawField(t, label, min, max, open)
	}
	var e modelExpr
	quartz := rapid.Bool().Draw(t, "quartz")
	e.minute = field("minute", 0, 59, 0, quartz)
	e.hour = field("hour", 0, 23, 2, quartz)
	if !e.hour.star && rapid.Bool().Draw(t, "small hour") {
		// Where nearly all changes are.
		lo := rapid.IntRange(0, 3).Draw(t, "hour from")
		e.hour = modelField{text: fmt.Sprintf("%d-3", lo), values: map[int]bool{}}
		for v := lo; v <= 3; v++ {
			e.hour.values[v] = true
		}
	}
	e.mon = field("month", 1, 12, 8, quartz)
	e.day = field("day", 1, 31, 6, quartz)
	if !quartz {
		e.dialect = DialectUnix
		e.second = modelField{values: map[int]bool{0: true}}
		e.dow = field("weekday", 0, 7, 6, false)
		if e.dow.values[7] {
			e.dow.values[0] = true
		}
		e.eitherDay = !e.day.star && !e.dow.star
		e.everyHour = e.minute.star || e.hour.star
		e.text = strings.Join([]string{e.minute.text, e.hour.text, e.day.text, e.mon.text, e.dow.text}, " ")
		return e
	}
	e.dialect = DialectQuartz
	e.second = rapid.SampledFrom([]modelField{
		{text: "0", values: map[int]bool{0: true}},
		{text: "30", values: map[int]bool{30: true}},
		{text: "15-45/15", values: map[int]bool{15: true, 30: true, 45: true}},
		{text: "*/30", values: map[int]bool{0: true, 30: true}, star: true},
		{text: "0/15", values: map[int]bool{0: true, 15: true, 30: true, 45: true}, star: true},
	}).Draw(t, "second")
	e.everyHour = e.second.star || e.minute.star || e.hour.star
	dayText, dowText := e.day.text, "?"
	e.dow = every
	if rapid.Bool().Draw(t, "by weekday") {
		e.day, dayText = every, "?"
		e.dow = drawField(t, "weekday", 1, 7, true)
		dowText = e.dow.text
		from0 := map[int]bool{}
		for v := range e.dow.values {
			from0[v-1] = true
		}
		e.dow.values = from0
	}
	e.text = strings.Join([]string{e.second.text, e.minute.text, e.hour.text, dayText, e.mon.text, dowText}, " ")
	return e
}

func (e modelExpr) matches(reading int64) bool {
	in := func(f modelField, v int) bool { return f.values == nil || f.values[v] }
	t := time.Unix(reading, 0).UTC()
	day, dow := in(e.day, t.Day()), in(e.dow, int(t.Weekday()))
	if e.eitherDay && !day && !dow || !e.eitherDay && !(day && dow) {
		return false
	}
	return in(e.second, t.Second()) && in(e.minute, t.Minute()) && in(e.hour, t.Hour()) && in(e.mon, int(t.Month()))
}

// due returns all instants after start and before end at which the model says
// the expression is due.
func (e modelExpr) due(loc *time.Location, dst DST, start, end int64) []int64 {
	offset := func(u int64) int64 {
		_, off := time.Unix(u, 0).In(loc).Zone()
		return int64(off)
	}
	// What the wall clock shows, with a day and more on both sides: the first and
	// the last instant of every reading.
	first, last := map[int64]int64{}, map[int64]int64{}
	const margin = 27 * 3600
	for u := start - start%modelTick - margin; u < end+margin; u += modelTick {
		reading := u + offset(u)
		if _, seen := first[reading]; !seen {
			first[reading] = u
		}
		last[reading] = u
	}

	var due []int64
	if dst == DSTQuartz {
		from := start + 1 + offset(start+1)
		for reading := from - from%modelTick; reading < end+margin; reading += modelTick {
			if u, exists := last[reading]; exists && reading >= from && e.matches(reading) && u < end {
				due = append(due, u)
			}
		}
		return due
	}
	for u := start - start%modelTick; u < end; u += modelTick {
		if u <= start {
			continue
		}
		reading := u + offset(u)
		fixed := dst == DSTAX && !e.everyHour
		switch {
		case e.matches(reading) && !(fixed && first[reading] != u):
			due = append(due, u)
		case fixed && offset(u) > offset(u-1) && offset(u)-offset(u-1) <= 3*3600:
			for lost := u + offset(u-1); lost < reading; lost += modelTick {
				if e.matches(lost) {
					due = append(due, u)
					break
				}
			}
		}
	}
	return due
}

// modelZones have changes of all the kinds there are: at two, at midnight, of
// half an hour, of two hours, of a day, of the base offset, by no rule at all.
var modelZones = []string{
	"America/New_York", "Europe/Berlin", "Europe/Dublin", "America/St_Johns", "America/Havana",
	"America/Sao_Paulo", "America/Asuncion", "America/Santiago", "America/Caracas", "Africa/Cairo",
	"Africa/Casablanca", "Asia/Beirut", "Asia/Tehran", "Asia/Pyongyang", "Australia/Lord_Howe", "Australia/Sydney",
	"Antarctica/Troll", "Antarctica/Casey", "Pacific/Apia", "Pacific/Chatham", "Pacific/Kwajalein", "UTC",
}

// drawChange draws an instant at which a zone's offset changes, found by looking
// every hour of a year; a zone without one gives New Year.
func drawChange(t *rapid.T, loc *time.Location) int64 {
	year := rapid.IntRange(1990, 2060).Draw(t, "year")
	u := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	end := time.Date(year+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	changes := []int64{u}
	_, before := time.Unix(u, 0).In(loc).Zone()
	for ; u < end; u += 1800 {
		_, off := time.Unix(u, 0).In(loc).Zone()
		if off != before {
			changes = append(changes, u)
			before = off
		}
	}
	if len(changes) > 1 {
		changes = changes[1:]
	}
	return rapid.SampledFrom(changes).Draw(t, "change")
}

// TestCalendarEqualsModel: around changes of offset the calendar and the model
// agree on every instant, under each of the rules.
func TestCalendarEqualsModel(t *testing.T) {
	zones := map[string]*time.Location{}
	for _, name := range modelZones {
		zones[name] = testZone(t, name)
	}
	rapid.Check(t, func(t *rapid.T) {
		loc := zones[rapid.SampledFrom(modelZones).Draw(t, "zone")]
		e := drawExpr(t)
		dst := rapid.SampledFrom([]DST{DSTAX, DSTQuartz, DSTWall}).Draw(t, "dst")
		start := drawChange(t, loc) + rapid.Int64Range(-30*3600, 3*3600).Draw(t, "seconds off")
		end := start + 36*3600

		c, err := ParseCron(e.text, CronOptions{Dialect: e.dialect, Zone: loc, DST: dst})
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for at := time.Unix(start, 0); ; {
			next, err := c.Next(at)
			if err != nil {
				t.Fatal(err)
			}
			if next.IsZero() || next.Unix() >= end {
				break
			}
			if !next.After(at) {
				t.Fatalf("%q: next after %s is %s", e.text, at, next)
			}
			got, at = append(got, next.Unix()), next
		}
		want := e.due(loc, dst, start, end)
		if !slices.Equal(got, want) {
			t.Fatalf("%q in %s, dst %s, from %s:\n got %s\nwant %s", e.text, loc, dst, time.Unix(start, 0).In(loc),
				timesText(got, loc), timesText(want, loc))
		}
	})
}

func timesText(times []int64, loc *time.Location) string {
	var b strings.Builder
	for i, u := range times {
		if i == 12 {
			fmt.Fprintf(&b, " and %d more", len(times)-i)
			break
		}
		b.WriteString(" " + time.Unix(u, 0).In(loc).Format(time.RFC3339))
	}
	return b.String()
}
