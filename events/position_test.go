package events

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func somePosition() *rapid.Generator[Position] {
	return rapid.Custom(func(t *rapid.T) Position {
		return Position{rapid.Uint64Min(1).Draw(t, "sequence"), rapid.Uint32().Draw(t, "index")}
	})
}

func TestPositionsSurviveTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := somePosition().Draw(t, "position")
		if back, err := ParsePosition(p.String()); err != nil || back != p {
			t.Fatalf("%s: %v, %v", p, back, err)
		}
		if text := string(p.AppendText([]byte("at "))); text != "at "+p.String() {
			t.Fatalf("appended as %q", text)
		}
		b, err := json.Marshal(p)
		var back Position
		if err != nil || json.Unmarshal(b, &back) != nil || back != p {
			t.Fatalf("in JSON: %s, %v", b, err)
		}
	})
}

func TestPositionTexts(t *testing.T) {
	for text, want := range map[string]Position{
		"1042.3": {1042, 3}, "1042": {1042, 0}, "1.0": {1, 0}, "18446744073709551615.4294967295": {math.MaxUint64, math.MaxUint32},
	} {
		if have, err := ParsePosition(text); err != nil || have != want {
			t.Errorf("%q: %v, %v", text, have, err)
		}
	}
	for _, text := range []string{
		"", "0", "0.0", "0.5", ".", ".3", "1042.", "1042.3.", "1042.3.1", "-1", "-1.0", "+1.0", "1.-1", "1,3", " 1.3", "1.3 ", "a", "1.a", "0x1.0", "1_0.0",
		"18446744073709551616", "1.4294967296", "１.0", "1\x00.0",
	} {
		have, err := ParsePosition(text)
		if err == nil || have != (Position{}) {
			t.Errorf("%q: %v, %v", text, have, err)
		}
		if text == "" {
			continue
		}
		p := Position{7, 7}
		if err := p.UnmarshalText([]byte(text)); err == nil || p != (Position{7, 7}) {
			t.Errorf("%q over 7.7: %v, %v", text, p, err)
		}
	}
}

func TestNoPositionIsNoText(t *testing.T) {
	var none Position
	if none.String() != "" || !none.IsZero() || (Position{1, 0}).IsZero() {
		t.Errorf("no position is %q", none)
	}
	p := Position{7, 7}
	if err := p.UnmarshalText(nil); err != nil || p != none {
		t.Errorf("read from nothing: %v, %v", p, err)
	}
	if b, err := json.Marshal(none); err != nil || string(b) != `""` {
		t.Errorf("in JSON: %s, %v", b, err)
	}
}

func TestPositionsCompareAsTheLogDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		near := rapid.Custom(func(t *rapid.T) Position {
			return Position{rapid.Uint64Range(0, 3).Draw(t, "s"), rapid.Uint32Range(0, 3).Draw(t, "i")}
		})
		all := rapid.SliceOfN(rapid.OneOf(near, somePosition()), 2, 2).Draw(t, "positions")
		p, q := all[0], all[1]
		want := cmp.Or(cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Index, q.Index))
		if have := p.Compare(q); have != want || q.Compare(p) != -want {
			t.Fatalf("%v and %v compare as %d", p, q, have)
		}
	})
}

// TestFencingTokensRiseWithPositions: they are positions in one number.
func TestFencingTokensRiseWithPositions(t *testing.T) {
	if have := FencingToken(Position{1042, 3}); have != 1042*2048+3 {
		t.Errorf("token of 1042.3 is %d", have)
	}
	if MaxFrameEvents > 1<<11 {
		t.Error("an index does not fit below the sequence any more")
	}
	rapid.Check(t, func(t *rapid.T) {
		var all []Position
		for range 2 {
			all = append(all, Position{rapid.Uint64Range(1, 1<<52-1).Draw(t, "sequence"), rapid.Uint32Range(0, MaxFrameEvents-1).Draw(t, "index")})
		}
		slices.SortFunc(all, Position.Compare)
		a, b := FencingToken(all[0]), FencingToken(all[1])
		if cmp.Compare(a, b) != all[0].Compare(all[1]) {
			t.Fatalf("%v has %d, %v has %d", all[0], a, all[1], b)
		}
		if b > math.MaxInt64 { // numbers of the protocol are whole numbers of 63 bits
			t.Fatalf("%v has %d", all[1], b)
		}
	})
}
