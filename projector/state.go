package projector

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"github.com/ax-scheduler/ax/events"
)

// State is the folded state of a shard. One goroutine owns it.
type State struct {
	db   *pebble.DB
	meta Meta
	err  error // the first that the views gave; it ends the state

	// Rows in memory: those that something is owed for, those that changed since
	// the last flush, and those read lately.
	tasks     map[events.TaskName]*Task
	triggers  map[TriggerID]*Trigger
	groups    map[events.Group]*Group
	instances map[events.InstanceID]*Instance
	specs     map[specKey]*events.TaskSpec
	keys      map[string]keyRow // by the row's key; until the next flush

	// What is owed, derived from the rows.
	judge   map[*Instance]struct{}
	plan    map[*Trigger]struct{}
	boots   map[*Trigger]struct{}
	workers map[events.WorkerName]*workerRuns

	dirtyInstances []*Instance
	dirtyTasks     []*Task
	dirtyTriggers  []*Trigger
	dirtyGroups    []*Group
	pending        map[string][]byte // other rows to write; nil deletes

	focusInstance *Instance
	focusTrigger  *Trigger

	last  events.Position // of the event applied last
	ahead int             // events applied that no Advance has covered

	schedule      Schedule
	slots         timedSlots
	ripeInstances []*Instance
	ripeTriggers  []*Trigger

	decoded  events.Decoded
	batch    []byte // scratch for keys
	freeInst []*Instance

	sweepInstances, sweepTriggers, sweepTasks int // sizes at which the next sweep is due
}

type specKey struct {
	task    events.TaskName
	version int64
}

// keyRow remembers the idempotency key of a caller.
type keyRow struct {
	Instance events.InstanceID `json:"instance"`
	Until    int64             `json:"until"` // Unix milliseconds
	Stated   events.Position   `json:"stated"`
	deleted  bool
}

// KeyMemory is how long an idempotency key is remembered, in milliseconds.
const KeyMemory = 24 * 3600 * 1000

// Bounds of what is kept in memory without need.
const (
	maxIdleTasks     = 20_000
	maxIdleTriggers  = 20_000
	maxIdleInstances = 20_000
	maxIdleSpecs     = 20_000
)

// NewState loads what is in the views.
func NewState(v *Views) (*State, error) {
	s := &State{db: v.db, batch: make([]byte, 0, 512)}
	if err := s.Load(); err != nil {
		return nil, err
	}
	return s, nil
}

// Load throws away everything in memory, events that were applied ahead of
// their commit included, and loads from the views what is owed.
func (s *State) Load() error {
	if s.schedule != nil {
		s.schedule.Clear()
	}
	*s = State{
		db: s.db, schedule: s.schedule, decoded: s.decoded, batch: s.batch,
		tasks:     map[events.TaskName]*Task{},
		triggers:  map[TriggerID]*Trigger{},
		groups:    map[events.Group]*Group{},
		instances: map[events.InstanceID]*Instance{},
		specs:     map[specKey]*events.TaskSpec{},
		keys:      map[string]keyRow{},
		judge:     map[*Instance]struct{}{},
		plan:      map[*Trigger]struct{}{},
		boots:     map[*Trigger]struct{}{},
		workers:   map[events.WorkerName]*workerRuns{},
		pending:   map[string][]byte{},

		sweepInstances: maxIdleInstances, sweepTriggers: maxIdleTriggers, sweepTasks: maxIdleTasks,
	}
	if b, ok := s.get([]byte{keyMeta}); ok {
		if err := s.meta.decode(b); err != nil {
			return err
		}
	}
	err := s.scan([]byte{keyGroup}, func(key, value []byte) error {
		g := &Group{}
		if err := g.decode(events.Group(key[1:]), value); err != nil {
			return err
		}
		s.groups[g.Name] = g
		return nil
	})
	if err != nil {
		return err
	}
	err = s.scan([]byte{keyOpen}, func(key, _ []byte) error {
		switch key[1] {
		case keyInstance:
			s.Instance(events.InstanceID(key[2:]))
		case keyTrigger:
			task, trigger, _ := bytes.Cut(key[2:], []byte{0})
			s.Trigger(TriggerID{events.TaskName(task), events.TriggerName(trigger)})
		}
		return s.err
	})
	if err != nil {
		return err
	}
	return s.err
}

