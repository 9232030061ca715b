// Package timer knows time: what is due when, by which clock, and what a due
// time becomes.
//
//   - Calendars (calendar.go, cron*.go, interval.go, once.go): when a trigger is
//     due next. A pure function of an instant.
//   - The wheel (wheel.go) and the alarm (alarm*.go): what is due soon, and being
//     woken for it.
//   - The log's clock (clock.go) and both together as a Schedule (schedule.go).
//   - The fire decider (fire.go, misfire.go): due triggers become fired and
//     skipped events.
//
// Invariants:
//
//	T1  A due time fires at most once: fired moves the trigger's position, and a
//	    due time at or before the position is never looked at again. Where the
//	    clock went back behind the position, what has fired stays fired.
//	T2  A due time is passed over only in a skipped event that says why.
//	T3  Nothing fires before the estimate of the stream server's clock, less its
//	    error, has reached the due time.
//	T4  Log time never goes back and never jumps: deadlines are not moved by a
//	    clock that is set. Triggers go by the wall clock.
//	T5  The zone of a trigger stands in its definition; no zone of a host is in
//	    any path.
package timer
