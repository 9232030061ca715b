package testkit

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/timer"
	"github.com/ax-scheduler/ax/workers"
)

// Sim is AX in memory: one shard's loop with the real deciders over a log in
// memory, under clocks that only the test moves. It has no goroutine and no
// network; the same steps give the same log, byte for byte.
type Sim struct {
	t     testing.TB
	Log   *events.MemoryLog
	Views *projector.Views
	Rules *workers.Rules

	// Server names the server that leads.
	Server events.ServerName
	// Refuse, if set, is the reason why new work is refused.
	Refuse string
	// Forget makes the loop throw away, before every round, everything in memory
	// that is not the folded state, and load it again: all signals are dropped.
	Forget bool
	// DiesOnUnknown makes the process die when the outcome of an append is not known,
	// and start again, in place of leading again.
	DiesOnUnknown bool

	state    *projector.State
	schedule *timer.Schedule
	fires    *timer.Fires
	commands *leader.Commands
	loop     *leader.Loop
	term     events.Term
	fence    uint64
	serial   byte

	wall, mono int64
	workers    []*SimWorker
	offers     []simOffer // made and not taken by a worker
}

type simOffer struct {
	group events.Group
	offer events.Offer
}

// SimStart is when a Sim begins: a Monday, a minute before noon.
var SimStart = time.Date(2026, 11, 30, 11, 59, 0, 0, time.UTC)

// simFraction is what a Sim's clock is past a whole millisecond, as real ones are.
const simFraction = 345_678 * time.Nanosecond

// NewSim makes AX in memory, leading, right after SimStart.
func NewSim(t testing.TB) *Sim {
	t.Helper()
	s := &Sim{t: t, Server: "s1", wall: SimStart.Add(simFraction).UnixNano(), mono: int64(time.Hour)}
	s.Log = events.NewMemoryLog(func() time.Time { return time.Unix(0, s.wall) })
	views, err := projector.OpenViews(projector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = views.Close() })
	s.Views = views
	s.start()
	return s
}

// start builds everything that dies with a process, and leads.
func (s *Sim) start() {
	s.t.Helper()
	clock := timer.NewClock(func() (int64, int64) { return s.wall, s.mono }, true)
	s.schedule = timer.NewSchedule(clock)
	calendars := &timer.Calendars{}
	refuse := func() string { return s.Refuse }
	s.fires = &timer.Fires{Server: s.Server, Calendars: calendars, Refuse: refuse}
	addr, err := events.NewAddress("sim")
	s.must(err)
	s.Rules = &workers.Rules{Liveness: workers.NewLiveness(), Address: addr}
	s.commands = &leader.Commands{Server: s.Server, CheckTask: calendars.CheckTask, Refuse: refuse}
	s.state, err = projector.NewState(s.Views)
	s.must(err)
	s.lead()
}

func (s *Sim) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// lead takes the leadership: led, barrier, everything due armed.
func (s *Sim) lead() {
	s.t.Helper()
	ctx := s.t.Context()
	last := uint64(0)
	if led, err := s.Log.LastLed(ctx); err == nil {
		last = led.Seq
	}
	s.serial++
	s.term = events.Term{0: s.serial, 1: 1}
	var b events.FrameBuilder
	b.Begin(max(s.schedule.Now().Time, s.state.Meta().Time), "server/"+string(s.Server))
	_, _, err := b.Add(&events.Event{Kind: events.KindLed, Body: fmt.Sprintf(`{"server":%q,"version":"sim","zones":"sim"}`, s.Server)}, b.Time())
	s.must(err)
	m := b.Seal(s.term)
	m.Kind = events.MessageLed
	s.fence, err = s.Log.AppendLed(ctx, m, last)
	s.must(err)
	s.catchUp()
	s.schedule.Begin(s.state.Meta().Time)
	s.arm()
	s.Rules.TermBegins(s.schedule.Now().Mono)
	s.fires.LookBack()
	var reactions [events.NumKinds]leader.Reaction
	reactions[events.KindDispatched] = func(st *projector.State, e *events.Event) (leader.Effect, bool) {
		subject, offer := s.Rules.OfferEffect(st, e)
		return leader.Effect{Subject: subject, Body: offer}, offer != nil
	}
	s.loop = leader.NewLoop(s.state, []leader.Decider{
		{Name: "outcomes", Decide: s.Rules.Outcomes}, {Name: "fire", Decide: s.fires.Decide}, {Name: "dispatch", Decide: s.Rules.Dispatch},
		{Name: "foreign", Decide: leader.Foreign}, {Name: "trim", Decide: leader.Trim},
	}, &reactions, s.term, "server/"+string(s.Server), slog.New(slog.DiscardHandler))
}

