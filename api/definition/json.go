package definition

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// readJSON reads a text that is JSON throughout: one object, or several one
// after another. It reports false for any other text, which then is YAML's.
//
// JSON is YAML only nearly: YAML knows no surrogate pairs, bounds the length of
// keys, and forbids characters that JSON does not.
func readJSON(s string, b *budget, each func(*node, *findings) bool) (bool, *Problem) {
	if t := strings.TrimLeft(s, " \t\r\n"); t == "" || t[0] != '{' || !isJSON(s) {
		return false, nil
	}
	r := jsonReader{dec: json.NewDecoder(strings.NewReader(s)), cursor: cursor{text: s}, budget: b}
	r.dec.UseNumber()
	for {
		r.found = new(findings)
		v, err := r.value(nil)
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil && b.passed():
			return true, problemAt(place{}, "%v", err)
		case err != nil:
			return true, problemAt(r.last, "%v", err)
		case !each(v, r.found):
			return true, nil
		}
	}
}

// isJSON reads ahead through all of the text.
func isJSON(s string) bool {
	dec := json.NewDecoder(strings.NewReader(s))
	for {
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

type jsonReader struct {
	dec    *json.Decoder
	cursor cursor
	budget *budget
	found  *findings
	last   place
}

// token gives the next token, its place, and what stands there.
func (r *jsonReader) token() (json.Token, place, string, error) {
	before := int(r.dec.InputOffset())
	t, err := r.dec.Token()
	if err != nil {
		return nil, r.last, "", err
	}
	raw := r.cursor.text[before:r.dec.InputOffset()]
	trimmed := strings.TrimLeft(raw, " \t\r\n,:")
	r.last = r.cursor.at(before + len(raw) - len(trimmed))
	return t, r.last, trimmed, nil
}

func (r *jsonReader) value(at *steps) (*node, error) {
	t, where, raw, err := r.token()
	if err != nil {
		return nil, err
	}
	if at != nil && at.depth > MaxDepth {
		return nil, fmt.Errorf("lists and objects are nested more than %d deep", MaxDepth)
	}
	if err := r.budget.spend(len(raw)); err != nil {
		return nil, err
	}
	v := &node{at: where}
	switch t := t.(type) {
	case nil:
	case bool:
		v.kind, v.text = boolean, raw
	case json.Number:
		v.kind, v.text = number, t.String()
		if reason := checkNumber(v.text); reason != "" {
			r.found.value(where, at.path(), "%s", reason)
			v.kind, v.text = null, ""
		}
	case string:
		v.kind, v.text = text, t
		if brokenPair(t, raw) {
			r.found.value(where, at.path(), "has half of a surrogate pair in it; write both halves, or the character itself")
		}
	case json.Delim:
		if t == '[' {
			return r.array(v, at)
		}
		return r.object(v, at)
	}
	return v, nil
}

func (r *jsonReader) array(v *node, at *steps) (*node, error) {
	v.kind = array
	for r.dec.More() {
		w, err := r.value(at.down("", len(v.items)))
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, w)
	}
	_, _, _, err := r.token()
	return v, err
}

func (r *jsonReader) object(v *node, at *steps) (*node, error) {
	v.kind = object
	first := map[string]place{}
	for r.dec.More() {
		t, keyAt, raw, err := r.token()
		if err != nil {
			return nil, err
		}
		if err := r.budget.spend(len(raw)); err != nil {
			return nil, err
		}
		name, _ := t.(string)
		if brokenPair(name, raw) {
			r.found.note(keyAt, at.path(), "a key has half of a surrogate pair in it; write both halves, or the character itself")
		}
		w, err := r.value(at.down(name, -1))
		if err != nil {
			return nil, err
		}
		if was, again := first[name]; again {
			r.found.note(keyAt, childPath(at.path(), name), "appears twice, first in line %d; keep one of them", was.line)
			continue
		}
		first[name] = keyAt
		v.fields = append(v.fields, field{name, keyAt, w})
	}
	_, _, _, err := r.token()
	return v, err
}

// brokenPair says whether the JSON reader put a replacement character where the
// text had something else, which it does silently.
func brokenPair(s, raw string) bool {
	const replacement = "\ufffd"
	return strings.Contains(s, replacement) && !strings.Contains(raw, replacement) &&
		!bytes.Contains(bytes.ToLower([]byte(raw)), []byte(`\ufffd`))
}
