package definition

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
)

const smallTask = "apiVersion: ax/v1\nkind: Task\nmetadata: {name: a, title: 订单同步}\nspec: {executor: {func: {name: f}}}\n"

// TestReading is about bytes that an editor would not show in a testdata file.
func TestReading(t *testing.T) {
	task := func(fields string) string {
		return "apiVersion: ax/v1\nkind: Task\nmetadata: {name: a}\nspec:\n  executor: {func: {name: f}}\n" + fields
	}
	crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
	for _, c := range []struct {
		name, in, want string // want: the error, or how many definitions
	}{
		{"plain", smallTask, "1"},
		{"CRLF", crlf(smallTask), "1"},
		{"CR", strings.ReplaceAll(smallTask, "\n", "\r"), "1"},
		{"CRLF counts as one line", crlf("# c\n---\n" + task("  timeout: 5\n")), "f:8:12: spec.timeout: is the number 5; write the unit with it, such as 5s"},
		{"CRLF between documents", crlf(smallTask + "---\n" + strings.Replace(smallTask, "name: a", "name: b", 1)), "2"},
		{"CRLF in a block of text", crlf("apiVersion: ax/v1\nkind: Task\nmetadata: {name: a}\nspec:\n  executor:\n    shell:\n      command: |\n        a\n        b\n"), "1"},
		{"byte order mark", "\ufeff" + smallTask, "1"},
		{"byte order mark and JSON", "\ufeff" + `{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"g"}}`, "1"},
		{"byte order mark inside", smallTask + "\ufeff---\n" + smallTask, "f:5:1: a byte order mark inside the file, as of files put together; remove it"},
		{"UTF-16", "\xff\xfea\x00", "f:1:1: is UTF-16; save it as UTF-8"},
		{"Latin-1", task("  group: caf\xe9\n"), "f:6:13: byte 0xE9 is no UTF-8; save the file as UTF-8"},
		{"columns are characters", "apiVersion: ax/v1\nkind: Task\nmetadata: {title: 订单同步, name: A}\nspec: {executor: {func: {name: f}}}\n",
			`f:3:31: metadata.name: invalid name "A": byte 1 ('A'); use a-z, 0-9, and '-' or '_' in between, and put any other text into the title`},
		{"control character", task("  group: a\x07b\n"), `f:6:11: character U+0007 may not stand in YAML; remove it, or write it as \u0007 in double quotes`},
		{"tab before a comment", task("  timeout: 5s\t# five\n"), "1"},
		{"tabs in JSON", "{\n\t\"apiVersion\": \"ax/v1\",\n\t\"kind\": \"Group\",\n\t\"metadata\": {\"name\": \"g\"}\n}", "1"},
		{"empty", "", "f: has no definition; write one with apiVersion, kind, metadata and spec"},
		{"white space", " \n\t\n", "f: has no definition; write one with apiVersion, kind, metadata and spec"},
		{"comments", "# a\n---\n# b\n--- # c\n...\n", "f: has no definition; write one with apiVersion, kind, metadata and spec"},
		{"null", "--- null\n--- ~\n", "f: has no definition; write one with apiVersion, kind, metadata and spec"},
		{"empty ones beside a task", "---\n---\n" + smallTask + "---\n", "1"},
		{"marker in a block of text", task("  params: |\n---\nkind: Group\napiVersion: ax/v1\nmetadata: {name: g}\n"), "2"},
		{"three dashes in a text", task("  params: '---x'\n"), "1"},
		{"NUL in a command", "apiVersion: ax/v1\nkind: Task\nmetadata: {name: a}\nspec: {executor: {shell: {command: \"a\\0b\"}}}\n",
			"f:4:36: spec.executor.shell.command: has a NUL character in it, which no program can be given; remove it"},
		{"number with a point", task("  priority: 5.0\n"), "f:6:13: spec.priority: is the number 5.0; write 5"},
		{"number with an exponent", task("  limit: 1e2\n"), "f:6:10: spec.limit: is the number 1e2; write 100"},
		{"long title", "apiVersion: ax/v1\nkind: Task\nmetadata: {name: a, title: " + strings.Repeat("订", 86) + "}\nspec: {executor: {func: {name: f}}}\n",
			"f:3:28: metadata.title: has 258 bytes, at most 256"},
		{"long name", strings.Replace(smallTask, "name: a", "name: "+strings.Repeat("a", 64), 1),
			`f:3:18: metadata.name: invalid name "aaaaaaaaaaaaaaaaaaaa"…: 64 bytes, at most 63`},
		{"long labels", "apiVersion: ax/v1\nkind: Group\nmetadata:\n  name: a\n  labels:\n    " + strings.Repeat("é", 32) + ": b\n    c: " + strings.Repeat("订", 86) + "\n",
			"f:6:5: metadata.labels[\"" + strings.Repeat("é", 30) + "…\"]: the key of a label has 64 bytes, want 1 to 63\nf:7:8: metadata.labels.c: has 258 bytes, at most 256"},
		{"misspelt beside the right one", task("  timeout: 0.1ns\n  timout: 5s\n"),
			"f:6:12: spec.timeout: is \"0.1ns\", which is less than a nanosecond\nf:7:3: spec.timout: unknown field `timout`; `timeout` is there already"},
		{"large params", task("  params: " + strings.Repeat("a", events.MaxParams) + "\n"), "f:6:11: spec.params: has 262146 bytes, at most 262144"},
		{"large definition", strings.Replace(smallTask, "func: {name: f}", "external: {a: "+strings.Repeat("a", events.MaxDefinition)+"}", 1),
			"f:1:1: the definition has 327958 bytes with its defaults, at most 327680"},
		{"cap below the base", task("  retry: {base: 2m, cap: 90s}\n"), "f:6:26: spec.retry.cap: 1m30s is less than base 2m"},
		{"no consequence of a wrong base", task("  retry: {base: 2, cap: 500ms}\n"), "f:6:17: spec.retry.base: is the number 2; write the unit with it, such as 2s"},
		{"list without list", task("  retry: {backoff: list}\n"), "f:6:10: spec.retry.list: want 1 to 100 durations"},
		{"list for another", task("  retry: {backoff: fixed, list: [1s]}\n"), "f:6:33: spec.retry.list: is for backoff list only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			list, err := Parse("f", []byte(c.in), Options{})
			got := fmt.Sprint(len(list))
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("\n got %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestBounds is D7: what is too large is refused, and quickly.
func TestBounds(t *testing.T) {
	laughs := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 20; i++ {
		laughs += fmt.Sprintf("a%d: &a%d [*a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1, i-1)
	}
	fill := func(s string) string { return strings.Repeat(s, MaxBytes/len(s)) }
	for _, c := range []struct{ name, in, want string }{
		{"huge", fill("# a\n") + "#####", "f: has more than 1 MiB; split it into several files"},
		{"billion laughs", laughs, "has more than 200000 values, aliases counted as often as they are used"},
		{"one long text again and again", "a: &a " + strings.Repeat("x", 500_000) + "\nb: [*a, *a, *a, *a, *a, *a, *a, *a, *a]", "has more than 4194304 bytes of text, aliases counted as often as they are used"},
		{"merges again and again", "a: &a {k: 1}\nb: [" + strings.Repeat("{<<: *a},", 70_000) + "{}]", "has more than 200000 values"},
		{"deep lists", strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "nested more than 64 deep"},
		{"deep objects", strings.Repeat("{a: ", 5000) + strings.Repeat("}", 5000), "nested more than 64 deep"},
		{"deep JSON", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "nested more than 64 deep"},
		{"bottomless", fill("["), "nested more than 64 deep"},
		{"bottomless JSON", fill(`{"a":`), "nested more than 64 deep"},
		{"many values", "[" + fill("1,")[:500_000] + "1]", "has more than 200000 values"},
		{"many JSON values", `{"a":[` + fill("1,")[:500_000] + "1]}", "has more than 200000 values"},
		{"many documents", fill("--- 1\n"), "has more than 1000 documents"},
		{"many JSON documents", fill("{}\n"), "has more than 1000 documents"},
		{"many fields", "apiVersion: ax/v1\nkind: Task\n" + numberedFields(20_000), "and 19952 more"},
		{"many triggers", "apiVersion: ax/v1\nkind: Task\nmetadata: {name: a}\nspec: {executor: {external: {}}, triggers: [" + strings.Repeat("{}, ", 20_000) + "]}", "and 19951 more"},
		{"many digits", "a: " + strings.Repeat("1", 1_000_000), "kind: is missing"},
		{"many faults", strings.Repeat("a: &x 1\n"+strings.Repeat("- [b, c]\n", 1000)+"---\n", 100), "and 50 more"},
		{"many small faults", strings.Repeat("a: b: c\n---\n", 900), "and 850 more"},
		{"unclosed quote", "a: '" + fill("x\n")[:1_000_000], "is opened here and never closed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			_, err := Parse("f", []byte(c.in), withCalendars())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.1000v\nwant %s", err, c.want)
			}
			if err != nil && len(err.Error()) > (MaxPrinted+1)*(maxReason+200) {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			var bad *Error
			if errors.As(err, &bad) && len(bad.Problems) > MaxProblems {
				t.Errorf("%d problems are kept", len(bad.Problems))
			}
			if d := time.Since(start); d > 20*time.Second { // 0.1 s to 2 s, without -race
				t.Errorf("took %s", d)
			} else {
				t.Log(d)
			}
		})
	}
}

func numberedFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "field%d: 1\n", i)
	}
	return b.String()
}

