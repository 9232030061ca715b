package projector

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ax-scheduler/ax/events"
)

// A dump is the canonical form of views: every row in the order of the keys, as
//
//	row   = len(key) key len(value) value     lengths as varints
//	dump  = row* 0
//
// Equal states have equal dumps, on every machine and however the log was cut
// into batches. Its SHA-256 is the digest in a checkpoint, and a snapshot is a
// dump. What a node keeps for itself (keys from '~' on) is not in it.

// Digest is what a dump of views holds, in short.
type Digest struct {
	Cursor uint64      `json:"cursor"` // sequence of the last message folded
	Hash   events.Hash `json:"hash"`   // chain there
	Digest events.Hash `json:"digest"` // SHA-256 of the dump
	Rows   int64       `json:"rows"`
	Bytes  int64       `json:"bytes"`
}

// localRows is where rows begin that are no part of the fold.
var localRows = []byte("~")

// Dump writes the dump to w, which may be nil, and returns its digest.
func (s *Snapshot) Dump(w io.Writer) (Digest, error) {
	meta, err := s.Meta()
	if err != nil {
		return Digest{}, err
	}
	d := Digest{Cursor: meta.Cursor, Hash: meta.Hash}
	sum := sha256.New()
	out := io.Writer(sum)
	if w != nil {
		out = io.MultiWriter(sum, w)
	}
	buf := bufio.NewWriterSize(out, 64<<10)
	var head []byte
	err = scanRows(s.r, nil, localRows, func(key, value []byte) error {
		head = binary.AppendUvarint(head[:0], uint64(len(key)))
		head = append(head, key...)
		head = binary.AppendUvarint(head, uint64(len(value)))
		if _, err := buf.Write(head); err != nil {
			return err
		}
		_, err := buf.Write(value)
		d.Rows++
		d.Bytes += int64(len(head) + len(value))
		return err
	})
	if err == nil {
		err = buf.WriteByte(0)
	}
	if err == nil {
		err = buf.Flush()
	}
	if err != nil {
		return Digest{}, fmt.Errorf("dump of views: %w", err)
	}
	d.Bytes++
	sum.Sum(d.Digest[:0])
	return d, nil
}

// maxDumpField bounds a key or value of a dump.
const maxDumpField = 8 << 20

// ReadDump calls f for each row of a dump and returns its digest. Cursor and
// Hash are left out.
func ReadDump(r io.Reader, f func(key, value []byte) error) (Digest, error) {
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(r, sum), 64<<10)
	var d Digest
	var key, value []byte
	field := func(buf []byte) ([]byte, error) {
		n, err := binary.ReadUvarint(in)
		if err != nil {
			return nil, err
		}
		if n > maxDumpField {
			return nil, fmt.Errorf("a field of %d bytes, at most %d", n, maxDumpField)
		}
		buf = append(buf[:0], make([]byte, n)...)
		_, err = io.ReadFull(in, buf)
		return buf, err
	}
	for {
		var err error
		if key, err = field(key); err == nil && len(key) == 0 {
			break
		}
		if err == nil {
			value, err = field(value)
		}
		if err == nil {
			err = f(key, value)
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return Digest{}, fmt.Errorf("dump of views, row %d: %w", d.Rows+1, err)
		}
		d.Rows++
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return Digest{}, errors.New("dump of views: bytes after its end")
	}
	sum.Sum(d.Digest[:0])
	return d, nil
}

// Restore fills empty views from a dump whose digest has to be want. On an
// error the views are empty again.
func (v *Views) Restore(r io.Reader, want events.Hash) error {
	b := v.db.NewBatch()
	defer func() { _ = b.Close() }()
	commit := func() error {
		if err := b.Commit(pebble.NoSync); err != nil {
			return err
		}
		b = v.db.NewBatch()
		return nil
	}
	var meta []byte
	d, err := ReadDump(r, func(key, value []byte) error {
		if key[0] == keyMeta {
			// The cursor comes last: a restore that stops half-way left none.
			meta = bytes.Clone(value)
			return nil
		}
		if err := b.Set(key, value, nil); err != nil {
			return err
		}
		if b.Len() > 4<<20 {
			return commit()
		}
		return nil
	})
	if err == nil && d.Digest != want {
		err = fmt.Errorf("snapshot has digest %s, the log says %s: it was changed or is of another log", d.Digest, want)
	}
	if err == nil {
		err = b.Set([]byte{keyMeta}, meta, nil)
	}
	if err == nil {
		err = commit()
	}
	if err == nil {
		err = v.db.Flush()
	}
	if err != nil {
		return errors.Join(fmt.Errorf("restore of views: %w", err), v.Empty())
	}
	return nil
}

// Difference is one row that two dumps do not agree on.
type Difference struct {
	Key  string // what row it is, readable
	A, B string // the values, readable; "" where the row is missing
}

// Compare compares the rows of a dump with a snapshot, key by key, and gives at
// most limit differences.
func (s *Snapshot) Compare(dump io.Reader, limit int) (diffs []Difference, rows int64, err error) {
	it, err := s.r.NewIter(&pebble.IterOptions{UpperBound: localRows})
	if err != nil {
		return nil, 0, fmt.Errorf("views: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	note := func(key, a, b []byte) {
		if len(diffs) < limit {
			diffs = append(diffs, Difference{describeKey(key), describeValue(key, a), describeValue(key, b)})
		}
	}
	valid := it.First()
	_, err = ReadDump(dump, func(key, value []byte) error {
		for valid && bytes.Compare(it.Key(), key) < 0 {
			note(it.Key(), it.Value(), nil)
			valid = it.Next()
		}
		switch {
		case !valid || !bytes.Equal(it.Key(), key):
			note(key, nil, value)
			return nil
		case !bytes.Equal(it.Value(), value):
			note(key, it.Value(), value)
		}
		rows++
		valid = it.Next()
		return nil
	})
	for valid {
		note(it.Key(), it.Value(), nil)
		valid = it.Next()
	}
	return diffs, rows, err
}

// MetaRow reads the meta row of a dump; ok says that the row is that one.
func MetaRow(key, value []byte) (m Meta, ok bool, err error) {
	if len(key) != 1 || key[0] != keyMeta {
		return Meta{}, false, nil
	}
	return m, true, m.decode(value)
}
