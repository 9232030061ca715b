package testkit

import (
	"slices"

	"github.com/ax-scheduler/ax/events"
)

// Reference is a second opinion on the fold: what happens to instances, written
// as plainly as possible and without the state table. It knows nothing of rows,
// batches, queues or time.
type Reference struct {
	term      events.Term
	instances map[events.InstanceID]*RefInstance
	versions  map[string]map[int64]bool // defined versions of a task
	newest    map[string]int64
	triggers  map[[2]string]*refTrigger
	keys      map[[2]string]bool
}

// RefInstance is an instance as the reference sees it.
type RefInstance struct {
	Task    events.TaskName
	State   events.State
	Attempt int64
	Offer   int64
	Held    int64         // attempt that a worker has not let go of; 0: none
	Asked   bool          // to end
	Starts  map[int64]int // how often each attempt was started
	Ends    map[int64]int // how many outcomes each attempt has
}

type refTrigger struct {
	position, version int64
	runs              [][2]int64 // spans that have fired, by their beginning
	broken            bool
}

// NewReference makes an empty one.
func NewReference() *Reference {
	return &Reference{
		instances: map[events.InstanceID]*RefInstance{}, versions: map[string]map[int64]bool{}, newest: map[string]int64{},
		triggers: map[[2]string]*refTrigger{}, keys: map[[2]string]bool{},
	}
}

// Instances gives all instances.
func (r *Reference) Instances() map[events.InstanceID]*RefInstance { return r.instances }

// Take folds one message.
func (r *Reference) Take(m *events.Message) {
	var d events.Decoded
	if d.Decode(m) != nil {
		return
	}
	if m.Kind == events.MessageLed {
		r.term = m.Term
		return
	}
	if m.Term != r.term {
		return
	}
	for k := range d.Events {
		r.event(&d.Events[k])
	}
}

func (r *Reference) event(e *events.Event) {
	switch e.Kind {
	case events.KindDefined:
		r.defined(e)
		return
	case events.KindRemoved:
		if e.Object == events.ObjectTask && r.newest[e.Name] > 0 {
			for key := range r.triggers {
				if key[0] == e.Name {
					delete(r.triggers, key)
				}
			}
		}
		return
	case events.KindFired:
		r.fired(e)
		return
	case events.KindPlanned, events.KindSkipped:
		if e.Instance == "" {
			r.moved(e)
			return
		}
	}
	i := r.instances[e.Instance]
	if i == nil {
		return
	}
	// A report that comes when the attempt is over is evidence, whatever the state.
	if e.Kind == events.KindLate {
		if i.State != events.StateCreated && i.Held == e.Attempt {
			i.Held = 0
		}
		return
	}
	free := i.Held == 0
	mine := e.Attempt == i.Attempt
	next := e.Attempt == i.Attempt+1
	end := func(s events.State) {
		i.State = s
		i.Asked = false
	}
	switch i.State {
	case events.StateScheduled:
		switch {
		case e.Kind == events.KindDispatched && mine && e.Offer == i.Offer+1 && free:
			i.State, i.Offer = events.StateDispatched, e.Offer
		case e.Kind == events.KindCancelled:
			end(events.StateCancelled)
		case e.Kind == events.KindSkipped:
			end(events.StateSkipped)
		case e.Kind == events.KindTimedOut && mine:
			i.State = events.StateTimeout
			i.Ends[e.Attempt]++
			if e.Reason == events.ReasonRun && e.Worker == "" {
				i.Held = e.Attempt
			}
		case e.Kind == events.KindDead:
			i.State = events.StateDead
		}
	case events.StateDispatched:
		switch {
		case e.Kind == events.KindStarted && mine && e.Offer == i.Offer:
			i.State = events.StateRunning
			i.Starts[e.Attempt]++
		case e.Kind == events.KindWithdrawn && mine && e.Offer == i.Offer:
			i.State = events.StateScheduled
		case e.Kind == events.KindCancelled:
			end(events.StateCancelled)
		case e.Kind == events.KindDead:
			i.State = events.StateDead
		}
	case events.StateRunning:
		switch {
		case e.Kind == events.KindCancelAsked:
			i.Asked = true
		case e.Kind == events.KindDead:
			i.State, i.Held = events.StateDead, i.Attempt
		case !mine:
		case e.Kind == events.KindSucceeded:
			i.Ends[e.Attempt]++
			end(events.StateSuccess)
		case e.Kind == events.KindFailed:
			i.Ends[e.Attempt]++
			i.State = events.StateFailed
		case e.Kind == events.KindLost:
			i.Ends[e.Attempt]++
			i.State = events.StateLost
		case e.Kind == events.KindTimedOut:
			i.Ends[e.Attempt]++
			i.State = events.StateTimeout
			if e.Reason == events.ReasonRun && e.Worker == "" {
				i.Held = e.Attempt
			}
		case e.Kind == events.KindCancelled:
			i.Ends[e.Attempt]++
			end(events.StateCancelled)
		}
	case events.StateFailed, events.StateTimeout, events.StateLost, events.StateRetrying, events.StateDead:
		r.ended(i, e, free, mine, next, end)
	}
}