func TestErrorPrintsABoundedNumberOfLines(t *testing.T) {
	_, err := Parse("f", []byte("apiVersion: ax/v1\nkind: Group\nmetadata: {name: a}\n"+numberedFields(70)), Options{})
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != MaxPrinted+1 || lines[MaxPrinted] != "and 20 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// TestCheckTask is about a check that says what no calendar would.
func TestCheckTask(t *testing.T) {
	check := func(s *events.TaskSpec) error {
		if s.Timeout == 0 || s.Retry.Max == nil {
			t.Error("the task is not complete")
		}
		return fmt.Errorf("wrapped: %w", errors.Join(
			&events.FieldError{Field: "spec.timeout", Reason: "hidden by what is known"},
			&events.FieldError{Field: "spec.executor.func", Reason: "no such\nfunction"},
			fmt.Errorf("again: %w", &events.FieldError{Field: "spec.group", Reason: "no such group"}),
			errors.New("and more"),
		))
	}
	_, err := Parse("f", []byte(smallTask[:len(smallTask)-2]+", timeout: 5, group: g}\n"), Options{CheckTask: check})
	const want = `f:4:7: spec: and more
f:4:25: spec.executor.func: no such function
f:4:46: spec.timeout: is the number 5; write the unit with it, such as 5s
f:4:56: spec.group: no such group`
	if err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}
