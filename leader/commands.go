package leader

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"unicode/utf8"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Commands decides the commands of people and programs. It is the only place
// where definitions, pauses, triggers by hand and cancels become events.
type Commands struct {
	// Server makes the ids of instances.
	Server events.ServerName
	// CheckTask says what is wrong with a task that only its calendar can tell;
	// nil is nothing.
	CheckTask func(*events.TaskSpec) error
	// Refuse gives the reason why no new work is taken, or "": the disk is full.
	Refuse func() string
	// Reports reads a worker's reports that come through the inbox.
	Reports Handler
}

// Handle is the Handler of commands that come as requests.
func (c *Commands) Handle(_ events.Group, body []byte) (Request, error) {
	var m events.Commands
	if err := m.Decode(body); err != nil {
		return nil, err
	}
	if m.Actor == "" {
		m.Actor = "unknown"
	}
	return &commandRequest{rules: c, actor: m.Actor, commands: m.Commands}, nil
}

// commandRequest is a list of commands, decided in order, each on its own.
type commandRequest struct {
	rules    *Commands
	actor    string
	commands []events.Command
	answers  []events.Done
	inbox    uint64 // sequence of the message, if it came through the inbox
	due      int64  // when it was sent, Unix milliseconds; 0: now
}

func (r *commandRequest) InboxSeq() uint64 { return r.inbox }

// Answer implements Request.
func (r *commandRequest) Answer(term events.Term, b []byte) []byte {
	m := events.CommandAnswers{Term: term, Answers: r.answers}
	body := m.Encode(b)
	for limit := 200; len(body) > maxAnswer && limit >= 0; limit -= 100 {
		// An answer that no message can carry would never come: the texts give way.
		for i := range m.Answers {
			m.Answers[i].Error = clip(m.Answers[i].Error, limit)
		}
		body = m.Encode(b)
	}
	return body
}

// maxAnswer bounds the bytes of an answer to commands.
const maxAnswer = events.MaxRequest

// Fail implements Request.
func (r *commandRequest) Fail(term events.Term, reason string, b []byte) []byte {
	m := events.CommandAnswers{Term: term, Answers: r.answers, Error: reason}
	return m.Encode(b)
}

// Decide implements Request.
func (r *commandRequest) Decide(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		for len(r.answers) < len(r.commands) {
			cmd := &r.commands[len(r.answers)]
			e, done := r.decide(s, now, cmd)
			if e == nil && r.inbox != 0 && (done.Reason != "" || done.Unchanged) {
				e = refused(cmd, &done)
			}
			if e != nil {
				e.Actor, e.Inbox = r.actor, r.inbox
				if !yield(e) {
					return
				}
				done.Position = s.Last()
			}
			r.answers = append(r.answers, done)
		}
	}
}

// refused records a command that nobody waits for an answer to.
func refused(cmd *events.Command, done *events.Done) *events.Event {
	if done.Unchanged {
		return &events.Event{Kind: events.KindIgnored, Reason: events.ReasonDuplicate, Instance: done.Instance}
	}
	e := &events.Event{Kind: events.KindRefused, Reason: done.Reason, Error: clip(cmd.Verb+": "+done.Error, events.MaxErrorText)}
	e.Name = clip(cmd.Name, events.MaxNameLen)
	e.Key = clip(cmd.Key, events.MaxText)
	return e
}

func refuse(reason, format string, args ...any) (*events.Event, events.Done) {
	return nil, events.Done{Reason: reason, Error: fmt.Sprintf(format, args...)}
}

func (r *commandRequest) decide(s *projector.State, now events.Now, cmd *events.Command) (*events.Event, events.Done) {
	switch cmd.Verb {
	case events.VerbDefine:
		return r.define(s, cmd)
	case events.VerbRemove:
		return r.remove(s, cmd)
	case events.VerbPause, events.VerbResume:
		return r.pause(s, cmd)
	case events.VerbTrigger:
		return r.trigger(s, now, cmd)
	case events.VerbCancel:
		return r.cancel(s, cmd)
	case events.VerbRedrive, events.VerbDiscard:
		return r.deadLetter(s, cmd)
	}
	return refuse(events.ReasonUnusable, "verb %.40q: want %s, %s, %s, %s, %s, %s, %s or %s", cmd.Verb,
		events.VerbDefine, events.VerbRemove, events.VerbPause, events.VerbResume, events.VerbTrigger, events.VerbCancel, events.VerbRedrive, events.VerbDiscard)
}

