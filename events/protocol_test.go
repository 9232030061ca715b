package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// coded is a message of the protocol with its own codec.
type coded interface {
	Encode([]byte) []byte
	Decode([]byte) error
}

// messages are all of them, and the field that holds an array of items.
var messages = []struct {
	name  string
	items string
	make  func() coded
}{
	{"Offer", "", func() coded { return new(Offer) }},
	{"Claims", "claims", func() coded { return new(Claims) }},
	{"ClaimAnswers", "answers", func() coded { return new(ClaimAnswers) }},
	{"Reports", "reports", func() coded { return new(Reports) }},
	{"ReportAnswers", "answers", func() coded { return new(ReportAnswers) }},
	{"Commands", "commands", func() coded { return new(Commands) }},
	{"CommandAnswers", "answers", func() coded { return new(CommandAnswers) }},
}

// fill draws a value for everything in a message, by its type.
func fill(t *rapid.T, v reflect.Value, name string, raw func() string) {
	if rapid.IntRange(0, 3).Draw(t, name+" is zero") == 0 {
		return // absent
	}
	switch v.Interface().(type) {
	case Term:
		copy(v.Addr().Interface().(*Term)[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, name))
		return
	case Position:
		v.Set(reflect.ValueOf(somePosition().Draw(t, name)))
		return
	case Shard:
		v.SetUint(uint64(rapid.Uint32().Draw(t, name)))
		return
	}
	switch v.Kind() {
	case reflect.String:
		switch name {
		case "Params", "Result", "Config", "Definition":
			v.SetString(raw())
		default:
			v.SetString(someText(500).Draw(t, name))
		}
	case reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, name))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Max(math.MaxInt64).Draw(t, name))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), v.Type().Field(i).Name, raw)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		for i := range v.Elem().NumField() {
			fill(t, v.Elem().Field(i), v.Type().Elem().Field(i).Name, raw)
		}
	case reflect.Slice:
		n := rapid.IntRange(1, 5).Draw(t, name)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			for k := range v.Index(i).NumField() {
				fill(t, v.Index(i).Field(k), v.Index(i).Type().Field(k).Name, raw)
			}
		}
	default:
		t.Fatalf("%s is a %s, which this generator does not know", name, v.Type())
	}
}

func filled(t *rapid.T, m coded, raw func() string) coded {
	v := reflect.ValueOf(m).Elem()
	for i := range v.NumField() {
		fill(t, v.Field(i), v.Type().Field(i).Name, raw)
	}
	return m
}

func TestEveryMessageReadsBackEqual(t *testing.T) {
	for _, c := range messages {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := filled(t, c.make(), func() string { return someJSON().Draw(t, "JSON") })
				b := m.Encode([]byte("before "))
				text, ok := bytes.CutPrefix(b, []byte("before "))
				if !ok || !json.Valid(text) || bytes.IndexByte(text, '\n') >= 0 {
					t.Fatalf("written as %s", b)
				}
				back := c.make()
				if err := back.Decode(text); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				if !reflect.DeepEqual(back, m) {
					t.Fatalf("reads back as\n%+v\nwant\n%+v", back, m)
				}
			})
		})
	}
}

// TestFieldsOfALaterVersionAreSkipped: at every level, whatever they hold.
func TestFieldsOfALaterVersionAreSkipped(t *testing.T) {
	for _, c := range messages {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				m := filled(t, c.make(), func() string { return "1" })
				dec := json.NewDecoder(bytes.NewReader(m.Encode(nil)))
				dec.UseNumber()
				var v any
				if err := dec.Decode(&v); err != nil {
					t.Fatal(err)
				}
				text, err := json.Marshal(withNewFields(t, v))
				if err != nil {
					t.Fatal(err)
				}
				back := c.make()
				if err := back.Decode(text); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				if !reflect.DeepEqual(back, m) {
					t.Fatalf("reads as\n%+v\nwant\n%+v\nfrom %s", back, m, text)
				}
			})
		})
	}
}

