package projector

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Dirty is how many rows have changed since the last flush.
func (s *State) Dirty() int {
	return len(s.dirtyInstances) + len(s.dirtyTriggers) + len(s.dirtyTasks) + len(s.keys)
}

// Ahead reports whether events were applied that no Advance has covered yet.
// Then nothing may be written.
func (s *State) Ahead() bool { return s.ahead > 0 }

// Flush writes every row that changed since the last flush, with the cursor and
// the hash, in one batch. Afterwards Views shows the state as of the cursor.
func (s *State) Flush() error {
	if s.err != nil {
		return s.err
	}
	if s.ahead > 0 {
		return errors.New("views: flush of events that are not in the log yet") // a mistake in the caller
	}
	b := s.db.NewBatch()
	defer b.Close()
	w := batchWriter{b: b, key: s.batch[:0]}
	for _, i := range s.dirtyInstances {
		w.instance(i)
	}
	for _, t := range s.dirtyTriggers {
		w.trigger(t)
	}
	for _, t := range s.dirtyTasks {
		w.task(t)
	}
	for _, g := range s.dirtyGroups {
		w.group(g)
	}
	for key, row := range s.keys {
		if row.deleted {
			w.delete([]byte(key))
		} else {
			w.set([]byte(key), row.encode(w.value[:0]))
		}
	}
	for key, value := range s.pending {
		w.set([]byte(key), value)
	}
	w.set([]byte{keyMeta}, s.meta.encode(w.value[:0]))
	if w.err == nil {
		w.err = b.Commit(pebble.NoSync)
	}
	if w.err != nil {
		s.fail(w.err)
		return s.err
	}
	s.flushed()
	return s.err
}

// flushed forgets what is written and need not stay in memory.
func (s *State) flushed() {
	for _, i := range s.dirtyInstances {
		i.dirty = false
		if i.gone || i.State.Final() {
			s.unload(i)
		}
	}
	for _, t := range s.dirtyTriggers {
		t.dirty = false
		if t.gone {
			delete(s.triggers, t.TriggerID)
		}
	}
	for _, t := range s.dirtyTasks {
		t.dirty = false
		t.done = t.done[:0]
	}
	for _, g := range s.dirtyGroups {
		g.dirty, g.gone = false, false
	}
	clear(s.dirtyInstances)
	s.dirtyInstances, s.dirtyTriggers = s.dirtyInstances[:0], s.dirtyTriggers[:0]
	s.dirtyTasks, s.dirtyGroups = s.dirtyTasks[:0], s.dirtyGroups[:0]
	clear(s.keys)
	clear(s.pending)
	s.sweep()
}

// sweep keeps the rows that are in memory without need to their bounds: it
// drops those that were not used since the sweep before. A sweep that finds most
// of them needed lets the map grow to twice its size before the next.
func (s *State) sweep() {
	if len(s.instances) > s.sweepInstances {
		for _, i := range s.instances {
			switch {
			case i.derived.loaded() || i.timed.due != 0 || i.timed.ripe || i.dirty:
			case i.used:
				i.used = false
			default:
				s.unload(i)
			}
		}
		s.sweepInstances = max(maxIdleInstances, 2*len(s.instances))
	}
	if len(s.triggers) > s.sweepTriggers {
		for id, t := range s.triggers {
			switch {
			case t.loaded() || t.timed.due != 0 || t.timed.ripe || t.dirty:
			case t.used:
				t.used = false
			default:
				delete(s.triggers, id)
			}
		}
		s.sweepTriggers = max(maxIdleTriggers, 2*len(s.triggers))
	}
	if len(s.tasks) > s.sweepTasks {
		for name, t := range s.tasks {
			switch {
			case t.refs > 0 || t.dirty:
			case t.used:
				t.used = false
			default:
				delete(s.tasks, name)
			}
		}
		s.sweepTasks = max(maxIdleTasks, 2*len(s.tasks))
	}
}

func (s *State) unload(i *Instance) {
	delete(s.instances, i.ID)
	i.task.refs--
	s.arm(&i.timed, 0, timedRow{instance: i})
	if len(s.freeInst) < maxIdleInstances {
		i.task = nil
		s.freeInst = append(s.freeInst, i)
	}
}

