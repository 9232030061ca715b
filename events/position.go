package events

import (
	"fmt"
	"strconv"
	"strings"
)

// Position is the place of an event in its shard's log: the sequence of the
// frame and the index of the event in it, from 0. The zero Position is none.
type Position struct {
	Seq   uint64
	Index uint32
}

// IsZero reports whether p is no position.
func (p Position) IsZero() bool { return p.Seq == 0 }

// Compare orders positions as the log does: -1, 0 or 1.
func (p Position) Compare(q Position) int {
	switch {
	case p.Seq < q.Seq || p.Seq == q.Seq && p.Index < q.Index:
		return -1
	case p == q:
		return 0
	}
	return 1
}

// String gives "<sequence>.<index>", or "" for none.
func (p Position) String() string {
	if p.IsZero() {
		return ""
	}
	return string(p.AppendText(nil))
}

// AppendText appends what String gives.
func (p Position) AppendText(b []byte) []byte {
	b = strconv.AppendUint(b, p.Seq, 10)
	b = append(b, '.')
	return strconv.AppendUint(b, uint64(p.Index), 10)
}

// MarshalText makes positions strings in JSON.
func (p Position) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (p *Position) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*p = Position{}
		return nil
	}
	q, err := ParsePosition(string(b))
	if err == nil {
		*p = q
	}
	return err
}

// ParsePosition reads "<sequence>.<index>", or "<sequence>" for the whole frame
// (index 0).
func ParsePosition(s string) (Position, error) {
	seq, index, dotted := strings.Cut(s, ".")
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil || n == 0 {
		return Position{}, fmt.Errorf("position %q: want <sequence>.<index>, such as 1042.3", s)
	}
	p := Position{Seq: n}
	if dotted {
		k, err := strconv.ParseUint(index, 10, 32)
		if err != nil {
			return Position{}, fmt.Errorf("position %q: want <sequence>.<index>, such as 1042.3", s)
		}
		p.Index = uint32(k)
	}
	return p, nil
}
