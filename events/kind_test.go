package events

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func TestEveryKindHasANameOfItsOwn(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	seen := map[string]Kind{}
	for _, k := range Kinds() {
		name := k.String()
		if !shape.MatchString(name) {
			t.Errorf("kind %d is called %q", k, name)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("kinds %d and %d are both called %q", other, k, name)
		}
		seen[name] = k
		if have, ok := ParseKind(name); !ok || have != k {
			t.Errorf("ParseKind(%q) is %d, %v", name, have, ok)
		}
		text, err := k.MarshalText()
		var back Kind
		if err != nil || back.UnmarshalText(text) != nil || back != k {
			t.Errorf("%s does not survive its text %q", name, text)
		}
	}
	if len(seen) != int(NumKinds)-1 {
		t.Errorf("Kinds gives %d of %d kinds", len(seen), NumKinds-1)
	}
}

func TestWhatIsNoKindIsRefused(t *testing.T) {
	for _, name := range []string{"", "Fired", "fired ", "kind(3)", "unknown"} {
		if k, ok := ParseKind(name); ok {
			t.Errorf("ParseKind(%q) is %s", name, k)
		}
		k := KindFired
		if err := k.UnmarshalText([]byte(name)); err == nil || k != KindFired {
			t.Errorf("UnmarshalText(%q): %v, and the kind is %s", name, err, k)
		}
	}
	for _, k := range []Kind{kindNone, NumKinds, 255} {
		if _, ok := ParseKind(k.String()); ok || k.OnInstance() {
			t.Errorf("%s passes for a kind", k)
		}
	}
}

// kindDocs are the comments beside the kinds in kind.go: what documents say of
// them comes from there.
func kindDocs(t *testing.T) [NumKinds]string {
	t.Helper()
	var docs [NumKinds]string
	k := kindNone
	for _, c := range constants(t, "kind.go", "kindNone") {
		if c.name != "kindNone" && c.name != "NumKinds" {
			k++
			docs[k] = c.comment
		}
	}
	if k != NumKinds-1 {
		t.Fatalf("kind.go has %d kinds, the package %d", k, NumKinds-1)
	}
	return docs
}

type constant struct{ name, comment string }

// constants reads the block of constants of a file that begins with first.
func constants(t *testing.T, file, first string) (all []constant) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST || g.Specs[0].(*ast.ValueSpec).Names[0].Name != first {
			continue
		}
		for _, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			text := v.Comment.Text()
			if text == "" {
				text = v.Doc.Text()
			}
			all = append(all, constant{v.Names[0].Name, strings.Join(strings.Fields(text), " ")})
		}
		return all
	}
	t.Fatalf("%s has no constants that begin with %s", file, first)
	return nil
}

func TestEveryKindSaysWhatItIs(t *testing.T) {
	for k, doc := range kindDocs(t) {
		if Kind(k) != kindNone && doc == "" {
			t.Errorf("%s has no comment in kind.go", Kind(k))
		}
	}
}

func TestKindTableAsksForFieldsThatExistAndOnlyOnce(t *testing.T) {
	all := fEnd - 1
	for _, k := range Kinds() {
		info := &kindTable[k]
		if over := (info.required | info.optional) &^ all; over != 0 {
			t.Errorf("%s has fields that fieldTable has not: %b", k, over)
		}
		if both := info.required&info.optional | (info.required|info.optional)&anyKind; both != 0 {
			t.Errorf("%s has %s twice: required, optional and any kind's are apart", k, both)
		}
		if info.instance && (info.required|info.optional)&fInstance == 0 {
			t.Errorf("%s acts on instances and has none", k)
		}
	}
}

// TestFieldTableIsTheEventsFields: the n-th bit, row of fieldTable and field of
// Event are the same one.
func TestFieldTableIsTheEventsFields(t *testing.T) {
	if len(fieldTable) != len(structFields) || fEnd != 1<<len(fieldTable) {
		t.Fatalf("Event has %d fields besides Kind, fieldTable %d, the bits end at %b", len(structFields), len(fieldTable), fEnd)
	}
	types := map[string][]reflect.Kind{
		"name": {reflect.String}, "text": {reflect.String}, "json": {reflect.String}, "bool": {reflect.Bool}, "kind": {reflect.Uint8},
		"position": {reflect.Struct}, "count": {reflect.Int64, reflect.Uint64}, "time": {reflect.Int64},
	}
	for bit, info := range fieldTable {
		want := strings.ToLower(structFields[bit].Name)
		if want == "actor" {
			want = "by"
		}
		if info.name != want {
			t.Errorf("bit %d is %s in fieldTable and %s in Event", bit, info.name, structFields[bit].Name)
		}
		fits := false
		for _, k := range types[info.typ] {
			fits = fits || k == structFields[bit].Type.Kind()
		}
		if !fits {
			t.Errorf("%s is a %s in fieldTable and a %s in Event", info.name, info.typ, structFields[bit].Type)
		}
		if info.doc == "" {
			t.Errorf("%s says nothing of itself", info.name)
		}
		if f := fieldSet(1) << bit; f.String() != info.name {
			t.Errorf("bit %d calls itself %q", bit, f)
		}
	}
}