func withNewFields(t *rapid.T, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			withNewFields(t, x)
		}
		v["aNewField"] = someValue(1).Draw(t, "value")
		v["zNewField"] = someValue(1).Draw(t, "value")
	case []any:
		for _, x := range v {
			withNewFields(t, x)
		}
	}
	return v
}

func TestARequestHas1000ItemsAtMost(t *testing.T) {
	for _, c := range messages {
		if c.items == "" {
			continue
		}
		items := func(n int) []byte {
			return []byte(`{"` + c.items + `":[` + strings.TrimSuffix(strings.Repeat(`{},`, n), ",") + `]}`)
		}
		m := c.make()
		if err := m.Decode(items(MaxItems)); err != nil {
			t.Errorf("%s of %d items: %v", c.name, MaxItems, err)
		}
		for name, body := range map[string][]byte{
			"one more":                 items(MaxItems + 1),
			"many more":                items(300_000),
			"as many in a second list": []byte(strings.TrimSuffix(string(items(MaxItems)), "}") + `,"` + c.items + `":[{}]}`),
		} {
			if len(body) > MaxRequest {
				t.Fatalf("%s: the body is refused for its length", name)
			}
			if err := c.make().Decode(body); !errors.Is(err, ErrRequest) {
				t.Errorf("%s with %s: %v", c.name, name, err)
			}
		}
	}
}

func TestARequestHas1MiBAtMost(t *testing.T) {
	pad := func(n int) []byte { return []byte("{}" + strings.Repeat(" ", n-2)) }
	for _, c := range messages {
		if err := c.make().Decode(pad(MaxRequest)); err != nil {
			t.Errorf("%s of %d bytes: %v", c.name, MaxRequest, err)
		}
		if err := c.make().Decode(pad(MaxRequest + 1)); !errors.Is(err, ErrRequest) {
			t.Errorf("%s of %d bytes: %v", c.name, MaxRequest+1, err)
		}
	}
	if _, err := DecodeBeat(pad(MaxRequest)); err != nil {
		t.Errorf("a beat of %d bytes: %v", MaxRequest, err)
	}
	if _, err := DecodeBeat(pad(MaxRequest + 1)); !errors.Is(err, ErrRequest) {
		t.Errorf("a beat of %d bytes: %v", MaxRequest+1, err)
	}
}

