package timer

import (
	"fmt"
	"strings"
	"time"
)

// Dialect names the language of a cron expression. The zero value is DialectAuto.
type Dialect string

const (
	// DialectAuto goes by the number of fields: five are Unix, six and seven
	// Quartz. An @ name is Unix.
	DialectAuto Dialect = "auto"

	// DialectQuartz: second, minute, hour, day of month, month, day of week
	// (1 is Sunday) and perhaps year, one of the day fields being "?".
	DialectQuartz Dialect = "quartz"

	// DialectUnix: minute, hour, day of month, month, day of week (0 and 7 are
	// Sunday), or one of @hourly @daily @midnight @weekly @monthly @yearly
	// @annually.
	DialectUnix Dialect = "unix"
)

// CronOptions says how an expression is to be read. The zero value goes by the
// number of fields, in UTC, with the AX rule at changes of the clock.
type CronOptions struct {
	Dialect Dialect

	// Zone is where the expression's readings are taken, unless the expression
	// itself begins with CRON_TZ= or TZ=. Nil is UTC; time.Local is refused,
	// since it differs between servers.
	Zone *time.Location

	DST DST
}

// ParseCron reads a cron expression, with or without a prefix "CRON_TZ=Zone " or
// "TZ=Zone ", and returns its calendar, whose answers are in the zone. It
// validates all of it: what it accepts has a meaning that the documents of
// Quartz or of cron give it, and an error is an *ExprError that names the field.
// For @reboot the error also is ErrReboot.
//
// Letters' case does not matter. The text may be MaxExpr bytes long.
func ParseCron(expr string, opt CronOptions) (Calendar, error) {
	c, err := parseCron(expr, opt)
	if err != nil {
		return nil, err // not a typed nil
	}
	return c, nil
}

func parseCron(expr string, opt CronOptions) (*cronCalendar, *ExprError) {
	if len(expr) > MaxExpr {
		return nil, tooLongExpr(expr)
	}
	c := &cronCalendar{expr: expr, zone: opt.Zone, dst: opt.DST}
	switch c.dst {
	case "":
		c.dst = DSTAX
	case DSTAX, DSTQuartz, DSTWall:
	default:
		return nil, newExprError(expr, "DST rule", string(opt.DST), "is unknown; use ax, quartz or wall")
	}

	tokens := splitFields(expr)
	if len(tokens) > 0 {
		name, isZone := strings.CutPrefix(tokens[0], "CRON_TZ=")
		if !isZone {
			name, isZone = strings.CutPrefix(tokens[0], "TZ=")
		}
		if isZone {
			zone, reason := loadZone(name)
			if reason != "" {
				return nil, newExprError(expr, "time zone", name, reason)
			}
			c.zone, tokens = zone, tokens[1:]
		}
	}
	switch c.zone {
	case nil:
		c.zone = time.UTC
	case time.Local:
		_, reason := loadZone("Local")
		return nil, newExprError(expr, "time zone", "Local", reason)
	}

	if err := c.parseFields(expr, tokens, opt.Dialect); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *cronCalendar) parseFields(expr string, tokens []string, dialect Dialect) *ExprError {
	macro := len(tokens) > 0 && strings.HasPrefix(tokens[0], "@")
	switch dialect {
	case DialectUnix, DialectQuartz:
	case "", DialectAuto:
		switch n := len(tokens); {
		case macro || n == 5:
			dialect = DialectUnix
		case n == 6 || n == 7:
			dialect = DialectQuartz
		default:
			return newExprError(expr, "", "", fmt.Sprintf("has %d fields; write 5 (minute, hour, day of month, month, day of week), "+
				"or 6 or 7 (second, minute, hour, day of month, month, day of week, perhaps year), or a name such as @daily", n))
		}
	default:
		return newExprError(expr, "dialect", string(dialect), "is unknown; use auto, quartz or unix")
	}

	if macro {
		if dialect == DialectQuartz {
			return newExprError(expr, "", "", "@ names belong to the Unix dialect; use dialect unix or auto")
		}
		var err *ExprError
		if tokens, err = expandMacro(expr, tokens); err != nil {
			return err
		}
	}
	if dialect == DialectUnix {
		f, err := parseUnix(expr, tokens)
		if err != nil {
			return err
		}
		c.fields, c.everyHour = f.schedule(), f.everyHour
		return nil
	}
	q, err := parseQuartz(expr, tokens)
	if err != nil {
		return err
	}
	c.fields, c.everyHour = q.fields, q.everyHour
	return nil
}

