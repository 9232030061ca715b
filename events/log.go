package events

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Log is a shard's log: an append-only sequence of messages, from 1 without a
// gap, with the two conditions that AX's safety stands on. Both
// implementations, in memory and over JetStream, pass one suite (logtest).
//
//	L1  A frame that Append stored has no led after its fence before it, and
//	    stands right behind the sequence it expected.
//	L2  What Read gives is what is stored, in order, each message once, without
//	    a gap; where it can't, it ends with an error.
//	L3  An error other than the typed refusals means: unknown. The frame may be
//	    stored, may be stored later, or never; it can not be stored once a led
//	    with a higher sequence is.
type Log interface {
	// Append stores a frame if the last led is still the one at fence and the
	// log's last message the one at after. It returns the frame's sequence.
	// ErrFenced: a newer led is there. ErrMoved: another message came in
	// between. ErrBusy: not decided, the same frame may be sent again.
	Append(ctx context.Context, m *Message, fence, after uint64) (uint64, error)

	// AppendLed stores the beginning of a leadership if the last led is still
	// the one at last. ErrFenced, ErrBusy as above.
	AppendLed(ctx context.Context, m *Message, last uint64) (uint64, error)

	// LastLed reads the last led from the one that orders appends, never from a
	// follower.
	LastLed(ctx context.Context) (*Message, error)

	// Get reads one message, from the one that orders appends. ErrNotFound: it
	// was never stored, or has been removed by age or size.
	Get(ctx context.Context, seq uint64) (*Message, error)

	// Read starts reading at a sequence. *GapError: the log does not have it
	// any more.
	Read(ctx context.Context, from uint64) (Reader, error)

	// Info says how the log stands.
	Info(ctx context.Context) (Info, error)
}

// Reader gives the messages of a log in order, waiting for those to come.
type Reader interface {
	// C gives the messages. It is closed when the reader ends; Err says why.
	C() <-chan *Message
	// Err is the reason of the end; nil after Close.
	Err() error
	// Close ends the reader and frees what it holds.
	Close()
}

// Info is how a log stands.
type Info struct {
	First, Last uint64    // sequences; First is Last+1 where the log is empty
	FirstTime   time.Time // server's time of the first message
	Created     time.Time // when the stream was made: another value means another log
	Server      string    // server and its start, where known: another value may mean a restored log
	Missing     uint64    // messages that are not there between First and Last: the store is damaged
	Bytes       uint64    // stored
	MaxBytes    uint64    // bound; 0: none
	MaxAge      time.Duration
	Now         time.Time // the server's clock
}

// Errors of a log.
var (
	ErrFenced   = errors.New("fenced: a newer leadership is in the log")
	ErrMoved    = errors.New("another message is in the log at the expected place")
	ErrBusy     = errors.New("busy: the append was not decided")
	ErrNotFound = errors.New("not in the log")
)

// GapError says that a log does not hold what a reader needs next.
type GapError struct {
	Want, Have uint64 // the sequence wanted, and the one there is
}

// Error implements error.
func (e *GapError) Error() string {
	return fmt.Sprintf("the log has no sequence %d any more, its next one is %d: start from a snapshot, or restore the log", e.Want, e.Have)
}

// HoleError says that a log has lost messages in its middle. It can not be folded.
type HoleError struct {
	Missing, First, Last uint64
}

// Error implements error.
func (e *HoleError) Error() string {
	return fmt.Sprintf("the log has lost %d of its messages between sequence %d and %d: its file is damaged, and nothing can be folded beyond; restore the data folder from a backup (nothing was changed in this one)",
		e.Missing, e.First, e.Last)
}

// LedBody is the body of a led event.
type LedBody struct {
	Server    ServerName `json:"server"`
	Version   string     `json:"version"`             // of the binary
	Zones     string     `json:"zones"`               // version of the zone data
	PublicKey string     `json:"publicKey,omitempty"` // Ed25519, base64url; signs checkpoints
	// Boot is the boot of the machine that holds the log itself; empty where the
	// log is elsewhere, and @reboot triggers never fire.
	Boot string `json:"boot,omitempty"`
}

// CheckpointBody is the body of a checkpoint event. One without a digest only
// removes old rows.
type CheckpointBody struct {
	Position uint64 `json:"position,omitempty"` // sequence up to and with which it holds
	Hash     Hash   `json:"hash,omitzero"`      // chain at that sequence
	Digest   Hash   `json:"digest,omitzero"`    // SHA-256 of the views' canonical dump there
	Rows     int64  `json:"rows,omitempty"`     // rows of that dump
	// Trim is how many rows of finished instances leave the views with it.
	Trim      int64  `json:"trim,omitempty"`
	Signature string `json:"signature,omitempty"`
}

// Text is what a checkpoint's signature signs.
func (b *CheckpointBody) Text() string {
	return fmt.Sprintf("ax checkpoint\nposition %d\nhash %s\ndigest %s\nrows %d\n", b.Position, b.Hash, b.Digest, b.Rows)
}