// catchUp folds the log to its end and flushes.
func (s *Sim) catchUp() {
	s.t.Helper()
	ctx := s.t.Context()
	info, err := s.Log.Info(ctx)
	s.must(err)
	for seq := max(s.state.Meta().Cursor+1, info.First); seq <= info.Last; seq++ {
		m, err := s.Log.Get(ctx, seq)
		s.must(err)
		s.must(s.state.Fold(m))
	}
	s.must(s.state.Flush())
}

// arm puts everything due soon into an empty schedule.
func (s *Sim) arm() {
	s.t.Helper()
	s.schedule.Clear()
	s.state.SetSchedule(s.schedule)
	now := s.schedule.Now()
	_, err := s.state.LoadDue(max(now.Time, now.Sure)/1e6+60_000, 1_000_000)
	s.must(err)
}

// Crash ends the process and starts it again: what was in memory is gone, and so
// are the views' last rows if lose is true. The clocks go on.
func (s *Sim) Crash(lose bool) {
	s.t.Helper()
	if lose {
		s.must(s.Views.Empty())
	}
	s.offers = nil
	s.start()
	s.Settle()
}

// LagBy ends the process and starts it again with views of an earlier time.
func (s *Sim) LagBy(dump []byte, digest events.Hash) {
	s.t.Helper()
	s.must(s.Views.Empty())
	s.must(s.Views.Restore(bytes.NewReader(dump), digest))
	s.offers = nil
	s.start()
	s.Settle()
}

// Dump gives the views as they are, for LagBy.
func (s *Sim) Dump() (dump []byte, digest events.Hash) {
	s.t.Helper()
	snap := s.Views.Snapshot()
	defer func() { s.must(snap.Close()) }()
	var b bytes.Buffer
	d, err := snap.Dump(&b)
	s.must(err)
	return b.Bytes(), d.Digest
}

// NewLeader lets another server take over.
func (s *Sim) NewLeader(name events.ServerName) {
	s.t.Helper()
	s.Server = name
	s.start()
	s.Settle()
}

// Now is the wall clock.
func (s *Sim) Now() time.Time { return time.Unix(0, s.wall).UTC() }

// SetWall sets the wall clock, as an operator or NTP does; monotonic time does
// not move. A machine that sleeps is SetWall forward.
func (s *Sim) SetWall(t time.Time) {
	s.t.Helper()
	s.wall = t.UnixNano()
	if s.schedule.Stepped() {
		s.must(s.state.Flush())
		now := s.schedule.Now()
		_, err := s.state.LoadDue(max(now.Time, now.Sure)/1e6+60_000, 1_000_000)
		s.must(err)
		s.fires.LookBack()
	}
	s.Settle()
}

// Advance moves the clocks by d, stopping wherever something is due.
func (s *Sim) Advance(d time.Duration) {
	s.t.Helper()
	end := s.mono + int64(d)
	lookAhead := s.mono
	for s.mono < end {
		step := min(s.schedule.Wait(s.schedule.Now()), time.Duration(end-s.mono))
		for _, w := range s.workers {
			if next := w.next(); next > s.mono {
				step = min(step, time.Duration(next-s.mono))
			}
		}
		step = max(step, time.Millisecond)
		step = min(step, time.Duration(end-s.mono))
		s.wall += int64(step)
		s.mono += int64(step)
		for _, w := range s.workers {
			w.step()
		}
		if s.mono-lookAhead > int64(20*time.Second) {
			lookAhead = s.mono
			s.must(s.state.Flush())
			now := s.schedule.Now()
			_, err := s.state.LoadDue(max(now.Time, now.Sure)/1e6+60_000, 1_000_000)
			s.must(err)
		}
		s.Settle()
	}
}

