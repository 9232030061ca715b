package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/timer"
	"github.com/ax-scheduler/ax/workers"
)

// TestPublishedSchemas compares docs/schema with the schemas in this folder.
func TestPublishedSchemas(t *testing.T) {
	for file, b := range map[string][]byte{"task.schema.json": taskSchema, "group.schema.json": groupSchema} {
		published := filepath.Join("..", "..", "docs", "schema", file)
		if *update {
			if err := os.MkdirAll(filepath.Dir(published), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(published, b, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		have, err := os.ReadFile(published)
		if err != nil || !bytes.Equal(have, b) {
			t.Errorf("%s differs from api/definition/%s (%v)\nto refresh: go test ./api/definition -run TestPublishedSchemas -update", published, file, err)
		}
	}
}

// TestSchemaFields holds the fields of the schemas against those of the Go types,
// with what is required and of which JSON type.
func TestSchemaFields(t *testing.T) {
	task, group := schemas()[events.ObjectTask], schemas()[events.ObjectGroup]
	for _, c := range []struct {
		s    *schema
		path string
		t    reflect.Type
	}{
		{task, "metadata", reflect.TypeFor[events.Metadata]()},
		{task, "spec", reflect.TypeFor[events.TaskSpec]()},
		{task, "spec.triggers[0]", reflect.TypeFor[events.TriggerSpec]()},
		{task, "spec.triggers[0].interval", reflect.TypeFor[events.IntervalSpec]()},
		{task, "spec.triggers[0].once", reflect.TypeFor[events.OnceSpec]()},
		{task, "spec.triggers[0].misfire", reflect.TypeFor[events.MisfireSpec]()},
		{task, "spec.retry", reflect.TypeFor[events.RetrySpec]()},
		{task, "spec.overlap", reflect.TypeFor[events.OverlapSpec]()},
		{task, "spec.executor.shell", reflect.TypeFor[workers.ShellConfig]()},
		{group, "metadata", reflect.TypeFor[events.Metadata]()},
		{group, "spec", reflect.TypeFor[events.GroupSpec]()},
	} {
		part := c.s.part(c.path)
		if part == nil {
			t.Errorf("%s: the schema has no such object", c.path)
			continue
		}
		have := slices.Sorted(maps.Keys(properties(part)))
		var want []string
		for i := range c.t.NumField() {
			f := c.t.Field(i)
			name := jsonName(f)
			if name == "" {
				continue
			}
			want = append(want, name)
			p := c.s.part(c.path + "." + name)
			if have, want := fmt.Sprint(p["type"]), jsonType(f.Type); p != nil && p["enum"] == nil && want != "" && have != want {
				t.Errorf("%s.%s is %s in the schema, %s in Go", c.path, name, have, want)
			}
		}
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Errorf("%s: the schema has the fields %v, %s has %v", c.path, have, c.t, want)
		}
		if part["additionalProperties"] != false {
			t.Errorf("%s takes additional properties", c.path)
		}
	}
	// The configurations of func and external have no exported types.
	if have := slices.Sorted(maps.Keys(properties(task.part("spec.executor")))); !slices.Equal(have, []string{"external", "func", "shell"}) {
		t.Errorf("executors are %v", have)
	}
	if have := slices.Sorted(maps.Keys(properties(task.part("spec.executor.func")))); !slices.Equal(have, []string{"name"}) {
		t.Errorf("func has %v", have)
	}
}

// part gives what the schema says of a field.
func (s *schema) part(path string) map[string]any {
	part := s.text
	for path != "" && part != nil {
		name, i, rest := cutPath(path)
		path = rest
		next := properties(part)[name]
		if i >= 0 {
			next = part["items"]
		}
		part, _ = next.(map[string]any)
		part = s.resolved(part)
	}
	return part
}

func jsonType(t reflect.Type) string {
	switch {
	case t == rawType:
		return "<nil>" // any
	case t == durationType || t == timeType:
		return "string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return jsonType(t.Elem())
	case reflect.String:
		return "string"
	case reflect.Int64:
		return "integer"
	case reflect.Slice:
		return "array"
	case reflect.Struct, reflect.Map:
		return "object"
	}
	return ""
}

// TestSchemaDefaults holds every default of the schemas against what Complete
// fills in.
func TestSchemaDefaults(t *testing.T) {
	seen := 0
	for _, body := range []string{
		`{"apiVersion":"ax/v1","kind":"Task","metadata":{"name":"a"},"spec":{"executor":{"func":{"name":"f"}},"triggers":[{"cron":"@daily"}]}}`,
		`{"apiVersion":"ax/v1","kind":"Task","metadata":{"name":"a"},"spec":{"executor":{"func":{"name":"f"}},"triggers":[{"interval":{"every":"1h"}}]}}`,
		`{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"a"},"spec":{}}`,
	} {
		d, err := events.DecodeDefinition(body)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Complete(); err != nil {
			t.Fatal(err)
		}
		var complete any
		if err := json.Unmarshal([]byte(encoded(t, d)), &complete); err != nil {
			t.Fatal(err)
		}
		s := schemas()[d.Kind]
		seen += compareDefaults(t, s, s.text, complete, "")
	}
	if seen < 20 {
		t.Errorf("only %d defaults compared", seen)
	}
}

func compareDefaults(t *testing.T, s *schema, part map[string]any, have any, path string) (seen int) {
	object, ok := have.(map[string]any)
	if !ok {
		return 0
	}
	for name, p := range properties(part) {
		child := s.resolved(p.(map[string]any))
		at := childPath(path, name)
		value, given := object[name]
		if def, ok := child["default"]; ok {
			switch {
			// A cron's zone is filled in only beside a cron.
			case name == "timeZone" && object["cron"] == nil:
			// A zero that Go leaves out is what it reads there.
			case !given && (fmt.Sprint(def) == "0" || def == "0s"):
				seen++
			case !sameDefault(def, value):
				t.Errorf("%s: the schema's default is %v, Complete fills in %v", at, def, value)
			default:
				seen++
			}
		}
		if items, ok := child["items"].(map[string]any); ok {
			list, _ := value.([]any)
			for _, v := range list {
				seen += compareDefaults(t, s, s.resolved(items), v, at+"[]")
			}
		}
		seen += compareDefaults(t, s, child, value, at)
	}
	return seen
}

func sameDefault(a, b any) bool {
	if fmt.Sprint(a) == fmt.Sprint(b) {
		return true
	}
	x, errX := events.ParseDuration(fmt.Sprint(a))
	y, errY := events.ParseDuration(fmt.Sprint(b))
	return errX == nil && errY == nil && x == y
}

// TestSchemaBounds holds what the schema says of ranges and words against what
// Complete and the calendars take: the first value outside is refused by them
// too, and the last one inside is taken.
func TestSchemaBounds(t *testing.T) {
	s := schemas()[events.ObjectTask]
	seen := 0
	var walk func(part map[string]any, path string)
	walk = func(part map[string]any, path string) {
		part = s.resolved(part)
		if low, ok := part["minimum"].(json.Number); ok {
			lowest, _ := low.Int64()
			highest, _ := part["maximum"].(json.Number).Int64()
			for _, v := range []int64{lowest, highest} {
				wantComplete(t, path, v, true)
			}
			wantComplete(t, path, highest+1, false)
			if lowest == 0 { // where 1 is the lowest, Complete reads 0 as not given
				wantComplete(t, path, lowest-1, false)
			}
			seen++
		}
		if words, ok := part["enum"].([]any); ok {
			for _, w := range words {
				wantComplete(t, path, w, true)
			}
			wantComplete(t, path, "nonsense", false)
			seen++
		}
		for name, p := range properties(part) {
			walk(p.(map[string]any), childPath(path, name))
		}
		if items, ok := part["items"].(map[string]any); ok {
			walk(items, path+"[]")
		}
	}
	walk(s.part("spec"), "spec")
	if seen < 12 {
		t.Errorf("only %d ranges and words compared", seen)
	}
}

// wantComplete puts a value into a task at a path and asks Complete and the
// calendars, not the schema.
func wantComplete(t *testing.T, path string, v any, want bool) {
	t.Helper()
	trigger := map[string]any{"cron": "0 0 0 * * ?"}
	if fmt.Sprint(v) == "unix" {
		trigger["cron"] = "0 0 * * *"
	}
	spec := map[string]any{"executor": map[string]any{"func": map[string]any{"name": "f"}}, "triggers": []any{trigger}}
	at := spec
	steps := strings.Split(strings.TrimPrefix(path, "spec."), ".")
	for _, step := range steps[:len(steps)-1] {
		if step == "triggers[]" {
			at = trigger
			continue
		}
		next := map[string]any{}
		at[step] = next
		at = next
	}
	at[steps[len(steps)-1]] = v
	switch {
	case v == "list":
		at["list"] = []string{"1s"}
	case path == "spec.overlap.max":
		at["policy"] = "allow"
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "ax/v1", "kind": "Task", "metadata": map[string]any{"name": "a"}, "spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	d, err := events.DecodeDefinition(string(body))
	if err == nil {
		err = d.Complete()
	}
	if err == nil {
		err = new(timer.Calendars).CheckTask(d.Task)
	}
	if (err == nil) != want {
		t.Errorf("%s: %v: the schema says %v, Complete and the calendars say %v", path, v, want, err)
	}
}

// TestSchemaNames holds the patterns of names and durations against the functions
// that read them.
func TestSchemaNames(t *testing.T) {
	for _, name := range []string{"a", "a-b", "a_b", "a_-_b", "a__b", "0", "a--b", "a-", "-a", "_a", "a_", "A", "a b", "", "ä", "a--b--c", "a---b",
		"a-_-b", strings.Repeat("a", 63), strings.Repeat("a", 63) + "--" + strings.Repeat("b", 63), "a\n"} {
		wantSchema(t, name, "taskName", events.CheckTaskName(name) == nil, strings.Replace(smallTask, "name: a", "name: "+quoteJSON(name), 1))
		wantSchema(t, name, "name", events.CheckName(name) == nil,
			strings.Replace(smallTask, "{name: f}}", "{name: f}}, group: "+quoteJSON(name), 1))
	}
	for _, d := range []string{"30s", "1h30m", "1.5h", ".5s", "1.s", "250ms", "1us", "1µs", "1μs", "1ns", "", "s", "30", "30 s", "1d", "1h 30m", "30S", "1e3s", "0x1s"} {
		_, err := events.ParseDuration(d)
		wantSchema(t, d, "duration", err == nil, strings.Replace(smallTask, "{name: f}}", "{name: f}}, timeout: "+quoteJSON(d), 1))
	}
}

// The pattern cannot bound the halves of <workflow>--<node>; Complete does, and
// TestReading has a name that is too long.
func wantSchema(t *testing.T, value, what string, want bool, file string) {
	t.Helper()
	doc := parseOne(t, file)
	if got := checkSchema(doc, schemas()[events.ObjectTask], new(findings)); got != want && value != "" {
		t.Errorf("%s %q: the schema says %v, Go says %v", what, value, got, want)
	}
}

func quoteJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func parseOne(t *testing.T, s string) *node {
	t.Helper()
	var doc *node
	problems := readYAML(s, new(budget), func(n *node, f *findings) bool { doc = n; return true })
	if len(problems) > 0 || doc == nil {
		t.Fatalf("%v in\n%s", problems, s)
	}
	return doc
}

// TestSchemaExamples: what an editor proposes is right.
func TestSchemaExamples(t *testing.T) {
	for k, s := range schemas() {
		examples, _ := s.text["examples"].([]any)
		if len(examples) == 0 {
			t.Errorf("%s has no example", k)
		}
		for _, e := range examples {
			b, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Parse(string(k), b, withCalendars()); err != nil {
				t.Error(err)
			}
		}
		var walk func(part map[string]any, path string)
		walk = func(part map[string]any, path string) {
			if part["title"] == nil || part["description"] == nil {
				t.Errorf("%s %s: an editor has nothing to show; add a title and a description", k, path)
			}
			for name, p := range properties(part) {
				child := s.resolved(p.(map[string]any))
				at := childPath(path, name)
				walk(child, at)
				if list, _ := child["examples"].([]any); len(list) == 0 && child["type"] == "object" && path != "" && properties(part) == nil {
					t.Errorf("%s %s has no example", k, at)
				}
				if items, ok := child["items"].(map[string]any); ok && s.resolved(items)["type"] == "object" {
					walk(s.resolved(items), at+"[]")
				}
			}
		}
		walk(s.text, "")
	}
}

// TestLaterWords: a word that the schema knows is not announced as coming.
func TestLaterWords(t *testing.T) {
	s := schemas()[events.ObjectTask]
	for path := range laterFields {
		if s.part(strings.ReplaceAll(path, "[]", "[0]")) != nil {
			t.Errorf("%s is in the schema and among the words of later versions", path)
		}
	}
	for path, values := range laterValues {
		list, _ := s.part(path)["enum"].([]any)
		if list == nil {
			t.Errorf("%s has no words in the schema", path)
		}
		for v := range values {
			if slices.Contains(list, any(v)) {
				t.Errorf("%s: %s is in the schema and among the words of later versions", path, v)
			}
		}
	}
	for k := range laterKinds {
		if Schema(events.ObjectKind(k)) != nil {
			t.Errorf("kind %s has a schema and is among those of later versions", k)
		}
	}
}
