package events

// Verdict is what the state table says of an event that meets a state.
type Verdict uint8

const (
	// Unset is no verdict: a cell that nobody has filled. A test finds it.
	Unset Verdict = iota
	// Moves: the instance goes to the cell's state.
	Moves
	// Stays: the event has an effect, but the state is the same.
	Stays
	// Passed: the event changes nothing. The cell says why.
	Passed
)

// Guard is a condition on the folded row that a cell needs besides the state.
type Guard uint8

const (
	// Always: no further condition.
	Always Guard = iota
	// SameAttempt: the event's attempt is the row's.
	SameAttempt
	// SameOffer: attempt and offer are the row's.
	SameOffer
	// NextOffer: the attempt is the row's, the offer the one after its last, and
	// no worker holds the instance any more.
	NextOffer
	// NextAttempt: the event's attempt is the one after the row's.
	NextAttempt
	// SameAttemptFree: the attempt is the row's, and no worker holds the
	// instance any more.
	SameAttemptFree
	// NextAttemptFree: the attempt is the one after the row's, and no worker
	// holds the instance any more.
	NextAttemptFree
	// Free: no worker holds the instance any more.
	Free
	// Held: a worker that passed the time limit has not let go yet.
	Held
	// HeldAttempt: Held, and the event's attempt is the one that is held.
	HeldAttempt
)

// Cell is one entry of the state table.
type Cell struct {
	Verdict Verdict
	Guard   Guard
	To      State  // where Moves goes; StateNone: where the event's body says
	Why     string // why Passed changes nothing
}

// Reasons of cells that change nothing.
const (
	whyNone    = "no such instance"
	whyExists  = "the instance exists already"
	whyFinal   = "the instance has ended"
	whyDead    = "the instance is a dead letter"
	whyNotYet  = "the instance has not come to that yet"
	whyPast    = "the instance is past that"
	whyRuns    = "an attempt is running: it can only be asked to end"
	whyEnded   = "the attempt has ended"
	whyNoRun   = "no attempt is running"
	whyJudge   = "the attempt has ended: retrying, dead or cancelled comes next"
	whyNotDead = "the instance is no dead letter"
	whyFuture  = "nothing does this yet"
)

func to(s State, g Guard) Cell { return Cell{Verdict: Moves, Guard: g, To: s} }
func stays(g Guard) Cell       { return Cell{Verdict: Stays, Guard: g} }
func no(why string) Cell       { return Cell{Verdict: Passed, Why: why} }