// Err gives the first error of the views. A state with an error is no fold of
// anything any more and must not be decided from.
func (s *State) Err() error { return s.err }

func (s *State) fail(err error) {
	if s.err == nil && err != nil {
		s.err = fmt.Errorf("views: %w", err)
	}
}

// Meta gives the row about the fold itself. Events applied ahead of their
// commit show in it but for Cursor and Hash.
func (s *State) Meta() *Meta { return &s.meta }

// Last gives the position of the event that was applied last.
func (s *State) Last() events.Position { return s.last }

// get reads a row from the views. The value is the caller's.
func (s *State) get(key []byte) ([]byte, bool) {
	v, closer, err := s.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false
	}
	if err != nil {
		s.fail(err)
		return nil, false
	}
	defer closer.Close()
	return bytes.Clone(v), true
}

// scan calls f for every row in the views whose key begins with prefix.
func (s *State) scan(prefix []byte, f func(key, value []byte) error) error {
	return scanRows(s.db, prefix, after(prefix), f)
}

func scanRows(r pebble.Reader, from, to []byte, f func(key, value []byte) error) (err error) {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	defer func() {
		if e := it.Close(); err == nil && e != nil {
			err = fmt.Errorf("views: %w", e)
		}
	}()
	for it.First(); it.Valid(); it.Next() {
		if err := f(it.Key(), it.Value()); err != nil {
			return err
		}
	}
	return nil
}

// Task gives a task that is or was defined, or nil.
func (s *State) Task(name events.TaskName) *Task {
	if t, ok := s.tasks[name]; ok {
		t.used = true
		return t
	}
	b, ok := s.get(taskKey(s.batch[:0], name))
	if !ok {
		return nil
	}
	t := &Task{used: true}
	if err := t.decode(events.TaskName(strings.Clone(string(name))), b); err != nil {
		s.fail(err)
		return nil
	}
	t.stored, t.overfull = true, t.Finished > KeepFinished
	s.tasks[t.Name] = t
	return t
}

// Trigger gives a trigger, or nil.
func (s *State) Trigger(id TriggerID) *Trigger {
	if t, ok := s.triggers[id]; ok {
		t.used = true
		return t.live()
	}
	b, ok := s.get(triggerKey(s.batch[:0], id))
	if !ok {
		return nil
	}
	t := &Trigger{used: true}
	id = TriggerID{events.TaskName(strings.Clone(string(id.Task))), events.TriggerName(strings.Clone(string(id.Trigger)))}
	if err := t.decode(id, b); err != nil {
		s.fail(err)
		return nil
	}
	t.stored.row, t.stored.open, t.stored.due = true, t.loaded(), t.Waits()
	s.triggers[id] = t
	s.placeTrigger(t)
	return t
}

func (t *Trigger) live() *Trigger {
	if t.gone {
		return nil
	}
	return t
}

// Instance gives an instance, or nil.
func (s *State) Instance(id events.InstanceID) *Instance {
	if i, ok := s.instances[id]; ok {
		if i.gone {
			return nil
		}
		i.used = true
		return i
	}
	b, ok := s.get(instanceKey(s.batch[:0], id))
	if !ok {
		return nil
	}
	i := s.newInstance()
	if err := i.decode(events.InstanceID(strings.Clone(string(id))), b); err != nil {
		s.fail(err)
		return nil
	}
	i.stored = i.index()
	i.used = true
	s.instances[i.ID] = i
	s.pin(i)
	s.place(i)
	return i
}

func (s *State) newInstance() *Instance {
	if n := len(s.freeInst); n > 0 {
		i := s.freeInst[n-1]
		s.freeInst = s.freeInst[:n-1]
		*i = Instance{Transitions: i.Transitions[:0]}
		return i
	}
	return &Instance{Transitions: make([]Transition, 0, 6)}
}

