package definition

import (
	"strconv"
	"strings"
)

// A path names a field: spec.triggers[0].cron, metadata.labels["app/part"]. The
// empty path is the document.

func childPath(path, name string) string {
	if !isPlainName(name) {
		return path + "[" + quote(name) + "]"
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func itemPath(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

func isPlainName(s string) bool {
	for _, c := range []byte(s) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= 64
}

// eachPrefix calls f for all that path is part of, the document not counted.
func eachPrefix(path string, f func(string)) {
	for i := 1; i < len(path); i++ {
		if path[i] == '.' || path[i] == '[' {
			f(path[:i])
		}
	}
}

func parentOf(path string) string { return path[:max(0, strings.LastIndexAny(path, ".["))] }

// cutPath takes the first step off a path. The index is -1 for a name.
func cutPath(path string) (name string, index int, rest string) {
	if inner, ok := strings.CutPrefix(path, "["); ok {
		digits, rest, ok := strings.Cut(inner, "]")
		i, err := strconv.Atoi(digits)
		if !ok || err != nil || i < 0 {
			return path, -1, ""
		}
		return "", i, strings.TrimPrefix(rest, ".")
	}
	end := strings.IndexAny(path, ".[")
	if end < 0 {
		return path, -1, ""
	}
	return path[:end], -1, strings.TrimPrefix(path[end:], ".")
}

// steps is the way from the document down to a value. Paths are made of it only
// for what is wrong.
type steps struct {
	up    *steps
	name  string
	index int // of an item, or -1
	depth int
}

func (t *steps) path() string {
	switch {
	case t == nil:
		return ""
	case t.index >= 0:
		return itemPath(t.up.path(), t.index)
	}
	return childPath(t.up.path(), t.name)
}

func (t *steps) down(name string, index int) *steps {
	next := &steps{up: t, name: name, index: index, depth: 1}
	if t != nil {
		next.depth = t.depth + 1
	}
	return next
}
