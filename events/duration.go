package events

import (
	"encoding/json"
	"fmt"
	"time"
)

// Duration is a time.Duration that is written as text, such as "30s".
type Duration time.Duration

// MaxDuration bounds every duration in a definition.
const MaxDuration = Duration(10 * 366 * 24 * time.Hour)

// String gives the shortest text of whole units, such as "1h30m" for 90 minutes.
func (d Duration) String() string {
	s := time.Duration(d).String()
	// time writes 1h0m0s; people write 1h.
	for _, tail := range []string{"m0s", "h0m"} {
		if n := len(s) - len(tail); n >= 0 && s[n:] == tail {
			s = s[:n+1]
		}
	}
	return s
}

// Milliseconds gives d in whole milliseconds.
func (d Duration) Milliseconds() int64 { return time.Duration(d).Milliseconds() }

// ParseDuration reads a duration such as "30s", "1h30m" or "250ms", from 0 to
// MaxDuration.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || Duration(d) > MaxDuration {
		return 0, fmt.Errorf("duration %.40q: want a number and a unit such as 500ms, 30s, 5m or 24h, from 0 to %s", s, MaxDuration)
	}
	return Duration(d), nil
}

// MarshalJSON writes the text.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads the text.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("duration %.40s: want a text such as \"30s\"", b)
	}
	v, err := ParseDuration(s)
	if err == nil {
		*d = v
	}
	return err
}
