package crontab

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ax-scheduler/ax/timer"
)

// An Entry is one command and when it runs.
type Entry struct {
	Line int // counts from 1

	// Schedule is the five time fields as they are written, joined by single
	// blanks, or the @ name.
	Schedule string

	// Reboot: the schedule is @reboot. Fields is then empty.
	Reboot bool
	Fields timer.CronFields

	// TimeZone is the IANA name in CRON_TZ at this line, "" for the default.
	TimeZone string

	User    string // "" in a user's crontab
	Command string // for the shell, with \% turned into %; never empty

	// Stdin is the command's standard input, newlines in place of %, and one at
	// its end. HasStdin is false where the line has no unescaped %.
	Stdin    string
	HasStdin bool

	// Quiet is cronie's "-" before the fields: runs are not logged.
	Quiet bool

	// Note is what the reader should look at, though the line is good; else "".
	Note string

	variables []Variable // all assignments above, in the file's order
}

// Env returns the variables in force for the entry, in the order in which they
// were first set, each with its last value above the entry. CRON_TZ is among
// them. It takes time in proportion to the assignments above.
func (e Entry) Env() []Variable {
	at := make(map[string]int, len(e.variables))
	var env []Variable
	for _, v := range e.variables {
		if i, again := at[v.Name]; again {
			env[i] = v
			continue
		}
		at[v.Name] = len(env)
		env = append(env, v)
	}
	return env
}

// CronExpr returns the schedule in five fields, in the spelling of
// timer.CronFields, for timer.ParseCron with the Unix dialect and TimeZone; ""
// for @reboot.
func (e Entry) CronExpr() string { return e.Fields.Text }

// parseEntry reads a line that is not a variable.
func (p *parser) parseEntry(line string) (e Entry, reason string) {
	rest, quiet := strings.CutPrefix(line, "-")
	if quiet && !p.system {
		return e, `begins with "-", which cron allows only to root; take it off`
	}
	e.Quiet = quiet

	if strings.HasPrefix(rest, "@") {
		e.Schedule, rest = word(rest)
		reason = e.readName()
	} else {
		var fields []string
		for len(fields) < 5 && rest != "" {
			var field string
			field, rest = word(rest)
			fields = append(fields, field)
		}
		e.Schedule = strings.Join(fields, " ")
		reason = e.readFields(len(fields))
	}
	if reason != "" {
		return e, reason
	}
	if !e.Reboot {
		if p.zone.reason != "" {
			return e, p.zone.reason
		}
		e.TimeZone = p.zone.name
	}

	switch {
	case rest == "":
		return e, "no command after the time fields"
	case rest[0] == '*':
		return e, `"*" stands where the command should: cron has five time fields, this line has more`
	}
	if p.system {
		e.User, rest = word(rest)
		if !possibleUser(e.User) {
			return e, fmt.Sprintf("user: %.60q is not a possible user name; a system crontab has a user between the time fields and the command", e.User)
		}
		if rest == "" {
			return e, fmt.Sprintf("no command after the user column, which is %.60q; a system crontab has a user between the time fields and the command", e.User)
		}
	}
	e.splitCommand(rest)
	if strings.Trim(e.Command, spaces) == "" {
		return e, `no command before "%"`
	}
	return e, ""
}

// word cuts the first word off, and the blanks after it.
func word(s string) (first, rest string) {
	end := strings.IndexAny(s, blanks)
	if end < 0 {
		return s, ""
	}
	return s[:end], strings.TrimLeft(s[end:], blanks)
}

func (e *Entry) readName() (reason string) {
	if e.Schedule == "@reboot" {
		e.Reboot = true
		return ""
	}
	if e.Schedule != strings.ToLower(e.Schedule) {
		return fmt.Sprintf("%.40q is unknown; @ names are written in small letters", e.Schedule)
	}
	fields, err := timer.ParseCronFields(e.Schedule)
	if err != nil {
		return reasonOf(err)
	}
	// cronie sets "begins with *" for these four alone. It makes no difference to
	// the days, of which the others select all.
	switch e.Schedule {
	case "@weekly", "@monthly", "@yearly", "@annually":
	default:
		fields.BothDays = false
	}
	e.Fields = fields
	return ""
}

func (e *Entry) readFields(n int) (reason string) {
	// Filled up, so that the first bad field is named even where the line is
	// not a crontab line at all.
	fields, err := timer.ParseCronFields(e.Schedule + strings.Repeat(" *", 5-n))
	if err != nil {
		return reasonOf(err)
	}
	if n < 5 {
		return fmt.Sprintf("has %d of five time fields (minute, hour, day of month, month, day of week) and no command", n)
	}
	e.Fields = fields
	return ""
}

// reasonOf is the error without the expression, which the line already shows.
func reasonOf(err error) string {
	var e *timer.ExprError
	if !errors.As(err, &e) {
		return err.Error()
	}
	switch {
	case e.Field == "":
		return e.Reason
	case e.Value == "":
		return e.Field + ": " + e.Reason
	}
	return fmt.Sprintf("%s %q: %s", e.Field, e.Value, e.Reason)
}

// possibleUser reports whether a word can be a user name: letters, digits and
// _ . - + anywhere but "-" and "+" in front, @ and \ inside (domain accounts), $
// at the end (machine accounts), at most 256 bytes. It is wider than any useradd.
func possibleUser(name string) bool {
	if name == "" || len(name) > 256 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		inside := i > 0 && i < len(name)-1
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.':
		case c == '-' || c == '+':
			if i == 0 {
				return false
			}
		case c == '@' || c == '\\':
			if !inside {
				return false
			}
		case c == '$':
			if i == 0 || inside {
				return false
			}
		default:
			return false
		}
	}
	return true
}
