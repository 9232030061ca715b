package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Headers of a message in a shard's stream.
const (
	headerVersion  = "Ax-Version"
	headerTerm     = "Ax-Term"
	headerTime     = "Ax-Time"
	headerPrev     = "Ax-Prev"
	headerEncoding = "Content-Encoding"
)

// Codes of the server's refusals (nats-server 2.15, errors.json).
const (
	codeWrongLastSequence         = 10071
	codeWrongLastSequenceInFlight = 10164
	codeDuplicateInFlight         = 10158
)

// appendTimeout is how long an append waits for its answer. Silence is an
// unknown outcome and costs the leader its term, so it is longer than any
// usual stall of a disk.
const appendTimeout = 5 * time.Second

// StreamOptions bound a shard's stream.
type StreamOptions struct {
	// MaxBytes bounds the stored bytes; the oldest messages leave first.
	MaxBytes int64
	// MaxAge bounds the age of messages.
	MaxAge time.Duration
	// Replicas of the stream; 0 is 1.
	Replicas int
}

// JetStreamLog is a Log in a JetStream stream. It lives on one connection and
// dies with it: open a new one on a new connection.
type JetStreamLog struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	log    string
	led    string
}

// CreateJetStreamLog makes the shard's stream if it is not there, and gives the
// log in it. An existing stream's bounds are changed to those of opt where they
// differ.
func CreateJetStreamLog(ctx context.Context, nc *nats.Conn, addr Address, shard Shard, opt StreamOptions) (*JetStreamLog, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("log of shard %d: %w", shard, err)
	}
	cfg := jetstream.StreamConfig{
		Name:        addr.LogStream(shard),
		Description: "AX log: written by the shard's leader only",
		Subjects:    []string{addr.Log(shard), addr.Led(shard)},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardOld,
		MaxBytes:    opt.MaxBytes,
		MaxAge:      opt.MaxAge,
		Replicas:    max(opt.Replicas, 1),
		DenyDelete:  true,
		DenyPurge:   true,
	}
	if _, err := js.CreateOrUpdateStream(ctx, cfg); err != nil {
		return nil, fmt.Errorf("stream %s: %w", cfg.Name, err)
	}
	return OpenJetStreamLog(ctx, nc, addr, shard)
}

// OpenJetStreamLog gives the log in a stream that exists.
func OpenJetStreamLog(ctx context.Context, nc *nats.Conn, addr Address, shard Shard) (*JetStreamLog, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("log of shard %d: %w", shard, err)
	}
	stream, err := js.Stream(ctx, addr.LogStream(shard))
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", addr.LogStream(shard), err)
	}
	return &JetStreamLog{nc: nc, js: js, stream: stream, log: addr.Log(shard), led: addr.Led(shard)}, nil
}

// Append implements Log.
func (l *JetStreamLog) Append(ctx context.Context, m *Message, fence, after uint64) (uint64, error) {
	if fence == 0 {
		return 0, fmt.Errorf("append without a fence: %w", ErrFenced) // 0 would mean "no led", which always holds for a wrong subject
	}
	h := messageHeader(m)
	h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(fence, 10)}
	h[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{l.led}
	h[jetstream.ExpectedLastSeqHeader] = []string{strconv.FormatUint(after, 10)}
	seq, err := l.publish(ctx, &nats.Msg{Subject: l.log, Header: h, Data: m.Body})
	if errors.Is(err, ErrMoved) {
		if last, e := l.LastLed(ctx); e == nil && last.Seq != fence {
			return 0, ErrFenced
		}
	}
	return seq, err
}

