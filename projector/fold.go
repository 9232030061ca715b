package projector

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ax-scheduler/ax/events"
)

// Errors that stop a fold before a message.
var (
	// ErrOutOfOrder: the message is not the one after the cursor.
	ErrOutOfOrder = errors.New("not the message after the cursor")
	// ErrChain: the hash of everything before, which the message carries, is not
	// the one that was folded. A message before it was changed, added or removed.
	ErrChain = errors.New("broken hash chain")
)

// Fold takes the message after the cursor. On an error nothing was changed and
// the cursor stays before the message.
func (s *State) Fold(m *events.Message) error {
	if s.err != nil {
		return s.err
	}
	if err := s.follows(m); err != nil {
		return err
	}
	err := s.decoded.Decode(m)
	switch {
	case errors.Is(err, events.ErrNewerVersion):
		return err
	case err != nil:
		s.strange(m.Seq) // no frame at all: passed and remembered
	case m.Kind == events.MessageLed:
		s.applyLed(m)
	case s.meta.Unchained && s.meta.Term.IsZero() && !m.Term.IsZero():
		// Of a log that has lost its beginning by age or size the first frame is
		// believed: that its term is the living one, and what the chain was.
		s.meta.Unchained, s.meta.Term, s.meta.Hash = false, m.Term, m.Prev
		s.applyFrame(m)
	case m.Term != s.meta.Term:
		s.strange(m.Seq) // the second fence
	case s.meta.Unchained:
		s.meta.Unchained, s.meta.Hash = false, m.Prev
		s.applyFrame(m)
	case m.Prev != s.meta.Hash:
		return fmt.Errorf("%w at sequence %d: it says %s, folded was %s; restore the log, or verify it to find the message that changed",
			ErrChain, m.Seq, m.Prev, s.meta.Hash)
	default:
		s.applyFrame(m)
	}
	s.advance(m, s.ahead)
	return s.err
}

func (s *State) applyFrame(m *events.Message) {
	for k := range s.decoded.Events {
		s.Apply(&s.decoded.Events[k], events.Position{Seq: m.Seq, Index: uint32(k)}, s.decoded.Times[k], s.decoded.Actor)
	}
}

// Advance tells the state that a frame, whose first n events that are ahead are,
// is in the log: the cursor and the chain move over it.
func (s *State) Advance(m *events.Message, n int) error {
	if s.err != nil {
		return s.err
	}
	if err := s.follows(m); err != nil {
		return err
	}
	s.advance(m, n)
	return nil
}

func (s *State) follows(m *events.Message) error {
	if s.meta.Cursor == 0 && m.Seq > 0 {
		// An empty state takes what the log begins with.
		s.meta.First = m.Seq
		s.meta.Unchained = m.Seq > 1
		return nil
	}
	if m.Seq != s.meta.Cursor+1 {
		return fmt.Errorf("%w: want sequence %d, have %d", ErrOutOfOrder, s.meta.Cursor+1, m.Seq)
	}
	return nil
}

func (s *State) advance(m *events.Message, n int) {
	s.meta.Before = s.meta.Hash
	s.meta.Hash = events.Chain(s.meta.Hash, m)
	s.meta.Cursor = m.Seq
	s.ahead -= n
}

// Folded reports whether m is the very message that was folded at the cursor. If
// it is not, the log is another one than it was, or went back and grew again.
func (s *State) Folded(m *events.Message) bool {
	return m.Seq == s.meta.Cursor && events.Chain(s.meta.Before, m) == s.meta.Hash
}

func (s *State) strange(seq uint64) {
	x := &s.meta.Strange
	if x.Count == 0 {
		x.First = seq
	}
	x.Last = seq
	x.Count++
}

// applyLed begins a term.
func (s *State) applyLed(m *events.Message) {
	s.meta.Term, s.meta.Led, s.meta.LedAt = m.Term, m.Seq, m.Time
	s.meta.Time = max(s.meta.Time, m.Time)
	e := &s.decoded.Events[0]
	if len(s.decoded.Events) != 1 || e.Kind != events.KindLed {
		return
	}
	s.meta.Events++
	var body events.LedBody
	if json.Unmarshal([]byte(e.Body), &body) != nil {
		return
	}
	s.meta.Leader = body.Server
	if body.Boot != "" && body.Boot != s.meta.Boot {
		s.meta.Boot, s.meta.BootSeq, s.meta.BootAt = body.Boot, m.Seq, m.Time/1e6
	}
}
