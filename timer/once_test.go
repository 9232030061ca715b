package timer

import (
	"testing"
	"time"
)

func TestOnceNext(t *testing.T) {
	at := instantOf(t, "2026-11-30T12:00:00.5Z")
	c := NewOnce(at)
	for _, test := range []struct {
		after time.Time
		want  time.Time
	}{
		{at.Add(-time.Nanosecond), at},
		{time.Time{}, at},
		{at, time.Time{}},
		{at.Add(time.Hour), time.Time{}},
	} {
		if next, err := c.Next(test.after); err != nil || !next.Equal(test.want) {
			t.Errorf("after %s: %s, %v", test.after, next, err)
		}
	}
	// An instant within a millisecond is due when that has passed, and once.
	c = NewOnce(at.Add(time.Microsecond))
	due := at.Add(time.Millisecond)
	if next, err := c.Next(at); err != nil || !next.Equal(due) {
		t.Errorf("after %s: %s, %v", at, next, err)
	}
	if next, err := c.Next(due); err != nil || !next.IsZero() {
		t.Errorf("after it was due: %s, %v", next, err)
	}
	if next, err := NewOnce(time.Time{}).Next(time.Unix(-1<<60, 0)); err != nil || !next.IsZero() {
		t.Errorf("a zero instant is due at %s, %v", next, err)
	}
}