// pin ties the instance to its task, which then stays in memory.
func (s *State) pin(i *Instance) {
	i.task = s.Task(i.Task)
	if i.task == nil { // its task's row is lost: a corrupt view
		s.fail(fmt.Errorf("%w: instance %s has no task %s", ErrCorrupt, i.ID, i.Task))
		i.task = &Task{Name: i.Task}
	}
	i.task.refs++
}

// group gives a group's row, made on demand.
func (s *State) group(name events.Group) *Group {
	g, ok := s.groups[name]
	if !ok {
		g = &Group{Name: events.Group(strings.Clone(string(name)))}
		s.groups[g.Name] = g
	}
	return g
}

// Group gives a group that is defined or in use, or nil.
func (s *State) Group(name events.Group) *Group {
	return s.groups[name]
}

// Groups gives all groups that are defined or in use, by name.
func (s *State) Groups() []*Group {
	all := make([]*Group, 0, len(s.groups))
	for _, g := range s.groups {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b *Group) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return all
}

// Spec gives a version of a task's definition, or nil.
func (s *State) Spec(task events.TaskName, version int64) *events.TaskSpec {
	k := specKey{task, version}
	if spec, ok := s.specs[k]; ok {
		return spec
	}
	body, ok := s.definition(task, version)
	if !ok {
		return nil
	}
	d, err := events.DecodeDefinition(body)
	if err != nil || d.Task == nil {
		s.fail(fmt.Errorf("%w: task %s, version %d: %w", ErrCorrupt, task, version, err))
		return nil
	}
	if len(s.specs) >= maxIdleSpecs {
		clear(s.specs)
	}
	k.task = events.TaskName(strings.Clone(string(task)))
	s.specs[k] = d.Task
	return d.Task
}

// definition gives the text of a version of a task's definition.
func (s *State) definition(task events.TaskName, version int64) (string, bool) {
	key := versionKey(s.batch[:0], task, version)
	if b, ok := s.pending[string(key)]; ok {
		return string(b), b != nil
	}
	b, ok := s.get(key)
	return string(b), ok
}

// Definition gives the text of a task's newest definition.
func (s *State) Definition(t *Task) (string, bool) { return s.definition(t.Name, t.Version) }

// Key gives the instance that a caller's idempotency key led to, if it is still
// remembered at now (Unix milliseconds).
func (s *State) Key(task events.TaskName, key string, now int64) (events.InstanceID, bool) {
	k := idempotencyKey(s.batch[:0], task, key)
	row, ok := s.keys[string(k)]
	if !ok {
		b, found := s.get(k)
		if !found {
			return "", false
		}
		if err := row.decode(b); err != nil {
			s.fail(err)
			return "", false
		}
	}
	return row.Instance, !row.deleted && row.Until > now
}

func (k *keyRow) encode(b []byte) []byte {
	w := rowWriter{b}
	w.string(string(k.Instance))
	w.int(k.Until)
	w.position(k.Stated)
	return w.b
}

func (k *keyRow) decode(b []byte) error {
	r := rowReader{b: b}
	k.Instance = events.InstanceID(r.string())
	k.Until = r.int()
	k.Stated = r.position()
	return r.end("idempotency key")
}

func (s *State) touch(i *Instance) {
	if !i.dirty {
		i.dirty = true
		s.dirtyInstances = append(s.dirtyInstances, i)
	}
}

func (s *State) touchTask(t *Task) {
	if !t.dirty {
		t.dirty = true
		s.dirtyTasks = append(s.dirtyTasks, t)
	}
}

func (s *State) touchTrigger(t *Trigger) {
	if !t.dirty {
		t.dirty = true
		s.dirtyTriggers = append(s.dirtyTriggers, t)
	}
}

func (s *State) touchGroup(g *Group) {
	if !g.dirty {
		g.dirty = true
		s.dirtyGroups = append(s.dirtyGroups, g)
	}
}
