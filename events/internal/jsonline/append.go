package jsonline

import (
	"strconv"
	"unicode/utf8"
)

const hex = "0123456789abcdef"

// safe holds the ASCII bytes that stand in a JSON string as they are.
var safe = func() (t [utf8.RuneSelf]bool) {
	for c := byte(0x20); c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// AppendString appends s as a JSON string. Bytes that are not UTF-8 become
// U+FFFD, as in encoding/json, so that the result is always valid.
func AppendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if safe[c] {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			switch c {
			case '"', '\\':
				b = append(b, '\\', c)
			case '\n':
				b = append(b, '\\', 'n')
			case '\r':
				b = append(b, '\\', 'r')
			case '\t':
				b = append(b, '\\', 't')
			default:
				b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(b, s[start:i]...)
			b = append(b, "\ufffd"...)
			i++
			start = i
			continue
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// Object appends fields of one JSON object to a buffer. Fields with a zero
// value are left out: absent and zero mean the same in AX's records.
type Object struct {
	b     []byte
	empty bool
}

// Begin opens an object at the end of b.
func Begin(b []byte) Object { return Object{b: append(b, '{'), empty: true} }

// End closes the object and returns the buffer.
func (o *Object) End() []byte { return append(o.b, '}') }

func (o *Object) name(name string) {
	if o.empty {
		o.empty = false
		o.b = append(o.b, '"')
	} else {
		o.b = append(o.b, ',', '"')
	}
	o.b = append(o.b, name...)
	o.b = append(o.b, '"', ':')
}

// String appends a string field unless it is empty. The name must need no
// escape.
func (o *Object) String(name, value string) {
	if value != "" {
		o.name(name)
		o.b = AppendString(o.b, value)
	}
}

// Int appends a number unless it is 0.
func (o *Object) Int(name string, value int64) {
	if value != 0 {
		o.name(name)
		o.b = strconv.AppendInt(o.b, value, 10)
	}
}

// Uint appends a number unless it is 0.
func (o *Object) Uint(name string, value uint64) {
	if value != 0 {
		o.name(name)
		o.b = strconv.AppendUint(o.b, value, 10)
	}
}

// Bool appends true unless value is false.
func (o *Object) Bool(name string, value bool) {
	if value {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

// Raw appends a field whose value is JSON text already, unless it is empty.
func (o *Object) Raw(name, value string) {
	if value != "" {
		o.name(name)
		o.b = append(o.b, value...)
	}
}

// BeginObject opens an object as a field; fields written until EndObject are its.
func (o *Object) BeginObject(name string) {
	o.name(name)
	o.b = append(o.b, '{')
	o.empty = true
}

// EndObject closes what BeginObject opened.
func (o *Object) EndObject() {
	o.b = append(o.b, '}')
	o.empty = false
}

// BeginArray opens an array of objects as a field.
func (o *Object) BeginArray(name string) {
	o.name(name)
	o.b = append(o.b, '[')
}

// BeginItem opens the next object of the array; fields written until EndItem are
// its. Arrays of items do not nest.
func (o *Object) BeginItem() {
	if o.b[len(o.b)-1] != '[' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '{')
	o.empty = true
}

// EndItem closes what BeginItem opened.
func (o *Object) EndItem() { o.b = append(o.b, '}') }

// EndArray closes what BeginArray opened.
func (o *Object) EndArray() {
	o.b = append(o.b, ']')
	o.empty = false
}