// Settle runs rounds until nothing is owed any more.
func (s *Sim) Settle() {
	s.t.Helper()
	for range 10_000 {
		if s.Forget && s.loop.Asked() == 0 && !s.state.Ahead() {
			s.must(s.state.Flush())
			s.must(s.state.Load())
			s.arm()
		}
		full := s.loop.Round(s.schedule.Now())
		s.must(s.state.Err())
		again := s.commit() || full
		for _, w := range s.workers {
			again = w.work() || again
		}
		if !again {
			s.must(s.state.Flush())
			return
		}
	}
	s.t.Fatal("it does not come to rest")
}

// commit appends what was decided and lets go what waits for it. It reports
// whether there was anything.
func (s *Sim) commit() bool {
	s.t.Helper()
	f := s.loop.Seal()
	if f == nil {
		if f = s.loop.Loose(); f == nil {
			return false
		}
		s.send(f)
		return true
	}
	seq, err := s.Log.Append(s.t.Context(), f.Message, s.fence, f.Message.Seq-1)
	switch {
	case errors.Is(err, events.ErrBusy):
		s.t.Fatal("busy is not retried by a Sim")
	case err != nil || seq != f.Message.Seq:
		// Unknown: lead again, decide anew. Whoever asked asks again.
		if s.DiesOnUnknown {
			s.offers = nil
			s.start()
			return true
		}
		s.schedule.Clear()
		s.must(s.state.Load())
		s.offers = nil
		s.lead()
		return true
	}
	f, err = s.loop.Commit()
	s.must(err)
	s.send(f)
	return true
}

func (s *Sim) send(f *leader.Frame) {
	f.Send(s.term, func(subject string, body []byte) {
		var o events.Offer
		if err := o.Decode(body); err == nil {
			group := events.Group(subject[len("ax.sim.work.0."):])
			s.offers = append(s.offers, simOffer{group, o})
		}
	}, true, nil)
}

// Ask lets the leader answer a request and returns the answer. A request whose
// term ended before its answer is made and asked again, as a client does.
func (s *Sim) Ask(build func() (leader.Request, error)) []byte {
	s.t.Helper()
	for range 20 {
		req, err := build()
		s.must(err)
		var answer []byte
		answered := false
		s.loop.Ask(req, func(b []byte) { answer, answered = bytes.Clone(b), true })
		for term := s.term; term == s.term; {
			s.loop.Round(s.schedule.Now())
			if more := s.commit(); answered || !more {
				return answer
			}
		}
	}
	s.t.Fatal("no answer")
	return nil
}

// Do sends commands and settles.
func (s *Sim) Do(commands ...events.Command) []events.Done {
	s.t.Helper()
	m := events.Commands{Actor: "test", Commands: commands}
	var answers events.CommandAnswers
	s.must(answers.Decode(s.Ask(func() (leader.Request, error) { return s.commands.Handle("", m.Encode(nil)) })))
	if answers.Error != "" {
		s.t.Fatal(answers.Error)
	}
	s.Settle()
	return answers.Answers
}

// MustDo is Do for commands that are not refused.
func (s *Sim) MustDo(commands ...events.Command) []events.Done {
	s.t.Helper()
	all := s.Do(commands...)
	for i, d := range all {
		if d.Reason != "" {
			s.t.Fatalf("%s %s: %s: %s", commands[i].Verb, commands[i].Name, d.Reason, d.Error)
		}
	}
	return all
}

