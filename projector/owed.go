package projector

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/ax-scheduler/ax/events"
)

// Clock says which clock a time is of.
type Clock uint8

const (
	// WallClock is the estimate of the stream server's clock: triggers are due by
	// it.
	WallClock Clock = iota
	// LogClock is log time, which steps of the server's clock do not move:
	// deadlines are due by it.
	LogClock
	// NumClocks is the number of clocks.
	NumClocks
)

// Schedule holds everything in memory that waits for a time: the wheels. It is
// an accelerator only: all of it stands in the due index too.
type Schedule interface {
	// Add notes that ref is due at a time (Unix milliseconds) and gives a handle
	// to cancel by, or false: too far away, LoadDue will bring it nearer.
	Add(c Clock, due int64, ref uint64) (handle uint64, ok bool)
	// Cancel forgets.
	Cancel(c Clock, handle uint64)
	// Expire gives what is due at now (Unix milliseconds) and forgets it.
	Expire(c Clock, now int64, yield func(due int64, ref uint64) bool)
	// Clear forgets everything.
	Clear()
}

// timed ties a row to its place in the schedule.
type timed struct {
	due    int64 // in the schedule at; 0: it is not
	handle uint64
	slot   uint32 // in timedSlots, from 1; 0: none
	ripe   bool   // expired, and a decision about it is owed
}

// timedSlots gives what is in the schedule small numbers, so that the schedule
// holds no pointers.
type timedSlots struct {
	rows []timedRow
	free []uint32
}

type timedRow struct {
	instance *Instance
	trigger  *Trigger
}

func (r timedRow) clock() Clock {
	if r.trigger != nil {
		return WallClock
	}
	return LogClock
}

func (t *timedSlots) take(r timedRow) uint32 {
	if n := len(t.free); n > 0 {
		slot := t.free[n-1]
		t.free = t.free[:n-1]
		t.rows[slot-1] = r
		return slot
	}
	t.rows = append(t.rows, r)
	return uint32(len(t.rows))
}

func (t *timedSlots) release(slot uint32) {
	t.rows[slot-1] = timedRow{}
	t.free = append(t.free, slot)
}

// arm puts a row into the schedule at due, or takes it out at 0.
func (s *State) arm(t *timed, due int64, r timedRow) {
	if s.schedule == nil || t.due == due && !t.ripe {
		return
	}
	t.ripe = false
	if t.due != 0 {
		s.schedule.Cancel(r.clock(), t.handle)
	}
	if due != 0 {
		if t.slot == 0 {
			t.slot = s.slots.take(r)
		}
		if handle, ok := s.schedule.Add(r.clock(), due, uint64(t.slot)); ok {
			t.due, t.handle = due, handle
			return
		}
	}
	t.due, t.handle = 0, 0
	if t.slot != 0 {
		s.slots.release(t.slot)
		t.slot = 0
	}
}

// SetSchedule makes w the schedule and puts everything in memory into it; nil
// ends it. LoadDue brings in the rest.
func (s *State) SetSchedule(w Schedule) {
	s.schedule = w
	s.slots = timedSlots{}
	s.ripeInstances, s.ripeTriggers = nil, nil
	for _, i := range s.instances {
		i.timed = timed{}
		s.arm(&i.timed, i.derived.due, timedRow{instance: i})
	}
	for _, t := range s.triggers {
		t.timed = timed{}
		if !t.gone {
			s.arm(&t.timed, t.Waits(), timedRow{trigger: t})
		}
	}
}

// Expire moves what has become due from the schedule to what is owed: triggers
// by the wall clock, deadlines by log time (both Unix milliseconds).
func (s *State) Expire(wall, log int64) {
	if s.schedule == nil {
		return
	}
	s.schedule.Expire(WallClock, wall, func(_ int64, ref uint64) bool {
		t := s.slots.rows[ref-1].trigger
		s.slots.release(uint32(ref))
		t.timed = timed{ripe: true}
		s.ripeTriggers = append(s.ripeTriggers, t)
		return true
	})
	s.schedule.Expire(LogClock, log, func(_ int64, ref uint64) bool {
		i := s.slots.rows[ref-1].instance
		s.slots.release(uint32(ref))
		i.timed = timed{ripe: true}
		s.ripeInstances = append(s.ripeInstances, i)
		return true
	})
}

// RipeTriggers gives the triggers that are due, the earliest first. Each stays
// until an event moves it.
func (s *State) RipeTriggers() []*Trigger {
	s.ripeTriggers = slices.DeleteFunc(s.ripeTriggers, func(t *Trigger) bool { return !t.timed.ripe })
	slices.SortFunc(s.ripeTriggers, func(a, b *Trigger) int {
		return cmp.Or(cmp.Compare(a.Next, b.Next), strings.Compare(string(a.Task), string(b.Task)), strings.Compare(string(a.Trigger), string(b.Trigger)))
	})
	return s.ripeTriggers
}

