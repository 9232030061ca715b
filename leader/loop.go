package leader

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Loop is the deciding part of one term, without goroutines, clocks or I/O: it
// turns requests and the state into frames. One goroutine owns it.
//
// The order of use: Round as often as there is something to look at; when no
// frame is in flight, Seal gives the next one; when it is in the log, Commit
// gives what may leave. After anything else the loop is thrown away, and the
// state loaded again.
type Loop struct {
	state     *projector.State
	deciders  []Decider
	reactions *[events.NumKinds]Reaction
	log       *slog.Logger
	term      events.Term
	actor     string

	asks     []ask // not decided yet, in order
	builder  events.FrameBuilder
	begun    bool
	now      events.Now
	lastTime int64 // log time of the last event decided

	answers   []answer // of the frame that is collected
	effects   []Effect
	summaries []summary
	summarise bool
	flight    *Frame // sealed and not committed
	parked    int    // decisions parked in this round

	Parked uint64 // decisions parked in this term
}

// Frame is a sealed frame with what leaves after its commit.
type Frame struct {
	Message   *events.Message
	Events    int
	answers   []answer
	effects   []Effect
	summaries []summary
}

// maxParked bounds the decisions that one round parks; the next goes on.
const maxParked = 100

// NewLoop makes the loop of a term that has folded its led.
func NewLoop(s *projector.State, deciders []Decider, reactions *[events.NumKinds]Reaction, term events.Term, actor string, log *slog.Logger) *Loop {
	return &Loop{
		state: s, deciders: deciders, reactions: reactions, term: term, actor: actor, log: log, lastTime: s.Meta().Time,
		summarise: log.Enabled(context.Background(), slog.LevelInfo),
	}
}

// Ask queues a request for the next round.
func (l *Loop) Ask(req Request, reply func([]byte)) {
	l.asks = append(l.asks, ask{req: req, reply: reply})
}

// Asked is the number of requests that are not decided.
func (l *Loop) Asked() int { return len(l.asks) }

// requests is the name under which requests are decided.
const requests = "requests"

// Round decides what is owed at now, as far as the frame has room, and reports
// whether it stopped for lack of room.
func (l *Loop) Round(now events.Now) (full bool) {
	now.Time = max(now.Time, l.lastTime)
	l.now, l.parked = now, 0
	l.state.Expire(now.Sure/1e6, now.Time/1e6)
	for len(l.asks) > 0 {
		a := l.asks[0]
		inbox := uint64(0)
		if r, is := a.req.(inboxed); is {
			inbox = r.InboxSeq()
		}
		why, ok := l.run(requests, inbox, a.req.Decide)
		if !ok {
			return true
		}
		l.answers = append(l.answers, answer{a.req, a.reply, why})
		l.asks[0] = ask{}
		l.asks = l.asks[1:]
	}
	l.asks = nil
	for _, d := range l.deciders {
		for {
			why, ok := l.run(d.Name, 0, d.Decide)
			if !ok {
				return true
			}
			if why == "" {
				break
			}
			// What could not be decided is parked and out of the way: again, for
			// what else this decider owes.
			if l.parked >= maxParked {
				return true
			}
		}
	}
	return false
}

// run lets one decider decide. ok is false if the frame is full. why says that
// a decision was parked.
func (l *Loop) run(name string, inbox uint64, decide func(*projector.State, events.Now) iter.Seq[*events.Event]) (why string, ok bool) {
	ok = true
	var bad error
	var culprit events.Event
	func() {
		defer func() {
			if p := recover(); p != nil {
				bad = fmt.Errorf("panic: %v", p)
				l.log.Error("a decision panicked", "decider", name, "panic", p, "stack", string(debug.Stack()))
			}
		}()
		l.state.Focus(nil, nil)
		for e := range decide(l.state, l.now) {
			err := l.add(e)
			if errors.Is(err, events.ErrFrameFull) {
				ok = false
				return
			}
			if err != nil {
				bad, culprit = err, *e
				return
			}
		}
	}()
	if bad == nil {
		return "", ok
	}
	culprit.Inbox = inbox
	return bad.Error(), l.park(name, &culprit, bad)
}

// add puts one event into the frame and applies it to the state.
func (l *Loop) add(e *events.Event) error {
	if !l.begun {
		l.builder.Begin(l.now.Time, l.actor)
		l.begun = true
	}
	index, at, err := l.builder.Add(e, l.now.Time)
	if err != nil {
		return err
	}
	l.lastTime = at
	if why := l.state.Apply(e, events.Position{Seq: l.nextSeq(), Index: index}, at, l.actor); why != "" {
		return fmt.Errorf("%s without effect: %s", e.Kind, why)
	}
	if l.summarise && summarised[e.Kind] {
		if i := l.state.Instance(e.Instance); i != nil {
			l.summaries = append(l.summaries, summaryOf(i))
		}
	}
	if r := l.reactions[e.Kind]; r != nil {
		if x, ok := r(l.state, e); ok {
			l.effects = append(l.effects, x)
		}
	}
	return l.state.Err()
}

