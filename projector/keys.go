package projector

import (
	"encoding/binary"

	"github.com/ax-scheduler/ax/events"
)

// The layout of the views: every kind of row with its key. Names and ids hold
// no zero byte, so one ends a name inside a key; numbers are big-endian, so
// that keys sort as numbers do.
//
//	m                                    meta: cursor, hash, term and what goes with them
//	t <task>                             task
//	v <task> 0 <version:8>               definition of a task's version, JSON
//	g <group>                            group
//	p <task> 0 <trigger>                 trigger with its position
//	i <instance>                         instance
//	o i <instance>                       instances to load at start: queued, active or to be judged
//	o p <task> 0 <trigger>               triggers to load at start: to be planned, or fired by a boot
//	d <due:8> i <instance>               due index
//	d <due:8> p <task> 0 <trigger>       due index
//	l <seq:8> <index:4>                  all instances by the position of their fired
//	f <task> 0 <seq:8> <index:4>         finished instances of a task by the position of their end
//	x <seq:8> <index:4>                  dead letters by the position of their death
//	k <task> 0 <key>                     idempotency key
//	w <task>                             tasks with more finished rows than they keep
//
// Values are in row.go and beside the types they hold. Whoever changes a row's
// bytes raises formatVersion: views of another version are dropped and folded
// again.
const (
	keyMeta     = 'm'
	keyTask     = 't'
	keyVersion  = 'v'
	keyGroup    = 'g'
	keyTrigger  = 'p'
	keyInstance = 'i'
	keyOpen     = 'o'
	keyDue      = 'd'
	keyListed   = 'l'
	keyFinished = 'f'
	keyDead     = 'x'
	keyKey      = 'k'
	keyOverfull = 'w'
)

// formatVersion is the version of the layout of the views.
const formatVersion = 1

func taskKey(b []byte, task events.TaskName) []byte {
	return append(append(b, keyTask), task...)
}

func versionKey(b []byte, task events.TaskName, version int64) []byte {
	b = append(append(append(b, keyVersion), task...), 0)
	return binary.BigEndian.AppendUint64(b, uint64(version))
}

func groupKey(b []byte, g events.Group) []byte {
	return append(append(b, keyGroup), g...)
}

func triggerKey(b []byte, id TriggerID) []byte {
	return appendTriggerID(append(b, keyTrigger), id)
}

func appendTriggerID(b []byte, id TriggerID) []byte {
	b = append(append(b, id.Task...), 0)
	return append(b, id.Trigger...)
}

func instanceKey(b []byte, id events.InstanceID) []byte {
	return append(append(b, keyInstance), id...)
}

func openInstanceKey(b []byte, id events.InstanceID) []byte {
	return append(append(b, keyOpen, keyInstance), id...)
}

func openTriggerKey(b []byte, id TriggerID) []byte {
	return appendTriggerID(append(b, keyOpen, keyTrigger), id)
}

// dueKey orders everything that waits for a time, in memory and on disk, by the
// time alone; what is due at the same millisecond has no order of its own.
func dueKey(b []byte, due int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, keyDue), uint64(due))
}

func dueInstanceKey(b []byte, due int64, id events.InstanceID) []byte {
	return append(append(dueKey(b, due), keyInstance), id...)
}

func dueTriggerKey(b []byte, due int64, id TriggerID) []byte {
	return appendTriggerID(append(dueKey(b, due), keyTrigger), id)
}

func appendPosition(b []byte, p events.Position) []byte {
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	return binary.BigEndian.AppendUint32(b, p.Index)
}

func positionOf(key []byte) events.Position {
	n := len(key) - 12
	return events.Position{Seq: binary.BigEndian.Uint64(key[n:]), Index: binary.BigEndian.Uint32(key[n+8:])}
}

func listedKey(b []byte, p events.Position) []byte { return appendPosition(append(b, keyListed), p) }

func finishedPrefix(b []byte, task events.TaskName) []byte {
	return append(append(append(b, keyFinished), task...), 0)
}

func finishedKey(b []byte, task events.TaskName, p events.Position) []byte {
	return appendPosition(finishedPrefix(b, task), p)
}

func overfullKey(b []byte, task events.TaskName) []byte {
	return append(append(b, keyOverfull), task...)
}

func deadKey(b []byte, p events.Position) []byte { return appendPosition(append(b, keyDead), p) }

func idempotencyKey(b []byte, task events.TaskName, key string) []byte {
	b = append(append(append(b, keyKey), task...), 0)
	return append(b, key...)
}

// after gives the key that follows all keys beginning with prefix.
func after(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] < 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}
