package events

import "fmt"

// State is where an instance stands.
type State uint8

// The states. FAILED, TIMEOUT and LOST are an attempt's: they stand in every
// history, and in the same frame RETRYING, DEAD or CANCELLED follows.
const (
	StateNone       State = iota // no such instance
	StateCreated                 // waits for parents, an overlap slot, approval or event
	StateScheduled               // in its group's queue
	StateDispatched              // offered
	StateRunning                 // claimed
	StateFailed                  // the attempt reported an error
	StateTimeout                 // the attempt, or the wait for it, passed its limit
	StateLost                    // the attempt's worker is gone
	StateRetrying                // waits for its backoff, holds no slot
	StateDead                    // dead letter, open to people
	StateSuccess                 // final
	StateCancelled               // final
	StateSkipped                 // final
	StateDiscarded               // final: a dead letter put away
	NumStates
)

var stateNames = [NumStates]string{
	"NONE", "CREATED", "SCHEDULED", "DISPATCHED", "RUNNING", "FAILED", "TIMEOUT", "LOST", "RETRYING", "DEAD",
	"SUCCESS", "CANCELLED", "SKIPPED", "DISCARDED",
}

// String gives the name used everywhere.
func (s State) String() string {
	if s < NumStates {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState finds a state by its name.
func ParseState(name string) (State, bool) {
	for s, n := range stateNames {
		if n == name && State(s) != StateNone {
			return State(s), true
		}
	}
	return StateNone, false
}

// MarshalText makes states strings in JSON.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (s *State) UnmarshalText(b []byte) error {
	st, ok := ParseState(string(b))
	if !ok {
		return fmt.Errorf("unknown state %q", b)
	}
	*s = st
	return nil
}

// Final reports whether nothing leads out of s. DEAD is not final: people can
// redrive or discard it.
func (s State) Final() bool { return s >= StateSuccess && s < NumStates }

// Open reports whether an instance in s still counts as open for overlap: it
// exists, is not final and not DEAD.
func (s State) Open() bool { return s > StateNone && s < StateDead }
