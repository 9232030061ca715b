package projector

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ax-scheduler/ax/events"
)

// ErrCorrupt is wrapped where a row cannot be read.
var ErrCorrupt = errors.New("corrupt row in the views")

// rowWriter writes the fields of a row in their order: numbers as varints,
// strings with their length. A row has no field names; its order is fixed by
// the code that writes it, and formatVersion tells layouts apart.
type rowWriter struct{ b []byte }

func (w *rowWriter) uint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *rowWriter) int(v int64)   { w.b = binary.AppendVarint(w.b, v) }
func (w *rowWriter) string(s string) {
	w.uint(uint64(len(s)))
	w.b = append(w.b, s...)
}
func (w *rowWriter) position(p events.Position) {
	w.uint(p.Seq)
	w.uint(uint64(p.Index))
}

// flags packs booleans into one number.
func (w *rowWriter) flags(flags ...bool) {
	var v uint64
	for i, f := range flags {
		if f {
			v |= 1 << i
		}
	}
	w.uint(v)
}

// rowReader reads what rowWriter wrote. Errors stick.
type rowReader struct {
	b   []byte
	err error
}

func (r *rowReader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *rowReader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *rowReader) string() string {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.fail()
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *rowReader) position() events.Position {
	return events.Position{Seq: r.uint(), Index: uint32(r.uint())}
}

func (r *rowReader) flags(flags ...*bool) {
	v := r.uint()
	for i, f := range flags {
		*f = v&(1<<i) != 0
	}
}

func (r *rowReader) fail() {
	if r.err == nil {
		r.err = ErrCorrupt
	}
	r.b = nil
}

// end reports the first error, or that bytes are left.
func (r *rowReader) end(what string) error {
	if r.err == nil && len(r.b) != 0 {
		r.err = ErrCorrupt
	}
	if r.err != nil {
		return fmt.Errorf("%s: %w; delete the views, they are folded again from the log", what, r.err)
	}
	return nil
}

// bytes fills b.
func (r *rowReader) bytes(b []byte) {
	if len(r.b) < len(b) {
		r.fail()
		return
	}
	copy(b, r.b)
	r.b = r.b[len(b):]
}
