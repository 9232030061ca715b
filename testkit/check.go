package testkit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/timer"
)

func sortedValues[K cmp.Ordered, V any](m map[K]V) []V {
	all := make([]V, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		all = append(all, m[k])
	}
	return all
}

// Check reads a whole log and gives every breach of what AX promises: of fire
// keys, due times, claims, outcomes, terms, and of instances that were left
// open. It trusts nothing but the log, and shares no code with the fold.
func Check(ctx context.Context, log events.Log) (problems []string, err error) {
	a, err := ReadAudit(ctx, log, AuditOptions{})
	if err != nil {
		return nil, err
	}
	return a.Problems, nil
}

// CheckClosed is Check, and every instance has to have ended.
func CheckClosed(ctx context.Context, log events.Log) ([]string, error) {
	a, err := ReadAudit(ctx, log, AuditOptions{Closed: true})
	if err != nil {
		return nil, err
	}
	return a.Problems, nil
}

// AuditOptions say what a log is held against besides what always holds.
type AuditOptions struct {
	// Closed: every instance has to have ended, or be a dead letter.
	Closed bool
	// CoveredUntil: every due time of every trigger that is neither paused nor
	// removed has to be fired or skipped, up to this time.
	CoveredUntil time.Time
}

// Audit is what a whole log says.
type Audit struct {
	Problems []string
	First    uint64              // sequences read
	Last     uint64              //
	Kinds    map[events.Kind]int // events by kind, of frames of their time's leader
	Reasons  map[string]int      // events out of the ordinary, as "kind reason"
	Terms    int                 // leaderships
	Stale    int                 // frames of another term than the last led before them; they have no effect
	Strange  int                 // messages that are no frames
	Due      int                 // due times of triggers that an event decides about

	involved []events.InstanceID // instances with problems
}

// ReadAudit reads a whole log and audits it.
func ReadAudit(ctx context.Context, log events.Log, opt AuditOptions) (*Audit, error) {
	c := newChecker(opt)
	info, err := log.Info(ctx)
	if err != nil {
		return nil, err
	}
	c.First, c.Last = info.First, info.Last
	err = replay.Messages(ctx, log, info.First, info.Last, func(m *events.Message, d *events.Decoded) error {
		c.message(m, d)
		return nil
	})
	if err != nil {
		return nil, err
	}
	c.end()
	return &c.Audit, nil
}

// Report fails the test with the audit's problems and with the last events of
// the instances that have them.
func (a *Audit) Report(t testing.TB, log events.Log) {
	t.Helper()
	for _, p := range a.Problems {
		t.Error(p)
	}
	for _, id := range a.involved[:min(len(a.involved), 5)] {
		t.Logf("the last events of %s:\n%s", id, indent(LastEvents(log, id, 15)))
	}
}

// String sums the audit up in a line.
func (a *Audit) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "sequences %d to %d, %d terms, %d due times decided", a.First, a.Last, a.Terms, a.Due)
	if a.Stale+a.Strange > 0 {
		fmt.Fprintf(&b, ", %d frames of dead terms, %d messages that are no frames", a.Stale, a.Strange)
	}
	for _, k := range slices.Sorted(maps.Keys(a.Kinds)) {
		fmt.Fprintf(&b, ", %d %s", a.Kinds[k], k)
	}
	for _, what := range slices.Sorted(maps.Keys(a.Reasons)) {
		fmt.Fprintf(&b, "; %d %s", a.Reasons[what], what)
	}
	return b.String()
}

