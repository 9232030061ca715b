package events

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Tests of the state table. They hold E3.

func allStates() (all []State) {
	for s := range NumStates {
		all = append(all, s)
	}
	return all
}

func instanceKinds() (all []Kind) {
	for _, k := range Kinds() {
		if k.OnInstance() {
			all = append(all, k)
		}
	}
	return all
}

// TestEveryCellOfTheStateTableIsFilled walks the whole product.
func TestEveryCellOfTheStateTableIsFilled(t *testing.T) {
	for _, s := range allStates() {
		for _, k := range instanceKinds() {
			cell := Lookup(s, k)
			name := fmt.Sprintf("%s × %s", s, k)
			switch cell.Verdict {
			case Unset:
				t.Errorf("%s is not filled", name)
			case Moves:
				if cell.To == StateNone && (s != StateNone || k != KindRestated) {
					t.Errorf("%s moves to no state: only restated brings a state of its own", name)
				}
				if cell.To == s && s != StateNone {
					t.Errorf("%s moves to where it is: say Stays", name)
				}
				if cell.Why != "" {
					t.Errorf("%s moves and says why it changes nothing: %s", name, cell.Why)
				}
			case Stays:
				if cell.To != StateNone || cell.Why != "" {
					t.Errorf("%s stays: it has no target and no reason, but has %s and %q", name, cell.To, cell.Why)
				}
				if s == StateNone {
					t.Errorf("%s has an effect on an instance that is not there", name)
				}
			case Passed:
				if cell.Why == "" {
					t.Errorf("%s changes nothing and does not say why", name)
				}
				if cell.To != StateNone || cell.Guard != Always {
					t.Errorf("%s changes nothing, but has %s and guard %d", name, cell.To, cell.Guard)
				}
			default:
				t.Errorf("%s has the verdict %d", name, cell.Verdict)
			}
			if cell.Guard > HeldAttempt {
				t.Errorf("%s has the guard %d", name, cell.Guard)
			}
		}
	}
}

func TestKindsThatDoNotActOnInstancesHaveNoColumn(t *testing.T) {
	for _, s := range allStates() {
		for _, k := range append(Kinds(), kindNone) {
			if !k.OnInstance() && Lookup(s, k) != (Cell{}) {
				t.Errorf("%s × %s is filled", s, k)
			}
		}
	}
	for _, c := range []Cell{Lookup(NumStates, KindFired), Lookup(StateRunning, NumKinds), Lookup(255, 255)} {
		if c != (Cell{}) {
			t.Errorf("outside of the table there is %+v", c)
		}
	}
}

// moves are the edges of the table: from a state by kinds to a state. What
// restated makes of nothing is left out: it repeats what was before.
func moves() map[State]map[State][]Kind {
	edges := map[State]map[State][]Kind{}
	for _, s := range allStates() {
		edges[s] = map[State][]Kind{}
		for _, k := range instanceKinds() {
			if c := Lookup(s, k); c.Verdict == Moves && c.To != StateNone {
				edges[s][c.To] = append(edges[s][c.To], k)
			}
		}
	}
	return edges
}

