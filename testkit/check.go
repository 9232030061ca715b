package testkit

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
)

func sortedValues[K cmp.Ordered, V any](m map[K]V) []V {
	all := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[k])
	}
	return all
}

// Check reads a whole log and gives every breach of what AX promises: of fire
// keys, claims, outcomes, terms, and of instances that were left open. It
// trusts nothing but the log, and shares no code with the fold.
func Check(ctx context.Context, log events.Log) (problems []string, err error) {
	c := newChecker()
	info, err := log.Info(ctx)
	if err != nil {
		return nil, err
	}
	err = replay.Messages(ctx, log, info.First, info.Last, func(m *events.Message, d *events.Decoded) error {
		c.message(m, d)
		return nil
	})
	c.end()
	return c.problems, err
}

// CheckClosed is Check, and every instance has to have ended.
func CheckClosed(ctx context.Context, log events.Log) ([]string, error) {
	c := newChecker()
	c.closed = true
	info, err := log.Info(ctx)
	if err != nil {
		return nil, err
	}
	err = replay.Messages(ctx, log, info.First, info.Last, func(m *events.Message, d *events.Decoded) error {
		c.message(m, d)
		return nil
	})
	c.end()
	return c.problems, err
}

type checker struct {
	closed    bool
	problems  []string
	term      events.Term
	last      int64 // log time
	fires     map[string]*fireKey
	instances map[events.InstanceID]*checked
	keys      map[string]events.InstanceID
}

// fireKey is what the log says of the due times of a trigger.
type fireKey struct {
	fired   map[int64]events.Position
	skipped []span
}

type span struct {
	from, to int64
	at       events.Position
	reason   string
}

// checked is what the log says of an instance.
type checked struct {
	fired    events.Position
	starts   map[int64]events.Position
	offers   map[int64]string // what became of an offer: started, withdrawn
	outcomes map[int64]events.Position
	ended    events.Kind
	dead     bool
	lastTok  events.Position
}

func newChecker() *checker {
	return &checker{fires: map[string]*fireKey{}, instances: map[events.InstanceID]*checked{}, keys: map[string]events.InstanceID{}}
}

const maxListed = 50

func (c *checker) bad(pos events.Position, format string, args ...any) {
	if len(c.problems) < maxListed {
		c.problems = append(c.problems, fmt.Sprintf("%s: ", pos)+fmt.Sprintf(format, args...))
	}
}

func (c *checker) message(m *events.Message, d *events.Decoded) {
	pos := events.Position{Seq: m.Seq}
	if len(d.Events) == 0 {
		return // no frame
	}
	if m.Kind == events.MessageLed {
		c.term = m.Term
		return
	}
	if m.Term != c.term {
		return // of a dead term: has no effect, and may be there only where the log lost its tail
	}
	if m.Time < c.last {
		c.bad(pos, "log time goes back from %s to %s", time.Unix(0, c.last).UTC(), time.Unix(0, m.Time).UTC())
	}
	for k := range d.Events {
		pos.Index = uint32(k)
		c.last = max(c.last, d.Times[k])
		// By the log's clock: the server's time of the message.
		at := m.Stored
		if at == 0 {
			at = d.Times[k]
		}
		c.event(&d.Events[k], pos, at)
	}
}

