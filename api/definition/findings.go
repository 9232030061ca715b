package definition

import "fmt"

// findings collects the problems of one document. It knows which fields have
// one, so that a later step does not complain about the consequence of what an
// earlier one has reported (D2).
type findings struct {
	problems []Problem
	at       map[string]bool // fields that have a problem
	above    map[string]bool // the same, and all that they are part of
	lost     map[string]bool // fields whose value is wrong as a whole
	beside   map[string]bool // objects that have such a field
}

// add reports a problem with the value at a path. The first one counts.
func (f *findings) add(at place, path, format string, args ...any) {
	if f.at[path] {
		return
	}
	f.open()
	f.at[path], f.above[path] = true, true
	eachPrefix(path, func(p string) { f.above[p] = true })
	f.note(at, path, format, args...)
}

// value is add for a value that is wrong as a whole. What is said later about
// its parts, or about how the values beside it go with it, has no ground.
func (f *findings) value(at place, path, format string, args ...any) {
	f.add(at, path, format, args...)
	f.lose(path)
}

// lose says that there is no value at a path that something could be said about.
func (f *findings) lose(path string) {
	f.open()
	f.lost[path], f.beside[parentOf(path)] = true, true
}

func (f *findings) open() {
	if f.at == nil {
		f.at, f.above = map[string]bool{}, map[string]bool{}
		f.lost, f.beside = map[string]bool{}, map[string]bool{}
	}
}

// note reports a problem and leaves the field open for others.
func (f *findings) note(at place, path, format string, args ...any) {
	f.problems = append(f.problems, Problem{at.line, at.column, path, oneLine(fmt.Sprintf(format, args...))})
}

// explains says whether a complaint about path may be the consequence of what is
// known already: a problem of the field, of a part of it, or of a value that it
// is part of.
func (f *findings) explains(path string) bool {
	if f.above[path] || f.lost[path] {
		return true
	}
	explained := false
	eachPrefix(path, func(p string) { explained = explained || f.lost[p] })
	return explained
}