// LastEvents gives the last events of an instance, a line each.
func LastEvents(log events.Log, id events.InstanceID, n int) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	all, err := replay.History(ctx, log, nil, id)
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, r := range all[max(0, len(all)-n):] {
		line, err := json.Marshal(r)
		if err != nil {
			line = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	return b.String()
}

type checker struct {
	Audit
	opt       AuditOptions
	term      events.Term
	last      int64 // log time
	fires     map[string]*fireKey
	instances map[events.InstanceID]*checked
	keys      map[string]events.InstanceID
	tasks     map[events.TaskName]*checkedTask
	calendars timer.Calendars
}

// fireKey is what the log says of the due times of a trigger.
type fireKey struct {
	fired   map[int64]events.Position
	skipped []span
	rewinds []span // the clock went back: what was skipped after from may fire
}

// rewound reports whether the clock went back behind a due time between its skip
// and its fire.
func (k *fireKey) rewound(due int64, skipped, fired events.Position) bool {
	return slices.ContainsFunc(k.rewinds, func(r span) bool {
		return r.from < due && r.at.Compare(skipped) > 0 && r.at.Compare(fired) < 0
	})
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
	offered  map[int64]int64  // attempts by their offers
	offers   map[int64]string // what became of an offer: started, withdrawn
	outcomes map[int64]events.Position
	held     int64 // attempt that passed its time limit and whose worker has not let go
	ended    events.Kind
	dead     bool
	lastTok  events.Position
}

// checkedTask is what the log says of a task.
type checkedTask struct {
	paused   bool
	triggers map[events.TriggerName]*checkedTrigger
}

// checkedTrigger is how far a trigger's due times are decided.
type checkedTrigger struct {
	text   string
	cal    timer.Calendar
	paused bool
	// planned says that position is where the log has come to: every due time up
	// to it is decided.
	planned  bool
	position int64
	// free says why the next plan may begin later than at position, because the
	// due times between are nobody's any more: its text changed, or it was paused.
	free bool
	// lax: the clock was set, and due times that have passed come again. What
	// fires then is looked at by the fire keys alone.
	lax bool
}

func newChecker(opt AuditOptions) *checker {
	return &checker{
		Audit: Audit{Kinds: map[events.Kind]int{}, Reasons: map[string]int{}}, opt: opt,
		fires: map[string]*fireKey{}, instances: map[events.InstanceID]*checked{}, keys: map[string]events.InstanceID{}, tasks: map[events.TaskName]*checkedTask{},
	}
}

const maxListed = 50

func (c *checker) bad(pos events.Position, format string, args ...any) {
	if len(c.Problems) < maxListed {
		c.Problems = append(c.Problems, fmt.Sprintf("%s: ", pos)+fmt.Sprintf(format, args...))
	}
}

// wrong is bad about an instance.
func (c *checker) wrong(id events.InstanceID, pos events.Position, format string, args ...any) {
	if !slices.Contains(c.involved, id) && len(c.involved) < maxListed {
		c.involved = append(c.involved, id)
	}
	c.bad(pos, format, args...)
}

func (c *checker) message(m *events.Message, d *events.Decoded) {
	pos := events.Position{Seq: m.Seq}
	if len(d.Events) == 0 {
		c.Strange++
		return // no frame
	}
	if m.Kind == events.MessageLed {
		c.term = m.Term
		c.Terms++
		return
	}
	if m.Term != c.term {
		c.Stale++
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
		e := &d.Events[k]
		c.Kinds[e.Kind]++
		switch e.Kind {
		case events.KindRefused, events.KindIgnored, events.KindIncident, events.KindLost, events.KindDead:
			c.Reasons[e.Kind.String()+" "+strings.Clone(e.Reason)]++
		}
		c.event(e, pos, at, d.Times[k])
	}
}

func (c *checker) event(e *events.Event, pos events.Position, at, logTime int64) {
	switch e.Kind {
	case events.KindDefined, events.KindRemoved, events.KindPaused, events.KindResumed:
		if e.Object == events.ObjectTask {
			c.definition(e, pos, logTime)
		}
		return
	case events.KindPlanned:
		if e.Reason == events.ReasonClockStep {
			k := c.fire(e)
			k.rewinds = append(k.rewinds, span{from: e.Due, at: pos})
		}
		c.planned(e, pos)
		return
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
			c.decided(e, pos, from, max(e.Count, 1))
			return
		}
	}
	if e.Instance == "" || !e.Kind.OnInstance() {
		return
	}
	i := c.instances[e.Instance]
	if i == nil {
		if e.Kind != events.KindRestated {
			c.wrong(e.Instance, pos, "%s of instance %s, which never fired", e.Kind, e.Instance)
		}
		return
	}
	if i.ended != 0 && e.Kind != events.KindLate && e.Kind != events.KindRestated {
		c.wrong(e.Instance, pos, "%s of instance %s after %s", e.Kind, e.Instance, i.ended)
	}
	outcome := func() {
		if was, again := i.outcomes[e.Attempt]; again {
			c.wrong(e.Instance, pos, "attempt %d of %s has a second outcome %s, the first is at %s", e.Attempt, e.Instance, e.Kind, was)
		}
		if _, started := i.starts[e.Attempt]; !started && e.Reason != events.ReasonQueue {
			c.wrong(e.Instance, pos, "%s of attempt %d of %s, which never started", e.Kind, e.Attempt, e.Instance)
		}
		i.outcomes[e.Attempt] = pos
	}
	switch e.Kind {
	case events.KindDispatched:
		if i.held != 0 {
			c.wrong(e.Instance, pos, "%s is offered while the worker of attempt %d has not let go of it", e.Instance, i.held)
		}
		for attempt := range i.starts {
			if _, ended := i.outcomes[attempt]; !ended {
				c.wrong(e.Instance, pos, "attempt %d of %s is offered while attempt %d runs", e.Attempt, e.Instance, attempt)
			}
		}
		if _, again := i.offered[e.Offer]; again {
			c.wrong(e.Instance, pos, "offer %d of %s is made twice", e.Offer, e.Instance)
		}
		i.offered[e.Offer] = e.Attempt
	case events.KindStarted:
		if was, again := i.starts[e.Attempt]; again {
			c.wrong(e.Instance, pos, "attempt %d of %s started twice, first at %s", e.Attempt, e.Instance, was)
		}
		if pos.Compare(i.lastTok) <= 0 {
			c.wrong(e.Instance, pos, "the fencing token of %s does not rise", e.Instance)
		}
		if attempt, offered := i.offered[e.Offer]; !offered || attempt != e.Attempt {
			c.wrong(e.Instance, pos, "attempt %d of %s started by offer %d, which is none of it", e.Attempt, e.Instance, e.Offer)
		}
		i.lastTok = pos
		i.starts[e.Attempt] = pos
		c.offer(i, e, pos, "started")
	case events.KindWithdrawn:
		c.offer(i, e, pos, "withdrawn")
	case events.KindSucceeded:
		outcome()
		i.ended = e.Kind
	case events.KindFailed:
		outcome()
	case events.KindTimedOut:
		outcome()
		if e.Reason == events.ReasonRun && e.Worker == "" {
			i.held = e.Attempt
		}
	case events.KindLost:
		// The loss of an attempt that has an outcome ends a hold only.
		if _, ended := i.outcomes[e.Attempt]; !ended {
			outcome()
		}
	case events.KindCancelled, events.KindDiscarded, events.KindNodeSkipped, events.KindSkipped:
		if i.held != 0 {
			c.wrong(e.Instance, pos, "%s of %s while the worker of attempt %d has not let go of it", e.Kind, e.Instance, i.held)
		}
		i.ended = e.Kind
	case events.KindDead:
		i.dead = true
	case events.KindRedriven:
		i.dead = false
	}
	if (e.Kind == events.KindLate || e.Kind == events.KindLost) && e.Attempt == i.held {
		i.held = 0
	}
}

