package events

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Hash is a SHA-256: the chain over a log, or the digest of views.
type Hash [sha256.Size]byte

// IsZero reports whether h is no hash: that before the first message.
func (h Hash) IsZero() bool { return h == Hash{} }

// String gives 64 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads what String gives.
func ParseHash(s string) (h Hash, err error) {
	if len(s) != 2*len(h) {
		return Hash{}, fmt.Errorf("hash %.80q: want 64 hexadecimal digits", s)
	}
	if _, err := hex.Decode(h[:], []byte(s)); err != nil {
		return Hash{}, fmt.Errorf("hash %q: %w", s, err)
	}
	return h, nil
}

// MarshalText makes hashes strings in JSON.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(b []byte) (err error) {
	*h, err = ParseHash(string(b))
	return err
}

// Chain gives the hash of everything up to and with m:
//
//	H(n) = SHA-256( H(n-1) | sequence | kind | version | term | time | zstd | body )
//
// with numbers as 8 bytes big-endian, kind and zstd as one byte, the term as 16
// and the body as stored. Every message of the stream is in it, those that the
// fold passes included, so a changed, missing, added or swapped message shows
// at exactly that message.
func Chain(prev Hash, m *Message) Hash {
	var head [sha256.Size + 8 + 1 + 8 + 16 + 8 + 1]byte
	b := append(head[:0], prev[:]...)
	b = binary.BigEndian.AppendUint64(b, m.Seq)
	b = append(b, byte(m.Kind))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Version))
	b = append(b, m.Term[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Time))
	zstd := byte(0)
	if m.Compressed {
		zstd = 1
	}
	b = append(b, zstd)
	h := sha256.New()
	h.Write(b)
	h.Write(m.Body)
	var out Hash
	h.Sum(out[:0])
	return out
}
