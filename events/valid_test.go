package events

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Generators of what is valid, for properties.

// structFields are the fields of Event in the order of the bits of fieldSet.
// TestFieldTableIsTheEventsFields holds that.
var structFields = func() (all []reflect.StructField) {
	t := reflect.TypeFor[Event]()
	for i := range t.NumField() {
		if f := t.Field(i); f.Name != "Kind" {
			all = append(all, f)
		}
	}
	return all
}()

// field gives the field of e that a bit stands for.
func field(e *Event, bit int) reflect.Value {
	return reflect.ValueOf(e).Elem().FieldByIndex(structFields[bit].Index)
}

// sample is a plain value for a field, for tables.
func sample(bit int) any {
	switch fieldTable[bit].typ {
	case "json":
		return `{"x":1}`
	case "bool":
		return true
	case "kind":
		return KindSucceeded
	case "position":
		return Position{7, 1}
	case "count", "time":
		return 3
	}
	return "some-text"
}

// set gives a field a value of whatever kind of number or string it is.
func set(e *Event, bit int, value any) {
	f := field(e, bit)
	f.Set(reflect.ValueOf(value).Convert(f.Type()))
}

// minimal is an event of a kind with the fields that it requires.
func minimal(k Kind) Event {
	e := Event{Kind: k}
	for bit := range fieldTable {
		if kindTable[k].required&(1<<bit) != 0 {
			set(&e, bit, sample(bit))
		}
	}
	return e
}

// someText draws texts as the world has them.
func someText(maxBytes int) *rapid.Generator[string] {
	hostile := rapid.SampledFrom([]string{
		"日报/α 💥.x", "..", "*", ">", " ", "\x00", "a--b", `"`, `\`, "\n", "\r\n", "\t", "\b\f\x7f", "</script>&", "\u2028", "\ufffd", "\\u0041", "{}", "null",
		strings.Repeat("x", 300), strings.Repeat("報", 100), "0", "-1", "1042.3",
	})
	return rapid.Custom(func(t *rapid.T) string {
		var s string
		switch rapid.IntRange(0, 3).Draw(t, "sort of text") {
		case 0:
			s = rapid.StringMatching(`[a-z0-9]([-_a-z0-9]{0,20}[a-z0-9])?`).Draw(t, "name")
		case 1:
			s = hostile.Draw(t, "hostile")
		case 2:
			s = strings.Join(rapid.SliceOfN(hostile, 1, 8).Draw(t, "hostiles"), "")
		default:
			s = rapid.StringN(1, 40, -1).Draw(t, "any")
		}
		s = strings.ToValidUTF8(s, "?")
		for len(s) > maxBytes {
			r := []rune(s)
			s = string(r[:len(r)/2])
		}
		if s == "" {
			s = "x"
		}
		return s
	})
}

// someValue draws a value of JSON, at most so deep.
func someValue(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		most := 6
		if depth == 0 {
			most = 4
		}
		switch rapid.IntRange(0, most).Draw(t, "sort of value") {
		case 0:
			return rapid.SampledFrom([]any{nil, true, false, 0, -1, 1.5e-7, "", math.MaxInt64}).Draw(t, "constant")
		case 1, 2:
			return someText(200).Draw(t, "text")
		case 3, 4:
			return rapid.Int64().Draw(t, "number")
		case 5:
			return rapid.SliceOfN(someValue(depth-1), 0, 4).Draw(t, "array")
		}
		return rapid.MapOfN(someText(20), someValue(depth-1), 0, 4).Draw(t, "object")
	})
}

// someJSON draws JSON text that an event can carry.
func someJSON() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		b, err := json.Marshal(someValue(3).Draw(t, "value"))
		if err != nil {
			t.Fatal(err)
		}
		if rapid.Bool().Draw(t, "spaced") {
			var spaced bytes.Buffer
			if err := json.Indent(&spaced, b, "", "\t"); err != nil {
				t.Fatal(err)
			}
			b = bytes.ReplaceAll(spaced.Bytes(), []byte{'\n'}, []byte{'\r'}) // line ends are the frame's
		}
		return string(b)
	})
}

// someEvent draws a valid event: a kind, what it requires, and some of what it
// may have.
func someEvent() *rapid.Generator[Event] {
	return rapid.Custom(func(t *rapid.T) Event {
		k := rapid.SampledFrom(Kinds()).Draw(t, "kind")
		e := Event{Kind: k}
		may := kindTable[k].optional | anyKind
		for bit, info := range fieldTable {
			f := fieldSet(1) << bit
			if kindTable[k].required&f == 0 && (may&f == 0 || rapid.Bool().Draw(t, "without "+info.name)) {
				continue
			}
			switch info.typ {
			case "name", "text":
				set(&e, bit, someText(bounds[info.name]).Draw(t, info.name))
			case "position":
				set(&e, bit, Position{rapid.Uint64Min(1).Draw(t, "sequence"), rapid.Uint32Max(MaxFrameEvents).Draw(t, "index")})
			case "count", "time":
				most := int64(math.MaxInt64)
				if f == fDepth {
					most = MaxDepth
				}
				set(&e, bit, rapid.Int64Range(1, most).Draw(t, info.name))
			case "json":
				s := someJSON().Draw(t, info.name)
				if f == fBody { // bodies are objects
					s = `{"x":` + s + `}`
				}
				set(&e, bit, s)
			case "bool":
				set(&e, bit, true)
			case "kind":
				set(&e, bit, rapid.SampledFrom(Kinds()).Draw(t, info.name))
			default:
				t.Fatalf("field %s has the type %q, which this generator does not know", info.name, info.typ)
			}
		}
		return e
	})
}

// bounds are the bytes that a field's value may have.
var bounds = map[string]int{
	"task": MaxText, "trigger": MaxText, "instance": MaxText, "object": MaxText, "name": MaxText, "by": MaxText, "worker": MaxText, "nonce": MaxText,
	"reason": MaxText, "key": MaxText, "error": MaxErrorText, "params": MaxParams, "result": MaxParams, "body": MaxDefinition,
}

// bound is the bytes that a field of a kind may have.
func bound(k Kind, field string) int {
	if k == KindRestated && field == "body" {
		return MaxBody
	}
	return bounds[field]
}

func TestGeneratedEventsAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := someEvent().Draw(t, "event")
		if err := e.Check(); err != nil {
			t.Fatal(err)
		}
	})
}