func (c *checker) offer(i *checked, e *events.Event, pos events.Position, what string) {
	if was := i.offers[e.Offer]; was != "" {
		c.wrong(e.Instance, pos, "offer %d of %s is %s, and was %s before", e.Offer, e.Instance, what, was)
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
		c.wrong(e.Instance, pos, "instance %s fired twice, first at %s", e.Instance, was.fired)
		return
	}
	c.instances[e.Instance] = &checked{
		fired: pos, starts: map[int64]events.Position{}, offered: map[int64]int64{}, offers: map[int64]string{}, outcomes: map[int64]events.Position{},
	}
	if e.Key != "" {
		key := string(e.Task) + "/" + e.Key
		if was, again := c.keys[key]; again {
			c.wrong(e.Instance, pos, "key %s of task %s fired %s, and %s before", e.Key, e.Task, e.Instance, was)
		}
		c.keys[key] = e.Instance
	}
	if e.Trigger == events.ManualTrigger || e.Trigger == "" {
		return
	}
	k := c.fire(e)
	if was, again := k.fired[e.Due]; again {
		c.wrong(e.Instance, pos, "%s/%s fired twice for %s, first at %s", e.Task, e.Trigger, instant(e.Due), was)
	}
	k.fired[e.Due] = pos
	if early := e.Due*1e6 - at; early > 0 {
		c.wrong(e.Instance, pos, "%s/%s fired %s before its due time", e.Task, e.Trigger, time.Duration(early))
	}
	c.decided(e, pos, e.Due, 1)
}

// definition keeps the calendars of the triggers that are defined.
func (c *checker) definition(e *events.Event, pos events.Position, at int64) {
	name := events.TaskName(e.Name)
	t := c.tasks[name]
	if t == nil {
		t = &checkedTask{triggers: map[events.TriggerName]*checkedTrigger{}}
		c.tasks[name] = t
	}
	switch e.Kind {
	case events.KindRemoved:
		delete(c.tasks, name)
		return
	case events.KindPaused, events.KindResumed:
		paused := e.Kind == events.KindPaused
		for _, trigger := range slices.Sorted(maps.Keys(t.triggers)) {
			tr := t.triggers[trigger]
			switch {
			case e.Trigger == trigger:
				tr.paused, tr.free = paused, true
			case e.Trigger == "":
				tr.free = true
			}
		}
		if e.Trigger == "" {
			t.paused = paused
		}
		return
	}
	d, err := events.DecodeDefinition(e.Body)
	if err != nil || d.Task == nil {
		c.bad(pos, "the definition of task %s cannot be read: %v", e.Name, err)
		return
	}
	old := t.triggers
	t.triggers = map[events.TriggerName]*checkedTrigger{}
	for k := range d.Task.Triggers {
		text := &d.Task.Triggers[k]
		body, err := json.Marshal(text)
		if err != nil {
			c.bad(pos, "trigger %s of task %s: %v", text.Name, e.Name, err)
			continue
		}
		if was := old[text.Name]; was != nil && was.text == string(body) {
			t.triggers[text.Name] = was
			continue
		}
		cal, err := c.calendars.Of(text, time.UnixMicro(at/1000))
		if err != nil {
			c.bad(pos, "trigger %s of task %s: %v", text.Name, e.Name, err)
			continue
		}
		tr := &checkedTrigger{text: string(body), cal: cal, free: true, lax: text.Cron == events.Reboot}
		if was := old[text.Name]; was != nil {
			tr.paused, tr.position = was.paused, was.position
		}
		t.triggers[text.Name] = tr
	}
}

