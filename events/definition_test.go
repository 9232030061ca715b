package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// task gives a definition of a task from the JSON of its spec.
func task(spec string) string {
	return `{"apiVersion":"ax/v1","kind":"Task","metadata":{"name":"sync-orders"},"spec":` + spec + `}`
}

func group(spec string) string {
	return `{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"slow"},"spec":` + spec + `}`
}

func completed(t testing.TB, body string) *Definition {
	t.Helper()
	d, err := DecodeDefinition(body)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	if err := d.Complete(); err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return d
}

func encoded(t testing.TB, d *Definition) string {
	t.Helper()
	s, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// complete has definitions as somebody writes them and as they stand in the log.
// What stands on the right is what old logs hold: it does not change.
var complete = []struct{ name, given, want string }{
	{
		"the smallest task",
		task(`{"executor":{"shell":{}}}`),
		task(`{"executor":{"shell":{}},"group":"default","timeout":"1m","retry":{"max":3,"backoff":"exponential","base":"1s","cap":"1m"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{
		"a task by cron",
		task(`{"triggers":[{"cron":" 0 2 * * * "}],"executor":{"shell":{}}}`),
		task(`{"triggers":[{"name":"main","cron":"0 2 * * *","timeZone":"UTC","misfire":{"policy":"fire-once","limit":100,"threshold":"1m"},"catchUp":"none"}],` +
			`"executor":{"shell":{}},"group":"default","timeout":"1m","retry":{"max":3,"backoff":"exponential","base":"1s","cap":"1m"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{
		"a cron text with a zone of its own",
		task(`{"triggers":[{"cron":"CRON_TZ=Asia/Shanghai 0 2 * * *"},{"name":"b","cron":"TZ=UTC 1 2 * * *"}],"executor":{"shell":{}}}`),
		task(`{"triggers":[{"name":"main","cron":"CRON_TZ=Asia/Shanghai 0 2 * * *","misfire":{"policy":"fire-once","limit":100,"threshold":"1m"},"catchUp":"none"},` +
			`{"name":"b","cron":"TZ=UTC 1 2 * * *","misfire":{"policy":"fire-once","limit":100,"threshold":"1m"},"catchUp":"none"}],` +
			`"executor":{"shell":{}},"group":"default","timeout":"1m","retry":{"max":3,"backoff":"exponential","base":"1s","cap":"1m"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{
		"a task by interval and once",
		task(`{"triggers":[{"name":"a","interval":{"every":"90s"}},{"name":"b","once":{"at":"2027-01-15T08:00:00.1239+08:00"}},{"name":"c","once":{"delay":"60m"}}],"executor":{"shell":{}}}`),
		task(`{"triggers":[{"name":"a","interval":{"every":"1m30s"},"misfire":{"policy":"fire-once","limit":100,"threshold":"1m"},"catchUp":"none"},` +
			`{"name":"b","once":{"at":"2027-01-15T00:00:00.123Z"},"misfire":{"policy":"fire-once","limit":100,"threshold":"1m"},"catchUp":"none"},` +
			`{"name":"c","once":{"delay":"1h"},"misfire":{"policy":"fire-once","limit":100,"threshold":"1m"},"catchUp":"none"}],` +
			`"executor":{"shell":{}},"group":"default","timeout":"1m","retry":{"max":3,"backoff":"exponential","base":"1s","cap":"1m"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{
		"a task that says everything keeps it",
		task(`{"triggers":[{"name":"x","cron":"0/5 * * * * ?","timeZone":"Asia/Shanghai","dialect":"quartz","misfire":{"policy":"fire-all","limit":7,"threshold":"5s"},"catchUp":"policy"}],` +
			`"executor":{"external":{"a":[1,null]}},"group":"slow","params":{"table":"orders"},"timeout":"30s","retry":{"max":0,"backoff":"fixed","base":"2s","jitter":10},"maxLost":1,"overlap":{"policy":"allow","max":4},"priority":0,"limit":2}`),
		task(`{"triggers":[{"name":"x","cron":"0/5 * * * * ?","timeZone":"Asia/Shanghai","dialect":"quartz","misfire":{"policy":"fire-all","limit":7,"threshold":"5s"},"catchUp":"policy"}],` +
			`"executor":{"external":{"a":[1,null]}},"group":"slow","params":{"table":"orders"},"timeout":"30s","retry":{"max":0,"backoff":"fixed","base":"2s","jitter":10},"maxLost":1,"overlap":{"policy":"allow","max":4},"priority":0,"limit":2}`),
	},
	{
		"backoff by a list",
		task(`{"executor":{"shell":{}},"retry":{"list":["1m","5m","15m"]}}`),
		task(`{"executor":{"shell":{}},"group":"default","timeout":"1m","retry":{"max":3,"backoff":"list","list":["1m","5m","15m"]},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{
		"a fixed backoff",
		task(`{"executor":{"shell":{}},"retry":{"backoff":"fixed"}}`),
		task(`{"executor":{"shell":{}},"group":"default","timeout":"1m","retry":{"max":3,"backoff":"fixed","base":"1s"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{
		"a base above the usual cap lifts it",
		task(`{"executor":{"shell":{}},"retry":{"base":"5m"}}`),
		task(`{"executor":{"shell":{}},"group":"default","timeout":"1m","retry":{"max":3,"backoff":"exponential","base":"5m","cap":"5m"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{
		"JSON over many lines",
		strings.ReplaceAll(task(`{"executor":{"shell":{"command":"a\nb"}},"params":{"x":[1,2]}}`), `:`, ":\n\t"),
		task(`{"executor":{"shell":{"command":"a\nb"}},"group":"default","params":{"x":[1,2]},"timeout":"1m","retry":{"max":3,"backoff":"exponential","base":"1s","cap":"1m"},"maxLost":3,"overlap":{"policy":"forbid"},"priority":5}`),
	},
	{"a group", group(`{}`), group(`{"limit":0}`)},
	{"a group with a limit", group(`{"limit":12}`), group(`{"limit":12}`)},
	{"a definition without a spec", `{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"slow"}}`, group(`{"limit":0}`)},
	{
		"a title and labels",
		`{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"slow","title":"订单同步 / α 💥","labels":{"team":"payments","a.b/c":""}},"spec":{}}`,
		`{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"slow","title":"订单同步 / α 💥","labels":{"a.b/c":"","team":"payments"}},"spec":{"limit":0}}`,
	},
}

func TestCompleteFillsInEveryDefault(t *testing.T) {
	for _, c := range complete {
		if have := encoded(t, completed(t, c.given)); have != c.want {
			t.Errorf("%s:\nhave %s\nwant %s", c.name, have, c.want)
		}
	}
}

// TestADefinitionInTheLogIsComplete is E4: what Encode wrote says everything by
// itself. Reading it gives the same definition without any default of the
// reader, and completing it again changes nothing.
func TestADefinitionInTheLogIsComplete(t *testing.T) {
	for _, c := range complete {
		d := completed(t, c.given)
		body := encoded(t, d)
		back, err := DecodeDefinition(body)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !reflect.DeepEqual(back, d) {
			t.Errorf("%s: reads back as\n%+v\nwant\n%+v", c.name, back, d)
		}
		if err := back.Complete(); err != nil || encoded(t, back) != body || !reflect.DeepEqual(back, d) {
			t.Errorf("%s: completed again it is %s, %v", c.name, encoded(t, back), err)
		}
		if err := CheckJSON(body); err != nil {
			t.Errorf("%s: no event can carry it: %v", c.name, err)
		}
	}
}

// TestNothingThatHasADefaultIsLeftOut: a field that may be absent from a
// complete definition means none when it is.
func TestNothingThatHasADefaultIsLeftOut(t *testing.T) {
	absent := map[string]string{
		"triggers": "none", "params": "none", "limit": "no bound", "cron": "another sort of trigger", "timeZone": "it stands in the cron text, or the trigger is no cron",
		"dialect": "auto: the text tells", "interval": "another sort of trigger", "once": "another sort of trigger", "offset": "zero", "at": "delay", "delay": "at", "max": "no bound",
		"base": "a list", "cap": "a list, or fixed", "list": "no list", "jitter": "none",
	}
	var walk func(t *testing.T, typ reflect.Type)
	walk = func(t *testing.T, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if strings.Contains(options, "omit") && absent[name] == "" {
				t.Errorf("%s.%s may be left out: say here what that means", typ.Name(), name)
			}
			inner := f.Type
			for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner != reflect.TypeFor[time.Time]() && inner != reflect.TypeFor[ExecutorSpec]() {
				walk(t, inner)
			}
		}
	}
	walk(t, reflect.TypeFor[TaskSpec]())
	walk(t, reflect.TypeFor[GroupSpec]())
}

// TestEveryComplaintNamesItsField: one fault, one complaint, at its path.
func TestEveryComplaintNamesItsField(t *testing.T) {
	trigger := func(s string) string {
		return task(`{"executor":{"shell":{}},"triggers":[{"name":"ok","cron":"@daily"},` + s + `]}`)
	}
	spec := func(s string) string { return task(`{"executor":{"shell":{}},` + s + `}`) }
	metadata := func(s string) string {
		return `{"apiVersion":"ax/v1","kind":"Group","metadata":{` + s + `},"spec":{}}`
	}
	many := func(n int, s string) string {
		var all []string
		for i := range n {
			all = append(all, strings.ReplaceAll(s, "#", fmt.Sprint(i)))
		}
		return strings.Join(all, ",")
	}
	for _, c := range []struct{ body, field string }{
		{`{"kind":"Group","metadata":{"name":"a"}}`, "apiVersion"},
		{`{"apiVersion":"ax/v2","kind":"Group","metadata":{"name":"a"}}`, "apiVersion"},
		{metadata(``), "metadata.name"},
		{metadata(`"name":"日报/α 💥.x"`), "metadata.name"},
		{metadata(`"name":"a--b"`), "metadata.name"},
		{metadata(`"name":"` + strings.Repeat("a", 300) + `"`), "metadata.name"},
		{metadata(`"name":"a","title":"` + strings.Repeat("x", MaxTitle+1) + `"`), "metadata.title"},
		{metadata(`"name":"a","labels":{` + many(MaxLabels+1, `"l#":""`) + `}`), "metadata.labels"},
		{metadata(`"name":"a","labels":{"":"x"}`), "metadata.labels"},
		{metadata(`"name":"a","labels":{"` + strings.Repeat("x", MaxNameLen+1) + `":""}`), "metadata.labels"},
		{metadata(`"name":"a","labels":{"x":"` + strings.Repeat("x", MaxTitle+1) + `"}`), "metadata.labels"},
		{group(`{"limit":-1}`), "spec.limit"},
		{group(`{"limit":1000001}`), "spec.limit"},
		{task(`{}`), "spec.executor"},
		{task(`{"executor":{"shell":null}}`), "spec.executor.shell"},
		{task(`{"executor":{"shell":"ls"}}`), "spec.executor.shell"},
		{task(`{"executor":{"shell":[]}}`), "spec.executor.shell"},
		{spec(`"group":"A"`), "spec.group"},
		{spec(`"group":"a--b"`), "spec.group"},
		{spec(`"params":"` + strings.Repeat("x", MaxParams) + `"`), "spec.params"},
		{spec(`"priority":-1`), "spec.priority"},
		{spec(`"priority":10`), "spec.priority"},
		{spec(`"limit":-1`), "spec.limit"},
		{spec(`"limit":1000001`), "spec.limit"},
		{spec(`"maxLost":-1`), "spec.maxLost"},
		{spec(`"maxLost":1001`), "spec.maxLost"},
		{spec(`"overlap":{"policy":"queue"}`), "spec.overlap.policy"},
		{spec(`"overlap":{"policy":"allow","max":-1}`), "spec.overlap.max"},
		{spec(`"overlap":{"policy":"allow","max":1000001}`), "spec.overlap.max"},
		{spec(`"overlap":{"policy":"forbid","max":2}`), "spec.overlap.max"},
		{spec(`"overlap":{"max":2}`), "spec.overlap.max"},
		{spec(`"timeout":"1ns"`), "spec.timeout"},
		{spec(`"timeout":"1.0005s"`), "spec.timeout"},
		{spec(`"retry":{"base":"100us"}`), "spec.retry.base"},
		{spec(`"retry":{"cap":"1m0.0001s"}`), "spec.retry.cap"},
		{spec(`"retry":{"list":["1s","1us"]}`), "spec.retry.list[1]"},
		{spec(`"retry":{"backoff":"fixed","cap":"1m"}`), "spec.retry.cap"},
		{spec(`"retry":{"list":["1s"],"base":"1s"}`), "spec.retry"},
		{spec(`"retry":{"max":-1}`), "spec.retry.max"},
		{spec(`"retry":{"max":1001}`), "spec.retry.max"},
		{spec(`"retry":{"backoff":"linear"}`), "spec.retry.backoff"},
		{spec(`"retry":{"base":"2m","cap":"1m"}`), "spec.retry.cap"},
		{spec(`"retry":{"backoff":"list"}`), "spec.retry.list"},
		{spec(`"retry":{"backoff":"fixed","list":["1s"]}`), "spec.retry.list"},
		{spec(`"retry":{"list":[` + many(MaxTriggers+1, `"1s"`) + `]}`), "spec.retry.list"},
		{spec(`"retry":{"jitter":-1}`), "spec.retry.jitter"},
		{spec(`"retry":{"jitter":101}`), "spec.retry.jitter"},
		{spec(`"triggers":[` + many(MaxTriggers+1, `{"name":"t#","cron":"@daily"}`) + `]`), "spec.triggers"},
		{trigger(`{}`), "spec.triggers[1]"},
		{trigger(`{"cron":" \t\n"}`), "spec.triggers[1]"},
		{trigger(`{"cron":"@daily","interval":{"every":"1m"}}`), "spec.triggers[1]"},
		{trigger(`{"interval":{"every":"1m"},"timeZone":"UTC"}`), "spec.triggers[1]"},
		{trigger(`{"once":{"delay":"1m"},"dialect":"unix"}`), "spec.triggers[1]"},
		{trigger(`{"cron":"CRON_TZ=UTC @daily","timeZone":"UTC"}`), "spec.triggers[1].timeZone"},
		{trigger(`{"cron":"@daily","misfire":{"threshold":"1us"}}`), "spec.triggers[1].misfire.threshold"},
		{trigger(`{"interval":{"every":"1.0000001s"}}`), "spec.triggers[1].interval.every"},
		{trigger(`{"interval":{"every":"1s","offset":"1us"}}`), "spec.triggers[1].interval.offset"},
		{trigger(`{"once":{"delay":"1us"}}`), "spec.triggers[1].once.delay"},
		{trigger(`{"name":"Ä","cron":"@daily"}`), "spec.triggers[1].name"},
		{trigger(`{"name":"manual","cron":"@daily"}`), "spec.triggers[1].name"},
		{trigger(`{"name":"ok","cron":"@daily"}`), "spec.triggers[1].name"},
		{trigger(`{"interval":{"every":"99ms"}}`), "spec.triggers[1].interval.every"},
		{trigger(`{"interval":{"every":"1m","offset":"1m"}}`), "spec.triggers[1].interval.offset"},
		{trigger(`{"once":{}}`), "spec.triggers[1].once"},
		{trigger(`{"once":{"at":"2027-01-01T00:00:00Z","delay":"1m"}}`), "spec.triggers[1].once"},
		{trigger(`{"once":{"at":"1969-12-31T23:59:59Z"}}`), "spec.triggers[1].once.at"},
		{trigger(`{"once":{"at":"2263-01-01T00:00:00Z"}}`), "spec.triggers[1].once.at"},
		{trigger(`{"cron":"@daily","misfire":{"policy":"some"}}`), "spec.triggers[1].misfire.policy"},
		{trigger(`{"cron":"@daily","misfire":{"limit":-1}}`), "spec.triggers[1].misfire.limit"},
		{trigger(`{"cron":"@daily","misfire":{"limit":10001}}`), "spec.triggers[1].misfire.limit"},
		{trigger(`{"cron":"@daily","catchUp":"all"}`), "spec.triggers[1].catchUp"},
	} {
		d, err := DecodeDefinition(c.body)
		if err != nil {
			t.Errorf("%.200s: %v", c.body, err)
			continue
		}
		if have := complaints(d.Complete()); !slices.Equal(have, []string{c.field}) {
			t.Errorf("%.200s:\ncomplains about %v, want %s", c.body, have, c.field)
		}
	}
	if have := complaints((&Definition{APIVersion: APIVersion, Kind: ObjectTask, Metadata: Metadata{Name: "a"}}).Complete()); !slices.Equal(have, []string{"kind"}) {
		t.Errorf("a task without a spec: %v", have)
	}
	bad := Definition{APIVersion: APIVersion, Kind: ObjectTask, Metadata: Metadata{Name: "a"}, Task: &TaskSpec{Executor: ExecutorSpec{"shell", json.RawMessage(`{}`)}, Params: json.RawMessage(`{`)}}
	if have := complaints(bad.Complete()); !slices.Equal(have, []string{"spec.params"}) {
		t.Errorf("parameters that are no JSON: %v", have)
	}
	bad.Task.Params, bad.Task.Executor.Config = nil, nil
	if have := complaints(bad.Complete()); !slices.Equal(have, []string{"spec.executor.shell"}) {
		t.Errorf("an executor without a configuration: %v", have)
	}
}

// complaints are the fields that an error of Complete names, in its order.
func complaints(err error) (fields []string) {
	if err == nil {
		return nil
	}
	all, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []string{"no list: " + err.Error()}
	}
	for _, e := range all.Unwrap() {
		var f *FieldError
		if !errors.As(e, &f) || f.Reason == "" || e.Error() != f.Field+": "+f.Reason {
			fields = append(fields, "no complaint about a field: "+e.Error())
			continue
		}
		fields = append(fields, f.Field)
	}
	return fields
}

func TestAllComplaintsComeAtOnce(t *testing.T) {
	d, err := DecodeDefinition(`{"apiVersion":"v1","kind":"Task","metadata":{"name":"A","title":"` + strings.Repeat("x", 300) + `"},"spec":{"group":"","priority":11,"limit":-1,"maxLost":-2,
		"retry":{"max":-1,"backoff":"x","jitter":200},"overlap":{"policy":"x","max":-1},"params":1,
		"triggers":[{"cron":"x","once":{},"misfire":{"policy":"x","limit":-5},"catchUp":"x"},{"name":"main","interval":{"every":"1ms","offset":"1h"}}]}}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"apiVersion", "metadata.name", "metadata.title", "spec.executor", "spec.priority", "spec.limit", "spec.maxLost", "spec.retry.backoff", "spec.retry.max", "spec.retry.jitter",
		"spec.overlap.policy", "spec.overlap.max", "spec.triggers[0]", "spec.triggers[0].once", "spec.triggers[0].misfire.policy", "spec.triggers[0].misfire.limit", "spec.triggers[0].catchUp",
		"spec.triggers[1].interval.every", "spec.triggers[1].interval.offset", "spec.triggers[1].name",
	}
	if have := complaints(d.Complete()); !slices.Equal(have, want) {
		t.Errorf("have %v\nwant %v", have, want)
	}
}

func TestWhatIsAtItsBoundIsAccepted(t *testing.T) {
	var triggers []string
	for i := range MaxTriggers {
		triggers = append(triggers, fmt.Sprintf(`{"name":"t%d","interval":{"every":"100ms","offset":"99ms"},"misfire":{"limit":10000}}`, i))
	}
	for _, body := range []string{
		task(`{"executor":{"shell":{}},"triggers":[` + strings.Join(triggers, ",") + `],"priority":9,"limit":1000000,"maxLost":1000,"retry":{"max":1000,"jitter":100,"base":"1m","cap":"1m"},"overlap":{"policy":"allow","max":1000000}}`),
		task(`{"executor":{"shell":{}},"params":"` + strings.Repeat("x", MaxParams-2) + `"}`),
		strings.Replace(task(`{"executor":{"shell":{}}}`), "sync-orders", strings.Repeat("a", 63)+"--"+strings.Repeat("b", 63), 1),
		strings.Replace(group(`{"limit":1000000}`), `"name"`, `"title":"`+strings.Repeat("x", MaxTitle)+`","name"`, 1),
	} {
		completed(t, body)
	}
}

func TestWhatIsNoDefinitionIsRefused(t *testing.T) {
	for _, body := range []string{
		``, `null`, `[]`, `1`, `{`, `{}{}`, `{}`, `{"kind":"Workflow"}`, `{"kind":"task"}`, `{"kind":1}`,
		`{"kind":"Group","unheardOf":1}`, `{"kind":"Group","metadata":{"unheardOf":1}}`, `{"kind":"Group","spec":{"unheardOf":1}}`, `{"kind":"Group","spec":[]}`, `{"kind":"Group","spec":{"limit":"1"}}`,
		task(`{"unheardOf":1}`), task(`{"executor":{}}`), task(`{"executor":{"a":{},"b":{}}}`), task(`{"executor":[]}`), task(`{"executor":null}`), task(`{"timeout":60}`), task(`{"timeout":"1d"}`),
		task(`{"timeout":"-1s"}`), task(`{"timeout":"87841h"}`), task(`{"triggers":[{"interval":{"every":"x"}}]}`), task(`{"triggers":[{"once":{"at":"tomorrow"}}]}`), task(`{"triggers":[{"once":{"unheardOf":1}}]}`),
		task(`{"priority":1.5}`), task(`{"retry":{"list":[1]}}`),
	} {
		if d, err := DecodeDefinition(body); err == nil && body != `null` || err == nil && d.Complete() == nil {
			t.Errorf("%s: %+v", body, d)
		}
	}
}

// TestCompletingTwiceIsCompletingOnce with whatever texts people write.
func TestCompletingTwiceIsCompletingOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := &Definition{APIVersion: APIVersion, Kind: ObjectTask, Metadata: Metadata{
			Name: someName(CheckTaskName).Draw(t, "name"), Title: someText(MaxTitle).Draw(t, "title"),
			Labels: rapid.MapOfN(someText(MaxNameLen), someText(MaxTitle), 0, 3).Draw(t, "labels"),
		}, Task: &TaskSpec{Executor: ExecutorSpec{"external", json.RawMessage(`{"x":` + someJSON().Draw(t, "configuration") + `}`)}}}
		if len(d.Metadata.Labels) == 0 {
			d.Metadata.Labels = nil
		}
		if rapid.Bool().Draw(t, "with parameters") {
			d.Task.Params = json.RawMessage(someJSON().Draw(t, "parameters"))
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "triggers") {
			tr := TriggerSpec{Name: TriggerName(fmt.Sprint("t", i))}
			switch rapid.IntRange(0, 2).Draw(t, "sort of trigger") {
			case 0:
				tr.Cron = "0 2 " + someText(100).Draw(t, "cron")
			case 1:
				every := rapid.Int64Range(MinInterval.Milliseconds(), MaxDuration.Milliseconds()).Draw(t, "every")
				offset := rapid.Int64Range(0, every-1).Draw(t, "offset")
				tr.Interval = &IntervalSpec{Duration(every) * Duration(time.Millisecond), Duration(offset) * Duration(time.Millisecond)}
			default:
				at := time.Unix(rapid.Int64Range(0, 9_000_000_000).Draw(t, "at"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
				tr.Once = &OnceSpec{At: &at}
			}
			d.Task.Triggers = append(d.Task.Triggers, tr)
		}
		if err := d.Complete(); err != nil {
			t.Fatal(err)
		}
		body, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeDefinition(body)
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if err := back.Complete(); err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		if again, err := back.Encode(); err != nil || again != body {
			t.Fatalf("%v\n%s\nbecomes\n%s", err, body, again)
		}
		if err := CheckJSON(body); err != nil {
			t.Fatalf("no event can carry it: %v\n%s", err, body)
		}
	})
}

func FuzzDefinition(f *testing.F) {
	for _, c := range complete {
		f.Add(c.given)
		f.Add(c.want)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := DecodeDefinition(text)
		if err != nil || d.Complete() != nil {
			return
		}
		body := encoded(t, d)
		if again := encoded(t, completed(t, body)); again != body {
			t.Fatalf("%s\nbecomes\n%s", body, again)
		}
	})
}