// TestEveryFieldIsWrittenAndReadUnderItsName: set one field alone, and exactly
// that one is present, is in the line, and comes back.
func TestEveryFieldIsWrittenAndReadUnderItsName(t *testing.T) {
	for bit, info := range fieldTable {
		t.Run(info.name, func(t *testing.T) {
			var e Event
			set(&e, bit, sample(bit))
			f := fieldSet(1) << bit
			if have := e.fields(); have != f {
				t.Fatalf("fields says %s", have)
			}
			line := e.AppendJSON(nil, -1)
			var names map[string]json.RawMessage
			if err := json.Unmarshal(line, &names); err != nil || len(names) != 2 || names[info.name] == nil || names["kind"] == nil {
				t.Fatalf("written as %s (%v)", line, err)
			}
			seen := false
			for _, k := range Kinds() {
				if (kindTable[k].required|kindTable[k].optional|anyKind)&f == 0 {
					continue
				}
				seen = true
				e := minimal(k)
				set(&e, bit, sample(bit))
				var back Event
				if _, err := back.decode(string(e.AppendJSON(nil, -1))); err != nil || back != e {
					t.Errorf("%s reads back as %+v, %v", k, back, err)
				}
			}
			if !seen {
				t.Error("no kind has the field")
			}
		})
	}
}

// TestKindsHaveWhatTheyRequireAndNothingElse walks kinds × fields.
func TestKindsHaveWhatTheyRequireAndNothingElse(t *testing.T) {
	refused := func(t *testing.T, what string, e *Event) {
		t.Helper()
		if err := e.Check(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: Check says %v", what, err)
		}
		var b FrameBuilder
		b.Begin(1e18, "")
		if _, _, err := b.Add(e, 1e18); !errors.Is(err, ErrMalformed) || b.Len() != 0 {
			t.Errorf("%s: Add says %v and has %d events", what, err, b.Len())
		}
		var back Event
		if _, err := back.decode(string(e.AppendJSON(nil, -1))); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: decode says %v", what, err)
		}
	}
	for _, k := range Kinds() {
		t.Run(k.String(), func(t *testing.T) {
			e := minimal(k)
			if err := e.Check(); err != nil {
				t.Fatalf("with what it requires: %v", err)
			}
			for bit, info := range fieldTable {
				f := fieldSet(1) << bit
				e := minimal(k)
				switch {
				case kindTable[k].required&f != 0:
					field(&e, bit).SetZero()
					refused(t, "without "+info.name, &e)
				case (kindTable[k].optional|anyKind)&f != 0:
					set(&e, bit, sample(bit))
					if err := e.Check(); err != nil {
						t.Errorf("with %s: %v", info.name, err)
					}
				default:
					set(&e, bit, sample(bit))
					refused(t, "with "+info.name, &e)
				}
			}
		})
	}
	refused(t, "an event without a kind", &Event{Reason: "over"})
	refused(t, "an event of a kind that is none", &Event{Kind: NumKinds, Reason: "over"})
}

// TestZeroIsAbsent: a field that is written although it is zero makes the line
// malformed, so that equal events have equal lines.
func TestZeroIsAbsent(t *testing.T) {
	zero := map[string]string{"name": `""`, "text": `""`, "position": `""`, "count": `0`, "time": `-0`, "bool": `false`, "kind": `""`}
	for bit, info := range fieldTable {
		value, ok := zero[info.typ]
		if !ok { // JSON has no zero value: null is a value
			continue
		}
		for _, k := range Kinds() {
			f := fieldSet(1) << bit
			if (kindTable[k].required|kindTable[k].optional|anyKind)&f == 0 {
				continue
			}
			e := minimal(k)
			field(&e, bit).SetZero()
			wantMalformed(t, withField(&e, info.name, value))
		}
	}
}

func TestAFieldTwiceIsMalformed(t *testing.T) {
	for _, k := range Kinds() {
		var names map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line(&examples[k])), &names); err != nil {
			t.Fatal(err)
		}
		for name, value := range names {
			wantMalformed(t, withField(&examples[k], name, string(value)))
		}
	}
}