// RipeInstances gives the instances whose deadline is over, the earliest first.
// Each stays until an event moves it.
func (s *State) RipeInstances() []*Instance {
	s.ripeInstances = slices.DeleteFunc(s.ripeInstances, func(i *Instance) bool { return !i.timed.ripe })
	slices.SortFunc(s.ripeInstances, func(a, b *Instance) int {
		return cmp.Or(cmp.Compare(a.At, b.At), strings.Compare(string(a.ID), string(b.ID)))
	})
	s.ripeInstances = slices.Compact(s.ripeInstances) // a row that was unloaded and used again may be listed twice
	return s.ripeInstances
}

// Rearm puts a ripe row back into the schedule: its clock went back, and it is
// not due any more.
func (s *State) Rearm(i *Instance, t *Trigger) {
	if i != nil {
		s.arm(&i.timed, i.derived.due, timedRow{instance: i})
	}
	if t != nil {
		s.arm(&t.timed, t.Waits(), timedRow{trigger: t})
	}
}

// LoadDue brings everything that is due up to a time (Unix milliseconds) from
// the due index on disk into memory and the schedule, at most limit rows. It
// reports whether that was all. Flush first: the index is as of the last one.
func (s *State) LoadDue(until int64, limit int) (all bool, err error) {
	all = true
	n := 0
	var instances []events.InstanceID
	var triggers []TriggerID
	err = scanRows(s.db, []byte{keyDue}, dueKey(nil, until+1), func(key, _ []byte) error {
		if n++; n > limit {
			all = false
			return errStop
		}
		switch rest := key[10:]; key[9] {
		case keyInstance:
			instances = append(instances, events.InstanceID(rest))
		case keyTrigger:
			task, trigger, _ := strings.Cut(string(rest), "\x00")
			triggers = append(triggers, TriggerID{events.TaskName(task), events.TriggerName(trigger)})
		}
		return nil
	})
	if err != nil && !errors.Is(err, errStop) {
		return false, err
	}
	for _, id := range instances {
		if i := s.Instance(id); i != nil && !i.timed.ripe {
			s.arm(&i.timed, i.derived.due, timedRow{instance: i})
		}
	}
	for _, id := range triggers {
		if t := s.Trigger(id); t != nil && !t.timed.ripe {
			s.arm(&t.timed, t.Waits(), timedRow{trigger: t})
		}
	}
	return all, s.err
}

// place puts an instance where its row says it belongs, after each change and
// when it is loaded.
func (s *State) place(i *Instance) {
	d := i.derive()
	old := i.derived
	i.derived = d
	if old.queued != d.queued {
		g := s.group(i.Group)
		switch {
		case d.queued:
			g.queue.push(i)
		case i.blocked:
			i.blocked = false
			i.task.blocked = slices.DeleteFunc(i.task.blocked, func(b *Instance) bool { return b == i })
		default:
			g.queue.remove(i)
		}
	}
	if old.active != d.active {
		g := s.group(i.Group)
		if d.active {
			g.active++
			i.task.active++
		} else {
			g.active--
			i.task.active--
			s.unblock(i.task)
		}
	}
	if old.offered != d.offered {
		if d.offered {
			s.group(i.Group).offered++
		} else {
			s.group(i.Group).offered--
		}
	}
	s.placeWorker(i)
	if old.judge != d.judge {
		if d.judge {
			s.judge[i] = struct{}{}
		} else {
			delete(s.judge, i)
		}
	}
	s.arm(&i.timed, d.due, timedRow{instance: i})
}

// workerRuns is what a worker holds: RUNNING or held.
type workerRuns struct {
	runs    map[*Instance]struct{}
	inGroup map[events.Group]int64
}

// placeWorker keeps, for each worker, what it holds.
func (s *State) placeWorker(i *Instance) {
	holds := i.State == events.StateRunning || i.Held
	w := s.workers[i.Worker]
	listed := false
	if w != nil {
		_, listed = w.runs[i]
	}
	switch {
	case holds && !listed:
		if w == nil {
			w = &workerRuns{map[*Instance]struct{}{}, map[events.Group]int64{}}
			s.workers[i.Worker] = w
		}
		w.runs[i] = struct{}{}
		w.inGroup[i.Group]++
	case !holds && listed:
		delete(w.runs, i)
		w.inGroup[i.Group]--
		if len(w.runs) == 0 {
			delete(s.workers, i.Worker)
		}
	}
}

func (s *State) placeTrigger(t *Trigger) {
	plan := !t.gone && t.Unplanned && !t.Paused && !t.TaskPaused && !t.Boot
	if plan != t.planned {
		t.planned = plan
		if plan {
			s.plan[t] = struct{}{}
		} else {
			delete(s.plan, t)
		}
	}
	if t.Boot && !t.gone {
		s.boots[t] = struct{}{}
	} else {
		delete(s.boots, t)
	}
	due := t.Waits()
	if t.gone {
		due = 0
	}
	s.arm(&t.timed, due, timedRow{trigger: t})
}

