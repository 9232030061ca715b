package events

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTermsAreRandomAndSurviveTheirText(t *testing.T) {
	seen := map[Term]bool{}
	for range 1000 {
		term := NewTerm()
		if term.IsZero() || seen[term] {
			t.Fatalf("term %s, zero or drawn before", term)
		}
		seen[term] = true
		if back, err := ParseTerm(term.String()); err != nil || back != term || len(term.String()) != 32 {
			t.Fatalf("%q: %s, %v", term, back, err)
		}
		b, err := json.Marshal(term)
		var back Term
		if err != nil || json.Unmarshal(b, &back) != nil || back != term {
			t.Fatalf("in JSON: %s, %v", b, err)
		}
	}
}

func TestWhatIsNoTermIsRefused(t *testing.T) {
	good := strings.Repeat("0a", 16)
	for _, text := range []string{"", "0", good + "0", good[1:], "x" + good[1:], "0x" + good[2:], " " + good[1:], strings.Repeat("日", 11)[:32]} {
		if term, err := ParseTerm(text); err == nil || !term.IsZero() {
			t.Errorf("%q: %s, %v", text, term, err)
		}
		term := Term{1}
		if err := term.UnmarshalText([]byte(text)); err == nil || !term.IsZero() {
			t.Errorf("%q into a term: %s, %v", text, term, err)
		}
	}
	if term, err := ParseTerm(strings.Repeat("00", 16)); err != nil || !term.IsZero() {
		t.Errorf("the zero term: %s, %v", term, err)
	}
}