func (r *commandRequest) define(s *projector.State, cmd *events.Command) (*events.Event, events.Done) {
	if why := r.refusedNow(); why != "" {
		return refuse(events.ReasonDiskFull, "%s", why)
	}
	if len(cmd.Definition) > events.MaxDefinition {
		return refuse(events.ReasonTooLarge, "definition of %d bytes, at most %d", len(cmd.Definition), events.MaxDefinition)
	}
	d, err := events.DecodeDefinition(cmd.Definition)
	if err == nil {
		err = d.Complete()
	}
	if err == nil && d.Task != nil && r.rules.CheckTask != nil {
		err = r.rules.CheckTask(d.Task)
	}
	if err != nil {
		return refuse(events.ReasonUnusable, "%v", err)
	}
	body, err := d.Encode()
	if err != nil {
		return refuse(events.ReasonUnusable, "%v", err)
	}
	if len(body) > events.MaxDefinition {
		return refuse(events.ReasonTooLarge, "definition of %d bytes with its defaults, at most %d", len(body), events.MaxDefinition)
	}
	if err := events.CheckJSON(body); err != nil {
		return refuse(events.ReasonUnusable, "definition: %v", err)
	}
	var version int64
	switch d.Kind {
	case events.ObjectTask:
		if t := s.Task(events.TaskName(d.Metadata.Name)); t != nil {
			if have, _ := s.Definition(t); have == body && !t.Removed {
				return nil, events.Done{Unchanged: true, Position: t.Defined}
			}
			version = t.Version
		}
	case events.ObjectGroup:
		if g := s.Group(events.Group(d.Metadata.Name)); g != nil {
			if g.Body == body {
				return nil, events.Done{Unchanged: true, Position: g.Defined}
			}
			version = g.Version
		}
	}
	return &events.Event{Kind: events.KindDefined, Object: d.Kind, Name: d.Metadata.Name, Version: version + 1, Body: body}, events.Done{}
}

func (r *commandRequest) refusedNow() string {
	if r.rules.Refuse == nil {
		return ""
	}
	return r.rules.Refuse()
}

func (r *commandRequest) remove(s *projector.State, cmd *events.Command) (*events.Event, events.Done) {
	switch cmd.Object {
	case events.ObjectTask:
		if t := s.Task(events.TaskName(cmd.Name)); t == nil || t.Removed {
			return refuse(events.ReasonNoSuchTask, "task %.100q does not exist", cmd.Name)
		}
	case events.ObjectGroup:
		if g := s.Group(events.Group(cmd.Name)); g == nil || g.Version == 0 {
			return refuse(events.ReasonNotFound, "group %.100q is not defined", cmd.Name)
		}
	default:
		return refuse(events.ReasonUnusable, "object %.40q: want Task or Group", cmd.Object)
	}
	return &events.Event{Kind: events.KindRemoved, Object: cmd.Object, Name: cmd.Name, Reason: clip(cmd.Reason, events.MaxText)}, events.Done{}
}

func (r *commandRequest) pause(s *projector.State, cmd *events.Command) (*events.Event, events.Done) {
	if cmd.Object != "" && cmd.Object != events.ObjectTask {
		return refuse(events.ReasonUnusable, "object %.40q can not be paused, only a Task can", cmd.Object)
	}
	t := s.Task(events.TaskName(cmd.Name))
	if t == nil || t.Removed {
		return refuse(events.ReasonNoSuchTask, "task %.100q does not exist", cmd.Name)
	}
	want := cmd.Verb == events.VerbPause
	have := t.Paused
	if cmd.Trigger != "" {
		tr := s.Trigger(projector.TriggerID{Task: t.Name, Trigger: cmd.Trigger})
		if tr == nil {
			return refuse(events.ReasonNotFound, "task %s has no trigger %.100q", t.Name, cmd.Trigger)
		}
		have = tr.Paused
	}
	if have == want {
		return nil, events.Done{Unchanged: true}
	}
	kind := events.KindResumed
	if want {
		kind = events.KindPaused
	}
	return &events.Event{Kind: kind, Object: events.ObjectTask, Name: cmd.Name, Trigger: cmd.Trigger, Reason: clip(cmd.Reason, events.MaxText)}, events.Done{}
}

