package projector

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/ax-scheduler/ax/events"
)

// restatement is the body of a restated event: one live fact, whole.
type restatement struct {
	Task       *Task             `json:"task,omitempty"`
	Version    int64             `json:"version,omitempty"`    // of Definition
	Definition json.RawMessage   `json:"definition,omitempty"` // of a task
	Trigger    *Trigger          `json:"trigger,omitempty"`
	Group      *restatedGroup    `json:"group,omitempty"`
	Instance   *restatedInstance `json:"instance,omitempty"`
	Key        *restatedKey      `json:"key,omitempty"`
	Namespace  *restatedMeta     `json:"namespace,omitempty"`
}

// restatedGroup is a group with its definition as JSON, so that it does not grow.
type restatedGroup struct {
	*Group
	Body json.RawMessage `json:"body,omitempty"`
}

// restatedInstance is an instance with its JSON as JSON, so that it does not grow.
// A result that would make it too large for an event is left out, and is then no
// part of the instance any more.
type restatedInstance struct {
	*Instance
	Params json.RawMessage `json:"params,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

type restatedKey struct {
	Task events.TaskName `json:"task"`
	Key  string          `json:"key"`
	Row  keyRow          `json:"row"`
}

type restatedMeta struct {
	Inbox   uint64 `json:"inbox,omitempty"`
	Boot    string `json:"boot,omitempty"`
	BootSeq uint64 `json:"bootSeq,omitempty"`
	BootAt  int64  `json:"bootAt,omitempty"`
}

// applyRestated takes a fact as it stands. For a fold that has seen all its
// events nothing changes but the place from which the log could be folded anew.
// A fold that began after some of them has the fact from here on.
//
// Counts of instances are never restated: they are of the rows a fold has.
func (s *State) applyRestated(e *events.Event, pos events.Position) string {
	var r restatement
	dec := json.NewDecoder(bytes.NewReader([]byte(e.Body)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return whyBody
	}
	if r.Version > 0 && len(r.Definition) > 0 {
		d, err := events.DecodeDefinition(string(r.Definition))
		if err != nil || d.Task == nil || d.Metadata.Name != e.Name {
			return whyBody
		}
		name := events.TaskName(strings.Clone(e.Name))
		if _, known := s.definition(name, r.Version); !known {
			s.pending[string(versionKey(s.batch[:0], name, r.Version))] = bytes.Clone(r.Definition)
		}
		if r.Task == nil {
			return ""
		}
	}
	switch {
	case r.Task != nil:
		name := events.TaskName(strings.Clone(e.Name))
		if _, known := s.definition(name, r.Task.Version); !known {
			return whyBody
		}
		t := s.Task(name)
		if t == nil {
			t = &Task{Name: name}
			s.tasks[name] = t
		}
		row := *t
		*t = *r.Task
		t.Name, t.Stated, t.used = name, pos, true
		t.Open, t.Dead, t.Finished, t.Oldest = row.Open, row.Dead, row.Finished, row.Oldest
		t.dirty, t.stored, t.overfull, t.refs = row.dirty, row.stored, row.overfull, row.refs
		t.active, t.blocked, t.done, t.trimmed = row.active, row.blocked, row.done, row.trimmed
		s.touchTask(t)
	case r.Trigger != nil:
		id := r.Trigger.TriggerID
		if s.Task(id.Task) == nil {
			return whyNoTask
		}
		tr := s.Trigger(id)
		if tr == nil {
			if tr = s.triggers[id]; tr == nil { // not even gone
				tr = &Trigger{}
				s.triggers[id] = tr
			}
		}
		row := *tr
		*tr = *r.Trigger
		tr.Stated, tr.used = pos, true
		tr.timed, tr.planned, tr.dirty, tr.stored = row.timed, row.planned, row.dirty, row.stored
		s.touchTrigger(tr)
		s.placeTrigger(tr)
	case r.Group != nil:
		row := r.Group
		if row.Group == nil {
			return whyBody
		}
		g := s.group(row.Name)
		g.Version, g.Body, g.Limit, g.Defined, g.gone = row.Version, string(row.Body), row.Limit, pos, false
		s.touchGroup(g)
	case r.Instance != nil:
		row := r.Instance.Instance
		if row == nil {
			return whyBody
		}
		row.Params, row.Result = string(r.Instance.Params), string(r.Instance.Result)
		return s.restateInstance(row, pos)
	case r.Key != nil:
		k := string(idempotencyKey(s.batch[:0], r.Key.Task, r.Key.Key))
		row := r.Key.Row
		row.Stated = pos
		s.keys[k] = row
	case r.Namespace != nil:
		n := r.Namespace
		s.meta.Inbox = max(s.meta.Inbox, n.Inbox)
		if s.meta.BootSeq == 0 {
			s.meta.Boot, s.meta.BootSeq, s.meta.BootAt = n.Boot, n.BootSeq, n.BootAt
		}
		s.meta.Stated = pos
	default:
		return whyBody
	}
	return ""
}

func (s *State) restateInstance(row *Instance, pos events.Position) string {
	i := s.Instance(row.ID)
	if i != nil {
		if cell := events.Lookup(i.State, events.KindRestated); cell.Verdict != events.Stays {
			return cell.Why
		}
		i.Params, i.Result, i.Stated = row.Params, row.Result, pos
		s.touch(i)
		return ""
	}
	if row.ID == "" || row.State == events.StateNone || row.State.Final() {
		return whyBody
	}
	t := s.Task(row.Task)
	if t == nil || s.Spec(row.Task, row.Version) == nil {
		return whyNoTask
	}
	i = s.newInstance()
	transitions := append(i.Transitions, row.Transitions...)
	*i = *row
	i.Transitions = transitions
	i.Stated, i.used = pos, true
	s.instances[i.ID] = i
	s.pin(i)
	if i.Open() {
		t.Open++
	}
	if i.State == events.StateDead {
		t.Dead++
	}
	s.touchTask(t)
	s.touch(i)
	s.place(i)
	return ""
}

// encode writes the body without the escapes that HTML would need.
func (r *restatement) encode() (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(r); err != nil {
		return "", err
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// restateOrder is the order in which facts are restated: a task before what
// needs it.
const restateOrder = string(keyTask) + string(keyGroup) + string(keyTrigger) + string(keyInstance) + string(keyKey)

// Restate gives restated events for live facts that were last stated whole
// before the sequence horizon, and for triggers and instances that were stated
// before their task was: after a full round a fold that begins at the horizon
// has them all. It gives at most limit events and goes on from where the call
// before it ended; cursor and next are "" at the beginning and end of a round.
// Flush first.
func (s *State) Restate(horizon uint64, cursor string, limit int) (out []events.Event, next string, err error) {
	add := func(object events.ObjectKind, name string, r restatement) error {
		body, err := r.encode()
		if err == nil && len(body) > events.MaxBody && r.Instance != nil {
			r.Instance.Result = nil
			body, err = r.encode()
		}
		if err != nil {
			return fmt.Errorf("restated %s %s: %w", object, name, err)
		}
		out = append(out, events.Event{Kind: events.KindRestated, Object: object, Name: name, Body: body})
		return nil
	}
	if cursor == "" {
		if s.meta.Stated.Seq < horizon && (s.meta.Inbox > 0 || s.meta.BootSeq > 0) {
			m := &restatedMeta{s.meta.Inbox, s.meta.Boot, s.meta.BootSeq, s.meta.BootAt}
			if err := add(events.ObjectNamespace, "namespace", restatement{Namespace: m}); err != nil {
				return nil, "", err
			}
		}
		cursor = restateOrder[:1]
	}
	scanned := 0
	for phase := strings.IndexByte(restateOrder, cursor[0]); phase < len(restateOrder); phase++ {
		prefix := []byte{restateOrder[phase]}
		if cursor[0] != prefix[0] {
			cursor = string(prefix)
		}
		err = scanRows(s.db, []byte(cursor), after(prefix), func(key, value []byte) error {
			// Looking costs too: a call ends after so many rows, found or not.
			if scanned++; len(out) >= limit || scanned > 50*limit {
				next = string(key)
				return errStop
			}
			return s.restateRow(horizon, key, value, add)
		})
		if err != nil {
			break
		}
	}
	if errors.Is(err, errStop) {
		err = nil
	}
	return out, next, err
}

// restateRow restates one row if it needs it, as it stands in memory.
func (s *State) restateRow(horizon uint64, key, value []byte, add func(events.ObjectKind, string, restatement) error) error {
	name := string(key[1:])
	switch key[0] {
	case keyTask:
		t := s.Task(events.TaskName(name))
		if t == nil || t.Stated.Seq >= horizon || t.Removed && t.Open+t.Dead == 0 {
			return s.err
		}
		body, _ := s.Definition(t)
		return add(events.ObjectTask, name, restatement{Task: t, Version: t.Version, Definition: json.RawMessage(body)})
	case keyGroup:
		g := s.groups[events.Group(name)]
		if g == nil || g.Version == 0 || g.Defined.Seq >= horizon {
			return nil
		}
		return add(events.ObjectGroup, name, restatement{Group: &restatedGroup{g, json.RawMessage(g.Body)}})
	case keyTrigger:
		task, trigger, _ := strings.Cut(name, "\x00")
		t := s.Trigger(TriggerID{events.TaskName(task), events.TriggerName(trigger)})
		if t == nil || t.Stated.Seq >= horizon && !s.statedBeforeTask(t.Stated, t.Task) {
			return s.err
		}
		return add(events.ObjectTrigger, task+"/"+trigger, restatement{Trigger: t})
	case keyInstance:
		var row Instance // most are final and need not come into memory
		if err := row.decode(events.InstanceID(name), value); err != nil {
			return err
		}
		if row.State.Final() && !row.Held || row.Stated.Seq >= horizon && !s.statedBeforeTask(row.Stated, row.Task) {
			return nil
		}
		i := s.Instance(row.ID)
		if i == nil || i.State.Final() && !i.Held {
			return s.err
		}
		if t := s.Task(i.Task); t != nil && t.Version != i.Version {
			body, _ := s.definition(i.Task, i.Version)
			if err := add(events.ObjectTask, string(i.Task), restatement{Version: i.Version, Definition: json.RawMessage(body)}); err != nil {
				return err
			}
		}
		return add(events.ObjectInstance, name, restatement{Instance: &restatedInstance{i, json.RawMessage(i.Params), json.RawMessage(i.Result)}})
	case keyKey:
		task, k, _ := strings.Cut(name, "\x00")
		var row keyRow
		if err := row.decode(value); err != nil {
			return err
		}
		if row.Stated.Seq >= horizon || row.Until*1e6 <= s.meta.Time {
			return nil
		}
		return add(events.ObjectKey, task+"/"+k, restatement{Key: &restatedKey{events.TaskName(task), k, row}})
	}
	return nil
}

func (s *State) statedBeforeTask(p events.Position, task events.TaskName) bool {
	t := s.Task(task)
	return t != nil && p.Compare(t.Stated) < 0
}
