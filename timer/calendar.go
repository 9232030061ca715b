package timer

import (
	"errors"
	"fmt"
	"time"
)

// A Calendar says when a trigger is due. It is a pure function of the instant
// asked about: it reads no clock, keeps no state and may be asked by many
// goroutines at once.
//
// What a caller may rely on, and what the tests hold every calendar to:
//
//   - Next answers the first due instant strictly after after, so asking again
//     with the answer walks through all of them, each once.
//   - A zero time and no error mean that nothing is due any more. It is an
//     answer, not a fault: the trigger is exhausted.
//   - An error is a *CalendarError: the calendar found itself to be wrong. A
//     caller stops the trigger and shows the error; to ask again with the same
//     instant gives the same error.
//   - Next returns within a bounded number of steps, whatever it is asked.
type Calendar interface {
	Next(after time.Time) (time.Time, error)
}

// The instants that calendars answer with lie in the years that RFC 3339 can
// write. Whatever is due later is never due.
const (
	firstYear = 1
	lastYear  = 9999
)

// MaxExpr bounds the text of an expression, in bytes. The longest useful one,
// sixty listed seconds and as many minutes, has some 500.
const MaxExpr = 1024

// ErrReboot is what ParseCron answers for @reboot: an event of the machine, not
// a time, and so nothing that a calendar could say. The caller that can watch
// for it tests for this error.
var ErrReboot = errors.New("@reboot is an event, not a time")

// ExprError says what is wrong with the text or the options of a calendar,
// where, and what to write instead. It is always the writer's to mend.
type ExprError struct {
	Expr   string // the whole expression as it was written, cut at 128 bytes
	Field  string // the field that is wrong ("minute", "day of week", "time zone"), or "" for the whole
	Value  string // what stands there, cut at 128 bytes
	Reason string // what is wrong with it and what to do

	cause error // ErrReboot, or nil
}

func (e *ExprError) Error() string {
	switch {
	case e.Field == "":
		return fmt.Sprintf("schedule %q: %s", e.Expr, e.Reason)
	case e.Value == "":
		return fmt.Sprintf("schedule %q: %s: %s", e.Expr, e.Field, e.Reason)
	}
	return fmt.Sprintf("schedule %q: %s %q: %s", e.Expr, e.Field, e.Value, e.Reason)
}

// Unwrap makes errors.Is(err, ErrReboot) work.
func (e *ExprError) Unwrap() error { return e.cause }

// newExprError cuts what it quotes, so that an error about a hostile text is
// itself of bounded size.
func newExprError(expr, field, value, reason string) *ExprError {
	return &ExprError{Expr: quotable(expr), Field: field, Value: quotable(value), Reason: reason}
}

func quotable(s string) string {
	const limit = 128
	if len(s) > limit {
		return s[:limit] + "..."
	}
	return s
}

// CalendarError says that a calendar's answer broke the calendar's own promise.
// It points at a fault in AX, in the cron library below it, or in the zone
// data, never at the user's text.
type CalendarError struct {
	Expr   string    // the expression, with its zone and DST rule
	After  time.Time // what was asked
	Got    time.Time // what came, zero if nothing did
	Reason string
}

func (e *CalendarError) Error() string {
	got := "nothing"
	if !e.Got.IsZero() {
		got = e.Got.Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("calendar %s: next after %s gave %s: %s; the trigger has to be stopped, please report this line",
		e.Expr, e.After.Format(time.RFC3339Nano), got, e.Reason)
}
