package leader

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
)

// Bounds of the inbox.
const (
	inboxAge      = 7 * 24 * time.Hour
	inboxMaxBytes = 1 << 30
	// inboxAhead is how many messages are taken before they are decided.
	inboxAhead = 256
)

// HeaderKey is the header of an inbox message that carries the caller's
// idempotency key.
const HeaderKey = "Ax-Key"

// inboxMessage is one message of the inbox.
type inboxMessage struct {
	seq     uint64
	subject string
	sent    time.Time
	key     string
	body    []byte
}

// createInbox makes the stream of the inbox if it is not there.
func createInbox(ctx context.Context, js jetstream.JetStream, addr events.Address, replicas int) error {
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:        addr.InboxStream(),
		Description: "AX inbox: commands by publish",
		Subjects:    []string{addr.InboxAll()},
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardOld,
		MaxAge:      inboxAge,
		MaxBytes:    inboxMaxBytes,
		MaxMsgSize:  events.MaxRequest,
		Replicas:    max(replicas, 1),
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", addr.InboxStream(), err)
	}
	return nil
}

// inbox reads the messages that the fold has not seen yet.
type inbox struct {
	c       chan *inboxMessage
	stop    chan struct{}
	once    sync.Once
	consume jetstream.ConsumeContext
	err     error
}

// openInbox reads from the message after the one that the fold saw last.
func openInbox(ctx context.Context, js jetstream.JetStream, addr events.Address, last uint64) (*inbox, error) {
	cons, err := js.CreateConsumer(ctx, addr.InboxStream(), jetstream.ConsumerConfig{
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       last + 1,
		AckPolicy:         jetstream.AckNonePolicy,
		MemoryStorage:     true,
		Replicas:          1,
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	in := &inbox{c: make(chan *inboxMessage, inboxAhead), stop: make(chan struct{})}
	in.consume, err = cons.Consume(func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			in.end(err)
			return
		}
		msg := &inboxMessage{
			seq: meta.Sequence.Stream, subject: m.Subject(), sent: meta.Timestamp,
			key: m.Headers().Get(HeaderKey), body: m.Data(),
		}
		select {
		case in.c <- msg:
		case <-in.stop:
		}
	}, jetstream.PullMaxMessages(inboxAhead), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) { in.end(err) }))
	if err != nil {
		return nil, fmt.Errorf("inbox: %w", err)
	}
	return in, nil
}

func (in *inbox) end(err error) {
	in.once.Do(func() {
		in.err = err
		close(in.stop)
	})
}

func (in *inbox) close() {
	in.end(nil)
	in.consume.Stop()
}

// compact removes the white space of JSON that is known to be valid.
func compact(b []byte) string {
	var out bytes.Buffer
	if json.Compact(&out, b) != nil {
		return ""
	}
	return out.String()
}
