package projector

import (
	"encoding/json"
	"strings"

	"github.com/ax-scheduler/ax/events"
)

// Apply folds one event that stands at pos and was decided at log time at (Unix
// nanoseconds). It reports whether the event had an effect, and if not, why.
//
// An event that has none is no fault of the log: it is of an attempt that is
// over, or of a trigger position that has passed. It still moves the cursor.
func (s *State) Apply(e *events.Event, pos events.Position, at int64, actor string) (why string) {
	s.ahead++
	s.last = pos
	s.meta.Time = max(s.meta.Time, at)
	if e.Inbox > s.meta.Inbox {
		s.meta.Inbox = e.Inbox
	}
	if e.Actor != "" {
		actor = e.Actor
	}
	micros := at / 1000
	switch e.Kind {
	case events.KindDefined:
		why = s.applyDefined(e, pos, micros)
	case events.KindRemoved:
		why = s.applyRemoved(e)
	case events.KindPaused:
		why = s.applyPause(e, true, micros)
	case events.KindResumed:
		why = s.applyPause(e, false, micros)
	case events.KindRestated:
		why = s.applyRestated(e, pos)
	case events.KindPlanned:
		why = s.applyPlanned(e)
	case events.KindFired:
		why = s.applyFired(e, pos, micros, actor)
	case events.KindSkipped:
		if e.Instance == "" {
			why = s.applySkippedDue(e)
		} else {
			why = s.applyToInstance(e, pos, micros)
		}
	case events.KindIncident:
		s.applyIncident(e)
	case events.KindCheckpoint:
		why = s.applyCheckpoint(e, pos, at)
	case events.KindLed:
		// Its effect is that of its message: see Fold.
	case events.KindRefused, events.KindIgnored, events.KindAlerted:
		// A record: nothing follows from it but the inbox position.
	case events.KindThrottled, events.KindRunStarted, events.KindRunFinished:
		why = "this version knows no such decision"
	default:
		why = s.applyToInstance(e, pos, micros)
	}
	if why == "" {
		s.meta.Events++
	} else {
		s.meta.Passed++
	}
	return why
}

// Reasons why an event has no effect, besides those of the state table.
const (
	whyNoTask     = "no such task"
	whyNoTrigger  = "no such trigger"
	whyPosition   = "the trigger is past that due time"
	whyGuard      = "it is of another attempt or offer, or a worker still holds the instance"
	whyOldVersion = "a newer version is defined"
	whyID         = "the instance's id is not of that task and due time"
	whyKey        = "the idempotency key is known"
	whyBody       = "its body says nothing that can be used"
)

func (s *State) applyDefined(e *events.Event, pos events.Position, at int64) string {
	d, err := events.DecodeDefinition(e.Body)
	if err != nil || d.Kind != e.Object || d.Metadata.Name != e.Name {
		return whyBody
	}
	if d.Kind == events.ObjectGroup {
		g := s.group(events.Group(e.Name))
		if e.Version <= g.Version {
			return whyOldVersion
		}
		g.Version, g.Body, g.Limit, g.Defined, g.gone = e.Version, strings.Clone(e.Body), d.Group.Limit, pos, false
		s.touchGroup(g)
		return ""
	}
	name := events.TaskName(strings.Clone(e.Name))
	t := s.Task(name)
	if t == nil {
		t = &Task{Name: name, Stated: pos, used: true}
		s.tasks[name] = t
	}
	if e.Version <= t.Version {
		return whyOldVersion
	}
	var old *events.TaskSpec
	if t.Version > 0 && !t.Removed {
		old = s.Spec(name, t.Version)
	}
	t.Version, t.Removed, t.Defined, t.DefinedAt = e.Version, false, pos, at
	s.touchTask(t)
	s.pending[string(versionKey(s.batch[:0], name, e.Version))] = []byte(e.Body)
	s.specs[specKey{name, e.Version}] = d.Task
	s.applyTriggers(t, old, d.Task, pos, at)
	s.unblock(t)
	return ""
}

