package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/workers"
)

// Version is the answer of /api/v1/version.
type Version struct {
	Version string `json:"version"`
	Zones   string `json:"zones"`
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, Version{s.cfg.Version, s.cfg.Zones})
}

func (s *Server) leaders(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, []leader.Status{s.cfg.Shard.Status()})
}

// Task is a task as the API shows it.
type Task struct {
	Name       events.TaskName `json:"name"`
	Title      string          `json:"title,omitempty"`
	Version    int64           `json:"version"`
	Group      events.Group    `json:"group"`
	Paused     bool            `json:"paused"`
	Open       int64           `json:"open"`
	Dead       int64           `json:"dead"`
	Fired      int64           `json:"fired"`
	DefinedAt  time.Time       `json:"definedAt"`
	Triggers   []Trigger       `json:"triggers"`
	Definition json.RawMessage `json:"definition,omitempty"`
}

// Trigger is a trigger as the API shows it.
type Trigger struct {
	Name      events.TriggerName `json:"name"`
	Schedule  string             `json:"schedule"`
	Next      *time.Time         `json:"next,omitempty"`
	LastFired *time.Time         `json:"lastFired,omitempty"`
	Fired     int64              `json:"fired"`
	Skipped   int64              `json:"skipped"`
	Paused    bool               `json:"paused"`
	Exhausted bool               `json:"exhausted"` // it will not fire any more
}

// taskOf shows a task with its triggers.
func taskOf(v *projector.Snapshot, t *projector.Task, whole bool) (Task, error) {
	out := Task{
		Name: t.Name, Version: t.Version, Paused: t.Paused, Open: t.Open, Dead: t.Dead, Fired: t.Fired,
		DefinedAt: time.UnixMicro(t.DefinedAt).UTC(), Triggers: []Trigger{},
	}
	body, err := v.Definition(t.Name, t.Version)
	if err != nil {
		return out, err
	}
	d, err := events.DecodeDefinition(body)
	if err != nil {
		return out, err
	}
	out.Title, out.Group = d.Metadata.Title, d.Task.Group
	if whole {
		out.Definition = json.RawMessage(body)
	}
	rows, err := v.Triggers(t.Name)
	if err != nil {
		return out, err
	}
	for _, row := range rows {
		for i := range d.Task.Triggers {
			if text := &d.Task.Triggers[i]; text.Name == row.Trigger {
				out.Triggers = append(out.Triggers, Trigger{
					Name: row.Trigger, Schedule: schedule(text), Next: millis(row.Waits()), LastFired: millis(row.LastFired),
					Fired: row.Fired, Skipped: row.Skipped, Paused: row.Paused || row.TaskPaused,
					Exhausted: row.Next == 0 && !row.Unplanned && !row.Boot,
				})
			}
		}
	}
	return out, nil
}

// schedule gives the text of a trigger in one line.
func schedule(t *events.TriggerSpec) string {
	switch {
	case t.Interval != nil:
		s := "every " + t.Interval.Every.String()
		if t.Interval.Offset > 0 {
			s += " + " + t.Interval.Offset.String()
		}
		return s
	case t.Once != nil && t.Once.At != nil:
		return "once at " + t.Once.At.Format(time.RFC3339)
	case t.Once != nil:
		return "once after " + t.Once.Delay.String()
	case t.TimeZone != "" && t.TimeZone != "UTC":
		return t.Cron + " " + t.TimeZone
	}
	return t.Cron
}