func (c *checker) trigger(e *events.Event) *checkedTrigger {
	if t := c.tasks[e.Task]; t != nil {
		return t.triggers[e.Trigger]
	}
	return nil
}

// after asks a calendar for the due time after another; 0: none.
func after(cal timer.Calendar, due int64) int64 {
	next, err := cal.Next(time.UnixMilli(due).UTC())
	if err != nil || next.IsZero() {
		return 0
	}
	return next.UnixMilli()
}

func instant(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

// planned looks at a trigger that is planned, for the first time or anew.
func (c *checker) planned(e *events.Event, pos events.Position) {
	tr := c.trigger(e)
	if tr == nil {
		return // defined before the log begins
	}
	if e.Reason == events.ReasonClockStep {
		tr.lax = true
	}
	if !tr.lax && !tr.free && tr.planned {
		if next := after(tr.cal, tr.position); next != 0 && next <= e.Due {
			c.bad(pos, "%s/%s is planned anew after %s, and %s has neither fired nor been skipped", e.Task, e.Trigger, instant(e.Due), instant(next))
		}
	}
	if next := after(tr.cal, e.Due); !tr.lax && next != e.Next {
		c.bad(pos, "%s/%s is planned for %s, the calendar says %s", e.Task, e.Trigger, instant(e.Next), instant(next))
	}
	tr.planned, tr.free, tr.position = true, false, e.Due
}

// decided looks at an event that decides about count due times, from the first
// to e.Due: they have to be those that follow the trigger's position.
func (c *checker) decided(e *events.Event, pos events.Position, first, count int64) {
	c.Due += int(count)
	tr := c.trigger(e)
	if tr == nil || tr.lax || !tr.planned {
		return
	}
	at := tr.position
	for n := int64(1); n <= count; n++ {
		next := after(tr.cal, at)
		switch {
		case n == 1 && next != first:
			c.bad(pos, "%s/%s: %s is for %s, and the due time after %s is %s", e.Task, e.Trigger, e.Kind, instant(first), instant(at), instant(next))
			tr.position = e.Due
			return
		case n == count && next != e.Due:
			c.bad(pos, "%s/%s: %s is for %d due times from %s to %s, but the last of so many is %s", e.Task, e.Trigger, e.Kind, count, instant(first), instant(e.Due), instant(next))
		}
		at = next
	}
	tr.position = e.Due
}

func (c *checker) end() {
	for _, name := range slices.Sorted(maps.Keys(c.fires)) {
		k := c.fires[name]
		for due, pos := range k.fired {
			for _, s := range k.skipped {
				if due >= s.from && due <= s.to && !k.rewound(due, s.at, pos) {
					c.bad(pos, "%s fired for %s, which was skipped at %s", name, instant(due), s.at)
				}
			}
		}
		slices.SortFunc(k.skipped, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for n := 1; n < len(k.skipped); n++ {
			if a, b := k.skipped[n-1], k.skipped[n]; b.from <= a.to {
				c.bad(b.at, "%s skipped twice for %s", name, instant(b.from))
			}
		}
	}
	if until := c.opt.CoveredUntil; !until.IsZero() {
		for _, name := range slices.Sorted(maps.Keys(c.tasks)) {
			c.covered(name, until.UnixMilli())
		}
	}
	if !c.opt.Closed {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(c.instances)) {
		if i := c.instances[id]; i.ended == 0 && !i.dead {
			c.wrong(id, i.fired, "instance %s was left open", id)
		}
	}
}

// covered looks for due times of a task that nothing was decided about.
func (c *checker) covered(name events.TaskName, until int64) {
	t := c.tasks[name]
	for _, trigger := range slices.Sorted(maps.Keys(t.triggers)) {
		tr := t.triggers[trigger]
		if t.paused || tr.paused || tr.lax {
			continue
		}
		if !tr.planned {
			c.bad(events.Position{Seq: c.Last}, "%s/%s was never planned", name, trigger)
			continue
		}
		if next := after(tr.cal, tr.position); next != 0 && next <= until {
			c.bad(events.Position{Seq: c.Last}, "%s/%s: the log ends without a word about its due time %s", name, trigger, instant(next))
		}
	}
}