// applyTriggers makes the trigger rows of a definition: those whose text is
// unchanged keep their plan, so a fire that is pending stays; those that
// changed keep their position and are planned anew.
func (s *State) applyTriggers(t *Task, old, spec *events.TaskSpec, pos events.Position, at int64) {
	before := map[events.TriggerName]string{}
	if old != nil {
		for i := range old.Triggers {
			before[old.Triggers[i].Name] = triggerText(&old.Triggers[i])
		}
	}
	for i := range spec.Triggers {
		text := &spec.Triggers[i]
		id := TriggerID{t.Name, text.Name}
		tr := s.Trigger(id)
		known, had := before[text.Name]
		delete(before, text.Name)
		if tr == nil {
			tr = s.triggers[id] // gone, and not flushed yet
			if tr == nil {
				tr = &Trigger{TriggerID: id}
				s.triggers[id] = tr
			}
			*tr = Trigger{TriggerID: id, Stated: pos, timed: tr.timed, planned: tr.planned, dirty: tr.dirty, stored: tr.stored}
			had = false
		}
		tr.used = true
		tr.Version = t.Version
		tr.TaskPaused = t.Paused
		if !had || known != triggerText(text) {
			tr.DefinedAt = at
			tr.Boot = text.Cron == events.Reboot
			tr.Unplanned = !tr.Boot
			tr.Next = 0
			tr.BootSeq = s.meta.BootSeq // the boot that is now is no boot to come
		}
		s.touchTrigger(tr)
		s.placeTrigger(tr)
	}
	for name := range before { // each is deleted, in any order
		s.dropTrigger(TriggerID{t.Name, name})
	}
}

// triggerText is what has to be equal for a trigger to be unchanged.
func triggerText(t *events.TriggerSpec) string {
	b, err := json.Marshal(t)
	if err != nil {
		return "" // a spec that was decoded can be encoded
	}
	return string(b)
}

func (s *State) dropTrigger(id TriggerID) {
	tr := s.Trigger(id)
	if tr == nil {
		return
	}
	tr.gone = true
	s.touchTrigger(tr)
	s.placeTrigger(tr)
}

func (s *State) applyRemoved(e *events.Event) string {
	switch e.Object {
	case events.ObjectGroup:
		g := s.groups[events.Group(e.Name)]
		if g == nil || g.Version == 0 || g.gone {
			return "no such group"
		}
		g.Version, g.Body, g.Limit, g.Defined, g.gone = 0, "", 0, events.Position{}, true
		s.touchGroup(g)
		return ""
	case events.ObjectTask:
		t := s.Task(events.TaskName(e.Name))
		if t == nil || t.Removed {
			return whyNoTask
		}
		if spec := s.Spec(t.Name, t.Version); spec != nil {
			for i := range spec.Triggers {
				s.dropTrigger(TriggerID{t.Name, spec.Triggers[i].Name})
			}
		}
		t.Removed, t.Paused = true, false
		s.touchTask(t)
		return ""
	}
	return whyBody
}

func (s *State) applyPause(e *events.Event, paused bool, at int64) string {
	if e.Object != events.ObjectTask {
		return whyBody
	}
	t := s.Task(events.TaskName(e.Name))
	if t == nil || t.Removed {
		return whyNoTask
	}
	spec := s.Spec(t.Name, t.Version)
	if spec == nil {
		return whyNoTask
	}
	if e.Trigger != "" {
		tr := s.Trigger(TriggerID{t.Name, e.Trigger})
		if tr == nil {
			return whyNoTrigger
		}
		if tr.Paused == paused {
			return "it is so already"
		}
		tr.Paused = paused
		s.resumed(tr, at)
		return ""
	}
	if t.Paused == paused {
		return "it is so already"
	}
	t.Paused = paused
	s.touchTask(t)
	for i := range spec.Triggers {
		if tr := s.Trigger(TriggerID{t.Name, spec.Triggers[i].Name}); tr != nil {
			tr.TaskPaused = paused
			s.resumed(tr, at)
		}
	}
	return ""
}

// resumed makes a trigger that fires again plan anew: what was due in the pause
// is decided by its catchUp, not by the plan from before.
func (s *State) resumed(tr *Trigger, at int64) {
	if !tr.Paused && !tr.TaskPaused {
		tr.ResumedAt = at
		tr.Unplanned = !tr.Boot
	}
	s.touchTrigger(tr)
	s.placeTrigger(tr)
}

func (s *State) applyPlanned(e *events.Event) string {
	tr := s.Trigger(TriggerID{e.Task, e.Trigger})
	if tr == nil {
		return whyNoTrigger
	}
	if e.Version != tr.Version {
		return whyOldVersion
	}
	if e.Due < tr.Position && e.Reason != events.ReasonClockStep {
		return whyPosition // only a clock that went back moves a position back
	}
	tr.Unplanned = false
	tr.Position, tr.Next, tr.Broken = e.Due, e.Next, true
	s.touchTrigger(tr)
	s.placeTrigger(tr)
	return ""
}

