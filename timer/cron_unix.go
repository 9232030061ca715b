package timer

import (
	"fmt"
	"strings"

	cron "github.com/netresearch/go-cron"
)

// CronFields are the five fields of a Unix expression, read. In the sets bit v
// stands for value v.
type CronFields struct {
	Minute     uint64 // bits 0-59
	Hour       uint64 // bits 0-23
	DayOfMonth uint64 // bits 1-31
	Month      uint64 // bits 1-12
	DayOfWeek  uint64 // bits 0-6, Sunday is 0; 7 is folded into it

	// BothDays says how the two day fields go together: true, a day has to be in
	// both sets, because one of the fields begins with "*" (also "*/5"); false,
	// to be in either is enough.
	BothDays bool

	// Text is the expression in one spelling: numbers in place of names, single
	// blanks, no leading zeros. ParseCron reads it as the same schedule.
	Text string

	// everyHour: the minute or the hour field begins with "*", so the schedule
	// goes by real time and not by time of day (DSTAX).
	everyHour bool
}

var unixFields = [5]cronField{
	{name: "minute", min: 0, max: 59},
	{name: "hour", min: 0, max: 23},
	{name: "day of month", min: 1, max: 31},
	{name: "month", min: 1, max: 12, names: monthNames, nameBase: 1},
	{name: "day of week", min: 0, max: 7, names: dayNames, nameBase: 0},
}

// cronMacros are in the words of crontab(5). @reboot is not here: it is no time.
var cronMacros = map[string]string{
	"@hourly":   "0 * * * *",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@weekly":   "0 0 * * 0",
	"@monthly":  "0 0 1 * *",
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
}

// ParseCronFields reads five fields, or an @ name, as crontab(5) describes them
// and as Debian's cron and cronie do. There is no zone prefix here. The forms
// that those accept and misread (a range that runs backwards, text after a valid
// start) are refused. An error is an *ExprError.
func ParseCronFields(expr string) (CronFields, error) {
	if len(expr) > MaxExpr {
		return CronFields{}, tooLongExpr(expr)
	}
	tokens := splitFields(expr)
	if len(tokens) > 0 && strings.HasPrefix(tokens[0], "@") {
		var err *ExprError
		if tokens, err = expandMacro(expr, tokens); err != nil {
			return CronFields{}, err
		}
	}
	f, err := parseUnix(expr, tokens)
	if err != nil {
		return CronFields{}, err // not a typed nil
	}
	return f, nil
}

func parseUnix(expr string, tokens []string) (CronFields, *ExprError) {
	if len(tokens) != len(unixFields) {
		return CronFields{}, newExprError(expr, "", "", fmt.Sprintf(
			"has %d fields; a Unix expression has 5: minute, hour, day of month, month, day of week", len(tokens)))
	}
	var sets [5]uint64
	var stars [5]bool
	var text strings.Builder
	for i, token := range tokens {
		f := &unixFields[i]
		items, value, reason := f.list(token)
		if reason != "" {
			return CronFields{}, newExprError(expr, f.name, value, reason)
		}
		stars[i] = items[0].star
		if i > 0 {
			text.WriteByte(' ')
		}
		for n, it := range items {
			f.values(it, func(v int) { sets[i] |= 1 << v })
			if n > 0 {
				text.WriteByte(',')
			}
			text.WriteString(it.unixText())
		}
	}
	if sets[4]&(1<<7) != 0 {
		sets[4] = sets[4]&^(1<<7) | 1
	}
	return CronFields{
		Minute: sets[0], Hour: sets[1], DayOfMonth: sets[2], Month: sets[3], DayOfWeek: sets[4],
		BothDays:  stars[2] || stars[4],
		Text:      text.String(),
		everyHour: stars[0] || stars[1],
	}, nil
}

// unixText spells the item as Unix cron reads it.
func (it cronItem) unixText() string {
	var s string
	switch {
	case it.star:
		s = "*"
	case it.lo == it.hi:
		return fmt.Sprint(it.lo)
	default:
		s = fmt.Sprintf("%d-%d", it.lo, it.hi)
	}
	if it.step > 1 {
		s += fmt.Sprintf("/%d", it.step)
	}
	return s
}

// schedule fills in the library's value sets.
func (f CronFields) schedule() wallSchedule {
	return utcSchedule(cron.SpecSchedule{
		Second: 1, Minute: f.Minute, Hour: f.Hour, Dom: f.DayOfMonth, Month: f.Month, Dow: f.DayOfWeek,
		DowOrDom:       !f.BothDays,
		MaxSearchYears: searchYears,
	})
}
