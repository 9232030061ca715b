package crontab

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/ax-scheduler/ax/timer"
)

func parseText(t testing.TB, text string, system bool) *File {
	t.Helper()
	f, err := Parse("test", strings.NewReader(text), system)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestParseVariables(t *testing.T) {
	tests := []struct{ line, name, value string }{
		{"A=b", "A", "b"},
		{"  A =  b c  ", "A", "b c"},
		{"\tA\t=\tb", "A", "b"},
		{`A="b c "`, "A", "b c "},
		{`A=' b ' `, "A", " b "},
		{`"A B"=c`, "A B", "c"},
		{`'A'='c'`, "A", "c"},
		{"A=", "A", ""},
		{`A=""`, "A", ""},
		{"A= # no comment", "A", "# no comment"},
		{"A=b=c", "A", "b=c"},
		{"A=b\r", "A", "b"},
		{"A=\"b\"\r", "A", "b"},
		{`A=b"c"`, "A", `b"c"`},
		{"A=%", "A", "%"},
	}
	for _, test := range tests {
		f := parseText(t, test.line+"\n", false)
		if len(f.Variables) != 1 || f.Variables[0] != (Variable{Line: 1, Name: test.name, Value: test.value}) {
			t.Errorf("%q: variables %v, rejects %v", test.line, f.Variables, f.Rejects)
		}
	}
}

func TestParseCommands(t *testing.T) {
	tests := []struct {
		text, command, stdin string
		hasStdin             bool
	}{
		{"run", "run", "", false},
		{"run \t x ", "run \t x ", "", false},
		{`date +\%H`, "date +%H", "", false},
		{`a \n \\ b\`, `a \n \\ b\`, "", false},
		{"mail%hello%world", "mail", "hello\nworld\n", true},
		{"mail%hello%", "mail", "hello\n", true},
		{"mail%", "mail", "", true},
		{`mail%100\%%\n`, "mail", "100%\n\\n\n", true},
		{`a\\%b`, `a\\`, "b\n", true}, // the backslash is escaped, the % is not
		{"A=b run", "A=b run", "", false},
		{"run # x", "run # x", "", false},
	}
	for _, test := range tests {
		f := parseText(t, "1 2 * * *  "+test.text+"\n", false)
		if len(f.Entries) != 1 {
			t.Errorf("%q: %v", test.text, f.Rejects)
			continue
		}
		if e := f.Entries[0]; e.Command != test.command || e.Stdin != test.stdin || e.HasStdin != test.hasStdin {
			t.Errorf("%q: command %q, standard input %q (%t)", test.text, e.Command, e.Stdin, e.HasStdin)
		}
	}
}

// TestParseRejects: the reason says which part, and what to do.
func TestParseRejects(t *testing.T) {
	tests := []struct {
		line   string
		system bool
		says   string
	}{
		{"60 * * * * x", false, `minute "60": 60 is out of range; use 0-59`},
		{"* 24 * * * x", false, "hour"},
		{"* * 0 * * x", false, "day of month"},
		{"* * * foo * x", false, "month"},
		{"* * * * fri-mon x", false, "runs backwards"},
		{"0/5 * * * * x", false, "write 0-59/5"},
		{"0~30 * * * * x", false, "jitter"},
		{"*5 * * * * x", false, `nothing may follow "*"`},
		{"MON * * * * x", false, "minute"},
		{"crontab -e", false, `minute "crontab"`},
		{"* * * *", false, "has 4 of five"},
		{"* * * * *", false, "no command"},
		{"* * * * *   ", false, "no command"},
		{"* * * * * * x", false, "five time fields"},
		{"* * * * * %x", false, `no command before "%"`},
		{"@daily", false, "no command"},
		{"@Daily x", false, "small letters"},
		{"@sometimes x", false, "use @hourly"},
		{"@every 5m x", false, "interval"},
		{"@ daily x", false, "unknown"},
		{"- * * * * * x", false, "root"},
		{"-", true, "has 0 of five"},
		{"0 0 * * 0 /bin/true", true, "user"},
		{"0 0 * * 0 root", true, "no command after the user"},
		{"0 0 * * 0 <%=user%> x", true, "not a possible user name"},
		{"0 0 * * 0 @OWNER@ x", true, "not a possible user name"},
		{"0 0 * * 0 -x y", true, "not a possible user name"},
		{`A="b" c`, false, "closing quote"},
		{`A="b`, false, "does not end"},
		{"=b", false, `nothing stands before "="`},
		{`"A=b"=c`, false, "minute"},
		{"5 4 * * * x\x00y", false, "NUL"},
		{"5 4 * * * caf\xe9", false, "UTF-8"},
		{"5 4 * * * " + strings.Repeat("x", MaxLine), false, "script"},
		{strings.Repeat("1,", 600) + "1 4 * * * x", false, "at most 1024"},
	}
	for _, test := range tests {
		// Each line between two good ones, which it must not touch.
		f := parseText(t, "1 1 * * * root a\n"+test.line+"\n@hourly root b\n", test.system)
		if len(f.Entries) != 2 || len(f.Rejects) != 1 || f.Entries[0].Line != 1 || f.Entries[1].Line != 3 {
			t.Errorf("%.60q: %d entries, rejects %v", test.line, len(f.Entries), f.Rejects)
			continue
		}
		r := f.Rejects[0]
		if r.Line != 2 || !strings.Contains(r.Reason, test.says) {
			t.Errorf("%.60q: line %d, reason %q, want %q in it", test.line, r.Line, r.Reason, test.says)
		}
		if len(r.Text) > 90 || len(r.Error()) > 700 || strings.Contains(r.Error(), "\n") || !strings.HasPrefix(r.Error(), "test:2: ") {
			t.Errorf("%.60q: text %q, error %q", test.line, r.Text, r)
		}
	}
}

// TestParseEntries: what an entry holds.
func TestParseEntries(t *testing.T) {
	f := parseText(t, "\xef\xbb\xbf# a comment\r\n"+
		"\r\n"+
		"  \t05\t*/6  1-7,15 jan,MAR-may\tmon-fri \t/bin/true\r\n"+
		"@reboot start up\n"+
		"@weekly run", false)
	if len(f.Entries) != 3 || len(f.Rejects) != 0 {
		t.Fatalf("entries %v, rejects %v", f.Entries, f.Rejects)
	}
	e := f.Entries[0]
	if e.Line != 3 || e.Schedule != "05 */6 1-7,15 jan,MAR-may mon-fri" || e.CronExpr() != "5 */6 1-7,15 1,3-5 1-5" ||
		e.Command != "/bin/true" || e.User != "" || e.Fields.BothDays || e.Fields.Month != 0b111010 || e.Note != "" {
		t.Errorf("%+v", e)
	}
	e = f.Entries[1]
	if !e.Reboot || e.Schedule != "@reboot" || e.CronExpr() != "" || e.Command != "start up" || e.Fields != (timer.CronFields{}) {
		t.Errorf("%+v", e)
	}
	e = f.Entries[2]
	if e.Schedule != "@weekly" || e.CronExpr() != "0 0 * * 0" || !e.Fields.BothDays || !strings.Contains(e.Note, "no newline") {
		t.Errorf("%+v", e)
	}

	f = parseText(t, "-0 0 * * 7 www-data run it\n@reboot root up\n", true)
	if len(f.Entries) != 2 {
		t.Fatal(f.Rejects)
	}
	e = f.Entries[0]
	if !e.Quiet || e.Schedule != "0 0 * * 7" || e.User != "www-data" || e.Command != "run it" || e.Fields.DayOfWeek != 1 {
		t.Errorf("%+v", e)
	}
	if e = f.Entries[1]; !e.Reboot || e.User != "root" || e.Command != "up" || e.Quiet {
		t.Errorf("%+v", e)
	}
}

// TestParsePositions: variables and the zone hold from their line on, until they
// are set again.
func TestParsePositions(t *testing.T) {
	f := parseText(t, `0 1 * * * a
MAILTO=one
CRON_TZ=Asia/Tokyo
0 2 * * * b
PATH=/bin
MAILTO=two
CRON_TZ='Europe/Berlin'
0 3 * * * c
CRON_TZ=Mars/Olympus
0 4 * * * d
@reboot e
CRON_TZ=""
0 5 * * * f
`, false)
	want := []string{
		"a tz= ",
		"b tz=Asia/Tokyo MAILTO=one CRON_TZ=Asia/Tokyo",
		"c tz=Europe/Berlin MAILTO=two CRON_TZ=Europe/Berlin PATH=/bin",
		"e tz= MAILTO=two CRON_TZ=Mars/Olympus PATH=/bin",
		"f tz= MAILTO=two CRON_TZ= PATH=/bin",
	}
	var got []string
	for _, e := range f.Entries {
		var env []string
		for _, v := range e.Env() {
			env = append(env, v.Name+"="+v.Value)
		}
		got = append(got, fmt.Sprintf("%s tz=%s %s", e.Command, e.TimeZone, strings.Join(env, " ")))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(f.Rejects) != 1 || f.Rejects[0].Line != 10 || !strings.Contains(f.Rejects[0].Reason, "set in line 9") {
		t.Errorf("rejects %v", f.Rejects)
	}
}

func TestParseBounds(t *testing.T) {
	for name, r := range map[string]io.Reader{
		"bytes":  bytes.NewReader(make([]byte, MaxFile+1)),
		"lines":  strings.NewReader(strings.Repeat("\n", MaxLines+1)),
		"reader": iotest.ErrReader(errors.New("disk on fire")),
	} {
		f, err := Parse(name, r, false)
		if err == nil || f != nil || !strings.HasPrefix(err.Error(), "crontab "+name+": ") {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	// The worst file within the bounds takes no more than its size.
	began := time.Now()
	f := parseText(t, strings.Repeat("A=b\n* * * * * x\n", MaxLines/2), false)
	if len(f.Entries) != MaxLines/2 || len(f.Variables) != MaxLines/2 {
		t.Errorf("%d entries, %d variables", len(f.Entries), len(f.Variables))
	}
	if spent := time.Since(began); spent > 5*time.Second {
		t.Errorf("took %s", spent)
	}
	for _, text := range []string{"", "\n", "\r\n\r\n", "# x", "   ", "\xef\xbb\xbf"} {
		if f := parseText(t, text, false); len(f.Entries)+len(f.Rejects)+len(f.Variables) != 0 {
			t.Errorf("%q: %+v", text, f)
		}
	}
}

// FuzzParse: no bytes panic, and what comes out keeps C1 and C2.
func FuzzParse(f *testing.F) {
	names, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for i, name := range names {
		if i%8 != 0 || !strings.HasSuffix(name.Name(), ".crontab") {
			continue
		}
		data, err := os.ReadFile("testdata/" + name.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, i%2 == 0)
	}
	f.Add([]byte("CRON_TZ=\"x\n- @reboot % %\r\n\x00 '=' "), true)
	f.Fuzz(func(t *testing.T, data []byte, system bool) {
		file, err := Parse("fuzz", bytes.NewReader(data), system)
		if err != nil {
			return
		}
		lines := bytes.Count(data, []byte("\n")) + 1
		if n := len(file.Entries) + len(file.Variables) + len(file.Rejects); n > lines {
			t.Fatalf("%d results of %d lines", n, lines)
		}
		for _, r := range file.Rejects {
			if r.Line < 1 || r.Line > lines || r.Reason == "" || len(r.Error()) > 2000 || strings.Contains(r.Error(), "\n") {
				t.Fatalf("reject %q", r.Error())
			}
		}
		for _, e := range file.Entries {
			if e.Command == "" || e.Line < 1 || e.Line > lines || (e.User != "") != system || !utf8.ValidString(e.Command+e.Stdin) {
				t.Fatalf("entry %+v", e)
			}
			if len(e.Env()) > len(file.Variables) {
				t.Fatalf("entry %+v has %v", e, e.Env())
			}
			if e.Reboot {
				continue
			}
			expr := e.CronExpr()
			if e.TimeZone != "" {
				expr = "CRON_TZ=" + e.TimeZone + " " + expr
			}
			if _, err := timer.ParseCron(expr, timer.CronOptions{Dialect: timer.DialectUnix}); err != nil {
				t.Fatalf("%q: %v", e.Schedule, err)
			}
		}
	})
}
