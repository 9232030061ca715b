package events

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func someMessage() *rapid.Generator[*Message] {
	return rapid.Custom(func(t *rapid.T) *Message {
		m := &Message{
			Kind:       rapid.SampledFrom([]MessageKind{MessageLog, MessageLog, MessageLed}).Draw(t, "kind"),
			Version:    rapid.IntRange(0, 3).Draw(t, "version"),
			Time:       rapid.Int64().Draw(t, "time"),
			Compressed: rapid.Bool().Draw(t, "compressed"),
			Body:       rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "body"),
		}
		copy(m.Term[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "term"))
		return m
	})
}

// chained gives the hash after each message.
func chained(all []*Message) (hashes []Hash) {
	var h Hash
	for _, m := range all {
		h = Chain(h, m)
		hashes = append(hashes, h)
	}
	return hashes
}

// TestAChangeShowsFromExactlyItsMessageOn: whatever is changed, removed, added
// or swapped, all hashes before it stay and none behind it does.
func TestAChangeShowsFromExactlyItsMessageOn(t *testing.T) {
	changes := map[string]func(t *rapid.T, m *Message){
		"sequence":    func(t *rapid.T, m *Message) { m.Seq += rapid.Uint64Min(1).Draw(t, "step") },
		"kind":        func(_ *rapid.T, m *Message) { m.Kind = MessageLog + MessageLed - m.Kind },
		"version":     func(t *rapid.T, m *Message) { m.Version += rapid.IntRange(1, 9).Draw(t, "step") },
		"term":        func(t *rapid.T, m *Message) { m.Term[rapid.IntRange(0, 15).Draw(t, "byte")]++ },
		"time":        func(t *rapid.T, m *Message) { m.Time += rapid.Int64Min(1).Draw(t, "step") },
		"compression": func(_ *rapid.T, m *Message) { m.Compressed = !m.Compressed },
		"a bit of the body": func(t *rapid.T, m *Message) {
			if len(m.Body) == 0 {
				m.Body = []byte{0}
				return
			}
			m.Body = bytes.Clone(m.Body)
			m.Body[rapid.IntRange(0, len(m.Body)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		},
		"a byte more":     func(_ *rapid.T, m *Message) { m.Body = append(bytes.Clone(m.Body), 0) },
		"a byte in front": func(_ *rapid.T, m *Message) { m.Body = append([]byte{0}, m.Body...) },
	}
	var names []string
	for name := range changes {
		names = append(names, name)
	}
	slices.Sort(names)
	number := func(all []*Message) {
		for i, m := range all {
			m.Seq = uint64(i + 1)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(someMessage(), 2, 8).Draw(t, "messages")
		number(all)
		before := chained(all)
		i := rapid.IntRange(0, len(all)-1).Draw(t, "at")
		other := make([]*Message, len(all))
		for k, m := range all {
			c := *m
			other[k] = &c
		}
		what := rapid.SampledFrom(append(names, "removed", "added", "swapped")).Draw(t, "what")
		renumbered := rapid.Bool().Draw(t, "renumbered") // as a store that hides it would
		switch what {
		case "removed":
			other = slices.Delete(other, i, i+1)
		case "added":
			m := someMessage().Draw(t, "another")
			m.Seq = uint64(i + 1)
			other = slices.Insert(other, i, m)
		case "swapped":
			i = min(i, len(all)-2)
			other[i], other[i+1] = other[i+1], other[i]
		default:
			changes[what](t, other[i])
			renumbered = false
		}
		if renumbered {
			number(other)
		}
		same := func(a, b *Message) bool { return fmt.Sprint(*a) == fmt.Sprint(*b) }
		if i < len(other) && same(other[i], all[i]) { // swapped with, or replaced by, its like
			t.Skip("nothing changed there")
		}
		after := chained(other)
		for k := range min(len(before), len(after)) {
			if equal := before[k] == after[k]; equal != (k < i) {
				t.Fatalf("%s at %d: the hash after message %d is equal: %v", what, i, k, equal)
			}
		}
	})
}

// TestWhatIsNoPartOfTheChain: what a message says of the chain, and what its
// store says of it.
func TestWhatIsNoPartOfTheChain(t *testing.T) {
	m := frameOf(t, "x", ready)
	h := Chain(Hash{1}, m)
	m.Prev, m.Stored = Hash{2}, 3
	if Chain(Hash{1}, m) != h {
		t.Error("Prev or Stored is in it")
	}
	if Chain(Hash{2}, m) == h {
		t.Error("the hash before is not in it")
	}
}

// TestChainFormula computes a hash from the formula, byte by byte.
func TestChainFormula(t *testing.T) {
	prev := sha256.Sum256([]byte("before"))
	m := &Message{Seq: 0x0102030405060708, Kind: MessageLed, Version: 1, Term: Term{0xaa, 15: 0xbb}, Time: 0x1112131415161718, Compressed: true, Body: []byte("body")}
	var b []byte
	b = append(b, prev[:]...)
	b = append(b, 1, 2, 3, 4, 5, 6, 7, 8)
	b = append(b, 2)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 1)
	b = append(b, 0xaa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xbb)
	b = append(b, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18)
	b = append(b, 1)
	b = append(b, "body"...)
	if have, want := Chain(prev, m), Hash(sha256.Sum256(b)); have != want {
		t.Errorf("chain is %s, the formula gives %s", have, want)
	}
	b = binary.BigEndian.AppendUint64(make([]byte, 32), 0) // the first hash, and a message of nothing
	b = append(b, make([]byte, 1+8+16+8+1)...)
	if have, want := Chain(Hash{}, new(Message)), Hash(sha256.Sum256(b)); have != want {
		t.Errorf("chain of nothing is %s, the formula gives %s", have, want)
	}
}

func TestHashesSurviveTheirText(t *testing.T) {
	h := Hash(sha256.Sum256([]byte("x")))
	if len(h.String()) != 64 || h.IsZero() || !(Hash{}).IsZero() {
		t.Errorf("%q, zero %v", h, h.IsZero())
	}
	for _, text := range []string{h.String(), strings.ToUpper(h.String())} {
		if back, err := ParseHash(text); err != nil || back != h {
			t.Errorf("%s: %s, %v", text, back, err)
		}
	}
	type row struct {
		Hash Hash `json:"hash,omitzero"`
	}
	b, err := json.Marshal(row{h})
	var back row
	if err != nil || json.Unmarshal(b, &back) != nil || back.Hash != h || string(b) != `{"hash":"`+h.String()+`"}` {
		t.Errorf("in JSON: %s, %v", b, err)
	}
	if b, _ := json.Marshal(row{}); string(b) != "{}" {
		t.Errorf("no hash in JSON: %s", b)
	}
	for _, text := range []string{"", "00", h.String() + "0", h.String()[1:], "g" + h.String()[1:], strings.Repeat("日", 22)[:64]} {
		if back, err := ParseHash(text); err == nil || back != (Hash{}) {
			t.Errorf("%q: %s, %v", text, back, err)
		}
	}
}
