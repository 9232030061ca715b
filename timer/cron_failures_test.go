package timer

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Faults of other schedulers that a calendar alone can show, from public reports
// (failures.md; the number is the row's). Each test is named for what went wrong
// there.

// firesBetween returns all answers in (start, end), as wall times with offsets.
func firesBetween(t *testing.T, c Calendar, start, end string) []string {
	t.Helper()
	var fires []string
	for at, until := instantOf(t, start), instantOf(t, end); ; {
		next, err := c.Next(at)
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() || !next.Before(until) {
			return fires
		}
		if !next.After(at) {
			t.Fatalf("next after %s is %s", at, next)
		}
		fires, at = append(fires, next.Format(time.RFC3339)), next
	}
}

func wantFires(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, " "), strings.Join(want, " "))
	}
}

// T1 (robfig/cron PR 541): a 02:00 job was skipped on the day the clock goes
// forward.
func TestT1GapJobRunsOnceAfterTheGap(t *testing.T) {
	zone := testZone(t, "US/Pacific")
	c := mustCron(t, "0 2 * * *", CronOptions{Zone: zone})
	wantFires(t, firesBetween(t, c, "2025-03-08T12:00:00Z", "2025-03-11T00:00:00Z"),
		"2025-03-09T03:00:00-07:00", "2025-03-10T02:00:00-07:00")

	// All that one gap loses is one fire, also together with a reading that
	// exists right after it.
	c = mustCron(t, "0,20,40 2,3 * * *", CronOptions{Zone: zone})
	wantFires(t, firesBetween(t, c, "2025-03-09T08:00:00Z", "2025-03-09T12:00:00Z"),
		"2025-03-09T03:00:00-07:00", "2025-03-09T03:20:00-07:00", "2025-03-09T03:40:00-07:00")
}

// T2 (node-cron 563): 01:30 ran twice on the day the clock goes back.
func TestT2OverlapJobRunsOnce(t *testing.T) {
	zone := testZone(t, "America/New_York")
	c := mustCron(t, "30 1 * * *", CronOptions{Zone: zone})
	wantFires(t, firesBetween(t, c, "2024-11-03T04:00:00Z", "2024-11-04T07:00:00Z"),
		"2024-11-03T01:30:00-04:00", "2024-11-04T01:30:00-05:00")

	c = mustCron(t, "30 * * * *", CronOptions{Zone: zone}) // every hour means every hour
	wantFires(t, firesBetween(t, c, "2024-11-03T05:00:00Z", "2024-11-03T08:00:00Z"),
		"2024-11-03T01:30:00-04:00", "2024-11-03T01:30:00-05:00", "2024-11-03T02:30:00-05:00")
}

// T3 (quartz 81): a job of every minute went silent for an hour in autumn.
func TestT3EveryMinuteGoesOnThroughTheOverlap(t *testing.T) {
	c := mustCron(t, "0 * * * * ?", CronOptions{Zone: testZone(t, "Europe/Berlin")})
	fires := firesBetween(t, c, "2024-10-26T21:59:59Z", "2024-10-27T23:00:00Z") // the local day
	if len(fires) != 25*60 {
		t.Errorf("%d fires on a day of 25 hours", len(fires))
	}
}

// T5 (airflow 35272): the scheduler went to and fro between two next dates after
// the clock went back.
func TestT5NextIncreasesAfterTheOverlap(t *testing.T) {
	c := mustCron(t, "0,15,30,45 6-22 * * *", CronOptions{Zone: testZone(t, "Europe/Brussels")})
	fires := firesBetween(t, c, "2023-10-28T22:00:00Z", "2023-10-29T23:00:00Z")
	if len(fires) != 17*4 {
		t.Errorf("%d fires", len(fires))
	}
	for at := instantOf(t, "2023-10-28T22:00:00Z"); at.Before(instantOf(t, "2023-10-30T00:00:00Z")); at = at.Add(61 * time.Second) {
		if next, err := c.Next(at); err != nil || !next.After(at) || next.Sub(at) > 10*time.Hour {
			t.Fatalf("next after %s is %s, %v", at, next, err)
		}
	}
}

// T7 (airflow 7999): on the day of the change a range of hours began an hour
// late.
func TestT7HoursHoldOnTheDayOfTheChange(t *testing.T) {
	c := mustCron(t, "0 7-8 * * *", CronOptions{Zone: testZone(t, "America/New_York")})
	wantFires(t, firesBetween(t, c, "2020-03-08T00:00:00-05:00", "2020-03-09T00:00:00-04:00"),
		"2020-03-08T07:00:00-04:00", "2020-03-08T08:00:00-04:00")
}

// T9 (node-cron 518): a daily job inside the gap came ten months later.
func TestT9DailyJobInTheGapIsNotLost(t *testing.T) {
	for dst, want := range map[DST]string{
		DSTAX:     "2026-03-08T03:00:00-04:00",
		DSTQuartz: "2026-03-09T02:30:00-04:00",
		DSTWall:   "2026-03-09T02:30:00-04:00",
	} {
		c := mustCron(t, "30 2 * * *", CronOptions{Zone: testZone(t, "America/New_York"), DST: dst})
		if got := nextTimes(t, c, instantOf(t, "2026-03-08T06:30:00Z"), 1); got != want {
			t.Errorf("dst %s: got %s, want %s", dst, got, want)
		}
	}
}

