package timer

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestParseCronRefuses: what is refused is refused with the field, the value and
// advice, in one line.
func TestParseCronRefuses(t *testing.T) {
	tests := []struct {
		expr         string
		opt          CronOptions
		field, value string
		says         string // part of the reason
	}{
		{"0 60 * * * ?", CronOptions{}, "minute", "60", "use 0-59"},
		{"0 0 24 * * ?", CronOptions{}, "hour", "24", "use 0-23"},
		{"0 0 0 ? * 0", CronOptions{}, "day of week", "0", "use 1-7"},
		{"0 0 * * 8", CronOptions{}, "day of week", "8", "use 0-7"},
		{"0 0 1,32 * *", CronOptions{}, "day of month", "32", "use 1-31"},
		{"0 0 * janu *", CronOptions{}, "month", "janu", "1-12, JAN or *"},
		{"0 0 0 * * *", CronOptions{}, "day of week", "*", `put "?"`},
		{"0 0 0 1 * 2", CronOptions{}, "day of week", "2", `put "?"`},
		{"5/15 * * * *", CronOptions{}, "minute", "5/15", "write 5-59/15"},
		{"0 22-2 * * *", CronOptions{}, "hour", "22-2", "write 22-23,0-2"},
		{"0 0 * * sat-sun", CronOptions{}, "day of week", "sat-sun", "write 6-7"},
		{"0 0 ? * *", CronOptions{}, "day of month", "?", "Quartz"},
		{"0 0 L * *", CronOptions{}, "day of month", "L", "Quartz"},
		{"0~30 * * * *", CronOptions{}, "minute", "0~30", "jitter"},
		{"*5 * * * *", CronOptions{}, "minute", "*5", `nothing may follow "*"`},
		{"1,,2 * * * *", CronOptions{}, "minute", "1,,2", "nothing stands"},
		{"*/0 * * * *", CronOptions{}, "minute", "*/0", "step of 0"},
		{"*/x * * * *", CronOptions{}, "minute", "*/x", "followed by a number"},
		{"-1 * * * *", CronOptions{}, "minute", "-1", "one end of the range is missing"},
		{"99999999999 * * * *", CronOptions{}, "minute", "99999999999", "no value"},
		{"0 */60 * * * ?", CronOptions{}, "minute", "*/60", "at most 59"},
		{"0 0 0 ? * MON-FRI/2", CronOptions{}, "day of week", "MON-FRI/2", "write 2-6/2"},
		{"0 0 0 ? * MON/2", CronOptions{}, "day of week", "MON/2", "write 2/2"},
		{"0 0 0 ? * MON-5", CronOptions{}, "day of week", "MON-5", "write 2-5"},
		{"0 0 0 ? * FRI#6", CronOptions{}, "day of week", "FRI#6", "from 1 to 5"},
		{"0 0 0 ? * 2L,3", CronOptions{}, "day of week", "2L,3", "list"},
		{"0 0 0 L-31 * ?", CronOptions{}, "day of month", "L-31", "0 to 30"},
		{"0 0 0 1 1 ? 2030-2020", CronOptions{}, "year", "2030-2020", "write 2020-2030"},
		{"0 0 0 1 1 ? 1960", CronOptions{}, "year", "1960", "use 1970-2199"},
		{"", CronOptions{}, "", "", "has 0 fields"},
		{"* * *", CronOptions{}, "", "", "has 3 fields"},
		{"* * * * * *", CronOptions{Dialect: DialectUnix}, "", "", "Unix expression has 5"},
		{"* * * * *", CronOptions{Dialect: DialectQuartz}, "", "", "Quartz expression has 6 or 7"},
		{"@daily", CronOptions{Dialect: DialectQuartz}, "", "", "Unix dialect"},
		{"@every 5m", CronOptions{}, "", "", "interval trigger"},
		{"@fortnightly", CronOptions{}, "name", "@fortnightly", "use @hourly"},
		{"@daily 5", CronOptions{}, "", "", "nothing may follow"},
		{"CRON_TZ=Mars/Olympus 0 0 * * *", CronOptions{}, "time zone", "Mars/Olympus", "IANA"},
		{"TZ=../../etc/passwd 0 0 * * *", CronOptions{}, "time zone", "../../etc/passwd", "IANA"},
		{"TZ=Local 0 0 * * *", CronOptions{}, "time zone", "Local", "differs between servers"},
		{"TZ= 0 0 * * *", CronOptions{}, "time zone", "", "is empty"},
		{"0 0 * * *", CronOptions{Zone: time.Local}, "time zone", "Local", "differs between servers"},
		{"0 0 * * *", CronOptions{DST: "summer"}, "DST rule", "summer", "ax, quartz or wall"},
		{"0 0 * * *", CronOptions{Dialect: "ncron"}, "dialect", "ncron", "auto, quartz or unix"},
		{strings.Repeat("1,", MaxExpr) + "1 * * * *", CronOptions{}, "", "", "at most 1024"},
	}
	for _, test := range tests {
		c, err := ParseCron(test.expr, test.opt)
		var e *ExprError
		if !errors.As(err, &e) || c != nil {
			t.Errorf("%.60q: calendar %v, error %v", test.expr, c, err)
			continue
		}
		if e.Field != test.field || e.Value != test.value || !strings.Contains(e.Reason, test.says) {
			t.Errorf("%.60q:\n got field %q value %q reason %q\nwant field %q value %q and in the reason %q",
				test.expr, e.Field, e.Value, e.Reason, test.field, test.value, test.says)
		}
		if text := e.Error(); strings.Contains(text, "\n") || len(text) > 600 || !strings.Contains(text, e.Reason) {
			t.Errorf("%.60q: error text %q", test.expr, text)
		}
	}
}

