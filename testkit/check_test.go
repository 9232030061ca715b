package testkit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/testkit"
)

// The checker is what the tests of crashes believe, so it is tested itself: it
// finds nothing in a good history, and each fault that is put into one.
func TestTheCheckerFindsWhatIsPutIntoAHistory(t *testing.T) {
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: "job"}, Task: &events.TaskSpec{
		Triggers: every(time.Second), Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{"name":"work"}`)},
	}}
	if err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	const second = int64(1000)
	const start = int64(1_800_000_000_000) // when testkit.History begins, a whole second
	due := func(n int64) int64 { return start + n*second }
	id := func(n int64) events.InstanceID { return events.NewInstanceID("job", due(n), "s1", 0) }
	fired := func(n int64) events.Event {
		return events.Event{Kind: events.KindFired, Task: "job", Trigger: "main", Instance: id(n), Due: due(n), Version: 1, Next: due(n + 1)}
	}
	skipped := func(from, to int64) events.Event {
		return events.Event{
			Kind: events.KindSkipped, Task: "job", Trigger: "main", From: due(from), Due: due(to), Count: to - from + 1, Next: due(to + 1), Reason: events.ReasonMisfire,
		}
	}
	nonce := strings.Repeat("n", 43)
	dispatched := func(n, attempt, offer int64) events.Event {
		return events.Event{Kind: events.KindDispatched, Instance: id(n), Attempt: attempt, Offer: offer, At: due(n + 10)}
	}
	started := func(n, attempt, offer int64) events.Event {
		return events.Event{Kind: events.KindStarted, Instance: id(n), Attempt: attempt, Offer: offer, Worker: "w1", Nonce: nonce}
	}
	on := func(kind events.Kind, n, attempt int64) events.Event {
		e := events.Event{Kind: kind, Instance: id(n), Attempt: attempt}
		switch kind {
		case events.KindFailed:
			e.Error = "it failed"
		case events.KindTimedOut:
			e.Reason = events.ReasonRun
		case events.KindLost:
			e.Reason = events.ReasonWorkerGone
		case events.KindRetrying:
			e.At = due(n + 1)
		case events.KindLate:
			e.Outcome = events.KindSucceeded
		}
		return e
	}
	good := func() []events.Event {
		return []events.Event{
			{Kind: events.KindDefined, Object: events.ObjectTask, Name: "job", Version: 1, Body: body},
			{Kind: events.KindPlanned, Task: "job", Trigger: "main", Version: 1, Due: start, Next: due(1)},
			fired(1), dispatched(1, 1, 1), started(1, 1, 1), on(events.KindSucceeded, 1, 1),
			skipped(2, 4),
			fired(5), dispatched(5, 1, 1), started(5, 1, 1), on(events.KindTimedOut, 5, 1), on(events.KindRetrying, 5, 2), on(events.KindLate, 5, 1),
			on(events.KindReady, 5, 2), dispatched(5, 2, 2), started(5, 2, 2), on(events.KindSucceeded, 5, 2),
		}
	}
	replace := func(n int, with ...events.Event) func([]events.Event) []events.Event {
		return func(all []events.Event) []events.Event { return slices.Replace(all, n, n+1, with...) }
	}
	for _, c := range []struct {
		name    string
		change  func([]events.Event) []events.Event
		covered int64  // seconds up to which due times have to be covered
		want    string // in a problem; "": there is none
	}{
		{"good", nil, 5, ""},
		{"a due time is passed over by a fired", replace(6, skipped(2, 3)), 5, "the due time after"},
		{"a due time is passed over by a skipped", replace(6, skipped(3, 4)), 5, "the due time after"},
		{"a skipped counts too few", replace(6, func() events.Event { e := skipped(2, 4); e.Count = 2; return e }()), 5, "the last of so many"},
		{"the end is passed over", nil, 6, "without a word about its due time"},
		{"it is planned for another time than the calendar's", replace(1, events.Event{
			Kind: events.KindPlanned, Task: "job", Trigger: "main", Version: 1, Due: start, Next: due(2),
		}), 5, "the calendar says"},
		{"it is planned anew past a due time", replace(6, skipped(2, 4), events.Event{
			Kind: events.KindPlanned, Task: "job", Trigger: "main", Version: 1, Due: due(5) + 1, Next: due(6),
		}), 5, "has neither fired nor been skipped"},
		{"a due time that was skipped fires", replace(6, skipped(2, 5)), 0, "which was skipped"},
		{"a due time fires twice", replace(6, func() events.Event {
			e := fired(1)
			e.Instance = events.NewInstanceID("job", due(1), "s1", 1)
			return e
		}(), skipped(2, 4)), 0, "fired twice"},
		{"an attempt starts twice", replace(5, started(1, 1, 1)), 0, "started twice"},
		{"an offer is started and withdrawn", replace(4, events.Event{
			Kind: events.KindWithdrawn, Instance: id(1), Attempt: 1, Offer: 1, Reason: events.ReasonUnclaimed,
		}, started(1, 1, 1)), 0, "was withdrawn before"},
		{"an attempt starts by an offer that was never made", replace(4, started(1, 1, 2)), 0, "which is none of it"},
		{"an attempt is offered while an earlier one runs", replace(5, dispatched(1, 2, 2), on(events.KindSucceeded, 1, 1)), 0, "while attempt 1 runs"},
		{"an attempt is offered while the worker of an earlier one holds on", replace(12, on(events.KindReady, 5, 2)), 0, "has not let go"},
		{"an attempt has two outcomes", replace(5, on(events.KindFailed, 1, 1), on(events.KindSucceeded, 1, 1)), 0, "second outcome"},
		{"an instance is left open", replace(16), 0, "left open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := good()
			if c.change != nil {
				all = c.change(all)
			}
			h := testkit.NewHistory()
			log := events.NewMemoryLog(func() time.Time { return time.UnixMilli(due(100)) })
			for _, e := range all {
				h.Add(t, e)
			}
			for _, m := range h.Messages(t) {
				log.Put(m)
			}
			opt := testkit.AuditOptions{Closed: true}
			if c.covered > 0 {
				opt.CoveredUntil = time.UnixMilli(due(c.covered))
			}
			a, err := testkit.ReadAudit(t.Context(), log, opt)
			if err != nil {
				t.Fatal(err)
			}
			found := strings.Join(a.Problems, "\n")
			if c.want == "" && found != "" || !strings.Contains(found, c.want) {
				t.Errorf("found:\n%s\nwant: %q", found, c.want)
			}
		})
	}
}
