package leader

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
)

// subscribe takes requests from now on.
func (t *term) subscribe(ctx context.Context) ([]*nats.Subscription, error) {
	s := t.s
	var subs []*nats.Subscription
	for verb, handle := range s.cfg.Handlers {
		subject := s.cfg.Address.RPC(s.cfg.Shard, verb, "")
		for _, subject := range []string{subject, subject + ".*"} {
			sub, err := t.x.nc.Subscribe(subject, func(m *nats.Msg) {
				_, group, err := s.cfg.Address.RPCParts(m.Subject)
				var req Request
				if err == nil {
					req, err = handle(group, m.Data)
				}
				if err != nil {
					s.Count.Bad.Add(1)
					answer := events.CommandAnswers{Term: t.id, Error: err.Error()}
					_ = m.Respond(answer.Encode(nil))
					return
				}
				a := ask{req: req}
				if m.Reply != "" {
					a.reply = func(b []byte) { _ = m.Respond(b) }
				}
				select {
				case t.requests <- a:
				case <-ctx.Done():
				}
			})
			if err != nil {
				return subs, fmt.Errorf("subscribe %s: %w", subject, err)
			}
			subs = append(subs, sub)
		}
	}
	return subs, t.x.nc.FlushTimeout(5 * time.Second)
}

// createWork makes the stream of offers if it is not there. It is in memory:
// what it loses is offered again.
func createWork(ctx context.Context, js jetstream.JetStream, addr events.Address, replicas int) error {
	_, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name:        addr.WorkStream(),
		Description: "AX offers: rebuilt from the log",
		Subjects:    []string{addr.WorkAll()},
		Storage:     jetstream.MemoryStorage,
		Discard:     jetstream.DiscardOld,
		MaxAge:      10 * time.Minute,
		MaxBytes:    64 << 20,
		Replicas:    max(replicas, 1),
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", addr.WorkStream(), err)
	}
	return nil
}
