package projector

import (
	"github.com/ax-scheduler/ax/events"
)

// Meta is the one row about the fold itself.
type Meta struct {
	Cursor uint64      `json:"cursor"` // sequence of the last message folded
	Hash   events.Hash `json:"hash"`   // chain up to and with it
	Before events.Hash `json:"before"` // chain before it
	Time   int64       `json:"time"`   // log time of the last event, Unix nanoseconds

	Term   events.Term       `json:"term"` // of the last led
	Led    uint64            `json:"led"`  // its sequence: the fence
	LedAt  int64             `json:"ledAt"`
	Leader events.ServerName `json:"leader"`

	Inbox uint64 `json:"inbox"` // highest inbox sequence that an event answered

	Boot    string `json:"boot"` // the machine's boot that the last leader with a data folder named
	BootSeq uint64 `json:"bootSeq"`
	BootAt  int64  `json:"bootAt"` // Unix milliseconds

	Events uint64 `json:"events"` // that had an effect
	Passed uint64 `json:"passed"` // that had none

	// Strange are messages that were no frame, or of no living term, and that no
	// incident has recorded yet.
	Strange Strange `json:"strange"`

	Checkpoint     uint64      `json:"checkpoint"` // sequence of the last checkpoint that carries a digest
	CheckpointAt   int64       `json:"checkpointAt"`
	CheckpointHash events.Hash `json:"checkpointHash"`

	// TrimOwed is how many finished instances are over their task's bound and
	// still have a row.
	TrimOwed int64 `json:"trimOwed"`

	Stated events.Position `json:"stated"` // of the last event that stated this row

	// First is the first message this fold began with; 1 unless the log had lost
	// its beginning by age or size.
	First uint64 `json:"first"`
	// Unchained: no frame was folded yet of a log that had lost its beginning, so
	// the chain begins with what the next one says.
	Unchained bool `json:"unchained,omitempty"`
}

// Strange is a range of messages that changed nothing because they are not what
// a leader of its term writes.
type Strange struct {
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	Count uint64 `json:"count"`
}

func (m *Meta) encode(b []byte) []byte {
	w := rowWriter{b}
	w.uint(m.Cursor)
	w.b = append(w.b, m.Hash[:]...)
	w.b = append(w.b, m.Before[:]...)
	w.int(m.Time)
	w.b = append(w.b, m.Term[:]...)
	w.uint(m.Led)
	w.int(m.LedAt)
	w.string(string(m.Leader))
	w.uint(m.Inbox)
	w.string(m.Boot)
	w.uint(m.BootSeq)
	w.int(m.BootAt)
	w.uint(m.Events)
	w.uint(m.Passed)
	w.uint(m.Strange.First)
	w.uint(m.Strange.Last)
	w.uint(m.Strange.Count)
	w.uint(m.Checkpoint)
	w.int(m.CheckpointAt)
	w.b = append(w.b, m.CheckpointHash[:]...)
	w.int(m.TrimOwed)
	w.position(m.Stated)
	w.uint(m.First)
	w.flags(m.Unchained)
	return w.b
}

func (m *Meta) decode(b []byte) error {
	r := rowReader{b: b}
	m.Cursor = r.uint()
	r.bytes(m.Hash[:])
	r.bytes(m.Before[:])
	m.Time = r.int()
	r.bytes(m.Term[:])
	m.Led = r.uint()
	m.LedAt = r.int()
	m.Leader = events.ServerName(r.string())
	m.Inbox = r.uint()
	m.Boot = r.string()
	m.BootSeq = r.uint()
	m.BootAt = r.int()
	m.Events = r.uint()
	m.Passed = r.uint()
	m.Strange.First = r.uint()
	m.Strange.Last = r.uint()
	m.Strange.Count = r.uint()
	m.Checkpoint = r.uint()
	m.CheckpointAt = r.int()
	r.bytes(m.CheckpointHash[:])
	m.TrimOwed = r.int()
	m.Stated = r.position()
	m.First = r.uint()
	r.flags(&m.Unchained)
	return r.end("meta")
}