// T10 (cron-parser PR 400): a weekly job on the Sunday of the change was put off
// by a week.
func TestT10WeeklyJobOnTheDayOfTheChange(t *testing.T) {
	c := mustCron(t, "0 8 * * 0", CronOptions{Zone: testZone(t, "America/Chicago")})
	next, err := c.Next(instantOf(t, "2026-03-08T05:45:00Z"))
	if want := instantOf(t, "2026-03-08T13:00:00Z"); err != nil || !next.Equal(want) {
		t.Errorf("got %s, %v", next, err)
	}
}

// T11 (go-quartz 164): the hour in the gap gave an instant an hour before it.
func TestT11GapNeverGivesAnEarlierReading(t *testing.T) {
	c := mustCron(t, "0 0 2 9 3 ?", CronOptions{Zone: testZone(t, "America/Chicago")})
	wantFires(t, firesBetween(t, c, "2025-03-01T00:00:00Z", "2025-04-01T00:00:00Z"), "2025-03-09T03:00:00-05:00")
}

// T13 (quartz 658): after 2038 the change of the clock was forgotten.
func TestT13ZoneRulesGoOnAfter2038(t *testing.T) {
	c := mustCron(t, "0 0 2 ? 3 1#2 *", CronOptions{Zone: testZone(t, "America/New_York")})
	wantFires(t, firesBetween(t, c, "2038-01-01T00:00:00Z", "2039-12-31T00:00:00Z"),
		"2038-03-14T03:00:00-04:00", "2039-03-13T03:00:00-04:00")
}

// T14 (xxl-job 3.4.0): L skipped all months shorter than 31 days.
func TestT14LastDayOfShortMonths(t *testing.T) {
	c := mustCron(t, "0 0 11 L * ?", CronOptions{})
	wantFires(t, firesBetween(t, c, "2017-02-28T05:00:00Z", "2017-06-01T00:00:00Z"),
		"2017-02-28T11:00:00Z", "2017-03-31T11:00:00Z", "2017-04-30T11:00:00Z", "2017-05-31T11:00:00Z")
}

// T17 (croniter 55, 131): asked on a 29 February, the next one could not be
// found.
func TestT17LeapDayAskedOnALeapDay(t *testing.T) {
	c := mustCron(t, "0 9 29 2 *", CronOptions{})
	if got := nextTimes(t, c, instantOf(t, "2016-02-29T09:00:00Z"), 2); got != "2020-02-29T09:00:00Z,2024-02-29T09:00:00Z" {
		t.Errorf("got %s", got)
	}
}

// T18 (gronx 55): a 29 February with seconds became 4 March.
func TestT18LeapDayWithSeconds(t *testing.T) {
	c := mustCron(t, "0 0 0 29 2 ? *", CronOptions{})
	if got := nextTimes(t, c, instantOf(t, "2024-02-29T00:00:00Z"), 2); got != "2028-02-29T00:00:00Z,2032-02-29T00:00:00Z" {
		t.Errorf("got %s", got)
	}
	if got := nextTimes(t, c, instantOf(t, "2096-02-29T00:00:00Z"), 1); got != "2104-02-29T00:00:00Z" { // 2100 has none
		t.Errorf("got %s", got)
	}
	// The report's own spelling sets both day fields and is refused.
	if _, err := ParseCron("0 0 0 29 2 * *", CronOptions{}); err == nil || !strings.Contains(err.Error(), `"?"`) {
		t.Errorf("got %v", err)
	}
}

// T24 (cron-expression PR 28): FRIL passed validation and looped for ever.
func TestT24LastFridayIsRightOrRefused(t *testing.T) {
	_, err := ParseCron("* * * * FRIL", CronOptions{})
	var e *ExprError
	if !errors.As(err, &e) || e.Field != "day of week" || e.Value != "FRIL" {
		t.Errorf("got %v", err)
	}
	c := mustCron(t, "0 0 0 ? * FRIL", CronOptions{})
	if got := nextTimes(t, c, instantOf(t, "2026-11-01T00:00:00Z"), 2); got != "2026-11-27T00:00:00Z,2026-12-25T00:00:00Z" {
		t.Errorf("got %s", got)
	}
}

// F8 (xxl-job 1079): a single time written as cron with a year fired five times
// in the same second.
func TestF8SingleTimeWithAYearIsDueOnce(t *testing.T) {
	c := mustCron(t, "0 0 20 19 8 ? 2019", CronOptions{Zone: testZone(t, "Asia/Shanghai")})
	if got := nextTimes(t, c, instantOf(t, "2019-01-01T00:00:00Z"), 8); got != "2019-08-19T20:00:00+08:00" {
		t.Errorf("got %s", got)
	}
	due := instantOf(t, "2019-08-19T20:00:00+08:00")
	for _, within := range []time.Duration{0, 1, time.Millisecond, time.Second - 1, time.Second} {
		if next, err := c.Next(due.Add(within)); err != nil || !next.IsZero() {
			t.Errorf("%s after it: due again at %s, %v", within, next, err)
		}
	}
}
