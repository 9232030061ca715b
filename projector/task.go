package projector

import (
	"slices"

	"github.com/ax-scheduler/ax/events"
)

// Task is the row of a task: which definition holds, and counts. The
// definition itself is in the row of its version.
type Task struct {
	Name      events.TaskName `json:"name,omitzero"`
	Version   int64           `json:"version,omitzero"` // the newest
	Removed   bool            `json:"removed,omitzero"`
	Paused    bool            `json:"paused,omitzero"`
	Defined   events.Position `json:"defined,omitzero"`   // of the newest version
	DefinedAt int64           `json:"definedAt,omitzero"` // Unix microseconds
	Stated    events.Position `json:"stated,omitzero"`    // of the last event that stated the definition whole

	Fired    int64 `json:"fired,omitzero"`    // instances ever
	Open     int64 `json:"open,omitzero"`     // instances that are not final and not DEAD, held ones counted
	Dead     int64 `json:"dead,omitzero"`     // dead letters
	Finished int64 `json:"finished,omitzero"` // final instances that still have their row
	Oldest   int64 `json:"oldest,omitzero"`   // when the oldest of these ended, Unix microseconds

	LastDue int64 `json:"lastDue,omitzero"` // highest due time of any instance, Unix milliseconds
	LastK   int64 `json:"lastK,omitzero"`   // how many more instances have that due time

	dirty    bool
	stored   bool // it has a row
	overfull bool // it has a row among the overfull
	refs     int  // loaded instances
	used     bool // since the last sweep of the cache
	active   int64
	blocked  []*Instance // queued, but the task is at its limit
	done     []*Instance // finished since the last flush, in order of their end
	// trimmed is where the last finished row stood that was removed: what finishes
	// later stands after it, so that a scan need not step over what is deleted.
	trimmed events.Position
}

// Active is the number of the task's attempts that are offered or running, or
// held.
func (t *Task) Active() int64 { return t.active }

func (t *Task) encode(b []byte) []byte {
	w := rowWriter{b}
	w.int(t.Version)
	w.flags(t.Removed, t.Paused)
	w.position(t.Defined)
	w.int(t.DefinedAt)
	w.position(t.Stated)
	w.int(t.Fired)
	w.int(t.Open)
	w.int(t.Dead)
	w.int(t.Finished)
	w.int(t.Oldest)
	w.int(t.LastDue)
	w.int(t.LastK)
	return w.b
}

func (t *Task) decode(name events.TaskName, b []byte) error {
	r := rowReader{b: b}
	t.Name = name
	t.Version = r.int()
	r.flags(&t.Removed, &t.Paused)
	t.Defined = r.position()
	t.DefinedAt = r.int()
	t.Stated = r.position()
	t.Fired = r.int()
	t.Open = r.int()
	t.Dead = r.int()
	t.Finished = r.int()
	t.Oldest = r.int()
	t.LastDue = r.int()
	t.LastK = r.int()
	return r.end("task " + string(name))
}

// TriggerID names a trigger.
type TriggerID struct {
	Task    events.TaskName    `json:"task"`
	Trigger events.TriggerName `json:"trigger"`
}

// Trigger is the row of a trigger: its position in time. A due time at or
// before Position is never looked at again.
type Trigger struct {
	TriggerID
	Version    int64           `json:"version,omitzero"`   // of the task's definition that its text is from
	Position   int64           `json:"position,omitzero"`  // the last due time that was decided, Unix milliseconds
	Next       int64           `json:"next,omitzero"`      // the next one; 0: none is planned, or none will come
	Unplanned  bool            `json:"unplanned,omitzero"` // planned is owed
	Paused     bool            `json:"paused,omitzero"`
	TaskPaused bool            `json:"taskPaused,omitzero"`
	Boot       bool            `json:"boot,omitzero"` // it fires once per boot
	BootSeq    uint64          `json:"bootSeq,omitzero"`
	DefinedAt  int64           `json:"definedAt,omitzero"` // Unix microseconds: when this text was first defined
	ResumedAt  int64           `json:"resumedAt,omitzero"` // Unix microseconds: when it last began to fire again
	Fired      int64           `json:"fired,omitzero"`     // instances ever
	Skipped    int64           `json:"skipped,omitzero"`   // due times skipped ever
	LastFired  int64           `json:"lastFired,omitzero"` // due time of the last instance
	Stated     events.Position `json:"stated,omitzero"`

	// Runs are the spans of due times that have fired, the earliest first, at most
	// maxRuns. What lies in one never fires again, also where the clock goes back
	// behind it. Broken: the next fire begins a new one.
	Runs   []DueSpan `json:"runs,omitempty"`
	Broken bool      `json:"broken,omitzero"`

	timed   timed
	planned bool // in State.plan
	dirty   bool
	used    bool
	gone    bool
	stored  struct {
		row, open bool
		due       int64
	}
}

