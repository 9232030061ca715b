package projector

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ax-scheduler/ax/events"
)

// How long finished instances keep their row. The log has them for longer.
const (
	// KeepFinished is how many finished instances of a task keep their row.
	KeepFinished = 1000
	// keepDays is how long the others may keep it, in microseconds ...
	keepDays = 7 * 24 * 3600 * 1e6
	// ... but the newest keepAlways of a task stay, for tasks that run rarely.
	keepAlways = 10
)

// MaxTrim bounds the rows that one checkpoint removes by count.
const MaxTrim = 500

// applyCheckpoint is the only thing that removes old rows, by the event's own
// numbers and time, so that everybody removes the same ones.
func (s *State) applyCheckpoint(e *events.Event, pos events.Position, at int64) string {
	var body events.CheckpointBody
	if json.Unmarshal([]byte(e.Body), &body) != nil {
		return whyBody
	}
	if body.Trim > 0 {
		s.trimByCount(min(body.Trim, MaxTrim))
	}
	if !body.Digest.IsZero() {
		s.meta.Checkpoint, s.meta.CheckpointAt, s.meta.CheckpointHash = pos.Seq, at, body.Digest
		s.trimByAge(at / 1000)
		s.forgetKeys(at / 1e6)
	}
	return ""
}

// trimByCount removes up to n rows of tasks that are over KeepFinished, tasks in
// the order of their names.
func (s *State) trimByCount(n int64) {
	for _, t := range s.overfull() {
		k := s.trim(t, min(t.Finished-KeepFinished, n))
		s.meta.TrimOwed -= k
		if n -= k; n <= 0 {
			return
		}
	}
}

// trimByAge removes the rows of instances that ended before the time minus
// keepDays (Unix microseconds).
func (s *State) trimByAge(now int64) {
	for _, name := range s.taskNames() {
		t := s.Task(name)
		for t != nil && t.Finished > keepAlways && t.Oldest < now-keepDays {
			over := t.Finished > KeepFinished
			if s.trim(t, 1) == 0 {
				break
			}
			if over {
				s.meta.TrimOwed--
			}
		}
	}
}

// overfull gives the tasks with more finished rows than KeepFinished, by name.
func (s *State) overfull() []*Task {
	found := map[events.TaskName]*Task{}
	err := s.scan([]byte{keyOverfull}, func(key, _ []byte) error {
		name := events.TaskName(key[1:])
		if t := s.Task(name); t != nil {
			found[t.Name] = t
		}
		return s.err
	})
	s.fail(err)
	for _, t := range s.dirtyTasks {
		found[t.Name] = t
	}
	var all []*Task
	for _, t := range found {
		if t.Finished > KeepFinished {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *Task) int { return strings.Compare(string(a.Name), string(b.Name)) })
	return all
}

// taskNames gives the names of all tasks, in order.
func (s *State) taskNames() []events.TaskName {
	var names []events.TaskName
	err := s.scan([]byte{keyTask}, func(key, _ []byte) error {
		names = append(names, events.TaskName(key[1:]))
		return nil
	})
	s.fail(err)
	for _, t := range s.dirtyTasks {
		if !t.stored {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	return names
}

// trim removes the rows of up to n of the task's finished instances, the ones
// that ended first, and returns how many there were.
func (s *State) trim(t *Task, n int64) (done int64) {
	prefix := finishedPrefix(nil, t.Name)
	from := prefix
	if !t.trimmed.IsZero() {
		from = append(finishedKey(nil, t.Name, t.trimmed), 0)
	}
	t.Oldest = 0
	err := scanRows(s.db, from, after(prefix), func(key, value []byte) error {
		i := s.Instance(events.InstanceID(value))
		if i == nil {
			return fmt.Errorf("%w: finished instance %s has no row", ErrCorrupt, value)
		}
		if done == n {
			t.Oldest = i.EndedAt
			return errStop
		}
		t.trimmed = positionOf(key)
		s.forget(i)
		done++
		return nil
	})
	if !errors.Is(err, errStop) {
		s.fail(err)
	}
	// Those that finished since the last flush come after all that are on disk.
	for done < n && len(t.done) > 0 {
		s.forget(t.done[0])
		t.done = t.done[1:]
		done++
	}
	if t.Oldest == 0 && len(t.done) > 0 {
		t.Oldest = t.done[0].EndedAt
	}
	t.Finished -= done
	s.touchTask(t)
	return done
}

// forget removes a finished instance from the views.
func (s *State) forget(i *Instance) {
	i.gone = true
	s.touch(i)
}

// forgetKeys removes the idempotency keys whose time is over at now (Unix
// milliseconds).
func (s *State) forgetKeys(now int64) {
	for k, row := range s.keys {
		if row.Until <= now {
			row.deleted = true
			s.keys[k] = row
		}
	}
	err := s.scan([]byte{keyKey}, func(key, value []byte) error {
		var row keyRow
		if err := row.decode(value); err != nil {
			return err
		}
		if _, newer := s.keys[string(key)]; !newer && row.Until <= now {
			row.deleted = true
			s.keys[string(key)] = row
		}
		return nil
	})
	s.fail(err)
}

// errStop ends a scan early.
var errStop = errors.New("stop")
