package testkit

import (
	"testing"

	"github.com/ax-scheduler/ax/events"
)

// History makes the messages of a log by hand, one event a frame, all of one
// term.
type History struct {
	term events.Term
	msgs []*events.Message
	now  int64
}

// NewHistory begins a history with a led.
func NewHistory() *History {
	h := &History{term: events.Term{0: 1}, now: 1_800_000_000_000_000_000}
	var b events.FrameBuilder
	b.Begin(h.now, "server/s1")
	if _, _, err := b.Add(&events.Event{Kind: events.KindLed, Body: `{"server":"s1"}`}, h.now); err != nil {
		panic(err) // a constant event
	}
	m := b.Seal(h.term)
	m.Kind = events.MessageLed
	h.msgs = append(h.msgs, m)
	return h
}

// Add adds an event in a frame of its own, a millisecond after the last.
func (h *History) Add(t testing.TB, all ...events.Event) {
	t.Helper()
	var b events.FrameBuilder
	h.now += 1e6
	b.Begin(h.now, "server/s1")
	for k := range all {
		if _, _, err := b.Add(&all[k], h.now); err != nil {
			t.Fatal(err)
		}
	}
	h.msgs = append(h.msgs, b.Seal(h.term))
}

// Messages gives the chained messages.
func (h *History) Messages(t testing.TB) []*events.Message {
	t.Helper()
	var chain events.Hash
	for k, m := range h.msgs {
		m.Seq = uint64(k + 1)
		if m.Kind == events.MessageLog {
			m.Prev = chain
		}
		chain = events.Chain(chain, m)
	}
	return h.msgs
}
