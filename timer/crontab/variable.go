package crontab

import (
	"fmt"
	"strings"
	"time"
)

// A Variable is an assignment, without its quotes.
type Variable struct {
	Line        int // counts from 1
	Name, Value string
}

// spaces are the white space around a name, "=" and a value (isspace of C).
const spaces = " \t\v\f\r"

// parseVariable reads NAME = value. A line that has no "=" right after its first
// word is no variable. One that has, and cannot be read as one, gets a reason:
// as an entry it would make no sense either.
func parseVariable(line string) (v Variable, isVariable bool, reason string) {
	var rest string
	if quote := line[0]; quote == '"' || quote == '\'' {
		end := strings.IndexByte(line[1:], quote)
		if end < 0 || strings.Contains(line[1:1+end], "=") {
			return v, false, ""
		}
		v.Name, rest = line[1:1+end], line[1+end+1:]
	} else {
		end := strings.IndexAny(line, spaces+"=")
		if end < 0 {
			return v, false, ""
		}
		v.Name, rest = line[:end], line[end:]
	}
	rest, found := strings.CutPrefix(strings.TrimLeft(rest, spaces), "=")
	if !found {
		return v, false, ""
	}
	if v.Name == "" {
		return v, false, `nothing stands before "="; write NAME = value`
	}

	rest = strings.TrimLeft(rest, spaces)
	if rest == "" || rest[0] != '"' && rest[0] != '\'' {
		v.Value = strings.TrimRight(rest, spaces)
		return v, true, ""
	}
	value, after, closed := strings.Cut(rest[1:], rest[:1])
	if !closed {
		return v, false, fmt.Sprintf("the value of %.40q begins with a quote that does not end; close it or leave it out", v.Name)
	}
	if strings.Trim(after, spaces) != "" {
		return v, false, fmt.Sprintf("text follows the closing quote of the value of %.40q; "+
			"use the other kind of quote around it (cron knows no escapes and runs no $(...))", v.Name)
	}
	v.Value = value
	return v, true, ""
}

// A zone is the CRON_TZ in force.
type zone struct {
	name   string // "" for the default
	reason string // what is wrong with it, "" if nothing
}

func readZone(v Variable) zone {
	z := zone{name: v.Value}
	if z.name == "" {
		return z
	}
	_, err := time.LoadLocation(z.name)
	if err != nil || strings.EqualFold(z.name, "local") {
		z.reason = fmt.Sprintf("CRON_TZ=%.60q, set in line %d, is not a known IANA zone; write a name such as Europe/Berlin there", v.Value, v.Line)
	}
	return z
}
