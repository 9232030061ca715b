package events

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDurationTexts(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		text string
	}{
		{0, "0s"}, {time.Nanosecond, "1ns"}, {250 * time.Millisecond, "250ms"}, {time.Second, "1s"}, {90 * time.Second, "1m30s"}, {time.Minute, "1m"}, {10 * time.Minute, "10m"},
		{time.Hour, "1h"}, {90 * time.Minute, "1h30m"}, {time.Hour + time.Second, "1h0m1s"}, {24 * time.Hour, "24h"}, {100 * time.Hour, "100h"},
		{time.Hour + 10*time.Minute, "1h10m"}, {10*time.Minute + 10*time.Second, "10m10s"}, {time.Duration(MaxDuration), "87840h"},
	} {
		if have := Duration(c.d).String(); have != c.text {
			t.Errorf("%d is %s, want %s", c.d, have, c.text)
		}
		if have, err := ParseDuration(c.text); err != nil || have != Duration(c.d) {
			t.Errorf("%s is %d, %v", c.text, have, err)
		}
	}
	if have, err := ParseDuration("1.5h"); err != nil || have.String() != "1h30m" || have.Milliseconds() != 5_400_000 {
		t.Errorf("1.5h is %s, %v", have, err)
	}
}

func TestWhatIsNoDurationIsRefused(t *testing.T) {
	for _, text := range []string{"", "5", "s", "-1s", "1 s", "1d", "1m ", "1h-30m", "87840h1ns", "1e3s", "9223372036855s", "∞", "\x00"} {
		if d, err := ParseDuration(text); err == nil || d != 0 {
			t.Errorf("%q is %s, %v", text, d, err)
		}
	}
	for _, text := range []string{`5`, `null5`, `{}`, `["1s"]`, `"x"`, `""`, `true`} {
		d := Duration(time.Second)
		if err := json.Unmarshal([]byte(text), &d); err == nil || d != Duration(time.Second) {
			t.Errorf("%s over 1s: %s, %v", text, d, err)
		}
	}
}

func TestDurationsSurviveTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]int64{1, 1e3, 1e6, 1e9, 60e9, 3600e9}).Draw(t, "unit")
		d := Duration(rapid.Int64Range(0, int64(MaxDuration)/unit).Draw(t, "count") * unit)
		if back, err := ParseDuration(d.String()); err != nil || back != d {
			t.Fatalf("%d is %s, and that %d, %v", d, d, back, err)
		}
		b, err := json.Marshal(d)
		var back Duration
		if err != nil || json.Unmarshal(b, &back) != nil || back != d {
			t.Fatalf("%d in JSON: %s, %v", d, b, err)
		}
	})
}