// DueSpan is a span of due times, both ends in it, Unix milliseconds.
type DueSpan struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// maxRuns bounds the runs that a trigger remembers. Over it the two earliest
// become one, with what lies between: that may then fail to fire after the clock
// went back very far, but nothing fires twice.
const maxRuns = 8

// HasFired gives the run that a due time lies in: it has fired, before the clock
// went back behind it.
func (t *Trigger) HasFired(due int64) (DueSpan, bool) {
	for _, r := range t.Runs {
		if due >= r.From && due <= r.To {
			return r, true
		}
	}
	return DueSpan{}, false
}

// fire notes that a due time, which is in no run, has fired.
func (t *Trigger) fire(due int64) {
	k := 0 // runs before the due time
	for k < len(t.Runs) && t.Runs[k].To < due {
		k++
	}
	if !t.Broken && k > 0 {
		t.Runs[k-1].To = due
		return
	}
	t.Broken = false
	t.Runs = slices.Insert(t.Runs, k, DueSpan{due, due})
	if len(t.Runs) > maxRuns {
		t.Runs[1].From = t.Runs[0].From
		t.Runs = slices.Delete(t.Runs, 0, 1)
	}
}

// Waits gives the time the trigger waits for, Unix milliseconds; 0: none.
func (t *Trigger) Waits() int64 {
	if t.Paused || t.TaskPaused || t.Unplanned {
		return 0
	}
	return t.Next
}

// loaded reports whether the trigger has to be in memory.
func (t *Trigger) loaded() bool { return t.Unplanned && !t.Paused && !t.TaskPaused || t.Boot }

func (t *Trigger) encode(b []byte) []byte {
	w := rowWriter{b}
	w.int(t.Version)
	w.int(t.Position)
	w.int(t.Next)
	w.flags(t.Unplanned, t.Paused, t.TaskPaused, t.Boot)
	w.uint(t.BootSeq)
	w.int(t.DefinedAt)
	w.int(t.ResumedAt)
	w.int(t.Fired)
	w.int(t.Skipped)
	w.int(t.LastFired)
	w.position(t.Stated)
	w.flags(t.Broken)
	w.uint(uint64(len(t.Runs)))
	for _, r := range t.Runs {
		w.int(r.From)
		w.int(r.To)
	}
	return w.b
}

func (t *Trigger) decode(id TriggerID, b []byte) error {
	r := rowReader{b: b}
	t.TriggerID = id
	t.Version = r.int()
	t.Position = r.int()
	t.Next = r.int()
	r.flags(&t.Unplanned, &t.Paused, &t.TaskPaused, &t.Boot)
	t.BootSeq = r.uint()
	t.DefinedAt = r.int()
	t.ResumedAt = r.int()
	t.Fired = r.int()
	t.Skipped = r.int()
	t.LastFired = r.int()
	t.Stated = r.position()
	r.flags(&t.Broken)
	n := r.uint()
	if n > maxRuns {
		r.fail()
		n = 0
	}
	t.Runs = nil
	for range n {
		t.Runs = append(t.Runs, DueSpan{r.int(), r.int()})
	}
	return r.end("trigger " + string(id.Task) + "/" + string(id.Trigger))
}

// Group is the row of a group, and in memory its queue. A group that nobody
// defined has no row and no limit.
type Group struct {
	Name    events.Group    `json:"name,omitzero"`
	Version int64           `json:"version,omitzero"` // of its definition; 0: none
	Body    string          `json:"body,omitzero"`    // its definition, JSON
	Limit   int64           `json:"limit,omitzero"`   // of attempts offered or running; 0: none
	Defined events.Position `json:"defined,omitzero"`

	dirty   bool
	gone    bool
	active  int64
	offered int64
	queue   queue
}

// Offered is the number of the group's attempts that are offered and not
// claimed.
func (g *Group) Offered() int64 { return g.offered }

// Active is the number of the group's attempts that are offered or running, or
// held.
func (g *Group) Active() int64 { return g.active }

// Queued is the number of instances in the group's queue, those that wait for
// their task's limit not counted.
func (g *Group) Queued() int { return g.queue.len() }

func (g *Group) encode(b []byte) []byte {
	w := rowWriter{b}
	w.int(g.Version)
	w.string(g.Body)
	w.int(g.Limit)
	w.position(g.Defined)
	return w.b
}

func (g *Group) decode(name events.Group, b []byte) error {
	r := rowReader{b: b}
	g.Name = name
	g.Version = r.int()
	g.Body = r.string()
	g.Limit = r.int()
	g.Defined = r.position()
	return r.end("group " + string(name))
}