// Define defines a task. A spec without an executor gets one.
func (s *Sim) Define(name string, spec events.TaskSpec) {
	s.t.Helper()
	if spec.Executor.Kind == "" {
		spec.Executor = events.ExecutorSpec{Kind: "func", Config: []byte(`{"name":"work"}`)}
	}
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: name}, Task: &spec}
	body, err := d.Encode()
	s.must(err)
	s.MustDo(events.Command{Verb: events.VerbDefine, Definition: body})
}

// DefineGroup defines a group.
func (s *Sim) DefineGroup(name string, limit int64) {
	s.t.Helper()
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectGroup, Metadata: events.Metadata{Name: name}, Group: &events.GroupSpec{Limit: limit}}
	body, err := d.Encode()
	s.must(err)
	s.MustDo(events.Command{Verb: events.VerbDefine, Definition: body})
}

// Trigger triggers a task by hand and gives the instance.
func (s *Sim) Trigger(task string) events.InstanceID {
	s.t.Helper()
	return s.MustDo(events.Command{Verb: events.VerbTrigger, Name: task})[0].Instance
}

// Instance gives an instance's row.
func (s *Sim) Instance(id events.InstanceID) *projector.Instance {
	s.t.Helper()
	i, err := s.Views.Instance(id)
	s.must(err)
	return i
}

// Trigger rows, tasks and the like are read from the views; a Sim flushes at
// rest.

// TriggerRow gives a trigger's row.
func (s *Sim) TriggerRow(task, name string) *projector.Trigger {
	s.t.Helper()
	all, err := s.Views.Triggers(events.TaskName(task))
	s.must(err)
	for _, t := range all {
		if t.Trigger == events.TriggerName(name) {
			return t
		}
	}
	s.t.Fatalf("task %s has no trigger %s", task, name)
	return nil
}

// Events gives all events of the log.
func (s *Sim) Events() (all []replay.Record) {
	s.t.Helper()
	ctx := s.t.Context()
	info, err := s.Log.Info(ctx)
	s.must(err)
	s.must(replay.Messages(ctx, s.Log, info.First, info.Last, func(m *events.Message, d *events.Decoded) error {
		for k := range d.Events {
			all = append(all, replay.NewRecord(&d.Events[k], events.Position{Seq: m.Seq, Index: uint32(k)}, d.Times[k], d.Actor))
		}
		return nil
	}))
	return all
}

// Of gives the events of a kind, and of a task if one is named.
func (s *Sim) Of(kind events.Kind, task string) (found []replay.Record) {
	s.t.Helper()
	for _, r := range s.Events() {
		if r.Kind == kind && (task == "" || string(r.Task) == task) {
			found = append(found, r)
		}
	}
	return found
}

// RestateAll states every live fact again that was stated before the end of the
// log, as a leader does before they expire.
func (s *Sim) RestateAll() {
	s.t.Helper()
	horizon, cursor := s.state.Meta().Cursor, ""
	for {
		s.must(s.state.Flush())
		facts, next, err := s.state.Restate(horizon, cursor, 10)
		s.must(err)
		for k := range facts {
			s.Append(&facts[k])
		}
		if cursor = next; next == "" {
			return
		}
	}
}

// Append lets the leader decide one event, whatever it is, and commits it.
func (s *Sim) Append(e *events.Event) {
	s.t.Helper()
	s.loop.Ask(oneEvent{e}, nil)
	s.Settle()
}

// oneEvent is a request that leads to one event.
type oneEvent struct{ e *events.Event }

// Decide implements leader.Request.
func (o oneEvent) Decide(*projector.State, events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) { yield(o.e) }
}

// Answer implements leader.Request.
func (oneEvent) Answer(events.Term, []byte) []byte { return nil }

// Fail implements leader.Request.
func (oneEvent) Fail(events.Term, string, []byte) []byte { return nil }

// Check holds the log against everything that never happens.
func (s *Sim) Check() {
	s.t.Helper()
	problems, err := Check(s.t.Context(), s.Log)
	s.must(err)
	for _, p := range problems {
		s.t.Error(p)
	}
}