func millis(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

func micros(us int64) *time.Time {
	if us == 0 {
		return nil
	}
	t := time.UnixMicro(us).UTC()
	return &t
}

func (s *Server) tasks(w http.ResponseWriter, r *http.Request) {
	n, ok := limit(w, r)
	if !ok {
		return
	}
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	all := []Task{}
	var inner error
	err := v.Tasks(events.TaskName(r.URL.Query().Get("after")), func(t *projector.Task) bool {
		var out Task
		out, inner = taskOf(v, t, false)
		all = append(all, out)
		return inner == nil && len(all) < n
	})
	if err = errors.Join(err, inner); err != nil {
		s.fail(w, err, "tasks")
		return
	}
	answer(w, http.StatusOK, all)
}

func (s *Server) task(w http.ResponseWriter, r *http.Request) {
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	name := r.PathValue("name")
	t, err := v.Task(events.TaskName(name))
	if err == nil && t.Removed {
		err = events.ErrNotFound
	}
	var out Task
	if err == nil {
		out, err = taskOf(v, t, true)
	}
	if err != nil {
		s.fail(w, err, "task "+name)
		return
	}
	answer(w, http.StatusOK, out)
}

// Instance is an instance as the API shows it.
type Instance struct {
	ID          events.InstanceID      `json:"id"`
	State       events.State           `json:"state"`
	Task        events.TaskName        `json:"task"`
	Trigger     events.TriggerName     `json:"trigger"`
	Due         time.Time              `json:"due"`
	Version     int64                  `json:"version"`
	Group       events.Group           `json:"group"`
	Priority    int64                  `json:"priority"`
	Attempt     int64                  `json:"attempt"`
	Worker      events.WorkerName      `json:"worker,omitempty"`
	FiredAt     time.Time              `json:"firedAt"`
	StartedAt   *time.Time             `json:"startedAt,omitempty"`
	EndedAt     *time.Time             `json:"endedAt,omitempty"`
	WaitsFor    *time.Time             `json:"waitsFor,omitempty"` // offer deadline, time limit, or next attempt
	Held        bool                   `json:"held,omitempty"`
	CancelAsked bool                   `json:"cancelAsked,omitempty"`
	Actor       string                 `json:"actor"`
	Key         string                 `json:"key"`
	Token       uint64                 `json:"token,omitempty"`
	Reason      string                 `json:"reason,omitempty"`
	Error       string                 `json:"error,omitempty"`
	Earlier     *replay.Outcome        `json:"earlier,omitempty"` // of the attempt before, while the current one has none
	Params      json.RawMessage        `json:"params,omitempty"`
	Result      json.RawMessage        `json:"result,omitempty"`
	Position    events.Position        `json:"position"` // of its last event
	Transitions []projector.Transition `json:"transitions,omitempty"`
}

// NewInstance shows an instance; whole adds parameters and transitions.
func NewInstance(i *projector.Instance, whole bool) Instance {
	own, earlier := replay.Outcomes(i)
	out := Instance{
		ID: i.ID, State: i.State, Task: i.Task, Trigger: i.Trigger, Due: time.UnixMilli(i.Due).UTC(), Version: i.Version, Group: i.Group,
		Priority: i.Priority, Attempt: i.Attempt, Worker: i.Worker, FiredAt: time.UnixMicro(i.FiredAt).UTC(), StartedAt: micros(i.StartedAt),
		EndedAt: micros(i.EndedAt), Held: i.Held, CancelAsked: i.CancelAsked, Actor: i.Actor, Key: i.IdempotencyKey(),
		Reason: own.Reason, Error: own.Error, Earlier: earlier, Position: i.Updated,
	}
	if !i.State.Final() {
		out.WaitsFor = millis(i.At)
	}
	if !i.Token.IsZero() {
		out.Token = events.FencingToken(i.Token)
	}
	if i.Result != "" {
		out.Result = json.RawMessage(i.Result)
	}
	if whole {
		if i.Params != "" {
			out.Params = json.RawMessage(i.Params)
		}
		out.Transitions = i.Transitions
	}
	return out
}

func (s *Server) instances(w http.ResponseWriter, r *http.Request) {
	n, ok := limit(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	var state events.State
	if text := q.Get("state"); text != "" {
		if state, ok = events.ParseState(text); !ok {
			problem(w, http.StatusBadRequest, "usage", fmt.Sprintf("state %q is unknown; states are written in capitals, such as RUNNING", text))
			return
		}
	}
	since, ok := sinceOf(w, r)
	if !ok {
		return
	}
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	task := events.TaskName(q.Get("task"))
	all := []Instance{}
	take := func(i *projector.Instance) bool {
		if !since.IsZero() && i.UpdatedAt < since.UnixMicro() && i.FiredAt < since.UnixMicro() {
			return state == events.StateDead // others are newest first: what follows is older
		}
		if (task == "" || i.Task == task) && (state == 0 || i.State == state) {
			all = append(all, NewInstance(i, false))
		}
		return len(all) < n
	}
	var err error
	if state == events.StateDead {
		err = v.Dead(take)
	} else {
		err = v.Instances(events.Position{}, take)
	}
	if err != nil {
		s.fail(w, err, "instances")
		return
	}
	answer(w, http.StatusOK, all)
}

// sinceOf reads the parameter since: a time, or a duration before now.
func sinceOf(w http.ResponseWriter, r *http.Request) (time.Time, bool) {
	text := r.URL.Query().Get("since")
	if text == "" {
		return time.Time{}, true
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, true
	}
	if d, err := time.ParseDuration(text); err == nil && d > 0 {
		return time.Now().Add(-d), true
	}
	problem(w, http.StatusBadRequest, "usage", fmt.Sprintf("since %q: want a time such as 2026-11-30T12:00:00Z, or a duration before now such as 10m", text))
	return time.Time{}, false
}

func (s *Server) instance(w http.ResponseWriter, r *http.Request) {
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	i, err := v.Instance(events.InstanceID(r.PathValue("id")))
	if err != nil {
		s.fail(w, err, "instance "+r.PathValue("id"))
		return
	}
	answer(w, http.StatusOK, NewInstance(i, true))
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) {
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	id := events.InstanceID(r.PathValue("id"))
	row, err := v.Instance(id)
	if err != nil && !errors.Is(err, events.ErrNotFound) {
		s.fail(w, err, "instance "+string(id))
		return
	}
	log, err := s.cfg.Log(r.Context())
	var all []replay.Record
	if err == nil {
		all, err = replay.History(r.Context(), log, row, id)
	}
	if errors.Is(err, replay.ErrNoInstance) {
		err = events.ErrNotFound
	}
	if err != nil {
		s.fail(w, err, "instance "+string(id))
		return
	}
	answer(w, http.StatusOK, all)
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) {
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	row, err := v.Instance(events.InstanceID(r.PathValue("id")))
	var queue *replay.Queue
	if err == nil && row.State == events.StateScheduled {
		queue, err = s.queueOf(v, row)
	}
	var chain []replay.Reason
	if err == nil {
		var log events.Log
		if log, err = s.cfg.Log(r.Context()); err == nil {
			chain, err = replay.Why(r.Context(), log, row, queue)
		}
	}
	if err != nil {
		s.fail(w, err, "instance "+r.PathValue("id"))
		return
	}
	answer(w, http.StatusOK, chain)
}

// queueOf says what is known of the queue that an instance waits in. Only the
// leader hears of workers.
func (s *Server) queueOf(v *projector.Snapshot, i *projector.Instance) (*replay.Queue, error) {
	q, err := replay.QueueOf(v, i)
	if err != nil {
		return nil, err
	}
	q.SlotsKnown = s.cfg.Shard.Status().Leading
	for _, worker := range s.workerInfo() {
		if worker.Present {
			q.Slots += worker.Slots[i.Group]
		}
	}
	return q, nil
}

func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	n, ok := limit(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	f := replay.Filter{Task: events.TaskName(q.Get("task")), Instance: events.InstanceID(q.Get("instance"))}
	if text := q.Get("kind"); text != "" {
		if f.Kind, ok = events.ParseKind(text); !ok {
			problem(w, http.StatusBadRequest, "usage", fmt.Sprintf("kind %q is unknown; see docs/log-format.md", text))
			return
		}
	}
	if f.Since, ok = sinceOf(w, r); !ok {
		return
	}
	log, err := s.cfg.Log(r.Context())
	found := []replay.Record{}
	if err == nil {
		var all []replay.Record
		var truncated bool
		if all, truncated, err = replay.Events(r.Context(), log, f, n); err == nil {
			found = append(found, all...)
			if truncated {
				w.Header().Set("Ax-Truncated", "there may be earlier ones; give since, or a narrower filter")
			}
		}
	}
	if err != nil {
		s.fail(w, err, "events")
		return
	}
	answer(w, http.StatusOK, found)
}

// Group is a group as the API shows it.
type Group struct {
	Name    events.Group `json:"name"`
	Defined bool         `json:"defined"`
	Limit   int64        `json:"limit"`
	Slots   int64        `json:"slots"` // of the workers that are present
	Queued  int64        `json:"queued"`
	Active  int64        `json:"active"` // offered, running or held
}

func (s *Server) groups(w http.ResponseWriter, r *http.Request) {
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	found := map[events.Group]*Group{}
	var names []events.Group
	get := func(name events.Group) *Group {
		if found[name] == nil {
			found[name] = &Group{Name: name}
			names = append(names, name)
		}
		return found[name]
	}
	rows, err := v.Groups()
	for _, g := range rows {
		out := get(g.Name)
		out.Defined, out.Limit = true, g.Limit
	}
	if err == nil {
		err = v.OpenInstances(func(i *projector.Instance) bool {
			if i.State == events.StateScheduled {
				get(i.Group).Queued++
			} else {
				get(i.Group).Active++
			}
			return true
		})
	}
	if err != nil {
		s.fail(w, err, "groups")
		return
	}
	for _, worker := range s.workerInfo() {
		if worker.Present {
			for g, n := range worker.Slots {
				get(g).Slots += n
			}
		}
	}
	all := []Group{}
	for _, name := range sorted(names) {
		all = append(all, *found[name])
	}
	answer(w, http.StatusOK, all)
}

func (s *Server) workerInfo() []workers.WorkerInfo {
	return s.cfg.Liveness.Workers(s.cfg.Shard.Monotonic())
}

func (s *Server) workers(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, s.workerInfo())
}

// Due is something that waits for a time.
type Due struct {
	Due      time.Time          `json:"due"`
	Task     events.TaskName    `json:"task,omitempty"`
	Trigger  events.TriggerName `json:"trigger,omitempty"`
	Instance events.InstanceID  `json:"instance,omitempty"`
}

func (s *Server) due(w http.ResponseWriter, r *http.Request) {
	n, ok := limit(w, r)
	if !ok {
		return
	}
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	all := []Due{}
	err := v.Due(func(due int64, t *projector.TriggerID, id events.InstanceID) bool {
		d := Due{Due: time.UnixMilli(due).UTC(), Instance: id}
		if t != nil {
			d.Task, d.Trigger = t.Task, t.Trigger
		}
		all = append(all, d)
		return len(all) < n
	})
	if err != nil {
		s.fail(w, err, "due")
		return
	}
	answer(w, http.StatusOK, all)
}

// dump streams the canonical dump of the views, for verification elsewhere.
func (s *Server) dump(w http.ResponseWriter, r *http.Request) {
	v, ok := s.fresh(w, r)
	if !ok {
		return
	}
	defer v.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	if _, err := v.Dump(w); err != nil {
		s.cfg.Logger.Debug("a dump of the views ended early", "error", err)
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
}
