package events

import "fmt"

// Kind says what an event records. The number is AX's own and may change; the
// name is written into the log and never changes its meaning.
type Kind uint8

// The kinds. Rules for adding one:
//
//   - A name is never used again, also not after its kind is gone.
//   - A new kind, or a new field of an old one, raises FrameVersion: a node that
//     does not know it stops before the frame and says so, since passing it
//     would make its views differ from everybody else's.
//   - Fields are optional and absent when zero; amounts are whole numbers.
//   - The kind gets its row in kindTable, its column in the state table, its
//     arm in the fold, and its line in docs/log-format.md. Tests fail until it
//     has them.
const (
	kindNone Kind = iota

	// Definitions.

	KindDefined  // an object (task, group) has a new version
	KindRemoved  // an object is gone; its open instances finish
	KindPaused   // a task, or one trigger of it, does not fire
	KindResumed  // it fires again
	KindRestated // the whole state of a live fact again, before its last event expires

	// Decisions.

	KindPlanned     // a trigger's next due time
	KindFired       // a due time became an instance
	KindSkipped     // due times, or an instance, that will not run, and why
	KindReady       // an instance entered its group's queue
	KindDispatched  // an attempt was offered
	KindWithdrawn   // an offer nobody may claim any more
	KindStarted     // an attempt was claimed
	KindRetrying    // another attempt follows, and when
	KindDead        // no attempt follows: a dead letter
	KindDiscarded   // a dead letter was put away by somebody
	KindRedriven    // a dead letter runs again
	KindCancelAsked // a running attempt is to end
	KindCancelled   // an instance ended by request
	KindLost        // an attempt whose worker is gone
	KindThrottled   // a task's concurrency was lowered
	KindRunStarted  // a workflow began
	KindRunFinished // a workflow ended
	KindNodeSkipped // a node will not run
	KindApproved    // somebody let a node go on
	KindSignalled   // a waited-for event came
	KindOverridden  // somebody decided an outcome by hand

	// Outcomes.

	KindSucceeded // the attempt did its work
	KindFailed    // the attempt reported an error
	KindTimedOut  // the attempt, or the wait for it, passed its limit
	KindLate      // an outcome of an attempt that was over

	// Record.

	KindRefused  // a command that had no effect, and why
	KindIgnored  // a message that meant nothing
	KindAlerted  // an alert was raised
	KindIncident // something that must not happen did

	// Proof.

	KindLed        // a leadership began
	KindCheckpoint // hash and digest of everything up to a position, signed

	// NumKinds is the number of kinds, for tables indexed by Kind.
	NumKinds
)

// String gives the name that stands in the log.
func (k Kind) String() string {
	if k > kindNone && k < NumKinds {
		return kindTable[k].name
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// ParseKind finds a kind by its name.
func ParseKind(name string) (Kind, bool) {
	k, ok := kindByName[name]
	return k, ok
}

// MarshalText makes kinds strings in JSON.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (k *Kind) UnmarshalText(b []byte) error {
	kind, ok := ParseKind(string(b))
	if !ok {
		return fmt.Errorf("unknown event kind %q", b)
	}
	*k = kind
	return nil
}

// Kinds lists all kinds in their order.
func Kinds() []Kind {
	all := make([]Kind, 0, NumKinds)
	for k := kindNone + 1; k < NumKinds; k++ {
		all = append(all, k)
	}
	return all
}

var kindByName = func() map[string]Kind {
	m := make(map[string]Kind, NumKinds)
	for k := kindNone + 1; k < NumKinds; k++ {
		m[kindTable[k].name] = k
	}
	return m
}()