func (c *checker) event(e *events.Event, pos events.Position, at int64) {
	switch e.Kind {
	case events.KindFired:
		c.firedEvent(e, pos, at)
		return
	case events.KindSkipped:
		if e.Instance == "" {
			k := c.fire(e)
			from := e.From
			if from == 0 {
				from = e.Due
			}
			k.skipped = append(k.skipped, span{from, e.Due, pos, e.Reason})
			return
		}
	}
	if e.Instance == "" || !e.Kind.OnInstance() {
		return
	}
	i := c.instances[e.Instance]
	if i == nil {
		if e.Kind != events.KindRestated {
			c.bad(pos, "%s of instance %s, which never fired", e.Kind, e.Instance)
		}
		return
	}
	if i.ended != 0 && e.Kind != events.KindLate && e.Kind != events.KindRestated {
		c.bad(pos, "%s of instance %s after %s", e.Kind, e.Instance, i.ended)
	}
	outcome := func() {
		if was, again := i.outcomes[e.Attempt]; again {
			c.bad(pos, "attempt %d of %s has a second outcome %s, the first is at %s", e.Attempt, e.Instance, e.Kind, was)
		}
		if _, started := i.starts[e.Attempt]; !started && e.Reason != events.ReasonQueue {
			c.bad(pos, "%s of attempt %d of %s, which never started", e.Kind, e.Attempt, e.Instance)
		}
		i.outcomes[e.Attempt] = pos
	}
	switch e.Kind {
	case events.KindStarted:
		if was, again := i.starts[e.Attempt]; again {
			c.bad(pos, "attempt %d of %s started twice, first at %s", e.Attempt, e.Instance, was)
		}
		if pos.Compare(i.lastTok) <= 0 {
			c.bad(pos, "the fencing token of %s does not rise", e.Instance)
		}
		i.lastTok = pos
		i.starts[e.Attempt] = pos
		c.offer(i, e, pos, "started")
	case events.KindWithdrawn:
		c.offer(i, e, pos, "withdrawn")
	case events.KindSucceeded:
		outcome()
		i.ended = e.Kind
	case events.KindFailed, events.KindTimedOut:
		outcome()
	case events.KindLost:
		// The loss of an attempt that has an outcome ends a hold only.
		if _, ended := i.outcomes[e.Attempt]; !ended {
			outcome()
		}
	case events.KindCancelled, events.KindDiscarded, events.KindNodeSkipped, events.KindSkipped:
		i.ended = e.Kind
	case events.KindDead:
		i.dead = true
	case events.KindRedriven:
		i.dead = false
	}
}

func (c *checker) offer(i *checked, e *events.Event, pos events.Position, what string) {
	if was := i.offers[e.Offer]; was != "" {
		c.bad(pos, "offer %d of %s is %s, and was %s before", e.Offer, e.Instance, what, was)
	}
	i.offers[e.Offer] = what
}

func (c *checker) fire(e *events.Event) *fireKey {
	key := string(e.Task) + "/" + string(e.Trigger)
	k := c.fires[key]
	if k == nil {
		k = &fireKey{fired: map[int64]events.Position{}}
		c.fires[key] = k
	}
	return k
}

func (c *checker) firedEvent(e *events.Event, pos events.Position, at int64) {
	if was := c.instances[e.Instance]; was != nil {
		c.bad(pos, "instance %s fired twice, first at %s", e.Instance, was.fired)
		return
	}
	c.instances[e.Instance] = &checked{
		fired: pos, starts: map[int64]events.Position{}, offers: map[int64]string{}, outcomes: map[int64]events.Position{},
	}
	if e.Key != "" {
		key := string(e.Task) + "/" + e.Key
		if was, again := c.keys[key]; again {
			c.bad(pos, "key %s of task %s fired %s, and %s before", e.Key, e.Task, e.Instance, was)
		}
		c.keys[key] = e.Instance
	}
	if e.Trigger == events.ManualTrigger || e.Trigger == "" {
		return
	}
	k := c.fire(e)
	if was, again := k.fired[e.Due]; again {
		c.bad(pos, "%s/%s fired twice for %s, first at %s", e.Task, e.Trigger, time.UnixMilli(e.Due).UTC().Format(time.RFC3339Nano), was)
	}
	k.fired[e.Due] = pos
	if early := e.Due*1e6 - at; early > 0 {
		c.bad(pos, "%s/%s fired %s before its due time", e.Task, e.Trigger, time.Duration(early))
	}
}

func (c *checker) end() {
	for _, name := range slices.Sorted(maps.Keys(c.fires)) {
		k := c.fires[name]
		for due, pos := range k.fired {
			for _, s := range k.skipped {
				if due >= s.from && due <= s.to {
					c.bad(pos, "%s fired for %s, which was skipped at %s", name, time.UnixMilli(due).UTC().Format(time.RFC3339Nano), s.at)
				}
			}
		}
		slices.SortFunc(k.skipped, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for n := 1; n < len(k.skipped); n++ {
			if a, b := k.skipped[n-1], k.skipped[n]; b.from <= a.to {
				c.bad(b.at, "%s skipped twice for %s", name, time.UnixMilli(b.from).UTC().Format(time.RFC3339Nano))
			}
		}
	}
	if !c.closed {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		if i := c.instances[id]; i.ended == 0 && !i.dead {
			c.bad(i.fired, "instance %s was left open", id)
		}
	}
}
