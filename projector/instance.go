package projector

import (
	"fmt"

	"github.com/ax-scheduler/ax/events"
)

// MaxTransitions is how many of its newest transitions an instance's row keeps;
// the log has the rest.
const MaxTransitions = 64

// Instance is the row of one due execution. Deciders read it; only the fold
// writes it. Times of events are Unix microseconds, due times and deadlines
// Unix milliseconds.
type Instance struct {
	ID         events.InstanceID  `json:"id,omitzero"`
	Task       events.TaskName    `json:"task,omitzero"`
	Trigger    events.TriggerName `json:"trigger,omitzero"`
	Group      events.Group       `json:"group,omitzero"`
	Version    int64              `json:"version,omitzero"` // of the task's definition, pinned by fired
	Due        int64              `json:"due,omitzero"`
	Generation int64              `json:"generation,omitzero"`
	Priority   int64              `json:"priority,omitzero"`
	Key        string             `json:"key,omitzero"`    // idempotency key given by a caller
	Params     string             `json:"params,omitzero"` // JSON; empty: the definition's
	Actor      string             `json:"actor,omitzero"`  // who let it fire
	Depth      int64              `json:"depth,omitzero"`

	State       events.State `json:"state,omitzero"`
	Attempt     int64        `json:"attempt,omitzero"`     // the current or next one, from 1
	Offer       int64        `json:"offer,omitzero"`       // the last one
	Failures    int64        `json:"failures,omitzero"`    // attempts that failed or timed out since fired or redriven
	Losses      int64        `json:"losses,omitzero"`      // attempts lost since fired or redriven
	Held        bool         `json:"held,omitzero"`        // a worker that passed the time limit has not let go of HeldAttempt
	CancelAsked bool         `json:"cancelAsked,omitzero"` // it is to end; of a dead letter: to be discarded
	HeldAttempt int64        `json:"heldAttempt,omitzero"`

	At int64 `json:"at,omitzero"` // what the state waits for: offer deadline, time limit, next attempt

	Worker      events.WorkerName `json:"worker,omitzero"` // of the last started
	Incarnation int64             `json:"incarnation,omitzero"`
	RunLease    int64             `json:"runLease,omitzero"`   // of that worker, milliseconds
	RunAttempt  int64             `json:"runAttempt,omitzero"` // attempt of the last started
	Nonce       string            `json:"nonce,omitzero"`      // of the last started, SHA-256
	Token       events.Position   `json:"token,omitzero"`      // of the last started: the fencing token is its sequence

	Fired   events.Position `json:"fired,omitzero"`
	Root    events.Position `json:"root,omitzero"`
	Cause   events.Position `json:"cause,omitzero"`
	Updated events.Position `json:"updated,omitzero"` // the last event that had an effect
	Ended   events.Position `json:"ended,omitzero"`   // of the event that made it final

	Stated events.Position `json:"stated,omitzero"` // of the last event that stated the row whole

	FiredAt   int64 `json:"firedAt,omitzero"`
	StartedAt int64 `json:"startedAt,omitzero"` // of the last started
	UpdatedAt int64 `json:"updatedAt,omitzero"`
	EndedAt   int64 `json:"endedAt,omitzero"`

	Result string `json:"result,omitzero"` // JSON
	Error  string `json:"error,omitzero"`
	Reason string `json:"reason,omitzero"`

	Transitions []Transition `json:"transitions,omitzero"`

	timed     timed
	task      *Task // pinned while the instance is in memory
	derived   derived
	heapIndex int  // in its group's queue
	blocked   bool // out of the queue while its task is at its limit
	dirty     bool
	gone      bool // its rows are removed with the next flush
	used      bool // since the last sweep of the cache
	stored    storedIndex
}

// Transition is one step in the life of an instance.
type Transition struct {
	Kind     events.Kind     `json:"kind"`
	State    events.State    `json:"state"` // after it
	Attempt  int64           `json:"attempt"`
	Position events.Position `json:"position"`
	At       int64           `json:"at"` // Unix microseconds
}

// derived is what follows from a row alone and decides where else the instance
// is found.
type derived struct {
	queued  bool  // in its group's queue
	offered bool  // on offer
	active  bool  // holds a slot: offered, running or held
	judge   bool  // a decision is owed now
	due     int64 // it waits for this time; 0: for none
}

func (i *Instance) derive() derived {
	d := derived{
		queued:  i.State == events.StateScheduled,
		offered: i.State == events.StateDispatched,
		active:  i.State == events.StateDispatched || i.State == events.StateRunning || i.Held,
	}
	switch i.State {
	case events.StateFailed, events.StateTimeout, events.StateLost:
		d.judge = true
	case events.StateDispatched:
		d.due = i.At
	case events.StateRunning:
		if !i.CancelAsked {
			d.due = i.At
		}
	case events.StateRetrying:
		d.judge = i.CancelAsked && !i.Held
		if !d.judge && !i.Held {
			d.due = i.At
		}
	case events.StateDead:
		d.judge = i.CancelAsked && !i.Held
	}
	return d
}

// loaded reports whether the instance has to be in memory.
func (d derived) loaded() bool { return d.queued || d.active || d.judge }

