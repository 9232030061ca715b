package definition

import "fmt"

// findings collects the problems of one document. It knows which fields have
// one, so that a later step does not complain about the consequence of what an
// earlier one has reported (D2).
type findings struct {
	problems []Problem
	at       map[string]bool // fields that have a problem
	above    map[string]bool // the same, and all that they are part of
	beside   map[string]bool // objects with a value that is wrong
}

// add reports a problem with the value at a path. The first one counts.
func (f *findings) add(at place, path, format string, args ...any) {
	if f.at[path] {
		return
	}
	if f.at == nil {
		f.at, f.above, f.beside = map[string]bool{}, map[string]bool{}, map[string]bool{}
	}
	f.at[path], f.above[path] = true, true
	eachPrefix(path, func(p string) { f.above[p] = true })
	f.note(at, path, format, args...)
}

// value is add for a value that is there and wrong, which spoils what is said
// about its relation to the values beside it.
func (f *findings) value(at place, path, format string, args ...any) {
	f.add(at, path, format, args...)
	f.beside[parentOf(path)] = true
}

// note reports a problem and leaves the field open for others.
func (f *findings) note(at place, path, format string, args ...any) {
	f.problems = append(f.problems, Problem{at.line, at.column, path, oneLine(fmt.Sprintf(format, args...))})
}

// explains says whether a complaint about path may be the consequence of what is
// known already: a problem of the field, of a part of it, or of what it is part
// of.
func (f *findings) explains(path string) bool {
	if f.above[path] {
		return true
	}
	explained := false
	eachPrefix(path, func(p string) { explained = explained || f.at[p] })
	return explained
}
