package leader

import (
	"iter"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Decider is a decider over a shard's state, with the name it has in incidents.
type Decider struct {
	Name   string
	Decide events.Decider[*projector.State]
}

// Request is something asked of the leader that needs a decision or the state:
// a claim, a command, a beat.
type Request interface {
	// Decide yields the events that the request leads to. When a yield returned
	// false the frame is full: Decide is called again in the next round and goes
	// on where it stopped.
	Decide(s *projector.State, now events.Now) iter.Seq[*events.Event]
	// Answer encodes the answer, appending to b. It is called once, after the
	// commit of what it rests on, from another goroutine; nil sends nothing.
	Answer(term events.Term, b []byte) []byte
	// Fail encodes the answer of a request that could not be decided.
	Fail(term events.Term, reason string, b []byte) []byte
}

// Prompt is implemented by requests whose answer is worth nothing when it comes
// late, and wrong from a leader that is none any more: beats. They are answered
// only while the term was proven a moment ago.
type Prompt interface{ Prompt() }

// inboxed is implemented by requests that came through the inbox.
type inboxed interface{ InboxSeq() uint64 } // 0: this one did not

// Handler reads the body of a request. It is called on the client's goroutine,
// so that the loop need not decode.
type Handler func(group events.Group, body []byte) (Request, error)

// Effect is a message that leaves after the commit of the event that called for
// it. Losing it costs time, never correctness.
type Effect struct {
	Subject string
	Body    Encoder // nil: no body
}

// Encoder appends a message's body to b.
type Encoder interface{ Encode(b []byte) []byte }

// Reaction makes the effect of an event of one kind, at the time it is decided.
type Reaction func(s *projector.State, e *events.Event) (Effect, bool)

// ask is a request with the way back.
type ask struct {
	req   Request
	reply func([]byte) // nil: nobody waits
}

// answer is what a decided request waits for.
type answer struct {
	req    Request
	reply  func([]byte)
	failed string
}