func reachable(from State) map[State]bool {
	edges := moves()
	seen := map[State]bool{from: true}
	for todo := []State{from}; len(todo) > 0; todo = todo[1:] {
		for next := range edges[todo[0]] {
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	return seen
}

func TestNothingLeadsOutOfAFinalState(t *testing.T) {
	finals := []State{StateSuccess, StateCancelled, StateSkipped, StateDiscarded}
	for _, s := range allStates() {
		if want := slices.Contains(finals, s); s.Final() != want {
			t.Errorf("%s.Final() is %v", s, s.Final())
		}
		if out := moves()[s]; s.Final() && len(out) > 0 {
			t.Errorf("%s is final and leads to %v", s, out)
		}
		for _, k := range instanceKinds() {
			// A late report of a final instance is kept as evidence.
			if s.Final() && k != KindLate && Lookup(s, k).Verdict != Passed {
				t.Errorf("%s is final and %s has an effect on it", s, k)
			}
		}
	}
	if NumStates.Final() {
		t.Error("what is no state is final")
	}
}

// notReachedYet are states that no event of this version leads to, and why. A
// row goes when the state can be reached: the test says so.
var notReachedYet = map[State]string{
	StateCreated: "fired leads to SCHEDULED at once while nothing can hold an instance: no workflows, approvals, and overlap skips in place of queueing",
}

func TestEveryStateCanBeReached(t *testing.T) {
	seen := reachable(StateNone)
	for _, s := range allStates() {
		why, excused := notReachedYet[s]
		if !seen[s] && !excused {
			t.Errorf("nothing leads to %s", s)
		}
		if seen[s] && excused {
			t.Errorf("%s can be reached now; take its excuse out of this test: %s", s, why)
		}
	}
}

func TestEveryStateThatIsNotFinalHasAWayToAFinalOne(t *testing.T) {
	for _, s := range allStates() {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(reachable(s))), State.Final) {
			t.Errorf("%s leads to no final state", s)
		}
	}
}

// TestEveryStateIsLeftByWhatTheDesignSays is the table of design §7, "leaves
// by", and what this table has besides, with its reason.
func TestEveryStateIsLeftByWhatTheDesignSays(t *testing.T) {
	const (
		parked  = "a decision that cannot be made parks the instance as a dead letter (design §4.7)"
		asked   = "a cancel that was asked for while the attempt ran is decided when the attempt has ended"
		overlap = "what holds the instance may end in a skip"
	)
	type exit struct {
		kind  Kind
		to    State
		guard Guard
		why   string // it is not in the design's table
	}
	for _, c := range []struct {
		state State
		exits []exit
	}{
		{StateNone, []exit{
			{kind: KindFired, to: StateScheduled},
			{kind: KindRestated, to: StateNone, why: "it brings its state along"},
		}},
		{StateCreated, []exit{
			{kind: KindReady, to: StateScheduled, guard: SameAttempt},
			{kind: KindCancelled, to: StateCancelled},
			{kind: KindNodeSkipped, to: StateSkipped},
			{kind: KindSkipped, to: StateSkipped, why: overlap},
			{kind: KindDead, to: StateDead, why: parked},
		}},
		{StateScheduled, []exit{
			{kind: KindDispatched, to: StateDispatched, guard: NextOffer},
			{kind: KindCancelled, to: StateCancelled},
			{kind: KindTimedOut, to: StateTimeout, guard: SameAttempt},
			{kind: KindSkipped, to: StateSkipped},
			{kind: KindDead, to: StateDead, why: parked},
		}},
		{StateDispatched, []exit{
			{kind: KindStarted, to: StateRunning, guard: SameOffer},
			{kind: KindWithdrawn, to: StateScheduled, guard: SameOffer},
			{kind: KindCancelled, to: StateCancelled},
			{kind: KindDead, to: StateDead, why: parked},
		}},
		{StateRunning, []exit{
			{kind: KindSucceeded, to: StateSuccess, guard: SameAttempt},
			{kind: KindFailed, to: StateFailed, guard: SameAttempt},
			{kind: KindTimedOut, to: StateTimeout, guard: SameAttempt},
			{kind: KindLost, to: StateLost, guard: SameAttempt},
			{kind: KindCancelled, to: StateCancelled, guard: SameAttempt},
			{kind: KindDead, to: StateDead, why: parked},
		}},
		{StateFailed, []exit{
			{kind: KindRetrying, to: StateRetrying, guard: NextAttempt},
			{kind: KindDead, to: StateDead},
			{kind: KindCancelled, to: StateCancelled, guard: Free, why: asked},
		}},
		{StateTimeout, []exit{
			{kind: KindRetrying, to: StateRetrying, guard: NextAttempt},
			{kind: KindDead, to: StateDead},
			{kind: KindCancelled, to: StateCancelled, guard: Free, why: asked},
		}},
		{StateLost, []exit{
			{kind: KindRetrying, to: StateRetrying, guard: NextAttempt},
			{kind: KindDead, to: StateDead},
			{kind: KindCancelled, to: StateCancelled, guard: Free, why: asked},
		}},
		{StateRetrying, []exit{
			{kind: KindReady, to: StateScheduled, guard: SameAttemptFree},
			{kind: KindCancelled, to: StateCancelled, guard: Free},
			{kind: KindDead, to: StateDead},
		}},
		{StateDead, []exit{
			{kind: KindRedriven, to: StateScheduled, guard: NextAttemptFree},
			{kind: KindDiscarded, to: StateDiscarded, guard: Free},
		}},
		{StateSuccess, nil},
		{StateCancelled, nil},
		{StateSkipped, nil},
		{StateDiscarded, nil},
	} {
		want := map[Kind]Cell{}
		for _, x := range c.exits {
			want[x.kind] = to(x.to, x.guard)
		}
		for _, k := range instanceKinds() {
			have := Lookup(c.state, k)
			if cell, leaves := want[k]; leaves && have != cell {
				t.Errorf("%s × %s is %+v, want %+v", c.state, k, have, cell)
			} else if !leaves && have.Verdict == Moves {
				t.Errorf("%s is left by %s to %s, which is not in this table", c.state, k, have.To)
			}
		}
	}
}

