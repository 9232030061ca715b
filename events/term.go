package events

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// Term is one leadership of a shard: random, so that a sequence number used
// again after the log lost its tail can never revive a dead term.
type Term [16]byte

// NewTerm draws a term.
func NewTerm() (t Term) {
	_, _ = rand.Read(t[:]) // never fails since Go 1.24
	return t
}

// IsZero reports whether t is no term.
func (t Term) IsZero() bool { return t == Term{} }

// String gives 32 hexadecimal digits.
func (t Term) String() string { return hex.EncodeToString(t[:]) }

// ParseTerm reads what String gives.
func ParseTerm(s string) (t Term, err error) {
	if len(s) != 2*len(t) {
		return Term{}, fmt.Errorf("term %.40q: want 32 hexadecimal digits", s)
	}
	if _, err := hex.Decode(t[:], []byte(s)); err != nil {
		return Term{}, fmt.Errorf("term %q: %w", s, err)
	}
	return t, nil
}

// MarshalText makes terms strings in JSON.
func (t Term) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (t *Term) UnmarshalText(b []byte) (err error) {
	*t, err = ParseTerm(string(b))
	return err
}
