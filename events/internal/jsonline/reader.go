// Package jsonline reads and writes the flat JSON objects that AX puts on its
// hot paths: event lines of a frame, claims, reports and beats.
//
// It exists because these paths carry hundreds of thousands of small objects a
// second with a fixed set of fields, and because a frame is decoded in full
// before any of it has effect. It is not a general JSON library: an object is
// read field by field into typed variables, nested values are kept raw.
//
//	J1  What Writer functions append, Reader reads back equal.
//	J2  Reader accepts only what encoding/json accepts as valid JSON, and
//	    nothing makes it panic or read past its input.
//	J3  Strings and raw values share memory with the input where they have no
//	    escapes; whoever keeps one longer than the input clones it.
package jsonline

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of a raw value.
const MaxDepth = 128

// ErrSyntax is wrapped by every error that says the input is not well-formed.
var ErrSyntax = errors.New("malformed JSON")

// Reader walks one JSON text. Errors stick: after the first, every method
// returns zero values and More returns false.
type Reader struct {
	s     string
	i     int
	err   error
	first bool
}

// Reset makes the reader ready for the text s.
func (r *Reader) Reset(s string) { *r = Reader{s: s} }

// Err returns the first error met.
func (r *Reader) Err() error { return r.err }

// Fail records an error of the caller's own (an unknown field, a value out of
// range) as if the reader had met it.
func (r *Reader) Fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

func (r *Reader) syntax(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s at byte %d", ErrSyntax, what, r.i)
	}
}

func (r *Reader) space() {
	for r.i < len(r.s) {
		switch r.s[r.i] {
		case ' ', '\t', '\r', '\n':
			r.i++
		default:
			return
		}
	}
}

func (r *Reader) expect(c byte) bool {
	if r.err != nil {
		return false
	}
	r.space()
	if r.i >= len(r.s) || r.s[r.i] != c {
		r.syntax("expected " + strconv.QuoteRune(rune(c)))
		return false
	}
	r.i++
	return true
}

// Object enters an object. Loop with Field until it returns false.
func (r *Reader) Object() { r.first = r.expect('{') }

// Array enters an array. Loop with Element until it returns false.
func (r *Reader) Array() { r.first = r.expect('[') }

// Field returns the next field's name, or false at the object's end. The
// caller reads exactly one value after each name.
func (r *Reader) Field() (string, bool) {
	if !r.next('}') {
		return "", false
	}
	name := r.String()
	if !r.expect(':') {
		return "", false
	}
	return name, true
}

// Element reports whether another element follows in the array; the caller
// reads exactly one value after each true.
func (r *Reader) Element() bool { return r.next(']') }

func (r *Reader) next(end byte) bool {
	if r.err != nil {
		return false
	}
	r.space()
	if r.i >= len(r.s) {
		r.syntax("unexpected end")
		return false
	}
	first := r.first
	r.first = false
	switch c := r.s[r.i]; {
	case c == end:
		r.i++
		return false
	case first:
		return true
	case c == ',':
		r.i++
		r.space()
		if r.i < len(r.s) && r.s[r.i] == end {
			r.syntax("value expected after ','")
			return false
		}
		return true
	default:
		r.syntax("expected ',' or end")
		return false
	}
}

// End checks that nothing but white space follows.
func (r *Reader) End() {
	if r.err != nil {
		return
	}
	r.space()
	if r.i != len(r.s) {
		r.syntax("text after the value")
	}
}

// String reads a string. Invalid UTF-8 and lone surrogates are errors, so that
// what was read can be written again byte for byte.
func (r *Reader) String() string {
	if !r.expect('"') {
		return ""
	}
	start := r.i
	ascii := true
	for r.i < len(r.s) {
		c := r.s[r.i]
		switch {
		case c == '"':
			out := r.s[start:r.i]
			r.i++
			if !ascii && !utf8.ValidString(out) {
				r.syntax("invalid UTF-8")
				return ""
			}
			return out
		case c == '\\':
			return r.escaped(start)
		case c < 0x20:
			r.syntax("control character in string")
			return ""
		case c >= utf8.RuneSelf:
			ascii = false
		}
		r.i++
	}
	r.syntax("unterminated string")
	return ""
}

// escaped reads the rest of a string whose first escape is at r.i.
func (r *Reader) escaped(start int) string {
	buf := make([]byte, 0, len(r.s[start:r.i])+32)
	buf = append(buf, r.s[start:r.i]...)
	for r.i < len(r.s) {
		c := r.s[r.i]
		switch {
		case c == '"':
			r.i++
			if !utf8.Valid(buf) {
				r.syntax("invalid UTF-8")
				return ""
			}
			return string(buf)
		case c < 0x20:
			r.syntax("control character in string")
			return ""
		case c != '\\':
			buf = append(buf, c)
			r.i++
		default:
			r.i++
			if r.i >= len(r.s) {
				r.syntax("unterminated escape")
				return ""
			}
			e := r.s[r.i]
			r.i++
			switch e {
			case '"', '\\', '/':
				buf = append(buf, e)
			case 'b':
				buf = append(buf, '\b')
			case 'f':
				buf = append(buf, '\f')
			case 'n':
				buf = append(buf, '\n')
			case 'r':
				buf = append(buf, '\r')
			case 't':
				buf = append(buf, '\t')
			case 'u':
				u, ok := r.hex4()
				if !ok {
					return ""
				}
				if utf16.IsSurrogate(u) {
					if r.i+1 >= len(r.s) || r.s[r.i] != '\\' || r.s[r.i+1] != 'u' {
						r.syntax("lone surrogate")
						return ""
					}
					r.i += 2
					low, ok := r.hex4()
					if !ok {
						return ""
					}
					if u = utf16.DecodeRune(u, low); u == utf8.RuneError {
						r.syntax("lone surrogate")
						return ""
					}
				}
				buf = utf8.AppendRune(buf, u)
			default:
				r.syntax("unknown escape")
				return ""
			}
		}
	}
	r.syntax("unterminated string")
	return ""
}