func expandMacro(expr string, tokens []string) ([]string, *ExprError) {
	name := strings.ToLower(tokens[0])
	fields, known := cronMacros[name]
	switch {
	case name == "@reboot":
		err := newExprError(expr, "", "", "@reboot is an event, not a time, and has no calendar; use it alone as a trigger of its own")
		err.cause = ErrReboot
		return nil, err
	case name == "@every":
		return nil, newExprError(expr, "", "", "@every is not a cron expression; use an interval trigger")
	case !known:
		return nil, newExprError(expr, "name", tokens[0],
			"is unknown; use @hourly, @daily, @midnight, @weekly, @monthly, @yearly or @annually")
	case len(tokens) > 1:
		return nil, newExprError(expr, "", "", "nothing may follow "+name+"; use the name alone, or five fields")
	}
	return splitFields(fields), nil
}

// splitFields splits at blanks and tabs. Blank lines' worth of other white
// space at the ends, which YAML block texts bring along, does not count.
func splitFields(expr string) []string {
	return strings.FieldsFunc(strings.TrimSpace(expr), func(r rune) bool { return r == ' ' || r == '\t' })
}

func tooLongExpr(expr string) *ExprError {
	return newExprError(expr, "", "", fmt.Sprintf("has %d bytes; a schedule may have at most %d", len(expr), MaxExpr))
}

// A cronCalendar is an expression in a zone under a DST rule.
//
// The search is on a wall clock that never jumps (wallSchedule, where the
// library works in UTC), and instants are found from its readings by the rule
// (cronWalk). No step of either can stand still, and both are bounded in number, so
// there is no time limit to wait for and no goroutine that could be left behind.
type cronCalendar struct {
	expr      string // as it was written, for errors
	fields    wallSchedule
	everyHour bool
	zone      *time.Location
	dst       DST
}

// String names the calendar in errors and tests.
func (c *cronCalendar) String() string {
	return fmt.Sprintf("%q in %s (dst %s)", c.expr, c.zone, c.dst)
}

func (c *cronCalendar) Next(after time.Time) (time.Time, error) {
	if year := after.UTC().Year(); year > lastYear {
		return time.Time{}, nil
	} else if year < firstYear {
		after = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC).Add(-time.Nanosecond)
	}
	from := after.Unix() + 1 // the first whole second after it
	reading := from + spanAt(c.zone, from).off

	k := cronWalk{fields: &c.fields, loc: c.zone, horizon: c.fields.horizon(reading)}
	var instant int64
	var v searchEnd
	if c.dst == DSTQuartz {
		instant, v = k.laterPass(reading)
	} else {
		instant, v = k.forward(from, c.dst == DSTAX && !c.everyHour)
	}

	next := time.Unix(instant, 0).In(c.zone)
	switch {
	case v == searchNever:
		return time.Time{}, nil
	case v == searchBackward:
		return time.Time{}, &CalendarError{Expr: c.String(), After: after, Reason: "the cron library's answer was not after what it was asked"}
	case v == searchTooLong:
		return time.Time{}, &CalendarError{Expr: c.String(), After: after, Reason: fmt.Sprintf("the search did not end within %d steps", maxSteps)}
	case !next.After(after):
		return time.Time{}, &CalendarError{Expr: c.String(), After: after, Got: next, Reason: "an answer has to be after what was asked"}
	}
	return next, nil
}
