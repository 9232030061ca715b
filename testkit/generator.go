package testkit

import (
	"fmt"
	"math/rand/v2"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Generator makes a random history: messages of a shard's log in which most
// events fit the state they meet and some do not, terms change, frames of dead
// terms and messages that are no frames stand in between. The same seed makes
// the same history.
type Generator struct {
	rng   *rand.Rand
	state *projector.State // fold of what was made so far, to make events that fit
	msgs  []*events.Message
	chain events.Hash
	term  events.Term
	old   []events.Term
	now   int64

	tasks     []events.TaskName
	instances []events.InstanceID
	Events    int
}

// NewGenerator makes a generator of a history of so many tasks, over empty
// views, which it needs for itself.
func NewGenerator(seed uint64, tasks int, views *projector.Views) (*Generator, error) {
	state, err := projector.NewState(views)
	if err != nil {
		return nil, err
	}
	g := &Generator{rng: rand.New(rand.NewPCG(seed, 1)), state: state, now: 1_800_000_000_000_000_000}
	for i := range tasks {
		g.tasks = append(g.tasks, events.TaskName(fmt.Sprintf("task-%d", i)))
	}
	return g, nil
}

// Messages gives a history of at least n events.
func (g *Generator) Messages(n int) ([]*events.Message, error) {
	if err := g.led(); err != nil {
		return nil, err
	}
	for g.Events < n {
		var err error
		switch p := g.rng.IntN(1000); {
		case p < 5:
			err = g.led()
		case p < 10:
			err = g.put(&events.Message{Kind: events.MessageLog, Body: []byte("hello")}) // no frame
		case p < 15 && len(g.old) > 0:
			err = g.staleFrame()
		default:
			err = g.frame()
		}
		if err != nil {
			return nil, err
		}
	}
	return g.msgs, nil
}

func (g *Generator) put(m *events.Message) error {
	m.Seq = uint64(len(g.msgs) + 1)
	g.chain = events.Chain(g.chain, m)
	g.msgs = append(g.msgs, m)
	if err := g.state.Fold(m); err != nil {
		return err
	}
	if g.state.Dirty() > 5000 {
		return g.state.Flush()
	}
	return nil
}

func (g *Generator) newTerm() (t events.Term) {
	for i := range t {
		t[i] = byte(g.rng.Uint32())
	}
	return t
}

func (g *Generator) led() error {
	if !g.term.IsZero() {
		g.old = append(g.old, g.term)
	}
	g.term = g.newTerm()
	var b events.FrameBuilder
	g.now += g.rng.Int64N(1e9)
	b.Begin(g.now, "server/gen")
	boot := fmt.Sprintf("boot-%d", g.rng.IntN(3))
	if _, _, err := b.Add(&events.Event{Kind: events.KindLed, Body: `{"server":"gen","version":"","zones":"","boot":"` + boot + `"}`}, g.now); err != nil {
		return err
	}
	m := b.Seal(g.term)
	m.Kind = events.MessageLed
	g.Events++
	return g.put(m)
}

func (g *Generator) staleFrame() error {
	var b events.FrameBuilder
	b.Begin(g.now, "server/old")
	e := g.event()
	if e.Check() != nil {
		return nil
	}
	if _, _, err := b.Add(e, g.now); err != nil {
		return err
	}
	m := b.Seal(g.old[g.rng.IntN(len(g.old))])
	m.Prev = g.chain
	return g.put(m)
}

func (g *Generator) frame() error {
	var b events.FrameBuilder
	g.now += g.rng.Int64N(int64(2e9))
	b.Begin(g.now, "server/gen")
	n := 1 + g.rng.IntN(1+g.rng.IntN(60))
	for range n {
		e := g.event()
		if e.Check() != nil {
			continue
		}
		if g.rng.IntN(4) == 0 {
			g.now += g.rng.Int64N(1e6)
		}
		if _, _, err := b.Add(e, g.now); err != nil {
			return err
		}
		g.Events++
	}
	if b.Len() == 0 {
		return nil
	}
	m := b.Seal(g.term)
	m.Prev = g.chain
	g.now = max(g.now, b.End())
	return g.put(m)
}

func pick[T any](g *Generator, all []T) (x T) {
	if len(all) == 0 {
		return x
	}
	return all[g.rng.IntN(len(all))]
}

// event makes one event. Most are made to fit an instance's state as it was at
// the end of the frame before.
func (g *Generator) event() *events.Event {
	e := &events.Event{}
	if g.rng.IntN(10) == 0 {
		e.Actor = fmt.Sprintf("user/%d", g.rng.IntN(3))
	}
	if g.rng.IntN(20) == 0 {
		e.Inbox = uint64(g.rng.IntN(1000) + 1)
	}
	switch p := g.rng.IntN(100); {
	case p < 4:
		g.defined(e)
	case p < 6:
		e.Kind, e.Object, e.Name = pick(g, []events.Kind{events.KindPaused, events.KindResumed, events.KindRemoved}), events.ObjectTask, string(pick(g, g.tasks))
		if e.Kind != events.KindRemoved && g.rng.IntN(2) == 0 {
			e.Trigger = "main"
		}
	case p < 10:
		e.Kind, e.Task, e.Trigger, e.Version = events.KindPlanned, pick(g, g.tasks), "main", int64(1+g.rng.IntN(4))
		e.Due = g.due()
		e.Next = e.Due + int64(g.rng.IntN(100_000))
		if g.rng.IntN(10) == 0 {
			e.Due, e.Reason = e.Due-600_000, events.ReasonClockStep
		}
	case p < 12:
		e.Kind, e.Task, e.Trigger, e.Reason = events.KindSkipped, pick(g, g.tasks), "main", events.ReasonMisfire
		e.From, e.Due, e.Count = g.due(), g.due(), int64(1+g.rng.IntN(5))
	case p < 30:
		g.fired(e)
	case p < 31:
		e.Kind, e.Reason, e.From, e.Count = events.KindIncident, events.ReasonForeign, int64(g.state.Meta().Strange.First), 1
	case p < 33:
		e.Kind, e.Body = events.KindCheckpoint, fmt.Sprintf(`{"trim":%d}`, 1+g.rng.IntN(40))
		if g.rng.IntN(4) == 0 {
			e.Body = fmt.Sprintf(`{"position":%d,"digest":"%064x","rows":1}`, len(g.msgs), 7)
		}
	case p < 34:
		e.Kind, e.Reason = events.KindRefused, events.ReasonUnusable
	default:
		g.onInstance(e)
	}
	return e
}

func (g *Generator) due() int64 { return g.now/1e6 - 50_000 + int64(g.rng.IntN(100_000)) }

func (g *Generator) defined(e *events.Event) {
	name := string(pick(g, g.tasks))
	if g.rng.IntN(6) == 0 {
		*e = events.Event{Kind: events.KindDefined, Object: events.ObjectGroup, Name: "default", Version: int64(1 + g.rng.IntN(5)),
			Body: fmt.Sprintf(`{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"default"},"spec":{"limit":%d}}`, g.rng.IntN(10))}
		return
	}
	spec := &events.TaskSpec{Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{"name":"x"}`)}, Limit: int64(g.rng.IntN(3))}
	for i := range g.rng.IntN(3) {
		name := events.TriggerName([]string{"main", "other"}[i])
		spec.Triggers = append(spec.Triggers, events.TriggerSpec{Name: name, Interval: &events.IntervalSpec{Every: events.Duration(1e9 * (1 + g.rng.Int64N(3)))}})
	}
	if g.rng.IntN(10) == 0 {
		spec.Triggers = append(spec.Triggers, events.TriggerSpec{Name: "boot", Cron: events.Reboot})
	}
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: name}, Task: spec}
	if d.Complete() != nil {
		return
	}
	body, err := d.Encode()
	if err != nil {
		return
	}
	version := int64(1)
	if t := g.state.Task(events.TaskName(name)); t != nil {
		version = t.Version + int64(g.rng.IntN(2))
	}
	e.Kind, e.Object, e.Name, e.Version, e.Body = events.KindDefined, events.ObjectTask, name, version, body
}

func (g *Generator) fired(e *events.Event) {
	e.Kind, e.Task, e.Version = events.KindFired, pick(g, g.tasks), 1
	e.Due = g.due()
	t := g.state.Task(e.Task)
	if t != nil {
		e.Version = t.Version
		if g.rng.IntN(3) > 0 {
			e.Due = t.LastDue + int64(g.rng.IntN(3))*1000
		}
	}
	e.Due = max(e.Due, 1)
	e.Trigger = pick(g, []events.TriggerName{"main", "manual", "manual"})
	e.Next = e.Due + 1000
	if t != nil && g.rng.IntN(20) > 0 {
		e.Instance = g.state.NextID(t, e.Due, "gen")
	} else {
		e.Instance = pick(g, g.instances)
	}
	if g.rng.IntN(5) == 0 {
		e.Key = fmt.Sprintf("key-%d", g.rng.IntN(50))
	}
	if g.rng.IntN(3) == 0 {
		e.Params = `{"n":1}`
	}
	if e.Instance != "" {
		g.instances = append(g.instances, e.Instance)
		if len(g.instances) > 200 {
			g.instances = g.instances[100:]
		}
	}
}

// fitting are the kinds that lead on from a state.
var fitting = map[events.State][]events.Kind{
	events.StateScheduled:  {events.KindDispatched, events.KindDispatched, events.KindCancelled, events.KindSkipped, events.KindTimedOut, events.KindDead},
	events.StateDispatched: {events.KindStarted, events.KindStarted, events.KindWithdrawn, events.KindCancelled},
	events.StateRunning: {events.KindSucceeded, events.KindSucceeded, events.KindFailed, events.KindTimedOut, events.KindLost, events.KindCancelAsked,
		events.KindCancelled, events.KindDead},
	events.StateFailed:    {events.KindRetrying, events.KindDead, events.KindCancelled},
	events.StateTimeout:   {events.KindRetrying, events.KindDead, events.KindLate, events.KindLost, events.KindCancelAsked, events.KindCancelled},
	events.StateLost:      {events.KindRetrying, events.KindDead},
	events.StateRetrying:  {events.KindReady, events.KindReady, events.KindCancelled, events.KindLate, events.KindLost, events.KindCancelAsked, events.KindDead},
	events.StateDead:      {events.KindRedriven, events.KindDiscarded, events.KindLate, events.KindLost, events.KindCancelAsked},
	events.StateSuccess:   {events.KindLate},
	events.StateCancelled: {events.KindLate},
}

var onInstance = func() (all []events.Kind) {
	for _, k := range events.Kinds() {
		if k.OnInstance() && k != events.KindFired && k != events.KindRestated {
			all = append(all, k)
		}
	}
	return all
}()

func (g *Generator) onInstance(e *events.Event) {
	e.Instance = pick(g, g.instances)
	e.Kind = pick(g, onInstance)
	e.Attempt, e.Offer = 1, 1
	i := g.state.Instance(e.Instance)
	if e.Instance == "" {
		e.Instance = "nobody-1-gen"
	}
	if i != nil {
		if g.rng.IntN(8) > 0 {
			if k := pick(g, fitting[i.State]); k != 0 {
				e.Kind = k
			}
		}
		e.Attempt, e.Offer = i.Attempt, i.Offer
		switch e.Kind {
		case events.KindDispatched:
			e.Offer++
		case events.KindRetrying, events.KindRedriven:
			e.Attempt++
		case events.KindLate, events.KindLost:
			if i.Held {
				e.Attempt = i.HeldAttempt
			}
		}
	}
	if g.rng.IntN(15) == 0 {
		e.Attempt += int64(g.rng.IntN(3)) - 1
	}
	if g.rng.IntN(15) == 0 {
		e.Offer += int64(g.rng.IntN(3)) - 1
	}
	e.Attempt, e.Offer = max(e.Attempt, 0), max(e.Offer, 0)
	worker := events.WorkerName(fmt.Sprintf("w%d", g.rng.IntN(3)))
	at := g.now/1e6 + int64(g.rng.IntN(20_000))
	switch e.Kind {
	case events.KindDispatched:
		e.At = at
	case events.KindWithdrawn:
		e.Reason = events.ReasonUnclaimed
	case events.KindStarted:
		e.Worker, e.Nonce, e.Incarnation, e.At = worker, fmt.Sprintf("nonce-%d", g.rng.IntN(1000)), 1, at
	case events.KindRetrying:
		e.At = at
	case events.KindLost:
		e.Reason = events.ReasonWorkerGone
	case events.KindFailed:
		e.Error, e.Permanent = "it failed", g.rng.IntN(4) == 0
	case events.KindTimedOut:
		e.Reason = events.ReasonRun
		if g.rng.IntN(2) == 0 {
			e.Worker = worker
		}
	case events.KindLate:
		e.Outcome = events.KindSucceeded
	case events.KindDead, events.KindNodeSkipped, events.KindSkipped:
		e.Reason = events.ReasonAttempts
	case events.KindOverridden:
		e.Outcome = events.KindSucceeded
	case events.KindSucceeded:
		e.Result = `{"ok":true}`
	}
	// Fields that the kind does not have.
	switch e.Kind {
	case events.KindDispatched, events.KindWithdrawn, events.KindStarted:
	default:
		e.Offer = 0
	}
	switch e.Kind {
	case events.KindDead, events.KindDiscarded, events.KindCancelAsked, events.KindSkipped, events.KindNodeSkipped, events.KindApproved, events.KindSignalled, events.KindOverridden:
		e.Attempt = 0
	}
}
