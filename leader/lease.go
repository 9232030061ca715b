package leader

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
)

// Times of a lease.
const (
	// LeaseTTL is how long a lease outlives its last renewal.
	LeaseTTL = 3 * time.Second
	// leaseRenewal is how often the holder renews it.
	leaseRenewal = time.Second
	// progressLimit is how long a holder may go without a completed round of its
	// loop before it gives the lease up.
	progressLimit = 10 * time.Second
)

// lease is a key in a bucket that one process at a time holds. It decides only
// who tries to lead: safety does not rest on it, a holder that was paused and
// believes it still has it is refused by the log.
type lease struct {
	js      jetstream.JetStream
	kv      jetstream.KeyValue
	key     string
	subject string // of the key's messages
	id      string // this holder, unique
	body    []byte

	revision uint64               // of the renewal that is valid
	sent     time.Time            // when it was sent
	idle     func() time.Duration // since the last completed round of the loop
}

// leaseBody is what a lease's key holds, for people.
type leaseBody struct {
	Server events.ServerName `json:"server"`
	ID     string            `json:"id"`
}

// newLease opens the bucket of leases and makes it if need be.
func newLease(ctx context.Context, js jetstream.JetStream, addr events.Address, shard events.Shard, server events.ServerName, idle func() time.Duration) (*lease, error) {
	kv, err := js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket:         addr.LeaseBucket(),
		Description:    "AX leases: who tries to lead a shard",
		History:        1,
		Storage:        jetstream.MemoryStorage,
		LimitMarkerTTL: time.Second, // lets keys have a TTL of their own
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", addr.LeaseBucket(), err)
	}
	l := &lease{
		js: js, kv: kv, key: addr.LeaseKey(shard), subject: "$KV." + addr.LeaseBucket() + "." + addr.LeaseKey(shard),
		id: rand.Text(), idle: idle,
	}
	l.body, err = json.Marshal(leaseBody{server, l.id})
	return l, err
}

// errTaken is returned where another process holds the lease.
var errTaken = errors.New("another server holds the lease")

// acquire takes the lease if nobody holds it.
func (l *lease) acquire(ctx context.Context) error {
	sent := time.Now()
	rev, err := l.kv.Create(ctx, l.key, l.body, jetstream.KeyTTL(LeaseTTL))
	switch {
	case errors.Is(err, jetstream.ErrKeyExists):
		return errTaken
	case err != nil:
		return fmt.Errorf("lease: %w", err)
	}
	l.revision, l.sent = rev, sent
	return nil
}

// renew prolongs the lease. It publishes by itself: kv.Update would drop the
// key's TTL and make a lease that never ends.
func (l *lease) renew(ctx context.Context) error {
	sent := time.Now()
	msg := &nats.Msg{Subject: l.subject, Data: l.body, Header: nats.Header{
		jetstream.MsgTTLHeader:              {LeaseTTL.String()},
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(l.revision, 10)},
	}}
	ack, err := l.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	l.revision, l.sent = ack.Sequence, sent
	return nil
}

// release gives the lease up, so that another process can take it at once.
func (l *lease) release(ctx context.Context) {
	if l.kv.Delete(ctx, l.key, jetstream.LastRevision(l.revision)) == nil {
		return
	}
	// A renewal whose answer was not waited for has moved it. If this fails, too,
	// it ends by itself.
	if rev, ours := l.current(ctx); ours {
		_ = l.kv.Delete(ctx, l.key, jetstream.LastRevision(rev))
	}
}

// current gives the lease's revision, and whether this process holds it.
func (l *lease) current(ctx context.Context) (rev uint64, ours bool) {
	e, err := l.kv.Get(ctx, l.key)
	var body leaseBody
	if err != nil || json.Unmarshal(e.Value(), &body) != nil {
		return 0, false
	}
	return e.Revision(), body.ID == l.id
}

// hold keeps the lease until it is lost, ctx ends, or the loop makes no progress
// any more; it returns the reason.
func (l *lease) hold(ctx context.Context) error {
	tick := time.NewTicker(leaseRenewal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if idle := l.idle(); idle > progressLimit {
			return fmt.Errorf("lease given up: no completed round for %s", idle.Round(time.Second))
		}
		left := LeaseTTL - time.Since(l.sent)
		if left <= 0 {
			return fmt.Errorf("lease ended: not renewed for %s", time.Since(l.sent).Round(time.Millisecond))
		}
		rctx, cancel := context.WithTimeout(ctx, min(left, leaseRenewal))
		err := l.renew(rctx)
		cancel()
		var refused *jetstream.APIError
		if errors.As(err, &refused) {
			// Refused: somebody else's, or a renewal of ours whose answer was lost.
			rev, ours := l.current(ctx)
			if !ours {
				return errTaken
			}
			l.revision = rev
		}
	}
}

// run takes the lease whenever it is free and holds it while it can, until ctx
// ends. It says on held when it has it, and when it has it no more; it waits
// until that was heard, so that two terms of one process never overlap.
func (l *lease) run(ctx context.Context, held chan<- bool) error {
	w, err := l.kv.Watch(ctx, l.key, jetstream.UpdatesOnly())
	if err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	defer func() { _ = w.Stop() }()
	say := func(has bool) error {
		select {
		case held <- has:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for {
		err := l.acquire(ctx)
		switch {
		case err == nil:
			if err := say(true); err != nil {
				return err
			}
			herr := l.hold(ctx)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := say(false); err != nil {
				return err
			}
			if !errors.Is(herr, errTaken) {
				l.release(ctx)
			}
		case !errors.Is(err, errTaken):
			return err
		}
		if err := l.waitFree(ctx, w); err != nil {
			return err
		}
	}
}

// waitFree returns when the lease may be free: it was given up or has ended, or
// a while has passed.
func (l *lease) waitFree(ctx context.Context, w jetstream.KeyWatcher) error {
	timer := time.NewTimer(leaseRenewal)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return fmt.Errorf("lease: %w", nats.ErrConnectionClosed)
			}
			if e != nil && e.Operation() != jetstream.KeyValuePut {
				return nil
			}
		}
	}
}