// table is the state machine of an instance: state × kind, every cell filled
// for the kinds that act on instances. docs/states.md is generated from it.
//
// A cell whose guard does not hold changes nothing either: the event is of an
// attempt or offer that is over, or a worker still holds the instance.
var table = [NumStates][NumKinds]Cell{
	StateNone: {
		KindFired: to(StateScheduled, Always), KindSkipped: no(whyNone), KindRestated: to(StateNone, Always),
		KindReady: no(whyNone), KindDispatched: no(whyNone), KindWithdrawn: no(whyNone), KindStarted: no(whyNone),
		KindRetrying: no(whyNone), KindDead: no(whyNone), KindDiscarded: no(whyNone), KindRedriven: no(whyNone),
		KindCancelAsked: no(whyNone), KindCancelled: no(whyNone), KindLost: no(whyNone), KindNodeSkipped: no(whyNone),
		KindApproved: no(whyNone), KindSignalled: no(whyNone), KindOverridden: no(whyNone),
		KindSucceeded: no(whyNone), KindFailed: no(whyNone), KindTimedOut: no(whyNone), KindLate: no(whyNone),
	},
	StateCreated: {
		KindFired: no(whyExists), KindSkipped: to(StateSkipped, Always), KindRestated: stays(Always),
		KindReady: to(StateScheduled, SameAttempt), KindDispatched: no(whyNotYet), KindWithdrawn: no(whyNotYet), KindStarted: no(whyNotYet),
		KindRetrying: no(whyNotYet), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: no(whyNoRun), KindCancelled: to(StateCancelled, Always), KindLost: no(whyNoRun), KindNodeSkipped: to(StateSkipped, Always),
		KindApproved: no(whyFuture), KindSignalled: no(whyFuture), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyNoRun), KindFailed: no(whyNoRun), KindTimedOut: no(whyNoRun), KindLate: no(whyNoRun),
	},
	StateScheduled: {
		KindFired: no(whyExists), KindSkipped: to(StateSkipped, Always), KindRestated: stays(Always),
		KindReady: no(whyPast), KindDispatched: to(StateDispatched, NextOffer), KindWithdrawn: no(whyNotYet), KindStarted: no(whyNotYet),
		KindRetrying: no(whyNotYet), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: no(whyNoRun), KindCancelled: to(StateCancelled, Always), KindLost: no(whyNoRun), KindNodeSkipped: no(whyPast),
		KindApproved: no(whyPast), KindSignalled: no(whyPast), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyNoRun), KindFailed: no(whyNoRun), KindTimedOut: to(StateTimeout, SameAttempt), KindLate: stays(Always),
	},
	StateDispatched: {
		KindFired: no(whyExists), KindSkipped: no(whyPast), KindRestated: stays(Always),
		KindReady: no(whyPast), KindDispatched: no(whyPast), KindWithdrawn: to(StateScheduled, SameOffer), KindStarted: to(StateRunning, SameOffer),
		KindRetrying: no(whyNotYet), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: no(whyNoRun), KindCancelled: to(StateCancelled, Always), KindLost: no(whyNoRun), KindNodeSkipped: no(whyPast),
		KindApproved: no(whyPast), KindSignalled: no(whyPast), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyNoRun), KindFailed: no(whyNoRun), KindTimedOut: no(whyNoRun), KindLate: stays(Always),
	},
	StateRunning: {
		KindFired: no(whyExists), KindSkipped: no(whyRuns), KindRestated: stays(Always),
		KindReady: no(whyRuns), KindDispatched: no(whyRuns), KindWithdrawn: no(whyRuns), KindStarted: no(whyRuns),
		KindRetrying: no(whyRuns), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: stays(Always), KindCancelled: to(StateCancelled, SameAttempt), KindLost: to(StateLost, SameAttempt), KindNodeSkipped: no(whyRuns),
		KindApproved: no(whyPast), KindSignalled: no(whyPast), KindOverridden: no(whyFuture),
		KindSucceeded: to(StateSuccess, SameAttempt), KindFailed: to(StateFailed, SameAttempt), KindTimedOut: to(StateTimeout, SameAttempt), KindLate: stays(Always),
	},
	StateFailed: {
		KindFired: no(whyExists), KindSkipped: no(whyJudge), KindRestated: stays(Always),
		KindReady: no(whyJudge), KindDispatched: no(whyJudge), KindWithdrawn: no(whyJudge), KindStarted: no(whyJudge),
		KindRetrying: to(StateRetrying, NextAttempt), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: no(whyEnded), KindCancelled: to(StateCancelled, Free), KindLost: no(whyEnded), KindNodeSkipped: no(whyJudge),
		KindApproved: no(whyPast), KindSignalled: no(whyPast), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyEnded), KindFailed: no(whyEnded), KindTimedOut: no(whyEnded), KindLate: stays(Always),
	},
	StateTimeout: {
		KindFired: no(whyExists), KindSkipped: no(whyJudge), KindRestated: stays(Always),
		KindReady: no(whyJudge), KindDispatched: no(whyJudge), KindWithdrawn: no(whyJudge), KindStarted: no(whyJudge),
		KindRetrying: to(StateRetrying, NextAttempt), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: stays(Held), KindCancelled: to(StateCancelled, Free), KindLost: stays(HeldAttempt), KindNodeSkipped: no(whyJudge),
		KindApproved: no(whyPast), KindSignalled: no(whyPast), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyEnded), KindFailed: no(whyEnded), KindTimedOut: no(whyEnded), KindLate: stays(Always),
	},
	StateLost: {
		KindFired: no(whyExists), KindSkipped: no(whyJudge), KindRestated: stays(Always),
		KindReady: no(whyJudge), KindDispatched: no(whyJudge), KindWithdrawn: no(whyJudge), KindStarted: no(whyJudge),
		KindRetrying: to(StateRetrying, NextAttempt), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: no(whyEnded), KindCancelled: to(StateCancelled, Free), KindLost: no(whyEnded), KindNodeSkipped: no(whyJudge),
		KindApproved: no(whyPast), KindSignalled: no(whyPast), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyEnded), KindFailed: no(whyEnded), KindTimedOut: no(whyEnded), KindLate: stays(Always),
	},
	StateRetrying: {
		KindFired: no(whyExists), KindSkipped: no(whyPast), KindRestated: stays(Always),
		KindReady: to(StateScheduled, SameAttemptFree), KindDispatched: no(whyNotYet), KindWithdrawn: no(whyNotYet), KindStarted: no(whyNotYet),
		KindRetrying: no(whyPast), KindDead: to(StateDead, Always), KindDiscarded: no(whyNotDead), KindRedriven: no(whyNotDead),
		KindCancelAsked: stays(Held), KindCancelled: to(StateCancelled, Free), KindLost: stays(HeldAttempt), KindNodeSkipped: no(whyPast),
		KindApproved: no(whyPast), KindSignalled: no(whyPast), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyEnded), KindFailed: no(whyEnded), KindTimedOut: no(whyEnded), KindLate: stays(Always),
	},
	StateDead: {
		KindFired: no(whyExists), KindSkipped: no(whyDead), KindRestated: stays(Always),
		KindReady: no(whyDead), KindDispatched: no(whyDead), KindWithdrawn: no(whyDead), KindStarted: no(whyDead),
		KindRetrying: no(whyDead), KindDead: no(whyDead), KindDiscarded: to(StateDiscarded, Free), KindRedriven: to(StateScheduled, NextAttemptFree),
		KindCancelAsked: stays(Held), KindCancelled: no(whyDead), KindLost: stays(HeldAttempt), KindNodeSkipped: no(whyDead),
		KindApproved: no(whyDead), KindSignalled: no(whyDead), KindOverridden: no(whyFuture),
		KindSucceeded: no(whyDead), KindFailed: no(whyDead), KindTimedOut: no(whyDead), KindLate: stays(Always),
	},
	StateSuccess:   final,
	StateCancelled: final,
	StateSkipped:   final,
	StateDiscarded: final,
}

// final is the row of every final state: a late report is kept as evidence,
// nothing else has an effect.
var final = [NumKinds]Cell{
	KindFired: no(whyExists), KindSkipped: no(whyFinal), KindRestated: no(whyFinal),
	KindReady: no(whyFinal), KindDispatched: no(whyFinal), KindWithdrawn: no(whyFinal), KindStarted: no(whyFinal),
	KindRetrying: no(whyFinal), KindDead: no(whyFinal), KindDiscarded: no(whyFinal), KindRedriven: no(whyFinal),
	KindCancelAsked: no(whyFinal), KindCancelled: no(whyFinal), KindLost: no(whyFinal), KindNodeSkipped: no(whyFinal),
	KindApproved: no(whyFinal), KindSignalled: no(whyFinal), KindOverridden: no(whyFinal),
	KindSucceeded: no(whyFinal), KindFailed: no(whyFinal), KindTimedOut: no(whyFinal), KindLate: stays(Always),
}

// Lookup gives the cell of a state and a kind that acts on instances.
func Lookup(s State, k Kind) Cell {
	if s >= NumStates || k >= NumKinds {
		return Cell{}
	}
	return table[s][k]
}
