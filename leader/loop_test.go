package leader_test

import (
	"bytes"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/testkit"
)

// loopOf makes a loop over a state that knows a task and a few instances.
func loopOf(t *testing.T, instances int, deciders ...leader.Decider) (*leader.Loop, *projector.State) {
	t.Helper()
	v, err := projector.OpenViews(projector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	s, err := projector.NewState(v)
	if err != nil {
		t.Fatal(err)
	}
	h := testkit.NewHistory()
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: "job"}, Task: &events.TaskSpec{
		Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{}`)},
	}}
	if err := d.Complete(); err != nil {
		t.Fatal(err)
	}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	h.Add(t, events.Event{Kind: events.KindDefined, Object: events.ObjectTask, Name: "job", Version: 1, Body: body})
	for k := range instances {
		h.Add(t, events.Event{Kind: events.KindFired, Task: "job", Trigger: events.ManualTrigger, Instance: id(k), Due: 1000, Version: 1})
	}
	for _, m := range h.Messages(t) {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	return leader.NewLoop(s, deciders, &[events.NumKinds]leader.Reaction{}, events.Term{1}, "server/s1", slog.New(slog.DiscardHandler)), s
}

func id(k int) events.InstanceID { return events.NewInstanceID("job", 1000, "s1", int64(k)) }

func now(ns int64) events.Now {
	const base = 1_900_000_000_000_000_000
	return events.Now{Time: base + ns, Sure: base + ns, Mono: ns}
}

// dispatchAll offers everything that is queued; it fails on the instances that
// fail names, in the way that fail does.
func dispatchAll(fail func(i *projector.Instance) *events.Event) leader.Decider {
	return leader.Decider{Name: "dispatch", Decide: func(s *projector.State, n events.Now) iter.Seq[*events.Event] {
		return func(yield func(*events.Event) bool) {
			g := s.Group("default")
			for {
				i := s.Best(g, n.Millis())
				if i == nil {
					return
				}
				s.Focus(i, nil)
				e := fail(i)
				if e == nil {
					e = &events.Event{Kind: events.KindDispatched, Instance: i.ID, Attempt: i.Attempt, Offer: i.Offer + 1, At: n.Millis() + 10_000}
				}
				if !yield(e) {
					return
				}
			}
		}
	}}
}

// TestADecisionThatCanNotBeMadeIsParkedAlone holds L6: whatever is wrong with it,
// the instance becomes a dead letter, an incident says why, and the others go on.
func TestADecisionThatCanNotBeMadeIsParkedAlone(t *testing.T) {
	for name, bad := range map[string]func(i *projector.Instance) *events.Event{
		"a panic": func(*projector.Instance) *events.Event { panic("boom") },
		"an event that is not well-formed": func(i *projector.Instance) *events.Event {
			return &events.Event{Kind: events.KindDispatched, Instance: i.ID}
		},
		"an event that is too large": func(i *projector.Instance) *events.Event {
			return &events.Event{Kind: events.KindSkipped, Instance: i.ID, Reason: strings.Repeat("x", events.MaxText+1)}
		},
		"an event without effect": func(i *projector.Instance) *events.Event {
			return &events.Event{Kind: events.KindSucceeded, Instance: i.ID, Attempt: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			loop, s := loopOf(t, 20, dispatchAll(func(i *projector.Instance) *events.Event {
				if i.ID == id(3) || i.ID == id(11) {
					return bad(i)
				}
				return nil
			}))
			for loop.Round(now(0)) {
			}
			for k := range 20 {
				want := events.StateDispatched
				if k == 3 || k == 11 {
					want = events.StateDead
				}
				i := s.Instance(id(k))
				if i.State != want {
					t.Errorf("%s is %s, want %s", i.ID, i.State, want)
				}
				if want == events.StateDead && (i.Reason != events.ReasonInternal || i.Error == "") {
					t.Errorf("%s: reason %q, error %q", i.ID, i.Reason, i.Error)
				}
			}
			if loop.Parked != 2 {
				t.Errorf("%d parked, want 2", loop.Parked)
			}
			frame := loop.Seal()
			var d events.Decoded
			if err := d.Decode(frame.Message); err != nil {
				t.Fatal(err)
			}
			incidents := 0
			for _, e := range d.Events {
				if e.Kind == events.KindIncident && e.Reason == events.ReasonPoison {
					incidents++
				}
			}
			if incidents != 2 {
				t.Errorf("%d incidents, want 2", incidents)
			}
		})
	}
}

// TestAFullFrameLeavesTheRestForTheNext: nothing is lost at the border.
func TestAFullFrameLeavesTheRestForTheNext(t *testing.T) {
	const n = events.MaxFrameEvents + 500
	loop, s := loopOf(t, n, dispatchAll(func(*projector.Instance) *events.Event { return nil }))
	if !loop.Round(now(0)) {
		t.Fatal("the frame was not full")
	}
	first := loop.Seal()
	if first.Events != events.MaxFrameEvents {
		t.Errorf("%d events in the first frame", first.Events)
	}
	// The next frame is collected while the first is in flight; its events stand
	// at the sequence after it.
	if loop.Round(now(1)) {
		t.Error("the second frame was full")
	}
	if loop.Seal() != nil {
		t.Error("two frames in flight")
	}
	if _, err := loop.Commit(); err != nil {
		t.Fatal(err)
	}
	second := loop.Seal()
	if second.Events != 500 || second.Message.Seq != first.Message.Seq+1 {
		t.Errorf("second frame: %d events at %d", second.Events, second.Message.Seq)
	}
	if _, err := loop.Commit(); err != nil {
		t.Fatal(err)
	}
	moved := map[uint64]int{}
	for k := range n {
		moved[s.Instance(id(k)).Updated.Seq]++
	}
	if moved[first.Message.Seq] != events.MaxFrameEvents || moved[second.Message.Seq] != 500 {
		t.Errorf("instances moved by sequence: %v", moved)
	}
	if s.Meta().Cursor != second.Message.Seq || s.Ahead() {
		t.Errorf("cursor %d, ahead %v", s.Meta().Cursor, s.Ahead())
	}
}

// ask is a request that reads the state.
type ask struct {
	decide func(*projector.State) *events.Event
	done   bool
}

func (a *ask) Decide(s *projector.State, _ events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		if e := a.decide(s); e == nil || yield(e) {
			a.done = true
		}
	}
}
func (a *ask) Answer(events.Term, []byte) []byte       { return []byte(fmt.Sprint(a.done)) }
func (a *ask) Fail(events.Term, string, []byte) []byte { return []byte("failed") }

// TestAnAnswerWaitsForWhatItRestsOn holds L4: an answer leaves when the frame with
// its events is committed; one without events when everything it could see is.
func TestAnAnswerWaitsForWhatItRestsOn(t *testing.T) {
	loop, _ := loopOf(t, 1)
	var said []string
	reply := func(name string) func([]byte) {
		return func(b []byte) { said = append(said, name+"="+string(bytes.Clone(b))) }
	}
	send := func(f *leader.Frame) {
		if f != nil {
			f.Send(events.Term{1}, func(string, []byte) {}, true, nil)
		}
	}
	read := func(*projector.State) *events.Event { return nil }
	write := func(*projector.State) *events.Event {
		return &events.Event{Kind: events.KindCancelled, Instance: id(0)}
	}
	loop.Ask(&ask{decide: read}, reply("read"))
	loop.Round(now(0))
	send(loop.Loose())
	if fmt.Sprint(said) != "[read=true]" {
		t.Fatalf("with nothing in flight: %v", said)
	}
	said = nil
	loop.Ask(&ask{decide: write}, reply("write"))
	loop.Round(now(1))
	loop.Seal()
	loop.Ask(&ask{decide: read}, reply("read behind it"))
	loop.Round(now(2))
	send(loop.Loose())
	if len(said) != 0 {
		t.Fatalf("before the commit: %v", said)
	}
	f, err := loop.Commit()
	if err != nil {
		t.Fatal(err)
	}
	send(f)
	send(loop.Loose())
	if fmt.Sprint(said) != "[write=true read behind it=true]" {
		t.Fatalf("after the commit: %v", said)
	}
}

// TestARequestThatPanicsIsAnswered: and those beside it are decided.
func TestARequestThatPanicsIsAnswered(t *testing.T) {
	loop, _ := loopOf(t, 1)
	var said []string
	for k, decide := range []func(*projector.State) *events.Event{
		func(*projector.State) *events.Event { return nil },
		func(*projector.State) *events.Event { panic("boom") },
		func(*projector.State) *events.Event { return nil },
	} {
		loop.Ask(&ask{decide: decide}, func(b []byte) { said = append(said, fmt.Sprintf("%d=%s", k, b)) })
	}
	loop.Round(now(0))
	f := loop.Seal()
	if f == nil || f.Events != 1 {
		t.Fatalf("the incident is not in a frame: %+v", f)
	}
	if _, err := loop.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Send(events.Term{1}, func(string, []byte) {}, true, nil)
	if fmt.Sprint(said) != "[0=true 1=failed 2=true]" {
		t.Errorf("answers: %v", said)
	}
}

// inboxAsk is a request from a message of the inbox.
type inboxAsk struct {
	ask
	seq uint64
}

func (a *inboxAsk) InboxSeq() uint64 { return a.seq }

// TestAMessageOfTheInboxThatPanicsIsPassed: it is dealt with by the incident, or
// it would be read, and panic, for ever.
func TestAMessageOfTheInboxThatPanicsIsPassed(t *testing.T) {
	loop, s := loopOf(t, 1)
	loop.Ask(&inboxAsk{ask{decide: func(*projector.State) *events.Event { panic("boom") }}, 7}, func([]byte) {})
	loop.Round(now(0))
	if f := loop.Seal(); f == nil || f.Events != 1 {
		t.Fatalf("the incident is not in a frame: %+v", f)
	}
	if have := s.Meta().Inbox; have != 7 {
		t.Errorf("the inbox is read up to %d, want 7", have)
	}
}

// TestARequestHarmsNothingThatItNames: what cannot be decided for somebody who asks is
// that somebody's trouble; the instance goes on.
func TestARequestHarmsNothingThatItNames(t *testing.T) {
	loop, s := loopOf(t, 1)
	var said string
	loop.Ask(&ask{decide: func(s *projector.State) *events.Event {
		s.Focus(s.Instance(id(0)), nil)
		return &events.Event{Kind: events.KindLate, Instance: id(0), Attempt: -1}
	}}, func(b []byte) { said = string(b) })
	loop.Round(now(0))
	f := loop.Seal()
	if f == nil || f.Events != 1 {
		t.Fatalf("more than the incident was decided, or nothing: %+v", f)
	}
	if _, err := loop.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Send(events.Term{1}, func(string, []byte) {}, true, nil)
	if i := s.Instance(id(0)); i == nil || i.State == events.StateDead || said != "failed" {
		t.Errorf("answered %q, the instance is %+v", said, i)
	}
}