func (r *commandRequest) trigger(s *projector.State, now events.Now, cmd *events.Command) (*events.Event, events.Done) {
	t := s.Task(events.TaskName(cmd.Name))
	if t == nil || t.Removed {
		return refuse(events.ReasonNoSuchTask, "task %.100q does not exist; see ax get tasks", cmd.Name)
	}
	if why := r.refusedNow(); why != "" {
		return refuse(events.ReasonDiskFull, "%s", why)
	}
	if reason, text := checkParams(cmd.Params); reason != "" {
		return refuse(reason, "%s", text)
	}
	switch {
	case len(cmd.Key) > events.MaxText:
		return refuse(events.ReasonTooLarge, "idempotency key of %d bytes, at most %d", len(cmd.Key), events.MaxText)
	case !utf8.ValidString(cmd.Key):
		return refuse(events.ReasonUnusable, "idempotency key %.40q is not UTF-8", cmd.Key)
	}
	if cmd.Key != "" {
		if id, known := s.Key(t.Name, cmd.Key, now.Millis()); known {
			return nil, events.Done{Instance: id, Unchanged: true}
		}
	}
	due := r.due
	if due == 0 {
		due = now.Millis()
	}
	id := s.NextID(t, due, r.rules.Server)
	return &events.Event{
		Kind: events.KindFired, Task: t.Name, Trigger: events.ManualTrigger, Instance: id, Due: due, Version: t.Version,
		Params: cmd.Params, Key: cmd.Key, Reason: clip(cmd.Reason, events.MaxText), Cause: t.Defined,
	}, events.Done{Instance: id}
}

// checkParams says why parameters can not be taken.
func checkParams(params string) (reason, text string) {
	if len(params) > events.MaxParams {
		return events.ReasonTooLarge, fmt.Sprintf("parameters of %d bytes, at most %d", len(params), events.MaxParams)
	}
	if params != "" {
		if err := events.CheckJSON(params); err != nil {
			return events.ReasonUnusable, fmt.Sprintf("parameters: %v", err)
		}
	}
	return "", ""
}

// deadLetter runs a dead letter again, or puts it away. Neither happens while a worker
// may still run its last attempt.
func (r *commandRequest) deadLetter(s *projector.State, cmd *events.Command) (*events.Event, events.Done) {
	i := s.Instance(events.InstanceID(cmd.Name))
	switch {
	case i == nil:
		return refuse(events.ReasonNoSuchInstance, "instance %.200q does not exist, or ended so long ago that only the log has it", cmd.Name)
	case i.State == events.StateDiscarded && cmd.Verb == events.VerbDiscard:
		return nil, events.Done{Instance: i.ID, Unchanged: true}
	case i.State != events.StateDead:
		return refuse(events.ReasonConflict, "instance %s is no dead letter: it is %s", i.ID, i.State)
	case i.Held:
		return refuse(events.ReasonConflict, "worker %s may still run attempt %d of instance %s; try again when it has said that it has ended, or is lost", i.Worker, i.Attempt, i.ID)
	}
	reason := clip(cmd.Reason, events.MaxText)
	if cmd.Verb == events.VerbDiscard {
		return &events.Event{Kind: events.KindDiscarded, Instance: i.ID, Reason: reason}, events.Done{Instance: i.ID}
	}
	if why := r.refusedNow(); why != "" {
		return refuse(events.ReasonDiskFull, "%s", why)
	}
	if reason, text := checkParams(cmd.Params); reason != "" {
		return refuse(reason, "%s", text)
	}
	return &events.Event{Kind: events.KindRedriven, Instance: i.ID, Attempt: i.Attempt + 1, Params: cmd.Params, Reason: reason}, events.Done{Instance: i.ID}
}

