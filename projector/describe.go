package projector

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/ax-scheduler/ax/events"
)

// describeKey says in words what row a key is of.
func describeKey(key []byte) string {
	if len(key) == 0 {
		return ""
	}
	rest := key[1:]
	slash := func(b []byte) string { return string(bytes.ReplaceAll(b, []byte{0}, []byte("/"))) }
	tail := func(n int) ([]byte, uint64, bool) {
		if len(rest) < n {
			return nil, 0, false
		}
		cut := len(rest) - n
		return rest[:cut], binary.BigEndian.Uint64(rest[cut:]), true
	}
	switch key[0] {
	case keyMeta:
		return "meta"
	case keyTask:
		return "task " + string(rest)
	case keyVersion:
		if name, version, ok := tail(8); ok {
			return fmt.Sprintf("definition %s version %d", bytes.TrimRight(name, "\x00"), version)
		}
	case keyGroup:
		return "group " + string(rest)
	case keyTrigger:
		return "trigger " + slash(rest)
	case keyInstance:
		return "instance " + string(rest)
	case keyOpen:
		if len(rest) > 0 {
			return "open " + slash(rest[1:])
		}
	case keyDue:
		if len(rest) > 9 {
			return fmt.Sprintf("due %d %s", binary.BigEndian.Uint64(rest), slash(rest[9:]))
		}
	case keyListed, keyDead:
		if len(rest) == 12 {
			return map[byte]string{keyListed: "listed ", keyDead: "dead "}[key[0]] + positionOf(key).String()
		}
	case keyFinished:
		if len(rest) > 12 {
			return fmt.Sprintf("finished %s %s", bytes.TrimRight(rest[:len(rest)-12], "\x00"), positionOf(key))
		}
	case keyKey:
		return "key " + slash(rest)
	case keyOverfull:
		return "overfull " + string(rest)
	}
	return "row " + hex.EncodeToString(key)
}

// describeValue gives the value of a row as JSON where it can be read, else as
// it is.
func describeValue(key, value []byte) string {
	if value == nil {
		return ""
	}
	var row any
	var err error
	switch name := key[1:]; key[0] {
	case keyMeta:
		m := &Meta{}
		row, err = m, m.decode(value)
	case keyTask:
		t := &Task{}
		row, err = t, t.decode(events.TaskName(name), value)
	case keyGroup:
		g := &Group{}
		row, err = g, g.decode(events.Group(name), value)
	case keyTrigger:
		task, trigger, _ := bytes.Cut(name, []byte{0})
		t := &Trigger{}
		row, err = t, t.decode(TriggerID{events.TaskName(task), events.TriggerName(trigger)}, value)
	case keyInstance:
		i := &Instance{}
		row, err = i, i.decode(events.InstanceID(name), value)
	case keyKey:
		k := &keyRow{}
		row, err = k, k.decode(value)
	default:
		return string(value)
	}
	if err == nil {
		if b, err := json.Marshal(row); err == nil {
			return string(b)
		}
	}
	return hex.EncodeToString(value)
}
