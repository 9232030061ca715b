package crontab

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/timer"
)

// readTable reads a file of testdata: rows by the names in its first line.
// testdata/README.md has the columns.
func readTable(t testing.TB, name string) []map[string]string {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	names := strings.Split(lines[0], "\t")
	var rows []map[string]string
	for i, line := range lines[1:] {
		columns := strings.Split(line, "\t")
		if len(columns) != len(names) {
			t.Fatalf("%s:%d: %d columns, want %d", name, i+2, len(columns), len(names))
		}
		row := map[string]string{}
		for j, column := range columns {
			row[names[j]] = column
		}
		rows = append(rows, row)
	}
	return rows
}

// parseAll reads all files of the collection.
func parseAll(t testing.TB) (index []map[string]string, files map[string]*File) {
	t.Helper()
	files = map[string]*File{}
	index = readTable(t, "index.tsv")
	for _, row := range index {
		data, err := os.ReadFile("testdata/" + row["file"])
		if err != nil {
			t.Fatal(err)
		}
		f, err := Parse(row["file"], bytes.NewReader(data), row["kind"] == "system")
		if err != nil {
			t.Fatal(err)
		}
		files[row["file"]] = f
	}
	return index, files
}

// TestCrontabsIndex: the counts of every file that has no line in doubt.
func TestCrontabsIndex(t *testing.T) {
	index, files := parseAll(t)
	doubtful := 0
	for _, row := range index {
		f := files[row["file"]]
		if got := strconv.Itoa(len(f.Variables)); got != row["env_lines"] {
			t.Errorf("%s: %s variables, want %s", row["file"], got, row["env_lines"])
		}
		if strings.HasSuffix(row["entries"], "?") {
			doubtful++
			continue
		}
		if got := strconv.Itoa(len(f.Entries)); got != row["entries"] {
			t.Errorf("%s: %s entries, want %s", row["file"], got, row["entries"])
		}
		if got := strconv.Itoa(len(f.Rejects)); got != row["rejects"] {
			t.Errorf("%s: %s rejects, want %s: %v", row["file"], got, row["rejects"], f.Rejects)
		}
	}
	t.Logf("%d files, %d of them with lines in doubt", len(index), doubtful)
	if len(index) != 172 {
		t.Errorf("%d files, want 172", len(index))
	}
}

// TestCrontabsLines: every line that is neither blank nor a comment.
func TestCrontabsLines(t *testing.T) {
	_, files := parseAll(t)
	type place struct {
		file string
		line int
	}
	entries, variables, rejects := map[place]Entry{}, map[place]Variable{}, map[place]Reject{}
	for name, f := range files {
		for _, e := range f.Entries {
			entries[place{name, e.Line}] = e
		}
		for _, v := range f.Variables {
			variables[place{name, v.Line}] = v
		}
		for _, r := range f.Rejects {
			rejects[place{name, r.Line}] = r
		}
	}

	seen := map[place]bool{}
	right := map[string]int{}
	for _, row := range readTable(t, "lines.tsv") {
		number, err := strconv.Atoi(row["line"])
		if err != nil {
			t.Fatal(err)
		}
		at := place{row["file"], number}
		seen[at] = true
		e, isEntry := entries[at]
		v, isVariable := variables[at]
		r, isReject := rejects[at]
		wrong := func(format string, args ...any) {
			t.Errorf("%s:%d: %s", at.file, at.line, fmt.Sprintf(format, args...))
		}
		switch row["verdict"] {
		case "entry":
			if !isEntry {
				wrong("is no entry: %v", r)
				continue
			}
			if got, want := describe(e), describeRow(row); got != want {
				wrong("\n got %s\nwant %s", got, want)
				continue
			}
			if e.HasStdin != strings.Contains(row["note"], "unescaped %") || e.Note != "" {
				wrong("standard input %t %q, note %q", e.HasStdin, e.Stdin, e.Note)
				continue
			}
		case "env":
			if !isVariable || v.Name != row["schedule"] {
				wrong("variable %v, want %s; %v", v, row["schedule"], r)
				continue
			}
		case "reject":
			if !isReject || r.Reason == "" || strings.Contains(r.Error(), "\n") {
				wrong("is not rejected well: %v", r)
				continue
			}
		case "doubt":
			if why := wrongInDoubt(row, e, isEntry, r, isReject); why != "" {
				wrong("%s (%s)", why, row["note"])
				continue
			}
		default:
			t.Fatalf("%s:%d: verdict %q", at.file, at.line, row["verdict"])
		}
		right[row["verdict"]]++
	}
	t.Logf("right: %v", right)
	for _, places := range []int{len(entries), len(variables), len(rejects)} {
		if places == 0 {
			t.Error("nothing read")
		}
	}
	for at := range entries {
		if !seen[at] {
			t.Errorf("%s:%d: an entry where the data has nothing", at.file, at.line)
		}
	}
	for at := range rejects {
		if !seen[at] {
			t.Errorf("%s:%d: a reject where the data has nothing", at.file, at.line)
		}
	}
}