// TestAHeldInstanceHearsOnlyOfItsWorker: while a worker holds an instance past
// its time limit, late and lost are allowed, and nothing final or new is.
func TestAHeldInstanceHearsOnlyOfItsWorker(t *testing.T) {
	for _, s := range []State{StateTimeout, StateRetrying, StateDead} {
		for k, want := range map[Kind]Cell{KindLate: stays(Always), KindLost: stays(HeldAttempt), KindCancelAsked: stays(Held)} {
			if have := Lookup(s, k); have != want {
				t.Errorf("%s × %s is %+v, want %+v", s, k, have, want)
			}
		}
	}
	free := []Guard{Free, SameAttemptFree, NextAttemptFree}
	for _, s := range []State{StateRetrying, StateDead} {
		for to, kinds := range moves()[s] {
			for _, k := range kinds {
				if to != StateDead && !slices.Contains(free, Lookup(s, k).Guard) {
					t.Errorf("%s × %s goes on although a worker may still hold the instance", s, k)
				}
			}
		}
	}
}

func TestStatesHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range allStates() {
		if s.String() == "" || seen[s.String()] || s.String() != strings.ToUpper(s.String()) {
			t.Errorf("state %d is called %q", s, s)
		}
		seen[s.String()] = true
		have, ok := ParseState(s.String())
		if s == StateNone { // no row is in it, so nobody may ask for it
			if ok {
				t.Error("NONE parses")
			}
			continue
		}
		text, err := s.MarshalText()
		var back State
		if !ok || have != s || err != nil || back.UnmarshalText(text) != nil || back != s {
			t.Errorf("%s does not survive its name", s)
		}
	}
	for _, name := range []string{"", "running", "RUNNING ", "state(99)"} {
		s := StateRunning
		if err := s.UnmarshalText([]byte(name)); err == nil || s != StateRunning {
			t.Errorf("%q: %v, %s", name, err, s)
		}
	}
	if s := NumStates.String(); s != "state(14)" {
		t.Errorf("what is no state is called %s", s)
	}
}

func TestOpenIsWhatCountsForOverlap(t *testing.T) {
	open := []State{StateCreated, StateScheduled, StateDispatched, StateRunning, StateFailed, StateTimeout, StateLost, StateRetrying}
	for _, s := range append(allStates(), NumStates) {
		if have, want := s.Open(), slices.Contains(open, s); have != want {
			t.Errorf("%s.Open() is %v", s, have)
		}
	}
}
