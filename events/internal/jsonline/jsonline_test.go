package jsonline

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestReaderReadsWhatObjectWrites(t *testing.T) {
	o := Begin(nil)
	o.String("s", "日报 \"quoted\" \\ \n\x01 tab\t")
	o.Int("n", -42)
	o.Uint("u", 7)
	o.Bool("b", true)
	o.Raw("raw", `{"a":[1,2.5e3,{"x":null}]}`)
	o.String("absent", "")
	text := string(o.End())
	if !json.Valid([]byte(text)) {
		t.Fatalf("not valid JSON: %s", text)
	}
	var r Reader
	r.Reset(text)
	r.Object()
	got := map[string]any{}
	for {
		name, ok := r.Field()
		if !ok {
			break
		}
		switch name {
		case "s":
			got[name] = r.String()
		case "n":
			got[name] = r.Int()
		case "u":
			got[name] = r.Uint()
		case "b":
			got[name] = r.Bool()
		case "raw":
			got[name] = r.Raw()
		default:
			t.Fatalf("field %q", name)
		}
	}
	r.End()
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	want := map[string]any{"s": "日报 \"quoted\" \\ \n\x01 tab\t", "n": int64(-42), "u": uint64(7), "b": true, "raw": `{"a":[1,2.5e3,{"x":null}]}`}
	if len(got) != len(want) {
		t.Fatalf("got %v", got)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s: got %v, want %v", k, got[k], v)
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	for _, text := range []string{
		``, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{"a":01}`, `{"a":1.5}`, `{"a":1e3}`, `{"a":9223372036854775808}`,
		`{"a":-}`, `{"a":1}x`, `{,"a":1}`, `{"a":1 "b":2}`, `{'a':1}`, `[1]`, `{"a":"1"}`,
	} {
		var r Reader
		r.Reset(text)
		r.Object()
		for {
			if _, ok := r.Field(); !ok {
				break
			}
			r.Int()
		}
		r.End()
		if r.Err() == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}

func TestRawDepthIsBounded(t *testing.T) {
	var r Reader
	r.Reset(strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2))
	r.Raw()
	if r.Err() == nil {
		t.Fatal("deeper than MaxDepth was accepted")
	}
}

// FuzzRaw holds J2 against encoding/json.
func FuzzRaw(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+7,"x\u00e9\ud83d\ude00"],"b":{}}`, `"\ud800"`, "\"\xff\"", `[[[]]]`, `-`, `1e`, `nul`, `{"a":1,}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var r Reader
		r.Reset(s)
		raw := r.Raw()
		r.End()
		if r.Err() != nil {
			return
		}
		if !json.Valid([]byte(s)) {
			t.Fatalf("accepted invalid JSON %q", s)
		}
		if strings.TrimSpace(s) != raw && json.Valid([]byte(raw)) == false {
			t.Fatalf("raw of %q is %q", s, raw)
		}
	})
}

// FuzzString holds J1 for strings.
func FuzzString(f *testing.F) {
	f.Add("plain")
	f.Add("日报/α 💥.x\x00\xff\"\\")
	f.Fuzz(func(t *testing.T, s string) {
		text := AppendString(nil, s)
		var r Reader
		r.Reset(string(text))
		got := r.String()
		r.End()
		if r.Err() != nil {
			t.Fatalf("%q: %v", text, r.Err())
		}
		if utf8.ValidString(s) && got != s {
			t.Fatalf("got %q, want %q", got, s)
		}
		var std string
		if err := json.Unmarshal(text, &std); err != nil || std != got {
			t.Fatalf("encoding/json reads %q as %q, %v", text, std, err)
		}
	})
}
