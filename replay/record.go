package replay

import (
	"encoding/json"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// Record is an event as people and programs outside read it. Field names are a
// contract.
type Record struct {
	Position   events.Position    `json:"position"`
	Kind       events.Kind        `json:"kind"`
	Time       time.Time          `json:"time"` // log time
	Task       events.TaskName    `json:"task,omitempty"`
	Trigger    events.TriggerName `json:"trigger,omitempty"`
	Instance   events.InstanceID  `json:"instance,omitempty"`
	Due        *time.Time         `json:"due,omitempty"`
	Actor      string             `json:"actor"`
	Attempt    int64              `json:"attempt,omitempty"`
	Offer      int64              `json:"offer,omitempty"`
	Worker     events.WorkerName  `json:"worker,omitempty"`
	Outcome    string             `json:"outcome,omitempty"`
	Reason     string             `json:"reason,omitempty"`
	Error      string             `json:"error,omitempty"`
	Permanent  bool               `json:"permanent,omitempty"`
	At         *time.Time         `json:"at,omitempty"`
	Next       *time.Time         `json:"next,omitempty"`
	From       *time.Time         `json:"from,omitempty"`
	Count      int64              `json:"count,omitempty"`
	Generation int64              `json:"generation,omitempty"`
	Object     events.ObjectKind  `json:"object,omitempty"`
	Name       string             `json:"name,omitempty"`
	Version    int64              `json:"version,omitempty"`
	Key        string             `json:"key,omitempty"`
	Cause      *events.Position   `json:"cause,omitempty"`
	Root       *events.Position   `json:"root,omitempty"`
	Depth      int64              `json:"depth,omitempty"`
	Inbox      uint64             `json:"inbox,omitempty"`
	Params     json.RawMessage    `json:"params,omitempty"`
	Result     json.RawMessage    `json:"result,omitempty"`
	Body       json.RawMessage    `json:"body,omitempty"`
	// Term is the leadership that a led event begins.
	Term string `json:"term,omitempty"`
	// Void says why the event had no effect, where that is known.
	Void string `json:"void,omitempty"`
}

// NewRecord makes a record of an event that stands at pos and was decided at log
// time at (Unix nanoseconds) by actor, if it does not say another. It keeps
// nothing of e.
func NewRecord(e *events.Event, pos events.Position, at int64, actor string) Record {
	r := Record{
		Position: pos, Kind: e.Kind, Time: time.Unix(0, at).UTC(), Task: e.Task, Trigger: e.Trigger, Instance: e.Instance, Actor: e.Actor,
		Attempt: e.Attempt, Offer: e.Offer, Worker: e.Worker, Reason: e.Reason, Error: e.Error, Permanent: e.Permanent, Count: e.Count,
		Generation: e.Generation, Object: e.Object, Name: e.Name, Version: e.Version, Key: e.Key, Depth: e.Depth, Inbox: e.Inbox,
		Due: millis(e.Due), At: millis(e.At), Next: millis(e.Next),
		Params: raw(e.Params), Result: raw(e.Result), Body: raw(e.Body),
	}
	if e.Kind == events.KindSkipped {
		r.From = millis(e.From)
	}
	if r.Actor == "" {
		r.Actor = actor
	}
	if e.Outcome != 0 {
		r.Outcome = e.Outcome.String()
	}
	if !e.Cause.IsZero() {
		r.Cause = &e.Cause
	}
	if !e.Root.IsZero() {
		r.Root = &e.Root
	}
	return r.clone()
}

// clone parts the record from the frame that its strings are of.
func (r Record) clone() Record {
	cause, root := r.Cause, r.Root
	if cause != nil {
		c := *cause
		r.Cause = &c
	}
	if root != nil {
		c := *root
		r.Root = &c
	}
	return r
}

func millis(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}
