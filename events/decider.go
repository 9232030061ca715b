package events

import "iter"

// Now is all that a decider may know of time.
type Now struct {
	// Time is log time: the estimate of the stream server's clock, never less
	// than in the decision before. Unix nanoseconds.
	Time int64
	// Sure is Time minus the estimate's error: what is due at or before it is
	// due by the server's clock too. Unix nanoseconds.
	Sure int64
	// Mono is the process's monotonic clock in nanoseconds, for what is measured
	// by this process alone: beats and leases.
	Mono int64
}

// Millis gives Time in Unix milliseconds.
func (n Now) Millis() int64 { return n.Time / 1e6 }

// Decider reads the folded state and yields the events it calls for. It is
// pure: the same state and time give the same events; it changes nothing
// itself. Each event is applied to the state before yield returns, so the
// decider sees the consequences; when yield returns false the frame is full and
// the decider returns: what is still owed is in the state for the next round.
type Decider[S any] func(state S, now Now) iter.Seq[*Event]