func (r *commandRequest) cancel(s *projector.State, cmd *events.Command) (*events.Event, events.Done) {
	i := s.Instance(events.InstanceID(cmd.Name))
	switch {
	case i == nil:
		return refuse(events.ReasonNoSuchInstance, "instance %.200q does not exist, or ended so long ago that only the log has it", cmd.Name)
	case i.State.Final():
		return refuse(events.ReasonOver, "instance %s has ended: %s", i.ID, i.State)
	case i.State == events.StateDead:
		return refuse(events.ReasonConflict, "instance %s is a dead letter; redrive or discard it", i.ID)
	case i.CancelAsked:
		return nil, events.Done{Instance: i.ID, Unchanged: true}
	}
	e := &events.Event{Kind: events.KindCancelled, Instance: i.ID, Reason: clip(cmd.Reason, events.MaxText)}
	if i.State == events.StateRunning || i.Held {
		e.Kind = events.KindCancelAsked
	}
	return e, events.Done{Instance: i.ID}
}

// inboxRequest makes a request of a message of the inbox. What cannot be used is
// a request too: it decides that it is refused.
func (c *Commands) inboxRequest(addr events.Address, m *inboxMessage) Request {
	r := &commandRequest{rules: c, inbox: m.seq, due: m.sent.UnixMilli(), actor: "inbox"}
	cmd := events.Command{}
	actor, verb, name, err := addr.InboxParts(m.subject)
	if err == nil {
		r.actor = clip(actor, events.MaxText)
		cmd.Verb, cmd.Name, cmd.Key = verb, name, m.key
		switch verb {
		case events.VerbTrigger:
			cmd.Params, cmd.Key, err = triggerBody(m)
		case events.VerbCancel:
		case events.VerbReport:
			var report Request
			if report, err = c.inboxReport(m); err == nil {
				return report
			}
		default:
			err = fmt.Errorf("verb %.40q: the inbox takes %s and %s", verb, events.VerbTrigger, events.VerbCancel)
		}
	}
	if err != nil {
		return &unusable{command: cmd, actor: r.actor, inbox: m.seq, err: err}
	}
	r.commands = []events.Command{cmd}
	return r
}

// inboxReport makes a request of a worker's report that got no answer.
func (c *Commands) inboxReport(m *inboxMessage) (Request, error) {
	if c.Reports == nil {
		return nil, errors.New("reports are not taken here")
	}
	r, err := c.Reports("", m.body)
	if err != nil {
		return nil, err
	}
	return &fromInbox{r, m.seq}, nil
}

// fromInbox marks the events of a request with the inbox message they answer.
type fromInbox struct {
	Request
	seq uint64
}

func (f *fromInbox) InboxSeq() uint64 { return f.seq }

// Decide implements Request.
func (f *fromInbox) Decide(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		for e := range f.Request.Decide(s, now) {
			e.Inbox = f.seq
			if !yield(e) {
				return
			}
		}
	}
}

// triggerBody reads the body of a trigger: nothing, JSON parameters, or a
// CloudEvent in JSON, whose data are the parameters and whose id is the
// idempotency key.
func triggerBody(m *inboxMessage) (params, key string, err error) {
	key = m.key
	if len(m.body) == 0 {
		return "", key, nil
	}
	if len(m.body) > events.MaxParams {
		return "", "", fmt.Errorf("body of %d bytes, at most %d", len(m.body), events.MaxParams)
	}
	if !json.Valid(m.body) {
		return "", "", errors.New("the body is no JSON")
	}
	var cloud struct {
		SpecVersion string          `json:"specversion"`
		ID          string          `json:"id"`
		Type        string          `json:"type"`
		Data        json.RawMessage `json:"data"`
	}
	if json.Unmarshal(m.body, &cloud) == nil && cloud.SpecVersion != "" && cloud.ID != "" && cloud.Type != "" {
		if key == "" {
			key = cloud.ID
		}
		return compact(cloud.Data), key, nil
	}
	return compact(m.body), key, nil
}

// unusable records a message of the inbox that says nothing that can be done.
type unusable struct {
	command events.Command
	actor   string
	inbox   uint64
	err     error
	done    bool
}

func (u *unusable) InboxSeq() uint64 { return u.inbox }

// Decide implements Request.
func (u *unusable) Decide(*projector.State, events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		if u.done {
			return
		}
		e := refused(&u.command, &events.Done{Reason: events.ReasonUnusable, Error: u.err.Error()})
		e.Actor, e.Inbox = u.actor, u.inbox
		u.done = yield(e)
	}
}

// Answer implements Request.
func (u *unusable) Answer(events.Term, []byte) []byte { return nil }

// Fail implements Request.
func (u *unusable) Fail(events.Term, string, []byte) []byte { return nil }