// applySkippedDue passes over a range of due times of a trigger.
func (s *State) applySkippedDue(e *events.Event) string {
	tr := s.Trigger(TriggerID{e.Task, e.Trigger})
	if tr == nil {
		return whyNoTrigger
	}
	if e.Due <= tr.Position {
		return whyPosition
	}
	tr.Position, tr.Next = e.Due, e.Next
	// A due time skipped because an earlier instance is open stands in a run of
	// fired ones; what was missed does not.
	tr.Broken = tr.Broken || e.Reason != events.ReasonOverlap
	tr.Skipped += max(e.Count, 1)
	if tr.Boot {
		tr.BootSeq = s.meta.BootSeq
	}
	s.touchTrigger(tr)
	s.placeTrigger(tr)
	return ""
}

func (s *State) applyFired(e *events.Event, pos events.Position, at int64, actor string) string {
	t := s.Task(e.Task)
	if t == nil {
		return whyNoTask
	}
	if e.Version > t.Version {
		return whyNoTask
	}
	spec := s.Spec(t.Name, e.Version)
	if spec == nil {
		return whyNoTask
	}
	k, ok := e.Instance.Matches(t.Name, e.Due)
	if !ok {
		return whyID
	}
	// An id whose number is the next of its due time is new; only for others does
	// it take a look.
	if k != t.nextK(e.Due) {
		if cell := events.Lookup(s.stateOf(e.Instance), e.Kind); cell.Verdict != events.Moves {
			return cell.Why
		}
	}
	var tr *Trigger
	if e.Trigger != events.ManualTrigger && e.Trigger != "" {
		tr = s.Trigger(TriggerID{t.Name, e.Trigger})
		if tr == nil {
			return whyNoTrigger
		}
		if _, fired := tr.HasFired(e.Due); fired || e.Due <= tr.Position {
			return whyPosition
		}
	}
	if e.Key != "" {
		if _, known := s.Key(t.Name, e.Key, at/1000); known {
			return whyKey
		}
	}
	if tr != nil {
		tr.Position, tr.Next, tr.LastFired = e.Due, e.Next, e.Due
		tr.fire(e.Due)
		if tr.Boot {
			tr.BootSeq = s.meta.BootSeq
		}
		tr.Fired++
		s.touchTrigger(tr)
		s.placeTrigger(tr)
	}
	i := s.newInstance()
	i.ID = events.InstanceID(strings.Clone(string(e.Instance)))
	i.Task = t.Name
	i.Group = spec.Group
	i.Trigger = events.ManualTrigger
	if tr != nil {
		i.Trigger = tr.TriggerID.Trigger
	}
	i.Version, i.Due, i.Generation = e.Version, e.Due, e.Generation
	i.Priority = *spec.Priority
	i.Key, i.Params, i.Actor, i.Reason = strings.Clone(e.Key), strings.Clone(e.Params), strings.Clone(actor), strings.Clone(e.Reason)
	i.Depth = e.Depth
	i.State = events.StateScheduled
	i.Attempt = 1
	i.Fired, i.Stated, i.Root, i.Cause = pos, pos, pos, e.Cause
	if !e.Root.IsZero() {
		i.Root = e.Root
	}
	i.FiredAt = at
	i.used = true
	i.note(e.Kind, 1, pos, at)
	s.instances[i.ID] = i
	s.pin(i)
	t.Fired++
	t.Open++
	switch {
	case e.Due > t.LastDue || t.Fired == 1:
		t.LastDue, t.LastK = e.Due, k
	case e.Due == t.LastDue:
		t.LastK = max(t.LastK, k)
	}
	s.touchTask(t)
	s.touch(i)
	s.place(i)
	if e.Key != "" {
		s.keys[string(idempotencyKey(s.batch[:0], t.Name, e.Key))] = keyRow{Instance: i.ID, Until: at/1000 + KeyMemory, Stated: pos}
	}
	return ""
}

func (s *State) stateOf(id events.InstanceID) events.State {
	if i := s.Instance(id); i != nil {
		return i.State
	}
	return events.StateNone
}

func (s *State) applyIncident(e *events.Event) {
	if e.Reason == events.ReasonForeign && uint64(e.From) == s.meta.Strange.First {
		s.meta.Strange = Strange{}
	}
}
