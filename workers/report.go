package workers

import (
	"fmt"
	"iter"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// maxRetryAfter bounds what a worker may ask for before the next attempt.
const maxRetryAfter = time.Hour

// maxStrayReports bounds the reports about nothing that are recorded, a minute.
// The others are counted and answered.
const maxStrayReports = 60

// ReportRequest is a request that reports ends of attempts. It has the methods
// of a leader's request.
type ReportRequest struct {
	rules   *Rules
	reports events.Reports
	hashes  []string
	answers []events.Recorded
}

// HandleReports reads reports of a group.
func (r *Rules) HandleReports(_ events.Group, body []byte) (*ReportRequest, error) {
	c := &ReportRequest{rules: r}
	if err := c.reports.Decode(body); err != nil {
		return nil, err
	}
	if err := events.CheckName(string(c.reports.Worker)); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := inRange(number{"incarnation", c.reports.Incarnation}); err != nil {
		return nil, err
	}
	for i := range c.reports.Reports {
		x := &c.reports.Reports[i]
		if err := inRange(number{"attempt", x.Attempt}, number{"offer", x.Offer}, number{"retryAfter", x.RetryAfter}); err != nil {
			return nil, err
		}
		c.hashes = append(c.hashes, NonceHash(c.reports.Reports[i].Nonce))
	}
	c.answers = make([]events.Recorded, 0, len(c.reports.Reports))
	return c, nil
}

// Decide records outcomes. The first one of a running attempt counts; one for an
// attempt that is over is late, and changes nothing but that its worker holds
// the instance no more.
func (c *ReportRequest) Decide(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		for len(c.answers) < len(c.reports.Reports) {
			k := len(c.answers)
			rep := &c.reports.Reports[k]
			i := s.Instance(rep.Instance)
			s.Focus(i, nil)
			e, outcome, reason := c.decide(i, rep, c.hashes[k], now)
			if e != nil && !yield(e) {
				return
			}
			if outcome != "" {
				c.rules.ended(c.reports.Worker, attemptID{rep.Instance, rep.Attempt})
			}
			c.answers = append(c.answers, events.Recorded{Instance: rep.Instance, Attempt: rep.Attempt, Outcome: outcome, Reason: reason})
		}
	}
}

// decide gives the event of a report, if any, and the answer.
func (c *ReportRequest) decide(i *projector.Instance, rep *events.Report, hash string, now events.Now) (e *events.Event, outcome, reason string) {
	kind, known := outcomeKinds[rep.Outcome]
	switch {
	case i == nil:
		return c.stray(rep, events.ReasonNoSuchInstance, now)
	case !known:
		return c.stray(rep, events.ReasonUnusable, now)
	case rep.Attempt > i.RunAttempt || rep.Attempt == i.RunAttempt && hash != i.Nonce:
		return c.stray(rep, events.ReasonNotHeld, now)
	}
	result, text := keptResult(rep.Result, rep.Error)
	if i.State != events.StateRunning || rep.Attempt != i.Attempt {
		// Over. A report that is repeated because its answer was lost is recorded
		// already and gets the same answer.
		for k := len(i.Transitions) - 1; k >= 0; k-- {
			if t := i.Transitions[k]; t.Attempt == rep.Attempt && (t.Kind == kind || t.Kind == events.KindLate) {
				return nil, t.Kind.String(), ""
			}
		}
		return &events.Event{
			Kind: events.KindLate, Instance: i.ID, Attempt: rep.Attempt, Outcome: kind, Result: result, Error: text,
		}, events.KindLate.String(), ""
	}
	e = &events.Event{Kind: kind, Instance: i.ID, Attempt: i.Attempt, Result: result, Error: text}
	switch kind {
	case events.KindFailed:
		if e.Error == "" {
			e.Error = "failed without a text"
		}
		e.Permanent = rep.Permanent
		if rep.RetryAfter > 0 {
			e.At = now.Millis() + min(rep.RetryAfter, maxRetryAfter.Milliseconds())
		}
	case events.KindTimedOut:
		e.Reason, e.Worker = events.ReasonRun, c.reports.Worker
	case events.KindCancelled:
		e.Result = ""
		if !i.CancelAsked { // nobody asked: the worker ended it, going away
			e.Kind, e.Reason = events.KindFailed, events.ReasonByWorker
			if e.Error == "" {
				e.Error = "the worker ended it before it was done"
			}
		}
	}
	return e, e.Kind.String(), ""
}

var outcomeKinds = map[string]events.Kind{
	events.OutcomeSucceeded: events.KindSucceeded,
	events.OutcomeFailed:    events.KindFailed,
	events.OutcomeTimedOut:  events.KindTimedOut,
	events.OutcomeCancelled: events.KindCancelled,
}

// stray answers a report about nothing that the worker holds. Some are recorded,
// so that a flood of them does not fill the log.
func (c *ReportRequest) stray(rep *events.Report, why string, now events.Now) (*events.Event, string, string) {
	if !c.rules.strayAllowed(now.Mono) {
		return nil, "", why
	}
	return &events.Event{
		Kind: events.KindIgnored, Reason: why, Instance: events.InstanceID(clipText(string(rep.Instance), 200)), Attempt: max(rep.Attempt, 0),
		Error: clipText(fmt.Sprintf("report of worker %s: %s", c.reports.Worker, rep.Outcome), 300),
	}, "", why
}

// clipText cuts a text to n bytes at a whole character.
func clipText(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// Answer encodes the answers.
func (c *ReportRequest) Answer(term events.Term, b []byte) []byte {
	m := events.ReportAnswers{Term: term, Answers: c.answers}
	return m.Encode(b)
}

// Fail answers nothing: who reports asks again.
func (c *ReportRequest) Fail(events.Term, string, []byte) []byte { return nil }
