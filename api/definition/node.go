package definition

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// kind is the JSON type of a node.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	array
	object
)

// place is where something stands in a file, from 1.
type place struct{ line, column int }

// node is a value of a document and its place. It keeps the order of fields and
// the digits of numbers, which Go's maps and floats would lose (D5).
type node struct {
	kind   kind
	text   string // of a text; of a number its digits; of a boolean true or false
	plain  bool   // a text that stands in YAML without quotes
	at     place
	fields []field // of an object
	items  []*node // of an array

	index map[string]int // of many fields, made when it is first needed
}

// field is one field of an object; its place is that of the key.
type field struct {
	name  string
	at    place
	value *node
}

// manyFields is from where on an index is cheaper than a look at all fields.
const manyFields = 16

// field gives the field of a name, or nil. It may be asked on any node.
func (n *node) field(name string) *field {
	if n == nil {
		return nil
	}
	if len(n.fields) < manyFields {
		for i := range n.fields {
			if n.fields[i].name == name {
				return &n.fields[i]
			}
		}
		return nil
	}
	if n.index == nil {
		n.index = make(map[string]int, len(n.fields))
		for i := range n.fields {
			n.index[n.fields[i].name] = i
		}
	}
	if i, ok := n.index[name]; ok {
		return &n.fields[i]
	}
	return nil
}

// get gives the value of a field, or nil. It may be asked on any node.
func (n *node) get(name string) *node {
	if f := n.field(name); f != nil {
		return f.value
	}
	return nil
}

// find gives the place of what a path names, or of the innermost part of the
// path that is there.
func (n *node) find(path string) place {
	for path != "" {
		name, i, rest := cutPath(path)
		next := n.get(name)
		if i >= 0 {
			next = nil
			if n.kind == array && i < len(n.items) {
				next = n.items[i]
			}
		}
		if next == nil {
			break
		}
		n, path = next, rest
	}
	return n.at
}

// any gives the value as the schema's validator takes it.
func (n *node) any() any {
	switch n.kind {
	case boolean:
		return n.text == "true"
	case number:
		return json.Number(n.text)
	case text:
		return n.text
	case array:
		list := make([]any, len(n.items))
		for i, v := range n.items {
			list[i] = v.any()
		}
		return list
	case object:
		m := make(map[string]any, len(n.fields))
		for _, f := range n.fields {
			m[f.name] = f.value.any()
		}
		return m
	}
	return nil
}

// json gives the value as JSON in one line.
func (n *node) json() []byte {
	var b bytes.Buffer
	n.write(&b, json.NewEncoder(&b))
	return b.Bytes()
}

func (n *node) write(b *bytes.Buffer, enc *json.Encoder) {
	switch n.kind {
	case null:
		b.WriteString("null")
	case boolean, number:
		b.WriteString(n.text)
	case text:
		writeText(b, enc, n.text)
	case array:
		b.WriteByte('[')
		for i, v := range n.items {
			if i > 0 {
				b.WriteByte(',')
			}
			v.write(b, enc)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, f := range n.fields {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, enc, f.name)
			b.WriteByte(':')
			f.value.write(b, enc)
		}
		b.WriteByte('}')
	}
}

// writeText leaves <, > and & as they are: a definition is read by people.
func writeText(b *bytes.Buffer, enc *json.Encoder, s string) {
	enc.SetEscapeHTML(false)
	if enc.Encode(s) == nil { // a text always encodes
		b.Truncate(b.Len() - 1) // the line break that Encode adds
	}
}

// describe says what stands there, as in "is the number 30".
func (n *node) describe() string {
	switch n.kind {
	case null:
		return "empty"
	case boolean:
		return n.text
	case number:
		return "the number " + cut(n.text, 60)
	case text:
		return "the text " + quote(n.text)
	case array:
		return "a list of " + strconv.Itoa(len(n.items))
	}
	return "an object"
}