func TestLinesThatAreNoEvent(t *testing.T) {
	e := minimal(KindReady)
	good := line(&e)
	for _, text := range []string{
		``, ` `, `{}`, `null`, `[]`, `"ready"`, `0`, good + good, good + `,`, good[:len(good)-1], good[1:], good + "\x00",
		`{"kind":""}`, `{"kind":"unheard-of"}`, `{"kind":"Ready","instance":"i","attempt":1}`, `{"kind":1,"instance":"i","attempt":1}`,
		withField(&e, "kind", `"ready"`), withField(&e, "unheardOf", `1`), withField(&e, "Attempt", `1`), withField(&e, "", `1`),
		withField(&e, "dt", `0`), withField(&e, "dt", `-5`), withField(&e, "dt", `1.5`), withField(&e, "dt", `5,"dt":6`),
		withField(&e, "depth", `1e2`), withField(&e, "depth", `"1"`), withField(&e, "depth", `-1`), withField(&e, "depth", `1001`), withField(&e, "depth", `01`),
		withField(&e, "inbox", `-1`), withField(&e, "inbox", `9223372036854775808`), withField(&e, "inbox", `null`),
		withField(&e, "cause", `"1042"`), withField(&e, "cause", `"0.1"`), withField(&e, "cause", `"1.-1"`), withField(&e, "cause", `"1.4294967296"`),
		withField(&e, "cause", `"18446744073709551616.0"`), withField(&e, "cause", `1042.3`), withField(&e, "root", `"1.2.3"`), withField(&e, "root", `" 1.2"`),
		withField(&e, "by", `"\ud800"`), withField(&e, "by", "\"\xff\""), withField(&e, "by", "\"a\tb\""), withField(&e, "by", `"\x"`), withField(&e, "by", `null`),
		strings.Replace(good, `"attempt":3`, `"attempt":9223372036854775808`, 1), strings.Replace(good, `"attempt":3`, `"attempt":-3`, 1),
		`{"kind":"failed","instance":"i","attempt":1,"error":"x","permanent":"true"}`, `{"kind":"failed","instance":"i","attempt":1,"error":"x","permanent":1}`,
		`{"kind":"late","instance":"i","attempt":1,"outcome":"unheard-of"}`, `{"kind":"late","instance":"i","attempt":1,"outcome":29}`,
		`{"kind":"led","body":}`, `{"kind":"led","body":{]}`, `{"kind":"led","body":nul}`, `{"kind":"led","body":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
	} {
		wantMalformed(t, text)
	}
}

// TestReadersTakeFieldsInAnyOrder: writers have one order, readers do not ask
// for it.
func TestReadersTakeFieldsInAnyOrder(t *testing.T) {
	var e Event
	dt, err := e.decode(` { "attempt" : 2 , "instance" : "\u0069", "dt":7 , "kind" : "ready" } `)
	if want := (Event{Kind: KindReady, Instance: "i", Attempt: 2}); err != nil || e != want || dt != 7 {
		t.Errorf("%+v, dt %d, %v", e, dt, err)
	}
}

func line(e *Event) string { return string(e.AppendJSON(nil, -1)) }

// withField is the event's line with one more field.
func withField(e *Event, name, value string) string {
	return strings.TrimSuffix(line(e), "}") + `,"` + name + `":` + value + `}`
}

func wantMalformed(t *testing.T, text string) {
	t.Helper()
	var e Event
	if _, err := e.decode(text); !errors.Is(err, ErrMalformed) {
		t.Errorf("%.200q: %v", text, err)
	}
}

// TestEveryBoundIsKept: at its bound a field passes, one byte over it is
// refused when it is written and when it is read.
func TestEveryBoundIsKept(t *testing.T) {
	for bit, info := range fieldTable {
		_, ok := bounds[info.name]
		if !ok {
			if field(new(Event), bit).Kind() == reflect.String {
				t.Errorf("%s has no bound", info.name)
			}
			continue
		}
		for _, k := range Kinds() {
			if (kindTable[k].required|kindTable[k].optional|anyKind)&(1<<bit) == 0 {
				continue
			}
			bound := bound(k, info.name)
			value := func(n int) string {
				if info.typ == "json" {
					return `"` + strings.Repeat("x", n-2) + `"`
				}
				return strings.Repeat("x", n)
			}
			e := minimal(k)
			set(&e, bit, value(bound))
			if err := e.Check(); err != nil {
				t.Errorf("%s with %s of %d bytes: %v", k, info.name, bound, err)
			}
			set(&e, bit, value(bound+1))
			if err := e.Check(); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), info.name) {
				t.Errorf("%s with %s of %d bytes: Check says %v", k, info.name, bound+1, err)
			}
			var b FrameBuilder
			b.Begin(1e18, "")
			if _, _, err := b.Add(&e, 1e18); !errors.Is(err, ErrTooLarge) {
				t.Errorf("%s with %s of %d bytes: Add says %v", k, info.name, bound+1, err)
			}
			var back Event
			if _, err := back.decode(line(&e)); !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrMalformed) {
				t.Errorf("%s with %s of %d bytes: decode says %v", k, info.name, bound+1, err)
			}
			if bound > MaxErrorText {
				break // one kind will do
			}
		}
	}
}

func TestSeveralFieldsMayBeAtTheirBounds(t *testing.T) {
	long := strings.Repeat("x", MaxText)
	e := Event{Kind: KindRefused, Reason: long, Task: TaskName(long), Trigger: TriggerName(long), Instance: InstanceID(long), Object: ObjectKind(long), Name: long, Worker: WorkerName(long), Key: long, Actor: "y"}
	if err := e.Check(); err != nil {
		t.Error(err)
	}
}

func TestNumbersHaveBounds(t *testing.T) {
	for bit, info := range fieldTable {
		if info.typ != "count" && info.typ != "time" {
			continue
		}
		for _, k := range Kinds() {
			if (kindTable[k].required|kindTable[k].optional|anyKind)&(1<<bit) == 0 {
				continue
			}
			e := minimal(k)
			if info.name == "inbox" {
				e.Inbox = 1 << 63
			} else {
				set(&e, bit, int64(-1))
			}
			if err := e.Check(); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s with %s out of range: %v", k, info.name, err)
			}
		}
	}
	deep := Event{Kind: KindAlerted, Reason: "x", Depth: MaxDepth + 1}
	if err := deep.Check(); !errors.Is(err, ErrMalformed) {
		t.Errorf("deeper than MaxDepth: %v", err)
	}
	odd := minimal(KindLate)
	odd.Outcome = NumKinds
	if err := odd.Check(); !errors.Is(err, ErrMalformed) {
		t.Errorf("an outcome that is no kind: %v", err)
	}
}

// TestWhatWouldNotReadBackIsNotWritten is E2: a text or JSON that a reader would
// take for something else, or not at all, never gets into a frame, where it
// would take all other events with it.
func TestWhatWouldNotReadBackIsNotWritten(t *testing.T) {
	for _, c := range []struct {
		why string
		e   Event
	}{
		{"a text that is no UTF-8", Event{Kind: KindAlerted, Reason: "\xff"}},
		{"a text cut within a character", Event{Kind: KindAlerted, Reason: "x", Error: "報"[:2]}},
		{"a key that is no UTF-8, and three times as long when it is written", Event{Kind: KindRefused, Reason: "x", Key: strings.Repeat("\xff", MaxText)}},
		{"an actor that is no UTF-8", Event{Kind: KindAlerted, Reason: "x", Actor: "\xc0\x80"}},
		{"JSON in two lines", Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: "{\n\"rows\": 1}"}},
		{"JSON with a line end behind it", Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: "{}\n"}},
		{"JSON with a lone surrogate", Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: `"\ud800"`}},
		{"JSON that is no UTF-8", Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: "\"\xff\""}},
		{"JSON nested deeper than readers go", Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: strings.Repeat("[", 200) + strings.Repeat("]", 200)}},
		{"what is no JSON", Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: "ok"}},
		{"a second field in disguise", Event{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: `1,"error":"x"`}},
	} {
		if err := c.e.Check(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", c.why, err)
		}
	}
}

// TestCheckJSON: what an event can carry, and what not.
func TestCheckJSON(t *testing.T) {
	nested := func(n int, inner string) string { return strings.Repeat("[", n) + inner + strings.Repeat("]", n) }
	for _, text := range []string{
		`null`, `""`, `0`, `-0.5e+7`, `{}`, `[]`, ` { "a" : [ 1 , 2 ] } `, "[\t1,\r2]", `"日报 💥"`, `"\ud83d\udca5"`, `"\u0000"`, "\"\u2028\"", `{"a":1,"a":2}`, nested(MaxNesting, "0"), nested(MaxNesting+1, ""),
	} {
		if err := CheckJSON(text); err != nil {
			t.Errorf("%.60q: %v", text, err)
		}
	}
	for _, text := range []string{
		``, ` `, `{`, `{}{}`, `{} x`, `nul`, `NaN`, `01`, `'a'`, `{a:1}`, `[1,]`, `"a`, "\"a\x01\"", "\"\xff\"", `"\ud800"`, `"\udca5\ud83d"`, "[1,\n2]", "{}\n", "\n{}", "\ufeff{}", "{}\x00",
		nested(MaxNesting+1, "0"), nested(MaxNesting+2, ""), strings.Repeat("[", 100_000),
	} {
		if err := CheckJSON(text); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}
