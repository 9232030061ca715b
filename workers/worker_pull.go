package workers

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
)

// pullExpires is how long a pull for offers stays open at the NATS server. It is
// short, because a worker that stands still, or is cut off in silence, swallows
// what is offered for its open pulls: they have to be gone before what it ran is
// declared lost and offered again.
const pullExpires = BeatEvery

// puller pulls offers of one group, as many as there are free slots, no more: an
// offer that waits in a busy worker is one that no idle worker can claim.
//
// It speaks the pull protocol by itself. The client's Consume keeps a buffer of
// a fixed size full, whatever is free.
type puller struct {
	w      *Worker
	group  events.Group
	slots  int
	prefix string // of the subjects on which offers come; a pull's number follows
	next   string // subject of pulls

	mu     sync.Mutex
	number int // of the newest pull
	oldest int // no pull before it is open
	open   map[int]*pull
	wanted int // sum over open
	wake   chan struct{}
	there  bool // the group's consumer is there, as far as is known
}

type pull struct {
	left int
	ends time.Time
}

func newPuller(w *Worker, g events.Group, slots int) *puller {
	return &puller{w: w, group: g, slots: slots, open: map[int]*pull{}, wake: make(chan struct{}, 1)}
}

// run pulls until ctx ends.
func (p *puller) run(ctx context.Context) {
	p.prefix = nats.NewInbox() + "."
	sub, err := p.w.nc.Subscribe(p.prefix+"*", p.take)
	if err != nil {
		p.w.log.Error("no offers can be taken", "group", p.group, "error", err)
		return
	}
	defer func() { _ = sub.Unsubscribe() }()
	stream, consumer := p.w.cfg.Address.WorkStream(), string(p.group)
	p.next = fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", stream, consumer)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if !p.ready() {
			// Before it is asked for: what is lost from now on is found out from pulls.
			p.setReady(true)
			if err := p.ensureConsumer(ctx); err != nil {
				p.w.log.Debug("the work stream is not there yet", "group", p.group, "error", err)
				p.setReady(false)
			}
		}
		if p.ready() && !p.fill() {
			p.setReady(false)
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-tick.C:
			p.expire()
		}
	}
}

func (p *puller) ready() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.there
}

func (p *puller) setReady(there bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there = there
}

// ensureConsumer makes the group's consumer if it is not there. All workers of a
// group share it.
func (p *puller) ensureConsumer(ctx context.Context) error {
	js, err := jetstream.New(p.w.nc)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = js.CreateOrUpdateConsumer(ctx, p.w.cfg.Address.WorkStream(), jetstream.ConsumerConfig{
		Durable:       string(p.group),
		Description:   "AX offers of a group; shared by its workers",
		AckPolicy:     jetstream.AckNonePolicy,
		FilterSubject: p.w.cfg.Address.WorkOfGroup(p.group),
		MaxWaiting:    10_000,
	})
	return err
}

// fill opens a pull for the slots that are free and not pulled for. To keep
// pulls few it waits until they are a quarter of all, unless nothing is open.
func (p *puller) fill() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	need := p.slots - p.w.busy(p.group) - p.wanted
	p.number++
	if need <= 0 || need < p.slots/4 && p.wanted > 0 {
		return true
	}
	p.number++
	body, err := json.Marshal(map[string]int64{"batch": int64(need), "expires": int64(pullExpires)})
	if err != nil {
		return false
	}
	if err := p.w.nc.PublishRequest(p.next, p.prefix+strconv.Itoa(p.number), body); err != nil {
		return false
	}
	p.open[p.number] = &pull{left: need, ends: time.Now().Add(pullExpires + 2*time.Second)}
	p.wanted += need
	return true
}

// take takes an offer, or the news that a pull has ended.
func (p *puller) take(m *nats.Msg) {
	if status := m.Header.Get("Status"); status != "" {
		switch status {
		case "100": // idle heartbeat
			return
		}
		number, _ := strconv.Atoi(strings.TrimPrefix(m.Subject, p.prefix))
		p.mu.Lock()
		p.close(number)
		p.mu.Unlock()
		if status == "503" || strings.HasPrefix(status, "409") {
			// Nobody there, or the consumer is gone: stream and consumer are in memory
			// and go with the NATS server. Not in a circle.
			p.setReady(false)
			time.Sleep(50 * time.Millisecond)
		}
		p.wakeUp()
		return
	}
	p.count()
	var f events.Offer
	if err := f.Decode(m.Data); err != nil {
		p.w.log.Warn("an unreadable offer is passed over", "group", p.group, "error", err)
		p.wakeUp()
		return
	}
	p.w.claim(p.group, &f)
}

// count takes one offer off the oldest pull: an offer comes under the subject of
// the stream and does not tell which pull it is for, and the server serves pulls
// in their order.
func (p *puller) count() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.oldest <= p.number; p.oldest++ {
		if o := p.open[p.oldest]; o != nil {
			p.wanted--
			if o.left--; o.left <= 0 {
				delete(p.open, p.oldest)
			}
			return
		}
	}
}

func (p *puller) close(number int) {
	if o := p.open[number]; o != nil {
		p.wanted -= o.left
		delete(p.open, number)
	}
}

// expire forgets pulls whose end was not told: the connection or the server went
// away.
func (p *puller) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for number, o := range p.open {
		if now.After(o.ends) {
			p.close(number)
		}
	}
}

func (p *puller) wakeUp() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// wakePullers lets every puller look again at what it has asked for.
func (w *Worker) wakePullers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.pulls {
		p.wakeUp()
	}
}

// reset forgets all pulls: the connection they were sent on is gone, and what
// the NATS server had in memory may be, too.
func (p *puller) reset() {
	p.mu.Lock()
	clear(p.open)
	p.wanted, p.there = 0, false
	p.mu.Unlock()
	p.wakeUp()
}

// busy is how many slots of a group are taken: by claims under way and by runs.
func (w *Worker) busy(g events.Group) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.taken[g]
}