func (r *Reader) hex4() (rune, bool) {
	if r.i+4 > len(r.s) {
		r.syntax("short \\u escape")
		return 0, false
	}
	var u rune
	for k := range 4 {
		c := r.s[r.i+k]
		switch {
		case c >= '0' && c <= '9':
			u = u<<4 | rune(c-'0')
		case c >= 'a' && c <= 'f':
			u = u<<4 | rune(c-'a'+10)
		case c >= 'A' && c <= 'F':
			u = u<<4 | rune(c-'A'+10)
		default:
			r.syntax("bad \\u escape")
			return 0, false
		}
	}
	r.i += 4
	return u, true
}

// Int reads a whole number that fits into an int64. Fractions and exponents
// are errors: AX has no floating point in its records.
func (r *Reader) Int() int64 {
	if r.err != nil {
		return 0
	}
	r.space()
	start := r.i
	neg := false
	if r.i < len(r.s) && r.s[r.i] == '-' {
		neg = true
		r.i++
	}
	digits := r.i
	var n uint64
	for r.i < len(r.s) && r.s[r.i] >= '0' && r.s[r.i] <= '9' {
		d := uint64(r.s[r.i] - '0')
		if n > (1<<63-d)/10 {
			r.syntax("number out of range")
			return 0
		}
		n = n*10 + d
		r.i++
	}
	switch {
	case r.i == digits:
		r.i = start
		r.syntax("expected a whole number")
		return 0
	case r.s[digits] == '0' && r.i > digits+1:
		r.syntax("leading zero")
		return 0
	case r.i < len(r.s) && (r.s[r.i] == '.' || r.s[r.i] == 'e' || r.s[r.i] == 'E'):
		r.syntax("expected a whole number")
		return 0
	case neg:
		return -int64(n)
	case n == 1<<63:
		r.syntax("number out of range")
		return 0
	}
	return int64(n)
}

// Uint reads a whole number that is not negative.
func (r *Reader) Uint() uint64 {
	n := r.Int()
	if n < 0 {
		r.syntax("expected a number of at least 0")
		return 0
	}
	return uint64(n)
}

// Bool reads true or false.
func (r *Reader) Bool() bool {
	switch {
	case r.err != nil:
		return false
	case r.literal("true"):
		return true
	case r.literal("false"):
		return false
	}
	r.syntax("expected true or false")
	return false
}

func (r *Reader) literal(word string) bool {
	r.space()
	if len(r.s)-r.i >= len(word) && r.s[r.i:r.i+len(word)] == word {
		r.i += len(word)
		return true
	}
	return false
}

// Raw reads one value of any type, checked for syntax, and returns its text. It may
// nest MaxDepth deep.
func (r *Reader) Raw() string { return r.RawWithin(MaxDepth) }

// RawWithin is Raw for a value that may nest depth deep, at most MaxDepth.
func (r *Reader) RawWithin(depth int) string {
	if r.err != nil {
		return ""
	}
	r.space()
	start := r.i
	r.skip(MaxDepth - depth)
	if r.err != nil {
		return ""
	}
	return r.s[start:r.i]
}

func (r *Reader) skip(depth int) {
	if depth > MaxDepth {
		r.syntax("nested too deep")
		return
	}
	r.space()
	if r.i >= len(r.s) {
		r.syntax("unexpected end")
		return
	}
	switch c := r.s[r.i]; {
	case c == '{':
		r.Object()
		for {
			if _, ok := r.Field(); !ok {
				return
			}
			r.skip(depth + 1)
		}
	case c == '[':
		r.Array()
		for r.Element() {
			r.skip(depth + 1)
		}
	case c == '"':
		r.skipString()
	case c == 't' && r.literal("true"), c == 'f' && r.literal("false"), c == 'n' && r.literal("null"):
	default:
		r.skipNumber()
	}
}

// skipString checks a string without building it.
func (r *Reader) skipString() {
	start := r.i
	r.i++
	for r.i < len(r.s) {
		switch c := r.s[r.i]; {
		case c == '"':
			r.i++
			return
		case c == '\\':
			r.i = start
			_ = r.String()
			return
		case c < 0x20 || c >= utf8.RuneSelf:
			r.i = start
			_ = r.String()
			return
		}
		r.i++
	}
	r.syntax("unterminated string")
}

func (r *Reader) skipNumber() {
	digits := func() bool {
		start := r.i
		for r.i < len(r.s) && r.s[r.i] >= '0' && r.s[r.i] <= '9' {
			r.i++
		}
		return r.i > start
	}
	if r.s[r.i] == '-' {
		r.i++
	}
	start := r.i
	if !digits() {
		r.syntax("unexpected character")
		return
	}
	if r.s[start] == '0' && r.i > start+1 {
		r.syntax("leading zero")
		return
	}
	if r.i < len(r.s) && r.s[r.i] == '.' {
		r.i++
		if !digits() {
			r.syntax("digit expected after '.'")
			return
		}
	}
	if r.i < len(r.s) && (r.s[r.i] == 'e' || r.s[r.i] == 'E') {
		r.i++
		if r.i < len(r.s) && (r.s[r.i] == '+' || r.s[r.i] == '-') {
			r.i++
		}
		if !digits() {
			r.syntax("digit expected in exponent")
		}
	}
}
