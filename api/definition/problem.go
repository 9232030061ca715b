package definition

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	Line   int    // from 1; 0 where the file as a whole is meant
	Column int    // from 1, in characters; 0 where it is not known
	Field  string // path, such as spec.triggers[0].cron; empty before there are fields
	Reason string // what is wrong and what to write instead
}

// Error says all that is wrong with one file.
type Error struct {
	File     string
	Problems []Problem // by place; at most MaxProblems

	dropped int // problems beyond MaxProblems
}

// Error prints one problem a line, at most MaxPrinted, as editors and terminals
// know them: file:line:column: field: reason.
func (e *Error) Error() string { return Errors{e}.Error() }

// Errors says all that is wrong with several files, in the order in which they
// were read. errors.As finds each *Error.
type Errors []*Error

// Error prints one problem a line, at most MaxPrinted of all files together.
func (es Errors) Error() string {
	var b strings.Builder
	printed, more := 0, 0
	for _, e := range es {
		more += e.dropped
		for _, p := range e.Problems {
			if printed == MaxPrinted {
				more++
				continue
			}
			if printed > 0 {
				b.WriteByte('\n')
			}
			p.print(&b, e.File)
			printed++
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, "\nand %d more", more)
	}
	return b.String()
}

// Unwrap gives the errors of the files.
func (es Errors) Unwrap() []error {
	list := make([]error, len(es))
	for i, e := range es {
		list[i] = e
	}
	return list
}

func (p *Problem) print(b *strings.Builder, file string) {
	b.WriteString(file)
	if p.Line > 0 {
		fmt.Fprintf(b, ":%d", p.Line)
		if p.Column > 0 {
			fmt.Fprintf(b, ":%d", p.Column)
		}
	}
	b.WriteString(": ")
	if p.Field != "" {
		b.WriteString(p.Field)
		b.WriteString(": ")
	}
	b.WriteString(p.Reason)
}

// newError orders the problems by their place and cuts the list.
func newError(file string, problems []Problem) *Error {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	// An anchor that is used five times is wrong once.
	problems = slices.CompactFunc(problems, func(a, b Problem) bool {
		return a.Line == b.Line && a.Column == b.Column && a.Line > 0 && a.Reason == b.Reason
	})
	e := &Error{File: file, Problems: problems}
	if n := len(problems); n > MaxProblems {
		e.Problems, e.dropped = problems[:MaxProblems:MaxProblems], n-MaxProblems
	}
	return e
}

// problemAt is a Problem without a field.
func problemAt(at place, format string, args ...any) *Problem {
	return &Problem{Line: at.line, Column: at.column, Reason: oneLine(fmt.Sprintf(format, args...))}
}

// fileError is an Error about the file as a whole.
func fileError(file, format string, args ...any) *Error {
	return newError(file, []Problem{{Reason: oneLine(fmt.Sprintf(format, args...))}})
}

// maxReason bounds a reason, whatever it quotes.
const maxReason = 600

// oneLine makes a reason fit into one line of bounded length. Reasons of other
// packages may quote what somebody wrote.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return cut(s, maxReason)
}

// cut shortens s to about n bytes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// quote quotes a text of a file, cut, so that a reason stays readable.
func quote(s string) string { return fmt.Sprintf("%q", cut(s, 60)) }

// AsErrors gives the errors of all files in err, which came from Parse or Load,
// and nil for any other error.
func AsErrors(err error) Errors {
	var all Errors
	if errors.As(err, &all) {
		return all
	}
	var one *Error
	if errors.As(err, &one) {
		return Errors{one}
	}
	return nil
}