// AppendLed implements Log.
func (l *JetStreamLog) AppendLed(ctx context.Context, m *Message, last uint64) (uint64, error) {
	h := messageHeader(m)
	h[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	seq, err := l.publish(ctx, &nats.Msg{Subject: l.led, Header: h, Data: m.Body})
	if errors.Is(err, ErrMoved) {
		return 0, ErrFenced
	}
	return seq, err
}

func (l *JetStreamLog) publish(ctx context.Context, msg *nats.Msg) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	// A bare request instead of jetstream.PublishMsg: that one tries again by
	// itself when nobody answers, and an append must not be sent twice unasked.
	answer, err := l.nc.RequestMsgWithContext(ctx, msg)
	if err != nil {
		return 0, fmt.Errorf("append to %s: outcome unknown: %w", msg.Subject, err)
	}
	var ack struct {
		Sequence uint64              `json:"seq"`
		Error    *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(answer.Data, &ack); err != nil {
		return 0, fmt.Errorf("append to %s: unreadable answer %.100q: %w", msg.Subject, answer.Data, err)
	}
	if ack.Error != nil {
		switch ack.Error.ErrorCode {
		case codeWrongLastSequence:
			return 0, fmt.Errorf("append to %s: %w (%s)", msg.Subject, ErrMoved, ack.Error.Description)
		case codeWrongLastSequenceInFlight, codeDuplicateInFlight:
			return 0, ErrBusy
		}
		return 0, fmt.Errorf("append to %s: %w", msg.Subject, ack.Error)
	}
	if ack.Sequence == 0 {
		return 0, fmt.Errorf("append to %s: answer %.100q has no sequence", msg.Subject, answer.Data)
	}
	return ack.Sequence, nil
}

// LastLed implements Log.
func (l *JetStreamLog) LastLed(ctx context.Context) (*Message, error) {
	// The stream does not allow direct gets, so this is answered by its leader.
	raw, err := l.stream.GetLastMsgForSubject(ctx, l.led)
	return l.fromRaw(raw, err)
}

// Get implements Log.
func (l *JetStreamLog) Get(ctx context.Context, seq uint64) (*Message, error) {
	if seq == 0 {
		return nil, ErrNotFound
	}
	raw, err := l.stream.GetMsg(ctx, seq)
	return l.fromRaw(raw, err)
}

func (l *JetStreamLog) fromRaw(raw *jetstream.RawStreamMsg, err error) (*Message, error) {
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("read of %s: %w", l.log, err)
	}
	return l.message(raw.Subject, raw.Sequence, raw.Time, raw.Header, raw.Data), nil
}

// Info implements Log.
func (l *JetStreamLog) Info(ctx context.Context) (Info, error) {
	si, err := l.stream.Info(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("state of %s: %w", l.log, err)
	}
	info := Info{
		First: si.State.FirstSeq, Last: si.State.LastSeq, FirstTime: si.State.FirstTime, Created: si.Created,
		Server: l.nc.ConnectedServerId(), Bytes: si.State.Bytes, MaxBytes: uint64(max(si.Config.MaxBytes, 0)),
		MaxAge: si.Config.MaxAge, Now: si.TimeStamp,
	}
	if si.State.Msgs == 0 {
		info.First = info.Last + 1
	}
	if whole := info.Last - info.First + 1; si.State.Msgs < whole {
		info.Missing = whole - si.State.Msgs
	}
	return info, nil
}

// Bounds of what a reader holds that was not taken yet.
const (
	readAheadMessages = 500
	readAheadBytes    = 8 << 20
)

// readHeartbeat is how long a reader waits for a sign of life before it ends.
const readHeartbeat = 5 * time.Second

// Read implements Log.
func (l *JetStreamLog) Read(ctx context.Context, from uint64) (Reader, error) {
	from = max(from, 1)
	info, err := l.Info(ctx)
	if err != nil {
		return nil, err
	}
	if from < info.First {
		return nil, &GapError{Want: from, Have: info.First}
	}
	cons, err := l.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       from,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("reader of %s: %w", l.log, err)
	}
	r := &jetStreamReader{log: l, c: make(chan *Message, 64), stop: make(chan struct{})}
	r.next.Store(from)
	r.consume, err = cons.Consume(r.handle,
		jetstream.PullMaxMessagesWithBytesLimit(readAheadMessages, readAheadBytes),
		jetstream.PullHeartbeat(readHeartbeat),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { r.end(fmt.Errorf("reader of %s: %w", l.log, err)) }))
	if err != nil {
		return nil, fmt.Errorf("reader of %s: %w", l.log, err)
	}
	go r.watch(cons.CachedInfo().Name)
	return r, nil
}

// jetStreamReader hands messages on. handle runs on the client's goroutine and
// blocks while the channel is full, which holds back further pulls.
type jetStreamReader struct {
	log     *JetStreamLog
	next    atomic.Uint64
	c       chan *Message
	consume jetstream.ConsumeContext

	stop   chan struct{}
	once   sync.Once
	mu     sync.Mutex // held by handle while it sends, so that c is closed after the last send
	closed bool
	err    error // set before stop is closed
}

