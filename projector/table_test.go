package projector_test

import (
	"testing"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/testkit"
)

const walked = events.InstanceID("job-1800000000000-s1")

func taskDefined(t *testing.T) events.Event {
	t.Helper()
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: "job"}, Task: &events.TaskSpec{
		Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{"name":"x"}`)},
	}}
	if err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return events.Event{Kind: events.KindDefined, Object: events.ObjectTask, Name: "job", Version: 1, Body: body}
}

// of makes an event of a kind about the walked instance, with all that the kind
// requires.
func of(k events.Kind, attempt, offer int64) events.Event {
	e := events.Event{Kind: k, Instance: walked}
	switch k {
	case events.KindFired:
		return events.Event{Kind: k, Instance: walked, Task: "job", Trigger: events.ManualTrigger, Due: 1_800_000_000_000, Version: 1}
	case events.KindRestated:
		return events.Event{Kind: k, Object: events.ObjectInstance, Name: string(walked), Body: `{"instance":{"id":"` + string(walked) + `","task":"job","group":"default","version":1,"due":1,"state":"SCHEDULED","attempt":1}}`}
	case events.KindReady, events.KindSucceeded, events.KindCancelled:
		e.Attempt = attempt
	case events.KindRetrying, events.KindRedriven:
		e.Attempt = attempt + 1
	case events.KindFailed:
		e.Attempt, e.Error = attempt, "no"
	case events.KindTimedOut:
		e.Attempt, e.Reason, e.Worker = attempt, events.ReasonRun, "w"
	case events.KindLost:
		e.Attempt, e.Reason = attempt, events.ReasonWorkerGone
	case events.KindLate:
		e.Attempt, e.Outcome = attempt, events.KindSucceeded
	case events.KindDispatched:
		e.Attempt, e.Offer = attempt, offer+1
	case events.KindWithdrawn:
		e.Attempt, e.Offer, e.Reason = attempt, max(offer, 1), events.ReasonUnclaimed
	case events.KindStarted:
		e.Attempt, e.Offer, e.Worker, e.Nonce = attempt, max(offer, 1), "w", "n"
	case events.KindOverridden:
		e.Outcome = events.KindSucceeded
	}
	switch k {
	case events.KindDispatched, events.KindStarted, events.KindRetrying:
		e.At = 1_800_000_100_000
	case events.KindDead, events.KindSkipped, events.KindNodeSkipped:
		e.Reason = "x"
	}
	return e
}

// paths lead an instance from nothing into each state.
func paths() map[events.State][]events.Event {
	held := of(events.KindTimedOut, 1, 1)
	held.Worker = "" // the leader's own: the worker has not let go
	fired := of(events.KindFired, 1, 0)
	dispatched := of(events.KindDispatched, 1, 0)
	started := of(events.KindStarted, 1, 1)
	failed := of(events.KindFailed, 1, 1)
	p := map[events.State][]events.Event{
		events.StateNone:       nil,
		events.StateScheduled:  {fired},
		events.StateDispatched: {fired, dispatched},
		events.StateRunning:    {fired, dispatched, started},
		events.StateFailed:     {fired, dispatched, started, failed},
		events.StateTimeout:    {fired, dispatched, started, held},
		events.StateLost:       {fired, dispatched, started, of(events.KindLost, 1, 1)},
		events.StateRetrying:   {fired, dispatched, started, failed, of(events.KindRetrying, 1, 1)},
		events.StateDead:       {fired, dispatched, started, failed, of(events.KindDead, 1, 1)},
		events.StateSuccess:    {fired, dispatched, started, of(events.KindSucceeded, 1, 1)},
		events.StateCancelled:  {fired, of(events.KindCancelled, 1, 0)},
		events.StateSkipped:    {fired, of(events.KindSkipped, 1, 0)},
		events.StateDiscarded:  {fired, dispatched, started, failed, of(events.KindDead, 1, 1), of(events.KindDiscarded, 1, 1)},
	}
	return p
}

// TestTheFoldDoesWhatTheTableSays walks the product of states and kinds: into
// each state, then each kind, with what its guard wants and with what it does
// not.
func TestTheFoldDoesWhatTheTableSays(t *testing.T) {
	cells, reached := 0, paths()
	for s := events.StateNone; s < events.NumStates; s++ {
		path, known := reached[s]
		if s == events.StateCreated {
			continue // nothing makes it yet: its cells are held by events' own tests
		}
		if !known {
			t.Errorf("no path leads to %s", s)
			continue
		}
		for _, k := range events.Kinds() {
			if !k.OnInstance() {
				continue
			}
			cells++
			cell := events.Lookup(s, k)
			before, after := step(t, path, s, k)
			name := s.String() + " × " + k.String()
			if before != s {
				t.Fatalf("%s: the path leads to %s", name, before)
			}
			want := s
			if cell.Verdict == events.Moves {
				want = cell.To
				if k == events.KindRestated {
					want = events.StateScheduled // what the body says
				}
			}
			// TIMEOUT is reached held, so what needs a free instance does not move it.
			if s == events.StateTimeout && cell.Guard == events.Free {
				want = s
			}
			if after != want {
				t.Errorf("%s: the fold goes to %s, the table says %s", name, after, want)
			}
		}
	}
	if cells < 250 {
		t.Errorf("only %d cells were walked", cells)
	}
}

// step folds a path and one more event, and gives the state before and after it.
func step(t *testing.T, path []events.Event, s events.State, k events.Kind) (before, after events.State) {
	t.Helper()
	attempt, offer := int64(1), int64(0)
	for _, e := range path {
		if e.Kind == events.KindDispatched {
			offer = e.Offer
		}
		if e.Kind == events.KindRetrying {
			attempt = e.Attempt
		}
	}
	h := testkit.NewHistory()
	h.Add(t, taskDefined(t))
	for _, e := range path {
		h.Add(t, e)
	}
	e := of(k, attempt, offer)
	if s == events.StateRetrying && (k == events.KindRetrying || k == events.KindRedriven) {
		e.Attempt = attempt + 1
	}
	h.Add(t, e)
	msgs := h.Messages(t)
	return fold(t, msgs[:len(msgs)-1]), fold(t, msgs)
}

func fold(t *testing.T, msgs []*events.Message) events.State {
	t.Helper()
	v, err := projector.OpenViews(projector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	s, err := projector.NewState(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range msgs {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	if i := s.Instance(walked); i != nil {
		return i.State
	}
	return events.StateNone
}
