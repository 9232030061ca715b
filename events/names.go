package events

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Strings that mean something have a type, so that the compiler finds swapped
// arguments. All of them are safe tokens: they stand in subjects, keys, paths
// and metric labels without escaping. Free text goes into a title.
type (
	// Namespace separates installations on one NATS.
	Namespace string
	// TaskName names a task definition.
	TaskName string
	// TriggerName names one trigger of a task.
	TriggerName string
	// Group is queue, limit, pool and isolation in one.
	Group string
	// WorkerName names a worker; one process holds it at a time.
	WorkerName string
	// ServerName names an AX server process.
	ServerName string
	// InstanceID names one due execution; it survives retries. See
	// NewInstanceID.
	InstanceID string
)

// Shard numbers one log with its leader. Shard 0 is the only one for now; the
// number stands in every address from the start.
type Shard uint32

// MaxNameLen is the longest name, in bytes.
const MaxNameLen = 63

// ErrName is wrapped by every refusal of a name.
var ErrName = errors.New("invalid name")

// CheckName checks a name against [a-z0-9]([-_a-z0-9]*[a-z0-9])?, at most
// MaxNameLen bytes, without "--" (that joins a workflow and its node).
func CheckName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%w: it is empty; use 1 to %d of a-z, 0-9, '-' and '_'", ErrName, MaxNameLen)
	case len(s) > MaxNameLen:
		return fmt.Errorf("%w %.20q…: %d bytes, at most %d", ErrName, s, len(s), MaxNameLen)
	case strings.Contains(s, "--"):
		return fmt.Errorf("%w %q: '--' is kept for nodes of a workflow", ErrName, s)
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case (c == '-' || c == '_') && i > 0 && i < len(s)-1:
		default:
			return fmt.Errorf("%w %q: byte %d (%q); use a-z, 0-9, and '-' or '_' in between, and put any other text into the title",
				ErrName, s, i+1, c)
		}
	}
	return nil
}

// CheckTaskName is CheckName, but accepts <workflow>--<node> too.
func CheckTaskName(s string) error {
	workflow, node, ok := strings.Cut(s, "--")
	if !ok {
		return CheckName(s)
	}
	if err := CheckName(workflow); err != nil {
		return err
	}
	return CheckName(node)
}

// CheckServerName is CheckName, and nothing in the name can be taken for the
// time inside an instance id: it begins with a letter, and holds no number of
// timeDigits or more with a '-' before it and a '-' and a letter behind it.
func CheckServerName(s string) error {
	if err := CheckName(s); err != nil {
		return err
	}
	if s[0] < 'a' {
		return fmt.Errorf("%w %q: a server's name begins with a letter", ErrName, s)
	}
	parts := strings.Split(s, "-")
	for i := 1; i < len(parts)-1; i++ {
		if p := parts[i]; len(p) >= timeDigits && strings.Trim(p, "0123456789") == "" && parts[i+1][0] >= 'a' {
			return fmt.Errorf("%w %q: %s would read as the time in an instance's id; leave it out, or put '_' before it", ErrName, s, p)
		}
	}
	return nil
}

// timeDigits is the least number of digits of a due time in Unix milliseconds
// since 12 January 1970.
const timeDigits = 10

// NewInstanceID makes <task>-<dueUnixMilli>-<server>[-<k>], where k numbers the
// instances of one task and due time. A k of 0 is left out unless the server's
// name ends as if it had one, so that two different instances never get the
// same id: the last '-', time, '-' and letter in it is the due time's, since
// CheckServerName keeps others out of what follows. No decision takes an
// id apart to learn from it; the fold only checks that it fits.
func NewInstanceID(task TaskName, due int64, server ServerName, k int64) InstanceID {
	b := make([]byte, 0, len(task)+len(server)+24)
	b = append(append(b, task...), '-')
	b = append(strconv.AppendInt(b, due, 10), '-')
	b = append(b, server...)
	if k > 0 || endsInNumber(string(server)) {
		b = strconv.AppendInt(append(b, '-'), k, 10)
	}
	return InstanceID(b)
}

// Matches reports whether the id is one of a task and due time, and gives its k.
func (id InstanceID) Matches(task TaskName, due int64) (k int64, ok bool) {
	var buf [128]byte
	b := append(append(buf[:0], task...), '-')
	b = append(strconv.AppendInt(b, due, 10), '-')
	rest, ok := strings.CutPrefix(string(id), string(b))
	if !ok || rest == "" || rest[0] < 'a' || rest[0] > 'z' {
		return 0, false
	}
	if !endsInNumber(rest) {
		return 0, true
	}
	k, err := strconv.ParseInt(rest[strings.LastIndexByte(rest, '-')+1:], 10, 64)
	return k, err == nil
}

// Task gives the task that the id is of, for readers that search the log: most
// events of an instance name nothing but the id. It is "" for what is no id.
func (id InstanceID) Task() TaskName {
	s := string(id)
	for i := len(s) - 2; i > 0; i-- { // from the end: a task's name may hold what reads as a time
		if s[i] != '-' || s[i+1] < 'a' || s[i+1] > 'z' {
			continue
		}
		k := i
		for k > 0 && s[k-1] >= '0' && s[k-1] <= '9' {
			k--
		}
		if i-k >= timeDigits && k > 1 && s[k-1] == '-' {
			return TaskName(s[:k-1])
		}
	}
	return ""
}

// endsInNumber reports whether s ends in '-' and digits.
func endsInNumber(s string) bool {
	i := len(s)
	for i > 0 && s[i-1] >= '0' && s[i-1] <= '9' {
		i--
	}
	return i < len(s) && i > 0 && s[i-1] == '-'
}

// ShardOf gives the shard of a task or workflow: FNV-1a 32 of the name up to
// "--", modulo the number of shards, so that a workflow's nodes stay together.
func ShardOf(name string, shards uint32) Shard {
	if shards <= 1 {
		return 0
	}
	base, _, _ := strings.Cut(name, "--")
	h := fnv.New32a()
	_, _ = h.Write([]byte(base)) // never fails, says hash.Hash
	return Shard(h.Sum32() % shards)
}