// nextSeq is the sequence that the frame being collected will have.
func (l *Loop) nextSeq() uint64 {
	seq := l.state.Meta().Cursor + 1
	if l.flight != nil {
		seq++
	}
	return seq
}

// park records a decision that cannot be made and takes its instance or trigger
// out of the way. It reports whether the frame had room for it.
func (l *Loop) park(name string, culprit *events.Event, bad error) bool {
	l.parked++
	l.Parked++
	instance, trigger := l.state.Focused()
	if name == requests {
		// Whoever asked may name what is none of theirs: it is their request that is
		// out of the way then, and answered so.
		instance, trigger = nil, nil
		culprit = &events.Event{Inbox: culprit.Inbox}
	}
	e := events.Event{Kind: events.KindIncident, Reason: events.ReasonPoison, Error: clip(name+": "+bad.Error(), events.MaxErrorText)}
	id := culprit.Instance
	if instance != nil {
		id = instance.ID
	}
	e.Instance, e.Inbox = id, culprit.Inbox // what cannot be decided is dealt with, too
	if trigger != nil {
		e.Task, e.Trigger = trigger.Task, trigger.Trigger
	}
	l.log.Error("a decision was parked", "decider", name, "instance", id, "task", e.Task, "trigger", e.Trigger, "error", bad)
	steps := []*events.Event{&e}
	if i := l.state.Instance(id); i != nil && i.State != events.StateDead && !i.State.Final() {
		steps = append(steps, &events.Event{Kind: events.KindDead, Instance: id, Reason: events.ReasonInternal, Error: e.Error})
	}
	if trigger != nil {
		steps = append(steps, &events.Event{Kind: events.KindPaused, Object: events.ObjectTask, Name: string(trigger.Task), Trigger: trigger.Trigger, Reason: events.ReasonInternal})
	}
	for _, step := range steps {
		if err := l.add(step); errors.Is(err, events.ErrFrameFull) {
			return false
		} else if err != nil {
			l.log.Error("a parked decision could not be recorded", "error", err)
		}
	}
	return true
}

// clip makes a text fit for an event: UTF-8, cut to n bytes at a whole character.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// Waiting reports whether a frame is in flight.
func (l *Loop) Waiting() bool { return l.flight != nil }

// Collected is the number of events in the frame that is collected, and whether
// answers or effects wait for nothing but the commit in flight, or for none.
func (l *Loop) Collected() int {
	if !l.begun {
		return 0
	}
	return l.builder.Len()
}

// Loose gives answers that rest on nothing that is not in the log: nothing was
// decided for them and no frame is in flight.
func (l *Loop) Loose() *Frame {
	if l.flight != nil || l.Collected() > 0 || len(l.answers)+len(l.effects) == 0 {
		return nil
	}
	f := &Frame{answers: l.answers, effects: l.effects}
	l.answers, l.effects = nil, nil
	return f
}

// Seal finishes the frame that was collected, for one append. It returns nil if
// there is none or another is in flight.
func (l *Loop) Seal() *Frame {
	if l.flight != nil || l.Collected() == 0 {
		return nil
	}
	m := l.builder.Seal(l.term)
	m.Prev = l.state.Meta().Hash
	m.Seq = l.state.Meta().Cursor + 1
	f := &Frame{Message: m, Events: l.builder.Len(), answers: l.answers, effects: l.effects, summaries: l.summaries}
	l.answers, l.effects, l.summaries, l.begun = nil, nil, nil, false
	l.flight = f
	return f
}

// Commit tells the loop that the frame in flight is in the log and gives it
// back: what waits in it may leave.
func (l *Loop) Commit() (*Frame, error) {
	f := l.flight
	if f == nil {
		return nil, errors.New("commit without a frame in flight") // a mistake in the caller
	}
	if err := l.state.Advance(f.Message, f.Events); err != nil {
		return nil, err
	}
	l.flight = nil
	return f, nil
}

// Send hands the frame's messages to publish and its answers to their askers.
// prompt says whether prompt answers may still leave. Bodies are written into
// buf, which is returned for the next call: publish and askers keep none.
func (f *Frame) Send(term events.Term, publish func(subject string, body []byte), prompt bool, buf []byte) []byte {
	for i := range f.effects {
		x := &f.effects[i]
		buf = buf[:0]
		if x.Body != nil {
			buf = x.Body.Encode(buf)
		}
		publish(x.Subject, buf)
	}
	for _, a := range f.answers {
		if a.reply == nil {
			continue
		}
		if _, p := a.req.(Prompt); p && !prompt {
			continue
		}
		var body []byte
		if a.failed != "" {
			body = a.req.Fail(term, a.failed, buf[:0])
		} else {
			body = a.req.Answer(term, buf[:0])
		}
		if body != nil {
			a.reply(body)
			buf = body
		}
	}
	return buf
}