func TestParseCronReboot(t *testing.T) {
	for _, expr := range []string{"@reboot", "@REBOOT", "CRON_TZ=Asia/Tokyo @reboot"} {
		_, err := ParseCron(expr, CronOptions{})
		var e *ExprError
		if !errors.Is(err, ErrReboot) || !errors.As(err, &e) {
			t.Errorf("%q: %v", expr, err)
		}
	}
}

// mustCron is for expressions that the test itself writes.
func mustCron(t testing.TB, expr string, opt CronOptions) Calendar {
	t.Helper()
	c, err := ParseCron(expr, opt)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func instantOf(t testing.TB, rfc3339 string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, rfc3339)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestParseCronSpelling(t *testing.T) {
	tests := []struct{ one, other string }{
		{"@hourly", "0 * * * *"},
		{"@daily", "0 0 * * *"},
		{"@Midnight", "0 0 * * *"},
		{"@weekly", "0 0 * * SUN"},
		{"@monthly", "0 0 1 * *"},
		{"@yearly", "0 0 1 1 *"},
		{"@annually", "0 0 1 jan *"},
		{"\t 5  4 * *  mon-FRI \n", "5 4 * * 1-5"},
		{"0 0 * * 5-7", "0 0 * * 0,5,6"},
		{"0 0 0 ? * 2-6", "0 0 * * 1-5"},
		{"0 /5 * * * ?", "*/5 * * * *"},
		{"0 0 22-2 * * ?", "0 22,23,0-2 * * *"},
		{"0 0 0 ? * FRI-MON", "0 0 * * 5,6,0,1"},
		{"CRON_TZ=Asia/Tokyo 0 9 * * *", "TZ=Asia/Seoul 0 9 * * *"},
		{"CRON_TZ=Asia/Tokyo 0 0 9 * * ?", "0 0 * * *"},
	}
	start := instantOf(t, "2026-11-27T12:34:56.789Z")
	for _, test := range tests {
		one, other := start, start
		for range 20 {
			one, _ = mustCron(t, test.one, CronOptions{}).Next(one)
			other, _ = mustCron(t, test.other, CronOptions{}).Next(other)
			if one.IsZero() || !one.Equal(other) {
				t.Errorf("%q gives %s, %q gives %s", test.one, one, test.other, other)
				break
			}
		}
	}
}

// TestNextInZone: answers are in the expression's zone, the prefix before the
// option.
func TestNextInZone(t *testing.T) {
	c := mustCron(t, "CRON_TZ=Asia/Tokyo 30 9 * * *", CronOptions{Zone: testZone(t, "Europe/Berlin")})
	next, err := c.Next(instantOf(t, "2026-06-01T00:00:00Z"))
	if got := next.Format(time.RFC3339); err != nil || got != "2026-06-01T09:30:00+09:00" {
		t.Errorf("got %s, %v", got, err)
	}
}

// TestNextEnds: impossible dates, past years and years to come end in an answer,
// at once.
func TestNextEnds(t *testing.T) {
	tests := []struct {
		expr, zone, after string
		dst               DST
		want              string // "" for never
	}{
		{"0 0 30 2 *", "UTC", "2026-11-30T00:00:00Z", DSTAX, ""},
		{"0 0 0 31 4,6,9,11 ?", "Asia/Tokyo", "2026-11-30T00:00:00Z", DSTAX, ""},
		{"* * * 30 2 ?", "America/New_York", "2026-11-30T00:00:00Z", DSTQuartz, ""},
		{"0 0 0 L-30W 2 ?", "UTC", "2026-11-30T00:00:00Z", DSTAX, ""},
		{"0 0 0 L-30 2 ?", "UTC", "2026-11-30T00:00:00Z", DSTAX, ""},
		{"0 0 0 1 1 ? 2000-2020", "UTC", "2026-11-30T00:00:00Z", DSTAX, ""},
		{"0 0 0 1 1 ? 2199", "UTC", "0001-01-01T00:00:00Z", DSTAX, "2199-01-01T00:00:00Z"},
		{"0 0 0 1 1 ? 1970,2199", "UTC", "1970-01-01T00:00:00Z", DSTAX, "2199-01-01T00:00:00Z"},
		{"0 0 0 29 2 ? 2096-2104", "UTC", "2096-02-29T00:00:00Z", DSTAX, "2104-02-29T00:00:00Z"},
		// The reading is lost each year: the plain rules end, the default makes up.
		{"0 0 2 ? 3 1#2", "America/New_York", "2026-11-30T00:00:00Z", DSTWall, ""},
		{"0 0 2 ? 3 1#2", "America/New_York", "2026-11-30T00:00:00Z", DSTQuartz, ""},
		{"0 0 2 ? 3 1#2", "America/New_York", "2026-11-30T00:00:00Z", DSTAX, "2027-03-14T03:00:00-04:00"},
		// The library alone never returns from this one.
		{"0 15 7 1 * ?", "Pacific/Apia", "2011-12-02T00:00:00Z", DSTAX, "2012-01-01T07:15:00+14:00"},
		{"0 0 12 30 12 ? 2011", "Pacific/Apia", "2011-12-02T00:00:00Z", DSTAX, ""}, // a date left out
		{"0 0 0 1 1 ?", "UTC", "9999-12-31T23:59:59Z", DSTAX, ""},
		{"0 0 0 1 1 ?", "UTC", "9999-12-30T23:59:59Z", DSTAX, ""},
		{"* * * * *", "America/New_York", "9999-12-31T23:58:30-05:00", DSTAX, ""},
	}
	for _, test := range tests {
		c := mustCron(t, test.expr, CronOptions{Zone: testZone(t, test.zone), DST: test.dst})
		began := time.Now()
		got := nextTimes(t, c, instantOf(t, test.after), 1)
		if spent := time.Since(began); spent > 2*time.Second {
			t.Errorf("%q in %s took %s", test.expr, test.zone, spent)
		}
		if got != test.want {
			t.Errorf("%q in %s, dst %s, after %s: got %q, want %q", test.expr, test.zone, test.dst, test.after, got, test.want)
		}
	}
}

// TestNextExtremes: instants at the ends of what time.Time can hold.
func TestNextExtremes(t *testing.T) {
	calendars := map[string]Calendar{"once": NewOnce(instantOf(t, "2026-11-30T00:00:00Z"))}
	for _, dst := range []DST{DSTAX, DSTQuartz, DSTWall} {
		for _, expr := range []string{"30 1 * * *", "* * * * * ?", "0 0 0 L-3W * ?", "0 0 0 1 1 ? 2030"} {
			calendars[fmt.Sprint(expr, " ", dst)] = mustCron(t, expr, CronOptions{Zone: testZone(t, "America/St_Johns"), DST: dst})
		}
	}
	interval, err := NewInterval(time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	calendars["interval"] = interval
	for name, c := range calendars {
		for _, after := range []time.Time{
			{}, time.Unix(-1<<62, 0), time.Unix(1<<62, 999999999), time.Unix(1<<33, 0), time.Unix(-1<<40, 5),
			time.Unix(0, -1<<63), time.Unix(0, 1<<63-1), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC),
		} {
			next, err := c.Next(after)
			if err != nil || !next.IsZero() && !next.After(after) {
				t.Errorf("%s: next after %s is %s, %v", name, after, next, err)
			}
		}
	}
}

// TestNextOnLeapNewYearsEve: past the end of a zone's table time.ZoneBounds is
// wrong on 31 December of leap years (spanAt).
func TestNextOnLeapNewYearsEve(t *testing.T) {
	for _, zone := range []string{"America/New_York", "Australia/Lord_Howe", "Pacific/Chatham", "Europe/Dublin"} {
		loc := testZone(t, zone)
		for _, year := range []int{2040, 2044, 2096} {
			for hour := -30; hour <= 30; hour++ {
				u := time.Date(year+1, 1, 1, hour, 0, 0, 0, time.UTC).Unix()
				s := spanAt(loc, u)
				if u < s.start || u >= s.end {
					t.Fatalf("%s: the span of %d is %v", zone, u, s)
				}
				for _, at := range []int64{s.start, s.end - 1} {
					if _, off := time.Unix(at, 0).In(loc).Zone(); int64(off) != s.off {
						t.Fatalf("%s: offset %d at %d, span %v", zone, off, at, s)
					}
				}
			}
		}
	}
}

// TestNextStrictlyIncreases: whatever the expression, zone, rule and start,
// every answer is after the one before, within bounded time.
func TestNextStrictlyIncreases(t *testing.T) {
	zones := map[string]*time.Location{}
	for _, name := range modelZones {
		zones[name] = testZone(t, name)
	}
	days := []string{"L * ?", "L-3 * ?", "LW * ?", "L-3W * ?", "L-30W * ?", "15W * ?", "1W * ?", "31W * ?",
		"? * L", "? * 6L", "? * FRIL", "? * 6#3", "? * SUN#5", "25-5 * ?", "? * 6-2", "29 2 ?", "30 2 ?", "? 11-2 2-6/2"}
	rapid.Check(t, func(t *rapid.T) {
		e := drawExpr(t)
		if rapid.Bool().Draw(t, "special day") {
			e.dialect = DialectQuartz
			e.text = strings.Join([]string{"0", e.minute.text, e.hour.text, rapid.SampledFrom(days).Draw(t, "days")}, " ")
			if rapid.Bool().Draw(t, "with year") {
				e.text += rapid.SampledFrom([]string{" *", " 2030", " 2000-2050/3", " */4", " 1999,2011,2150"}).Draw(t, "years")
			}
		}
		loc := zones[rapid.SampledFrom(modelZones).Draw(t, "zone")]
		dst := rapid.SampledFrom([]DST{DSTAX, DSTQuartz, DSTWall}).Draw(t, "dst")
		c, err := ParseCron(e.text, CronOptions{Dialect: e.dialect, Zone: loc, DST: dst})
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(drawChange(t, loc)+rapid.Int64Range(-3*86400, 86400).Draw(t, "seconds off"),
			rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		began := time.Now()
		for range 30 {
			next, err := c.Next(at)
			if err != nil {
				t.Fatal(err)
			}
			if next.IsZero() {
				break
			}
			if !next.After(at) || next.Nanosecond() != 0 || next.Location() != loc {
				t.Fatalf("%q in %s: next after %s is %s", e.text, loc, at, next)
			}
			at = next
		}
		if spent := time.Since(began); spent > 5*time.Second {
			t.Fatalf("%q in %s took %s", e.text, loc, spent)
		}
	})
}

// FuzzParseCron: no text panics or hangs; what is accepted has answers in order,
// what is refused says why in bounded space.
func FuzzParseCron(f *testing.F) {
	for _, name := range []string{"quartz.tsv", "unix.tsv", "quartz-odd.tsv", "unix-odd.tsv"} {
		for i, row := range readCronRows(f, name) {
			if i%40 == 0 || row.class == "invalid" && i%5 == 0 {
				f.Add(row.expr, uint8(i), row.start.Unix())
			}
		}
	}
	f.Add("CRON_TZ=Pacific/Apia 0 15 7 1 * ?", uint8(0), int64(1322784000))
	f.Add("TZ=\x00 * * * * *", uint8(1), int64(0))
	f.Add("0 0 0 L-30W 2 ? 1970-2199", uint8(2), int64(1)<<40)
	f.Fuzz(func(t *testing.T, expr string, choice uint8, start int64) {
		dialects := []Dialect{DialectAuto, DialectQuartz, DialectUnix}
		rules := []DST{DSTAX, DSTQuartz, DSTWall}
		zone := modelZones[int(choice/9)%len(modelZones)]
		began := time.Now()
		c, err := ParseCron(expr, CronOptions{
			Dialect: dialects[choice%3], DST: rules[choice/3%3], Zone: testZone(t, zone)})
		if err != nil {
			var e *ExprError
			if !errors.As(err, &e) || e.Reason == "" || len(err.Error()) > 2000 {
				t.Fatalf("%q: %v", expr, err)
			}
			return
		}
		at := time.Unix(start, 0)
		for range 4 {
			next, err := c.Next(at)
			if err != nil {
				t.Fatalf("%q: %v", expr, err)
			}
			if next.IsZero() {
				break
			}
			if !next.After(at) {
				t.Fatalf("%q: next after %s is %s", expr, at, next)
			}
			at = next
		}
		if spent := time.Since(began); spent > 5*time.Second {
			t.Fatalf("%q took %s", expr, spent)
		}
	})
}

func BenchmarkCronNext(b *testing.B) {
	for _, expr := range []string{
		"0/5 * * * * ?", "*/5 * * * *", "30 9 * * 1-5", "0 0 0 L * ?", "0 0 12 ? * 6#3", "0 0 12 15W * ?", "0 0 12 L-3W * ?",
		"0 0 29 2 *", "0 0 0 1 1 ? 2040", "0 0 30 2 *", "* * 30 2 *", "0 0 0 L-30W 2 ?",
	} {
		b.Run(expr, func(b *testing.B) {
			c := mustCron(b, expr, CronOptions{Zone: testZone(b, "America/New_York")})
			at := instantOf(b, "2026-11-30T12:00:00Z")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Next(at); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestCalendarErrorGuardsTheLibrary: an answer of the library that is not after
// what it was asked becomes an error. The library is brought to it by asking it
// in a zone, which AX never does: at Chatham's change of April 2026 it goes back.
func TestCalendarErrorGuardsTheLibrary(t *testing.T) {
	c, exprErr := parseCron("0 0 3 * * ?", CronOptions{})
	if exprErr != nil {
		t.Fatal(exprErr)
	}
	c.fields.spec.Location = testZone(t, "Pacific/Chatham")
	next, err := c.Next(instantOf(t, "2026-04-04T14:00:00Z"))
	var e *CalendarError
	if !errors.As(err, &e) || !next.IsZero() {
		t.Fatalf("got %s, %v", next, err)
	}
	if text := e.Error(); !strings.Contains(text, "0 0 3 * * ?") || !strings.Contains(text, "not after") {
		t.Errorf("error text %q", text)
	}
}
