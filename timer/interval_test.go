package timer

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNewIntervalRefuses(t *testing.T) {
	tests := []struct {
		every, offset time.Duration
		field         string
	}{
		{0, 0, "every"},
		{-time.Second, 0, "every"},
		{MinInterval - 1, 0, "every"},
		{MaxInterval + 1, 0, "every"},
		{time.Minute, -1, "offset"},
		{time.Minute, time.Minute, "offset"},
	}
	for _, test := range tests {
		c, err := NewInterval(test.every, test.offset)
		var e *ExprError
		if !errors.As(err, &e) || c != nil || e.Field != test.field {
			t.Errorf("every %s offset %s: %v, %v", test.every, test.offset, c, err)
		}
	}
}

func TestIntervalNext(t *testing.T) {
	tests := []struct {
		every, offset time.Duration
		after, want   string
	}{
		{time.Hour, 0, "2026-11-30T12:00:00Z", "2026-11-30T13:00:00Z"},
		{time.Hour, 0, "2026-11-30T11:59:59.999999999Z", "2026-11-30T12:00:00Z"},
		{time.Hour, 5 * time.Minute, "2026-11-30T12:00:00Z", "2026-11-30T12:05:00Z"},
		{time.Hour, 5 * time.Minute, "2026-11-30T12:05:00Z", "2026-11-30T13:05:00Z"},
		{24 * time.Hour, 0, "2026-11-30T12:00:00-05:00", "2026-12-01T00:00:00Z"},
		{7 * 24 * time.Hour, 4 * 24 * time.Hour, "2026-11-30T12:00:00Z", "2026-12-07T00:00:00Z"}, // Mondays: the epoch was a Thursday
		{100 * time.Millisecond, 0, "2026-11-30T12:00:00.05Z", "2026-11-30T12:00:00.1Z"},
		{7 * time.Second, 0, "1969-12-31T23:59:50Z", "1969-12-31T23:59:53Z"},
		{7 * time.Second, 3 * time.Second, "1969-12-31T23:59:50Z", "1969-12-31T23:59:56Z"},
	}
	for _, test := range tests {
		c, err := NewInterval(test.every, test.offset)
		if err != nil {
			t.Fatal(err)
		}
		next, err := c.Next(instantOf(t, test.after))
		if got := next.Format(time.RFC3339Nano); err != nil || got != test.want {
			t.Errorf("every %s offset %s after %s: got %s, %v, want %s", test.every, test.offset, test.after, got, err, test.want)
		}
	}
}

// TestIntervalIsARate: the answer is on the grid, after the question, and no
// nearer point of the grid was left out.
func TestIntervalIsARate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.Int64Range(int64(MinInterval), int64(MaxInterval)).Draw(t, "every"))
		offset := time.Duration(rapid.Int64Range(0, int64(every)-1).Draw(t, "offset"))
		c, err := NewInterval(every, offset)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(0, rapid.Int64().Draw(t, "after"))
		next, err := c.Next(at)
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() {
			if lastNano.Sub(at) >= every {
				t.Fatalf("every %s offset %s: never after %s", every, offset, at)
			}
			return
		}
		if d := next.Sub(at); d <= 0 || d > every {
			t.Fatalf("every %s offset %s: next after %s is %s", every, offset, at, next)
		}
		if past := (next.UnixNano()%int64(every) - int64(offset)) % int64(every); past != 0 {
			t.Fatalf("every %s offset %s: %s is off the grid by %d ns", every, offset, next, past)
		}
	})
}