func TestWhatIsNoMessageIsRefused(t *testing.T) {
	general := []string{
		``, ` `, `null`, `true`, `1`, `"x"`, `[]`, `{`, `}`, `{]`, `{}{}`, `{}x`, `{"x"}`, `{"x":}`, `{"x":1,}`, `{,}`, `{"x":tru}`, `{"x":"`, `{"x":01}`, "{\"x\":\"\x00\"}",
		`{"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, `{"x":` + strings.Repeat("[", 500_000), strings.Repeat(`{"x":`, 100_000),
		"{\"x\":\"\xff\"}", `{"x":"\ud800"}`, `{"x":"\u12"}`, "\ufeff{}", "hello",
	}
	special := map[string][]string{
		"Offer": {`{"shard":-1}`, `{"shard":4294967296}`, `{"shard":"0"}`, `{"instance":1}`, `{"instance":null}`, `{"attempt":1.5}`, `{"attempt":"1"}`, `{"offer":9223372036854775808}`, `{"task":{}}`, `{"executor":[]}`},
		"Claims": {`{"claims":null}`, `{"claims":{}}`, `{"claims":[1]}`, `{"claims":[null]}`, `{"claims":[[]]}`, `{"claims":[{}`, `{"claims":[{},]}`, `{"claims":[{}{}]}`, `{"claims":[{"attempt":"1"}]}`,
			`{"worker":1}`, `{"incarnation":1e3}`, `{"beat":true}`, `{"runLease":""}`},
		"ClaimAnswers": {`{"term":""}`, `{"term":"00"}`, `{"term":1}`, `{"answers":[{"run":null}]}`, `{"answers":[{"run":[]}]}`, `{"answers":[{"run":{"token":-1}}]}`, `{"answers":[{"run":{"due":"x"}}]}`,
			`{"answers":[{"run":{"params":}}]}`, `{"answers":[{"run":{"config":{]}}]}`, `{"answers":[{"run":{}]}`},
		"Reports":        {`{"reports":[{"permanent":1}]}`, `{"reports":[{"permanent":"true"}]}`, `{"reports":[{"result":}]}`, `{"reports":[{"result":nul}]}`, `{"reports":[{"retryAfter":"1s"}]}`, `{"reports":[{"nonce":1}]}`},
		"ReportAnswers":  {`{"term":"zz"}`, `{"answers":[{"outcome":1}]}`},
		"Commands":       {`{"actor":1}`, `{"commands":[{"verb":1}]}`, `{"commands":[{"definition":}]}`, `{"commands":[{"params":+1}]}`, `{"commands":[{"key":null}]}`},
		"CommandAnswers": {`{"answers":[{"position":"1"}]}`, `{"answers":[{"position":"0.1"}]}`, `{"answers":[{"position":""}]}`, `{"answers":[{"unchanged":0}]}`, `{"error":{}}`},
	}
	for _, c := range messages {
		for _, body := range append(general, special[c.name]...) {
			if err := c.make().Decode([]byte(body)); !errors.Is(err, ErrRequest) {
				t.Errorf("%s of %.60q: %v", c.name, body, err)
			}
		}
		if len(special[c.name]) == 0 {
			t.Errorf("%s has no table of its own", c.name)
		}
	}
}

// TestWhatGoesIntoTheLogComesInOneLine: a worker or caller may write its JSON
// over many lines; a line of the log is one line.
func TestWhatGoesIntoTheLogComesInOneLine(t *testing.T) {
	many, one := "{\n  \"text\": \"a \\n b\",\r\n  \"list\": [\n1\n]\n}", `{"text":"a \n b","list":[1]}`
	var reports Reports
	if err := reports.Decode([]byte("{\n\"reports\":[{\"outcome\":\"succeeded\",\"result\":" + many + "\n}]}")); err != nil || reports.Reports[0].Result != one {
		t.Errorf("%+v, %v", reports.Reports, err)
	}
	var commands Commands
	if err := commands.Decode([]byte("{\n\"commands\":[{\"verb\":\"trigger\",\"params\":" + many + "}]}")); err != nil || commands.Commands[0].Params != one {
		t.Errorf("%+v, %v", commands.Commands, err)
	}
	for _, e := range []Event{
		{Kind: KindSucceeded, Instance: "i", Attempt: 1, Result: reports.Reports[0].Result},
		{Kind: KindFired, Task: "t", Instance: "t-1-s", Due: 1, Version: 1, Params: commands.Commands[0].Params},
	} {
		if err := e.Check(); err != nil {
			t.Error(err)
		}
		d := new(Decoded)
		if err := d.Decode(frameOf(t, "", e)); err != nil || d.Events[0] != e {
			t.Errorf("%+v, %v", d.Events, err)
		}
	}
}

// TestJSONFromOutsideFitsTheLog: whatever of a report or command was read can
// be written. Its size is another matter.
func TestJSONFromOutsideFitsTheLog(t *testing.T) {
	for _, text := range []string{
		`null`, `""`, `0`, `-0.0e-0`, `"\u0000"`, `"\ud83d\udca5"`, "\"\u2028\"", `{"":{}}`, ` [ ] `, "[\n]", strings.Repeat("[", MaxNesting) + strings.Repeat("]", MaxNesting), `{"a":1,"a":2}`, `12345678901234567890123456789`,
	} {
		var m Reports
		if err := m.Decode([]byte(`{"reports":[{"result":` + text + `}]}`)); err != nil {
			t.Errorf("%.40q: %v", text, err)
			continue
		}
		if err := CheckJSON(m.Reports[0].Result); err != nil {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestBeatsReadBackEqual(t *testing.T) {
	full := Beat{
		Worker: "w1", Incarnation: 1799999000123456, Number: 7, RunLease: 15000, Slots: map[Group]int64{"default": 4, "slow": 1}, Executors: []string{"func", "shell"},
		Attempts: []BeatAttempt{{Instance: "i", Attempt: 1, Offer: 2, Nonce: "x"}, {Instance: "日报/α 💥.x", Attempt: math.MaxInt64}},
	}
	for _, beat := range []Beat{full, {}} {
		b, err := json.Marshal(&beat)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeBeat(b)
		if err != nil || !reflect.DeepEqual(*back, beat) {
			t.Errorf("%s\nreads as %+v, %v", b, back, err)
		}
		b = []byte(strings.Replace(string(b), "{", `{"aNewField":{"x":[1]},`, 1))
		if back, err := DecodeBeat(b); err != nil || !reflect.DeepEqual(*back, beat) {
			t.Errorf("%s\nreads as %+v, %v", b, back, err)
		}
	}
	answer := BeatAnswer{Term: Term{1, 15: 2}, Number: 7, Stop: []StopRun{{Instance: "i", Attempt: 1, Offer: 2, Reason: StopCancel}}, Error: "late"}
	b, err := json.Marshal(&answer)
	var back BeatAnswer
	if err != nil || json.Unmarshal(b, &back) != nil || !reflect.DeepEqual(back, answer) {
		t.Errorf("%s reads as %+v", b, back)
	}
}

func TestWhatIsNoBeatIsRefused(t *testing.T) {
	for _, body := range []string{
		``, `[]`, `1`, `{`, `{}{}`, `{"worker":1}`, `{"number":"1"}`, `{"number":1.5}`, `{"slots":[]}`, `{"slots":{"a":"1"}}`, `{"attempts":{}}`, `{"attempts":[1]}`, `{"executors":"func"}`,
		strings.Repeat("[", 500_000),
	} {
		if b, err := DecodeBeat([]byte(body)); !errors.Is(err, ErrRequest) || b != nil {
			t.Errorf("%.40q: %+v, %v", body, b, err)
		}
	}
}

// FuzzMessages: nothing panics, and what reads can be written and reads again as
// the same.
func FuzzMessages(f *testing.F) {
	for i := range messages {
		f.Add(uint8(i), []byte(`{}`))
		f.Add(uint8(i), []byte(`{"term":"`+strings.Repeat("0a", 16)+`","answers":[{"instance":"i","run":{"due":1,"params":{"a":[1]}}}],"claims":[{"nonce":"n"}],"reports":[{"result":{},"permanent":true}],"commands":[{"definition":{}}],"x":{"y":[null]}}`))
	}
	f.Add(uint8(6), []byte(`{"answers":[{"position":"1042.3","unchanged":true}]}`))
	f.Add(uint8(0), []byte(`{"shard":4294967295,"instance":"\ud83d\udca5"}`))
	f.Add(uint8(200), []byte(`{"worker":"w","slots":{"a":1}}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		if int(which) >= len(messages) {
			if _, err := DecodeBeat(body); err != nil && !errors.Is(err, ErrRequest) {
				t.Fatal(err)
			}
			return
		}
		c := messages[which]
		m, back := c.make(), c.make()
		if err := m.Decode(body); err != nil {
			if !errors.Is(err, ErrRequest) {
				t.Fatalf("an error of no kind: %v", err)
			}
			return
		}
		text := m.Encode(nil)
		if len(text) > MaxRequest {
			return
		}
		if err := back.Decode(text); err != nil || !reflect.DeepEqual(back, m) {
			t.Fatalf("%s\nreads as\n%+v\nand written again as\n%+v, %v", fmt.Sprintf("%q", body), m, back, err)
		}
	})
}
