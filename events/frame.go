package events

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/ax-scheduler/ax/events/internal/jsonline"
)

// FrameVersion is the version of the frame format and of the set of kinds and
// fields. A node stops before a frame of a newer version; see Kind for what
// raises it.
const FrameVersion = 1

// Bounds of a frame.
const (
	MaxFrameEvents = 2000
	MaxFrameBytes  = 512 << 10 // of the lines, before compression
	compressAbove  = 4 << 10   // bytes of lines
)

// Errors of the codec.
var (
	// ErrMalformed is wrapped by every error that says bytes are no frame.
	ErrMalformed = errors.New("malformed frame")
	// ErrTooLarge is wrapped where something is over a bound.
	ErrTooLarge = errors.New("too large")
	// ErrFrameFull is returned by FrameBuilder.Add when the event belongs into
	// the next frame.
	ErrFrameFull = errors.New("frame is full")
	// ErrNewerVersion is returned for a frame that this binary is too old for.
	ErrNewerVersion = errors.New("frame of a newer version")
)

// MessageKind tells the two kinds of message in a shard's stream apart. The
// number is part of the hash chain and never changes.
type MessageKind uint8

const (
	// MessageLog is a frame of events.
	MessageLog MessageKind = 1
	// MessageLed is the beginning of a leadership.
	MessageLed MessageKind = 2
)

// Message is one message of a shard's stream: a frame of events or a led.
type Message struct {
	// Seq is the message's sequence in the stream, from 1; 0 before it is stored.
	Seq uint64
	// Kind is where it stands: the log subject or the led subject.
	Kind MessageKind
	// Version is the frame's version; 0 if the message carries none, as a
	// foreign message does.
	Version int
	// Term is the leadership that wrote it.
	Term Term
	// Time is log time in Unix nanoseconds, never less than the message before.
	Time int64
	// Prev is the hash of everything before; zero in a led, whose writer cannot
	// know what still comes in before it.
	Prev Hash
	// Compressed says that Body is zstd.
	Compressed bool
	// Body is the frame as stored.
	Body []byte
	// Stored is the stream server's own time of the message, Unix nanoseconds;
	// 0 if unknown. It is no part of the frame.
	Stored int64
}

// FrameBuilder collects the events of one frame.
type FrameBuilder struct {
	time  int64 // of the frame, Unix nanoseconds
	last  int64 // dt of the last event, microseconds
	count int
	buf   []byte
}

// Begin starts a frame at log time now (Unix nanoseconds) whose events are the
// actor's where they do not say another.
func (b *FrameBuilder) Begin(now int64, actor string) {
	b.time, b.last, b.count = now, 0, 0
	o := jsonline.Begin(b.buf[:0])
	o.String("by", actor)
	b.buf = append(o.End(), '\n')
}

// Add appends an event decided at log time now, which must not be less than
// that of the event before. It returns the event's index in the frame and its
// time as the log will have it (microseconds, in Unix nanoseconds).
func (b *FrameBuilder) Add(e *Event, now int64) (index uint32, at int64, err error) {
	if b.count >= MaxFrameEvents {
		return 0, 0, ErrFrameFull
	}
	if err := e.Check(); err != nil {
		return 0, 0, err
	}
	dt := max((now-b.time)/1000, b.last)
	if dt > maxFrameSpan { // the clock was set, or the machine slept
		if b.count > 0 {
			return 0, 0, ErrFrameFull
		}
		b.time, dt = now, 0
	}
	say := int64(-1)
	if dt != b.last {
		say = dt
	}
	size := len(b.buf)
	b.buf = append(e.AppendJSON(b.buf, say), '\n')
	if len(b.buf) > MaxFrameBytes {
		over := len(b.buf)
		b.buf = b.buf[:size]
		if b.count == 0 {
			return 0, 0, fmt.Errorf("%w: %s takes %d bytes, a frame at most %d", ErrTooLarge, e.Kind, over, MaxFrameBytes)
		}
		return 0, 0, ErrFrameFull
	}
	b.last = dt
	b.count++
	return uint32(b.count - 1), b.time + dt*1000, nil
}

// Len is the number of events collected.
func (b *FrameBuilder) Len() int { return b.count }

// Full reports whether the frame is so full that a usual event may not fit.
func (b *FrameBuilder) Full() bool {
	return b.count >= MaxFrameEvents || len(b.buf) > MaxFrameBytes*3/4
}

// Time is the log time of the frame; End that of its last event.
func (b *FrameBuilder) Time() int64 { return b.time }

// End is the log time of the frame's last event.
func (b *FrameBuilder) End() int64 { return b.time + b.last*1000 }