// ended is what may happen to an instance whose last attempt has ended.
func (r *Reference) ended(i *RefInstance, e *events.Event, free, mine, next bool, end func(events.State)) {
	dead, retrying := i.State == events.StateDead, i.State == events.StateRetrying
	judged := dead || retrying
	holdable := judged || i.State == events.StateTimeout
	switch {
	case e.Kind == events.KindRetrying && !judged && next:
		i.State, i.Attempt = events.StateRetrying, e.Attempt
	case e.Kind == events.KindDead && !dead:
		i.State = events.StateDead
	case e.Kind == events.KindCancelled && !dead && free:
		end(events.StateCancelled)
	case e.Kind == events.KindReady && retrying && mine && free:
		i.State = events.StateScheduled
	case e.Kind == events.KindRedriven && dead && next && free:
		i.State, i.Attempt, i.Asked = events.StateScheduled, e.Attempt, false
	case e.Kind == events.KindDiscarded && dead && free:
		end(events.StateDiscarded)
	case e.Kind == events.KindCancelAsked && holdable && !free:
		i.Asked = true
	case e.Kind == events.KindLost && holdable && !free && e.Attempt == i.Held:
		i.Held = 0
	}
}

func (r *Reference) defined(e *events.Event) {
	if e.Object != events.ObjectTask || e.Version <= r.newest[e.Name] {
		return
	}
	d, err := events.DecodeDefinition(e.Body)
	if err != nil {
		return
	}
	if r.versions[e.Name] == nil {
		r.versions[e.Name] = map[int64]bool{}
	}
	r.versions[e.Name][e.Version] = true
	r.newest[e.Name] = e.Version
	have := map[string]bool{}
	for _, t := range d.Task.Triggers {
		key := [2]string{e.Name, string(t.Name)}
		have[key[1]] = true
		if r.triggers[key] == nil {
			r.triggers[key] = &refTrigger{}
		}
		r.triggers[key].version = e.Version
	}
	for key := range r.triggers {
		if key[0] == e.Name && !have[key[1]] {
			delete(r.triggers, key)
		}
	}
}

func (r *Reference) moved(e *events.Event) {
	t := r.triggers[[2]string{string(e.Task), string(e.Trigger)}]
	if t == nil {
		return
	}
	if e.Kind == events.KindSkipped {
		if e.Due > t.position {
			t.position = e.Due
			t.broken = t.broken || e.Reason != events.ReasonOverlap
		}
		return
	}
	if e.Version != t.version || e.Due < t.position && e.Reason != events.ReasonClockStep {
		return
	}
	t.position, t.broken = e.Due, true
}

func (t *refTrigger) fired(due int64) bool {
	for _, run := range t.runs {
		if run[0] <= due && due <= run[1] {
			return true
		}
	}
	return false
}

// fire adds a due time to the run before it, or as a run of its own.
func (t *refTrigger) fire(due int64) {
	t.position = due
	before := -1
	for k, run := range t.runs {
		if run[1] < due {
			before = k
		}
	}
	if !t.broken && before >= 0 {
		t.runs[before][1] = due
		return
	}
	t.broken = false
	t.runs = append(t.runs, [2]int64{due, due})
	slices.SortFunc(t.runs, func(a, b [2]int64) int { return int(a[0] - b[0]) })
	if len(t.runs) > 8 {
		t.runs[1][0] = t.runs[0][0]
		t.runs = t.runs[1:]
	}
}

func (r *Reference) fired(e *events.Event) {
	if !r.versions[string(e.Task)][e.Version] {
		return
	}
	if _, ok := e.Instance.Matches(e.Task, e.Due); !ok || r.instances[e.Instance] != nil {
		return
	}
	var t *refTrigger
	if e.Trigger != events.ManualTrigger && e.Trigger != "" {
		t = r.triggers[[2]string{string(e.Task), string(e.Trigger)}]
		if t == nil || e.Due <= t.position || t.fired(e.Due) {
			return
		}
	}
	// Keys are remembered for a day, longer than any generated history.
	if e.Key != "" {
		key := [2]string{string(e.Task), e.Key}
		if r.keys[key] {
			return
		}
		r.keys[key] = true
	}
	if t != nil {
		t.fire(e.Due)
	}
	r.instances[e.Instance] = &RefInstance{Task: e.Task, State: events.StateScheduled, Attempt: 1, Starts: map[int64]int{}, Ends: map[int64]int{}}
}