// Block takes a queued instance out of its group's queue until its task is
// below its limit. It changes where the instance is found, not what it is.
func (s *State) Block(i *Instance) {
	if !i.derived.queued || i.blocked {
		return
	}
	s.group(i.Group).queue.remove(i)
	i.blocked = true
	i.task.blocked = append(i.task.blocked, i)
}

func (s *State) unblock(t *Task) {
	for _, i := range t.blocked {
		i.blocked = false
		s.group(i.Group).queue.push(i)
	}
	t.blocked = t.blocked[:0]
}

// Best gives the instance that a group offers next at now (Unix milliseconds),
// or nil.
func (s *State) Best(g *Group, now int64) *Instance { return g.queue.best(now) }

// Judge gives the instances for which a decision is owed at once, in the order
// of their last event.
func (s *State) Judge() []*Instance {
	if len(s.judge) == 0 {
		return nil
	}
	all := make([]*Instance, 0, len(s.judge))
	for i := range s.judge {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *Instance) int {
		if c := a.Updated.Compare(b.Updated); c != 0 {
			return c
		}
		return strings.Compare(string(a.ID), string(b.ID))
	})
	return all
}

// Unplanned gives the triggers whose next due time is owed, by name.
func (s *State) Unplanned() []*Trigger {
	return sortedTriggers(s.plan, func(*Trigger) bool { return true })
}

// BootDue gives the triggers that the last boot of the machine owes a fire.
func (s *State) BootDue() []*Trigger {
	return sortedTriggers(s.boots, func(t *Trigger) bool {
		return t.BootSeq < s.meta.BootSeq && !t.Paused && !t.TaskPaused
	})
}

func sortedTriggers(set map[*Trigger]struct{}, want func(*Trigger) bool) []*Trigger {
	var all []*Trigger
	for t := range set {
		if want(t) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *Trigger) int {
		if c := strings.Compare(string(a.Task), string(b.Task)); c != 0 {
			return c
		}
		return strings.Compare(string(a.Trigger), string(b.Trigger))
	})
	return all
}

// WorkerRuns gives, by instance id, what a worker holds: what it started and
// has not ended, or has not let go of.
func (s *State) WorkerRuns(name events.WorkerName) []*Instance {
	w := s.workers[name]
	if w == nil {
		return nil
	}
	all := make([]*Instance, 0, len(w.runs))
	for i := range w.runs {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b *Instance) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return all
}

// Holds reports whether a worker holds an attempt.
func (s *State) Holds(name events.WorkerName) bool { return s.workers[name] != nil }

// RunsIn is how many attempts of a group a worker holds.
func (s *State) RunsIn(name events.WorkerName, g events.Group) int64 {
	if w := s.workers[name]; w != nil {
		return w.inGroup[g]
	}
	return 0
}

// Workers gives the workers that hold an attempt, by name.
func (s *State) Workers() []events.WorkerName {
	all := make([]events.WorkerName, 0, len(s.workers))
	for w := range s.workers {
		all = append(all, w)
	}
	slices.Sort(all)
	return all
}

// NextID gives the id of a task's next instance that is due at a time, made on
// a server.
func (s *State) NextID(t *Task, due int64, server events.ServerName) events.InstanceID {
	if k := t.nextK(due); k >= 0 {
		return events.NewInstanceID(t.Name, due, server, k)
	}
	for k := int64(0); ; k++ { // an older time: somebody may have used it already
		if id := events.NewInstanceID(t.Name, due, server, k); s.Instance(id) == nil {
			return id
		}
	}
}

// nextK is the number that makes the id of an instance due at a time unique,
// or -1 where only looking can tell.
func (t *Task) nextK(due int64) int64 {
	switch {
	case t.Fired == 0 || due > t.LastDue:
		return 0
	case due == t.LastDue:
		return t.LastK + 1
	}
	return -1
}

// Focus notes what a decider is working on, so that a decision that cannot be
// made can be parked alone. It is no part of the state.
func (s *State) Focus(i *Instance, t *Trigger) { s.focusInstance, s.focusTrigger = i, t }

// Focused gives what Focus noted last.
func (s *State) Focused() (*Instance, *Trigger) { return s.focusInstance, s.focusTrigger }

// TriggersBeyond gives the triggers whose position is after a time (Unix
// milliseconds) and that will fire again: the clock went back behind them.
func (s *State) TriggersBeyond(wall int64) []*Trigger {
	found := map[*Trigger]struct{}{}
	err := s.scan([]byte{keyTrigger}, func(key, value []byte) error {
		task, trigger, _ := strings.Cut(string(key[1:]), "\x00")
		var row Trigger
		if err := row.decode(TriggerID{events.TaskName(task), events.TriggerName(trigger)}, value); err != nil {
			return err
		}
		if row.Position > wall {
			if t := s.Trigger(row.TriggerID); t != nil {
				found[t] = struct{}{}
			}
		}
		return s.err
	})
	s.fail(err)
	for _, t := range s.dirtyTriggers {
		found[t] = struct{}{}
	}
	return sortedTriggers(found, func(t *Trigger) bool { return !t.gone && t.Position > wall && t.Waits() != 0 })
}