// storedIndex is which index rows of the instance are on disk.
type storedIndex struct {
	row      bool // the instance's own row, and its listing
	open     bool
	due      int64
	dead     events.Position
	finished events.Position
}

func (i *Instance) index() storedIndex {
	d := i.derive()
	x := storedIndex{row: true, open: d.loaded(), due: d.due}
	switch {
	case i.State == events.StateDead:
		x.dead = i.Ended
	case i.State.Final():
		x.finished = i.Ended
	}
	return x
}

// Open reports whether the instance counts as open for overlap.
func (i *Instance) Open() bool { return i.State.Open() || i.Held }

// IdempotencyKey is what a handler may use to recognise the same work: equal
// for all attempts and redrives.
func (i *Instance) IdempotencyKey() string {
	key := i.Key
	if key == "" {
		if i.Trigger == events.ManualTrigger {
			key = string(i.ID)
		} else {
			key = fmt.Sprintf("%s:%s:%d", i.Task, i.Trigger, i.Due)
		}
	}
	if i.Generation > 0 {
		key = fmt.Sprintf("%s~%d", key, i.Generation)
	}
	return key
}

// note adds a transition. attempt is what the event is about; 0: the instance's.
func (i *Instance) note(k events.Kind, attempt int64, pos events.Position, at int64) {
	if attempt == 0 {
		attempt = i.Attempt
	}
	if len(i.Transitions) == MaxTransitions {
		copy(i.Transitions, i.Transitions[1:])
		i.Transitions = i.Transitions[:MaxTransitions-1]
	}
	i.Transitions = append(i.Transitions, Transition{k, i.State, attempt, pos, at})
	i.Updated, i.UpdatedAt = pos, at
}

func (i *Instance) encode(b []byte) []byte {
	w := rowWriter{b}
	w.string(string(i.Task))
	w.string(string(i.Trigger))
	w.string(string(i.Group))
	w.int(i.Version)
	w.int(i.Due)
	w.int(i.Generation)
	w.int(i.Priority)
	w.string(i.Key)
	w.string(i.Params)
	w.string(i.Actor)
	w.int(i.Depth)
	w.uint(uint64(i.State))
	w.int(i.Attempt)
	w.int(i.Offer)
	w.int(i.Failures)
	w.int(i.Losses)
	w.flags(i.Held, i.CancelAsked)
	w.int(i.HeldAttempt)
	w.int(i.At)
	w.string(string(i.Worker))
	w.int(i.Incarnation)
	w.int(i.RunLease)
	w.int(i.RunAttempt)
	w.string(i.Nonce)
	w.position(i.Token)
	w.position(i.Fired)
	w.position(i.Root)
	w.position(i.Cause)
	w.position(i.Updated)
	w.position(i.Ended)
	w.position(i.Stated)
	w.int(i.FiredAt)
	w.int(i.StartedAt)
	w.int(i.UpdatedAt)
	w.int(i.EndedAt)
	w.string(i.Result)
	w.string(i.Error)
	w.string(i.Reason)
	w.uint(uint64(len(i.Transitions)))
	var last Transition
	for _, t := range i.Transitions {
		w.uint(uint64(t.Kind))
		w.uint(uint64(t.State))
		w.int(t.Attempt)
		w.uint(t.Position.Seq - last.Position.Seq)
		w.uint(uint64(t.Position.Index))
		w.int(t.At - last.At)
		last = t
	}
	return w.b
}

func (i *Instance) decode(id events.InstanceID, b []byte) error {
	r := rowReader{b: b}
	i.ID = id
	i.Task = events.TaskName(r.string())
	i.Trigger = events.TriggerName(r.string())
	i.Group = events.Group(r.string())
	i.Version = r.int()
	i.Due = r.int()
	i.Generation = r.int()
	i.Priority = r.int()
	i.Key = r.string()
	i.Params = r.string()
	i.Actor = r.string()
	i.Depth = r.int()
	i.State = events.State(r.uint())
	i.Attempt = r.int()
	i.Offer = r.int()
	i.Failures = r.int()
	i.Losses = r.int()
	r.flags(&i.Held, &i.CancelAsked)
	i.HeldAttempt = r.int()
	i.At = r.int()
	i.Worker = events.WorkerName(r.string())
	i.Incarnation = r.int()
	i.RunLease = r.int()
	i.RunAttempt = r.int()
	i.Nonce = r.string()
	i.Token = r.position()
	i.Fired = r.position()
	i.Root = r.position()
	i.Cause = r.position()
	i.Updated = r.position()
	i.Ended = r.position()
	i.Stated = r.position()
	i.FiredAt = r.int()
	i.StartedAt = r.int()
	i.UpdatedAt = r.int()
	i.EndedAt = r.int()
	i.Result = r.string()
	i.Error = r.string()
	i.Reason = r.string()
	n := r.uint()
	if n > MaxTransitions {
		r.fail()
		n = 0
	}
	i.Transitions = i.Transitions[:0]
	var last Transition
	for range n {
		t := Transition{Kind: events.Kind(r.uint()), State: events.State(r.uint()), Attempt: r.int()}
		t.Position.Seq = last.Position.Seq + r.uint()
		t.Position.Index = uint32(r.uint())
		t.At = last.At + r.int()
		i.Transitions = append(i.Transitions, t)
		last = t
	}
	return r.end("instance " + string(id))
}