// Seal finishes the frame into a message that is ready to be appended but for
// its Prev. The message's body belongs to the caller; the builder can Begin
// again.
func (b *FrameBuilder) Seal(term Term) *Message {
	m := &Message{Kind: MessageLog, Version: FrameVersion, Term: term, Time: b.time}
	if len(b.buf) > compressAbove {
		m.Body = encoder().EncodeAll(b.buf, make([]byte, 0, len(b.buf)/3))
		m.Compressed = true
	} else {
		m.Body = append([]byte(nil), b.buf...)
	}
	return m
}

// encoder and decoder are shared: EncodeAll and DecodeAll keep no state between
// calls, and with a concurrency of 1 they start no goroutine.
var encoder = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true))
	if err != nil {
		panic(err) // wrong options: a mistake in this file
	}
	return e
})

var decoder = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(MaxFrameBytes))
	if err != nil {
		panic(err) // wrong options: a mistake in this file
	}
	return d
})

// Decoded is the content of a message.
type Decoded struct {
	// Actor is who decided where an event does not say another.
	Actor string
	// Events in their order; their index is that of their position.
	Events []Event
	// Times holds each event's log time, Unix nanoseconds.
	Times []int64

	text []byte
}

// Decode reads a message in full, or says why it is no frame: ErrNewerVersion,
// or ErrMalformed; then d is empty. It reuses d's memory; the events of an
// earlier call are gone.
func (d *Decoded) Decode(m *Message) error {
	d.reset()
	err := d.decode(m)
	if err != nil {
		d.reset()
	}
	return err
}

func (d *Decoded) reset() {
	d.Actor = ""
	clear(d.Events)
	d.Events, d.Times = d.Events[:0], d.Times[:0]
}

func (d *Decoded) decode(m *Message) error {
	if m.Version > FrameVersion {
		return fmt.Errorf("%w: sequence %d has version %d, this binary knows up to %d; run a newer AX", ErrNewerVersion, m.Seq, m.Version, FrameVersion)
	}
	if m.Version < 1 || m.Term.IsZero() || m.Time <= 0 {
		return fmt.Errorf("%w: sequence %d lacks the header of a frame", ErrMalformed, m.Seq)
	}
	body := m.Body
	if m.Compressed {
		text, err := decoder().DecodeAll(body, d.text[:0])
		if err != nil {
			return fmt.Errorf("%w: sequence %d: %w", ErrMalformed, m.Seq, err)
		}
		d.text, body = text, text
	}
	if len(body) > MaxFrameBytes {
		return fmt.Errorf("%w: sequence %d has %d bytes, at most %d", ErrMalformed, m.Seq, len(body), MaxFrameBytes)
	}
	lines := string(body)
	head, lines, ok := strings.Cut(lines, "\n")
	if !ok {
		return fmt.Errorf("%w: sequence %d has no first line", ErrMalformed, m.Seq)
	}
	if err := d.decodeHead(head); err != nil {
		return fmt.Errorf("%w: sequence %d, first line: %w", ErrMalformed, m.Seq, err)
	}
	now := m.Time
	for lines != "" {
		line, rest, ok := strings.Cut(lines, "\n")
		if !ok {
			return fmt.Errorf("%w: sequence %d: last line has no end", ErrMalformed, m.Seq)
		}
		lines = rest
		if len(d.Events) == MaxFrameEvents {
			return fmt.Errorf("%w: sequence %d has more than %d events", ErrMalformed, m.Seq, MaxFrameEvents)
		}
		d.Events = append(d.Events, Event{})
		dt, err := d.Events[len(d.Events)-1].decode(line)
		if err != nil {
			return fmt.Errorf("sequence %d, event %d: %w", m.Seq, len(d.Events)-1, err)
		}
		if dt > 0 {
			if dt > maxFrameSpan || m.Time+dt*1000 <= now {
				return fmt.Errorf("%w: sequence %d, event %d: time does not rise", ErrMalformed, m.Seq, len(d.Events)-1)
			}
			now = m.Time + dt*1000
		}
		d.Times = append(d.Times, now)
	}
	if len(d.Events) == 0 {
		return fmt.Errorf("%w: sequence %d has no event", ErrMalformed, m.Seq)
	}
	return nil
}

// maxFrameSpan bounds dt, in microseconds: no frame collects for an hour.
const maxFrameSpan = 3600 * 1000 * 1000

func (d *Decoded) decodeHead(line string) error {
	var r jsonline.Reader
	r.Reset(line)
	r.Object()
	for {
		name, ok := r.Field()
		if !ok {
			break
		}
		if name != "by" || d.Actor != "" {
			r.Fail(fmt.Errorf("field %.40q: the first line has by, once, and nothing else", name))
			break
		}
		if d.Actor = r.String(); d.Actor == "" {
			r.Fail(errors.New("by empty: zero is absent"))
		}
	}
	r.End()
	return r.Err()
}