// wrongInDoubt holds lines in doubt to what doc.go says about them.
func wrongInDoubt(row map[string]string, e Entry, isEntry bool, r Reject, isReject bool) string {
	note := row["note"]
	reason := func(part string) string {
		if !isReject || !strings.Contains(r.Reason, part) {
			return fmt.Sprintf("want a reject with %q, got %v", part, r)
		}
		return ""
	}
	switch {
	case strings.HasPrefix(note, "user column"):
		return reason("user name")
	case strings.HasPrefix(note, "no newline at end of file"):
		switch {
		case !isEntry:
			return fmt.Sprintf("want an entry: %v", r)
		case describe(e) != describeRow(row):
			return fmt.Sprintf("got %s, want %s", describe(e), describeRow(row))
		case e.Note == "":
			return "want a note"
		}
		return ""
	case strings.HasPrefix(note, "quotes in an environment value"):
		return reason("closing quote")
	case strings.HasPrefix(note, "sixth field starts with *"):
		return reason("five time fields")
	case strings.HasPrefix(note, "step after a single number"):
		return reason("write 0-59/5")
	case note == "only a carriage return":
		if isEntry || isReject {
			return "want a blank line"
		}
		return ""
	}
	return "no decision"
}

// describe writes an entry as lines.tsv does.
func describe(e Entry) string {
	f := e.Fields
	if e.Reboot {
		return strings.Join([]string{"@reboot", "@reboot", "", "", "", "", "", e.User}, "|")
	}
	rule := "or"
	if f.BothDays {
		rule = "and"
	}
	return strings.Join([]string{e.Schedule, setText(f.Minute, 0, 59), setText(f.Hour, 0, 23), setText(f.DayOfMonth, 1, 31),
		setText(f.Month, 1, 12), setText(f.DayOfWeek, 0, 6), rule, e.User}, "|")
}

func describeRow(row map[string]string) string {
	return strings.Join([]string{row["schedule"], row["minute"], row["hour"], row["dom"], row["month"], row["dow"],
		row["day_rule"], row["user"]}, "|")
}

// setText lists a set's values as lines.tsv does, three and more in a row as
// first-last.
func setText(set uint64, first, last int) string {
	var parts []string
	for v := first; v <= last; v++ {
		if set&(1<<v) == 0 {
			continue
		}
		end := v
		for end < last && set&(1<<(end+1)) != 0 {
			end++
		}
		if end-v < 2 {
			parts = append(parts, strconv.Itoa(v))
			continue
		}
		parts = append(parts, fmt.Sprintf("%d-%d", v, end))
		v = end
	}
	return strings.Join(parts, ",")
}

// TestCrontabsCronExpr (C2): every schedule becomes a calendar, which agrees with
// a look at each minute of the next weeks.
func TestCrontabsCronExpr(t *testing.T) {
	_, files := parseAll(t)
	start := time.Date(2027, 12, 30, 22, 58, 30, 0, time.UTC) // over a year's end, and 29 February within reach
	calendars := 0
	for name, f := range files {
		for _, e := range f.Entries {
			expr := e.CronExpr()
			if e.Reboot {
				if expr != "" {
					t.Errorf("%s:%d: @reboot has the expression %q", name, e.Line, expr)
				}
				continue
			}
			calendars++
			c, err := timer.ParseCron(expr, timer.CronOptions{Dialect: timer.DialectUnix})
			if err != nil {
				t.Errorf("%s:%d: %v", name, e.Line, err)
				continue
			}
			if again, err := timer.ParseCronFields(expr); err != nil || again.Text != expr || again.Minute != e.Fields.Minute ||
				again.Hour != e.Fields.Hour || again.DayOfMonth != e.Fields.DayOfMonth || again.Month != e.Fields.Month || again.DayOfWeek != e.Fields.DayOfWeek {
				t.Errorf("%s:%d: %q read again is %+v, %v", name, e.Line, expr, again, err)
			}
			for at, n := start, 0; n < 3; n++ {
				next, err := c.Next(at)
				want := nextMinute(e.Fields, at)
				if err != nil || !next.Equal(want) {
					t.Errorf("%s:%d: %q after %s: got %s, %v, want %s", name, e.Line, expr, at, next, err, want)
					break
				}
				at = next
			}
		}
	}
	t.Logf("%d calendars", calendars)
}

// nextMinute looks at every minute in UTC until one is in the sets.
func nextMinute(f timer.CronFields, after time.Time) time.Time {
	in := func(set uint64, v int) bool { return set&(1<<v) != 0 }
	for t := after.Truncate(time.Minute).Add(time.Minute); t.Year() < 2033; t = t.Add(time.Minute) {
		if !in(f.Month, int(t.Month())) {
			t = time.Date(t.Year(), t.Month(), t.Day(), 23, 59, 0, 0, time.UTC) // a day at a time, or the test is slow
			continue
		}
		day, dow := in(f.DayOfMonth, t.Day()), in(f.DayOfWeek, int(t.Weekday()))
		if f.BothDays && !(day && dow) || !day && !dow {
			continue
		}
		if in(f.Minute, t.Minute()) && in(f.Hour, t.Hour()) {
			return t
		}
	}
	return time.Time{}
}