func (r *jetStreamReader) handle(msg jetstream.Msg) {
	meta, err := msg.Metadata()
	if err != nil {
		r.end(fmt.Errorf("reader of %s: %w", r.log.log, err))
		return
	}
	next := r.next.Load()
	if meta.Sequence.Stream != next {
		r.end(&GapError{Want: next, Have: meta.Sequence.Stream})
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	select {
	case r.c <- r.log.message(msg.Subject(), next, meta.Timestamp, msg.Headers(), msg.Data()):
		r.next.Add(1)
	case <-r.stop:
	}
}

// missing gives a GapError if the stream has lost a message, though it goes on
// behind it or says so: a consumer waits for ever for the first that is missing at
// its end.
func (l *JetStreamLog) missing(seq uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), readHeartbeat)
	defer cancel()
	info, err := l.Info(ctx)
	if err != nil || info.Last < seq {
		return nil // what is wrong with the connection is noticed elsewhere
	}
	if _, err := l.Get(ctx, seq); errors.Is(err, ErrNotFound) {
		return &GapError{Want: seq, Have: info.Last + 1}
	}
	return nil
}

func (r *jetStreamReader) end(err error) {
	r.once.Do(func() {
		r.err = err
		close(r.stop)
	})
}

// watch ends the reader's parts in the order that is safe: no more pulls, then
// no more sends, then the channel, then the consumer on the server.
func (r *jetStreamReader) watch(consumer string) {
	tick := time.NewTicker(readHeartbeat)
	defer tick.Stop()
	seen := uint64(0)
	for running := true; running; {
		select {
		case <-r.stop:
			running = false
		case <-r.consume.Closed():
			r.end(fmt.Errorf("reader of %s: %w", r.log.log, nats.ErrConnectionClosed))
			running = false
		case <-tick.C:
			next := r.next.Load()
			if next == seen && len(r.c) == 0 {
				if err := r.log.missing(next); err != nil {
					r.end(err)
				}
			}
			seen = next
		}
	}
	r.consume.Stop()
	r.mu.Lock()
	r.closed = true
	close(r.c)
	r.mu.Unlock()
	if !r.log.nc.IsClosed() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = r.log.stream.DeleteConsumer(ctx, consumer) // it goes by itself after InactiveThreshold
	}
}

func (r *jetStreamReader) C() <-chan *Message { return r.c }

func (r *jetStreamReader) Err() error {
	<-r.stop
	return r.err
}

func (r *jetStreamReader) Close() {
	r.end(nil)
	for range r.c { // until watch has closed it
	}
}

func messageHeader(m *Message) nats.Header {
	h := nats.Header{
		headerVersion: {strconv.Itoa(m.Version)},
		headerTerm:    {m.Term.String()},
		headerTime:    {strconv.FormatInt(m.Time, 10)},
	}
	if !m.Prev.IsZero() {
		h[headerPrev] = []string{m.Prev.String()}
	}
	if m.Compressed {
		h[headerEncoding] = []string{"zstd"}
	}
	return h
}

// message makes a Message of what the stream holds. A header that is missing or
// unreadable leaves its field zero: Decode then says that it is no frame.
func (l *JetStreamLog) message(subject string, seq uint64, stored time.Time, h nats.Header, body []byte) *Message {
	m := &Message{Seq: seq, Kind: MessageLog, Stored: stored.UnixNano(), Body: body}
	if subject == l.led {
		m.Kind = MessageLed
	}
	if v, err := strconv.ParseUint(h.Get(headerVersion), 10, 31); err == nil { // the same on every machine
		m.Version = int(v)
	}
	m.Term, _ = ParseTerm(h.Get(headerTerm))
	if t, err := strconv.ParseUint(h.Get(headerTime), 10, 63); err == nil {
		m.Time = int64(t)
	}
	m.Prev, _ = ParseHash(h.Get(headerPrev))
	switch h.Get(headerEncoding) {
	case "":
	case "zstd":
		m.Compressed = true
	default:
		m.Version = 0 // not a frame of ours
	}
	return m
}