// batchWriter writes rows and the index rows that follow from them: it adds and
// removes only what differs from what is stored.
type batchWriter struct {
	b     *pebble.Batch
	key   []byte
	value []byte
	err   error
}

func (w *batchWriter) set(key, value []byte) {
	if w.err == nil {
		w.err = w.b.Set(key, value, nil)
	}
	w.key = key[:0]
	if cap(value) > cap(w.value) {
		w.value = value
	}
}

func (w *batchWriter) delete(key []byte) {
	if w.err == nil {
		w.err = w.b.Delete(key, nil)
	}
	w.key = key[:0]
}

func (w *batchWriter) instance(i *Instance) {
	var x storedIndex
	if !i.gone {
		x = i.index()
	}
	old := i.stored
	i.stored = x
	switch {
	case x.row:
		w.set(instanceKey(w.key[:0], i.ID), i.encode(w.value[:0]))
		if !old.row {
			w.set(listedKey(w.key[:0], i.Fired), []byte(i.ID))
		}
	case old.row:
		w.delete(instanceKey(w.key[:0], i.ID))
		w.delete(listedKey(w.key[:0], i.Fired))
	}
	if x.open != old.open {
		if x.open {
			w.set(openInstanceKey(w.key[:0], i.ID), nil)
		} else {
			w.delete(openInstanceKey(w.key[:0], i.ID))
		}
	}
	if x.due != old.due {
		if old.due != 0 {
			w.delete(dueInstanceKey(w.key[:0], old.due, i.ID))
		}
		if x.due != 0 {
			w.set(dueInstanceKey(w.key[:0], x.due, i.ID), nil)
		}
	}
	if x.dead != old.dead {
		if !old.dead.IsZero() {
			w.delete(deadKey(w.key[:0], old.dead))
		}
		if !x.dead.IsZero() {
			w.set(deadKey(w.key[:0], x.dead), []byte(i.ID))
		}
	}
	if x.finished != old.finished {
		if !old.finished.IsZero() {
			w.delete(finishedKey(w.key[:0], i.Task, old.finished))
		}
		if !x.finished.IsZero() {
			w.set(finishedKey(w.key[:0], i.Task, x.finished), []byte(i.ID))
		}
	}
}

func (w *batchWriter) trigger(t *Trigger) {
	old := t.stored
	t.stored.row, t.stored.open, t.stored.due = !t.gone, !t.gone && t.loaded(), t.Waits()
	if t.gone {
		t.stored.due = 0
	}
	switch {
	case t.stored.row:
		w.set(triggerKey(w.key[:0], t.TriggerID), t.encode(w.value[:0]))
	case old.row:
		w.delete(triggerKey(w.key[:0], t.TriggerID))
	}
	if t.stored.open != old.open {
		if t.stored.open {
			w.set(openTriggerKey(w.key[:0], t.TriggerID), nil)
		} else {
			w.delete(openTriggerKey(w.key[:0], t.TriggerID))
		}
	}
	if t.stored.due != old.due {
		if old.due != 0 {
			w.delete(dueTriggerKey(w.key[:0], old.due, t.TriggerID))
		}
		if t.stored.due != 0 {
			w.set(dueTriggerKey(w.key[:0], t.stored.due, t.TriggerID), nil)
		}
	}
}

func (w *batchWriter) task(t *Task) {
	t.stored = true
	w.set(taskKey(w.key[:0], t.Name), t.encode(w.value[:0]))
	if overfull := t.Finished > KeepFinished; overfull != t.overfull {
		t.overfull = overfull
		if overfull {
			w.set(overfullKey(w.key[:0], t.Name), nil)
		} else {
			w.delete(overfullKey(w.key[:0], t.Name))
		}
	}
}

func (w *batchWriter) group(g *Group) {
	if g.gone {
		w.delete(groupKey(w.key[:0], g.Name))
		return
	}
	w.set(groupKey(w.key[:0], g.Name), g.encode(w.value[:0]))
}

// Sync makes everything flushed so far survive the end of the process. The
// write-ahead log is off, so without it the next start folds a part of the log
// again.
func (s *State) Sync() error {
	if err := s.db.Flush(); err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return nil
}
