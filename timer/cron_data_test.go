package timer

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A cronRow is one line of testdata/cron: an expression, where it is asked from,
// and what a program of long standing answers.
type cronRow struct {
	where      string // file:line, for failures
	class      string // plain, gap, overlap, invalid
	form       string
	expr, zone string
	start      time.Time
	n          int
	want       string
	wall       string // *-dst.tsv: the answer under the plain rule
	documented string // *-odd.tsv: what the documentation would have, "-" for silence
}

// readCronRows reads a file of testdata/cron; testdata/cron/README.md has the columns.
func readCronRows(t testing.TB, name string) []cronRow {
	t.Helper()
	file, err := os.Open("testdata/cron/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var rows []cronRow
	var class, form string
	lines := bufio.NewScanner(file)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if header, ok := strings.CutPrefix(line, "# class="); ok {
			class, form, _ = strings.Cut(header, " form=")
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		columns := strings.Split(line, "\t")
		if len(columns) < 5 {
			t.Fatalf("%s:%d: %d columns", name, number, len(columns))
		}
		row := cronRow{where: fmt.Sprintf("%s:%d", name, number), class: class, form: form, expr: columns[0], zone: columns[1]}
		if row.start, err = time.Parse(time.RFC3339, columns[2]); err != nil {
			t.Fatalf("%s: %v", row.where, err)
		}
		if row.n, err = strconv.Atoi(columns[3]); err != nil {
			t.Fatalf("%s: %v", row.where, err)
		}
		switch {
		case strings.HasSuffix(name, "-dst.tsv"):
			row.class, row.want, row.wall = columns[4], columns[5], columns[6]
		case strings.HasSuffix(name, "-odd.tsv"):
			row.want, row.documented = columns[4], columns[5]
		default:
			row.want = columns[4]
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return rows
}

func testZone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, reason := loadZone(name)
	if reason != "" {
		t.Fatalf("zone %s: %s", name, reason)
	}
	return loc
}

// nextTimes asks a calendar n times and writes the answers as the data has them.
func nextTimes(t testing.TB, c Calendar, start time.Time, n int) string {
	t.Helper()
	var got []string
	for at := start; len(got) < n; {
		next, err := c.Next(at)
		if err != nil {
			t.Fatal(err)
		}
		if next.IsZero() {
			break
		}
		if !next.After(at) {
			t.Fatalf("next after %s is %s, which is not after it", at, next)
		}
		got, at = append(got, next.Format(time.RFC3339)), next
	}
	return strings.Join(got, ",")
}

// answer is what a row's expression gives, "invalid" for a refused one.
func (row cronRow) answer(t testing.TB, dialect Dialect, dst DST) string {
	t.Helper()
	c, err := ParseCron(row.expr, CronOptions{Dialect: dialect, Zone: testZone(t, row.zone), DST: dst})
	if err != nil {
		return "invalid"
	}
	began := time.Now()
	got := nextTimes(t, c, row.start, row.n)
	if spent := time.Since(began); spent > 5*time.Second {
		t.Errorf("%s: %q took %s", row.where, row.expr, spent)
	}
	return got
}

// TestCronData holds the calendar to every row of the data: each rule on the
// rows that say something about it. All shares are 100 %; a row that breaks is
// printed.
func TestCronData(t *testing.T) {
	tests := []struct {
		file    string
		dialect Dialect
		dst     DST
		about   string // which rows, and which of their columns
		skip    func(cronRow) bool
		want    func(cronRow) string
	}{
		{"quartz.tsv", DialectQuartz, DSTQuartz, "all rows", nil, nil},
		{"quartz.tsv", DialectQuartz, DSTWall, "rows without DST", touchesDST, nil},
		{"quartz.tsv", DialectQuartz, DSTAX, "rows without DST", touchesDST, nil},
		{"quartz.tsv", DialectAuto, DSTQuartz, "valid rows by their number of fields", isInvalid, nil},
		{"quartz-dst.tsv", DialectQuartz, DSTQuartz, "Quartz's answers", nil, nil},
		{"quartz-dst.tsv", DialectQuartz, DSTWall, "the plain rule's answers", nil, wallColumn},
		{"unix.tsv", DialectUnix, DSTAX, "all rows", nil, nil},
		{"unix.tsv", DialectAuto, DSTAX, "valid rows by their number of fields", isInvalid, nil},
		{"unix.tsv", DialectUnix, DSTWall, "rows without DST", touchesDST, nil},
		{"unix.tsv", DialectUnix, DSTQuartz, "rows without DST", touchesDST, nil},
		{"unix-dst.tsv", DialectUnix, DSTAX, "cron's answers", nil, nil},
		{"unix-dst.tsv", DialectUnix, DSTWall, "the plain rule's answers", nil, wallColumn},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%s/%s/%s/%s", test.file, test.dialect, test.dst, test.about), func(t *testing.T) {
			right := map[string]int{}
			total := map[string]int{}
			for _, row := range readCronRows(t, test.file) {
				if test.skip != nil && test.skip(row) {
					continue
				}
				want := row.want
				if test.want != nil {
					want = test.want(row)
				}
				total[row.class]++
				if got := row.answer(t, test.dialect, test.dst); got == want {
					right[row.class]++
				} else {
					t.Errorf("%s: %q in %s from %s\n got %s\nwant %s", row.where, row.expr, row.zone,
						row.start.Format(time.RFC3339Nano), got, want)
				}
			}
			for class, n := range total {
				t.Logf("%s: %d of %d", class, right[class], n)
			}
		})
	}
}

func touchesDST(row cronRow) bool   { return row.class == "gap" || row.class == "overlap" }
func isInvalid(row cronRow) bool    { return row.class == "invalid" }
func wallColumn(row cronRow) string { return row.wall }

// TestCronOddData holds the calendar to the documentation where the programs
// that made the data do otherwise, and keeps the answers to what the
// documentation is silent about on record.
func TestCronOddData(t *testing.T) {
	// What AX does with the forms that the documents do not speak of: refuses
	// them, but for these, which can mean only one thing.
	accepted := map[string]bool{
		"0 0-30/60 19 * * ?": true, "0 0-30/60 10 * * ?": true, // a range's first value
		"0 0 */40 * *": true, "0 11 * * 0-7/7": true, "1-1 * * * *": true, "007 * * * *": true, "0 0 * * mon,3,fri": true,
	}
	for _, file := range []struct {
		name    string
		dialect Dialect
		dst     DST
	}{{"quartz-odd.tsv", DialectQuartz, DSTQuartz}, {"unix-odd.tsv", DialectUnix, DSTAX}} {
		for _, row := range readCronRows(t, file.name) {
			got := row.answer(t, file.dialect, file.dst)
			if documented := row.documented; documented != "-" {
				if got != documented {
					t.Errorf("%s: %q in %s\n got %s\nwant %s", row.where, row.expr, row.zone, got, documented)
				}
				continue
			}
			if (got != "invalid") != accepted[row.expr] {
				t.Errorf("%s: %q in %s: accepted %t, answer %s", row.where, row.expr, row.zone, got != "invalid", got)
			}
		}
	}
}
