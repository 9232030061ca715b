package timer

import (
	"fmt"
	"testing"
)

// TestDSTLeadingStarDecides: the AX rule looks at the first character of the
// second, minute and hour fields, and at nothing else. New York, 2026: 02:00-03:00
// is lost on 8 March, 01:00-02:00 comes twice on 1 November.
func TestDSTLeadingStarDecides(t *testing.T) {
	zone := testZone(t, "America/New_York")
	tests := []struct {
		inGap, inOverlap string // two expressions of the same kind, one for each change
		realTime         bool   // every real instant; otherwise once by time of day
	}{
		{"30 2 * * *", "30 1 * * *", false},
		{"*/30 2 * * *", "*/30 1 * * *", true},
		{"*,5 2 * * *", "*,5 1 * * *", true},
		{"0-59/30 2 * * *", "0-59/30 1 * * *", false}, // the same minutes, no star
		{"5,* 2 * * *", "5,* 1 * * *", false},
		{"0 0/30 2 * * ?", "0 0/30 1 * * ?", true},
		{"0 /30 2 * * ?", "0 /30 1 * * ?", true},
		{"0 00/30 2 * * ?", "0 00/30 1 * * ?", true},
		{"0 5/30 2 * * ?", "0 5/30 1 * * ?", false},
		{"0/20 0 2 * * ?", "0/20 0 1 * * ?", true},
		{"* 0 2 * * ?", "* 0 1 * * ?", true},
		{"0 30 2 */1 * ?", "0 30 1 */1 * ?", false}, // a star elsewhere
		{"0 30 2 ? * *", "0 30 1 ? * *", false},
	}
	for _, test := range tests {
		gap := firesBetween(t, mustCron(t, test.inGap, CronOptions{Zone: zone}), "2026-03-08T06:00:00Z", "2026-03-08T12:00:00Z")
		want := "[2026-03-08T03:00:00-04:00]"
		if test.realTime {
			want = "[]"
		}
		if got := fmt.Sprint(gap); got != want {
			t.Errorf("%q: %s in the gap, want %s", test.inGap, got, want)
		}

		c := mustCron(t, test.inOverlap, CronOptions{Zone: zone})
		first := firesBetween(t, c, "2026-11-01T04:59:59Z", "2026-11-01T06:00:00Z")
		second := firesBetween(t, c, "2026-11-01T05:59:59Z", "2026-11-01T07:00:00Z")
		if len(first) == 0 || test.realTime != (len(second) == len(first)) || !test.realTime && len(second) != 0 {
			t.Errorf("%q: %d at the first pass, %d at the second", test.inOverlap, len(first), len(second))
		}
	}
}

// TestDSTRules: one daily job and one of every half hour through both changes,
// under each rule.
func TestDSTRules(t *testing.T) {
	zone := testZone(t, "Europe/Berlin")
	tests := []struct {
		dst                 DST
		expr, start, end    string
		first, last, number any
	}{
		{DSTAX, "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", "2026-03-29T03:00:00+02:00", nil, 1},
		{DSTWall, "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", nil, nil, 0},
		{DSTQuartz, "30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z", nil, nil, 0},
		{DSTAX, "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", "2026-10-25T02:30:00+02:00", nil, 1},
		{DSTWall, "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00", 2},
		{DSTQuartz, "30 2 * * *", "2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", "2026-10-25T02:30:00+01:00", nil, 1},
		{DSTAX, "*/30 * * * *", "2026-10-24T23:59:59Z", "2026-10-25T02:00:00Z", "2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+01:00", 4},
		{DSTWall, "*/30 * * * *", "2026-10-24T23:59:59Z", "2026-10-25T02:00:00Z", "2026-10-25T02:00:00+02:00", "2026-10-25T02:30:00+01:00", 4},
		{DSTQuartz, "*/30 * * * *", "2026-10-24T23:59:59Z", "2026-10-25T02:00:00Z", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", 2},
		// The one occurrence of a year, asked for between its two passes.
		{DSTAX, "0 30 2 25 10 ? 2026", "2026-10-25T00:30:00Z", "2027-12-31T00:00:00Z", nil, nil, 0},
		{DSTWall, "0 30 2 25 10 ? 2026", "2026-10-25T00:30:00Z", "2027-12-31T00:00:00Z", "2026-10-25T02:30:00+01:00", nil, 1},
	}
	for _, test := range tests {
		fires := firesBetween(t, mustCron(t, test.expr, CronOptions{Zone: zone, DST: test.dst}), test.start, test.end)
		if len(fires) != test.number ||
			test.first != nil && fires[0] != test.first || test.last != nil && fires[len(fires)-1] != test.last {
			t.Errorf("dst %s: %q from %s: %v", test.dst, test.expr, test.start, fires)
		}
	}
}
