package definition

import (
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/ax-scheduler/ax/events"
)

// Options says how definitions are read. The zero value is useful.
type Options struct {
	// CheckTask says what is wrong with the triggers of a task that only a
	// calendar can tell, in one or several joined *events.FieldError. The task is
	// complete, but for what has been reported of it. Default: none.
	CheckTask func(*events.TaskSpec) error
}

// Parse reads the definitions of one text. The name of the file is for errors,
// which are *Error.
func Parse(file string, data []byte, opts Options) ([]events.Definition, error) {
	r := reader{opts: opts, first: map[string]origin{}}
	found, problems := r.file(file, data)
	if len(problems) > 0 {
		return nil, newError(file, problems)
	}
	if len(found) == 0 {
		return nil, fileError(file, "%s", noDefinition)
	}
	list := make([]events.Definition, len(found))
	for i := range found {
		list[i] = found[i].Definition
	}
	return list, nil
}

const noDefinition = "has no definition; write one with apiVersion, kind, metadata and spec"

// reader reads the files of one call.
type reader struct {
	opts  Options
	first map[string]origin // where each kind and name was first seen
}

type origin struct {
	file string
	at   place
}

// file reads the documents of one file.
func (r *reader) file(name string, data []byte) (list []Located, problems []Problem) {
	s, bad := checkEncoding(data)
	if bad != nil {
		return nil, []Problem{*bad}
	}
	documents := 0
	each := func(doc *node, found *findings) bool {
		if documents++; documents > MaxDocuments {
			problems = append(problems, *problemAt(place{}, "the file has more than %d documents; split it", MaxDocuments))
			return false
		}
		d := checkDocument(doc, r.opts, found)
		r.checkTwice(name, doc, found)
		problems = append(problems, found.problems...)
		if d != nil && len(found.problems) == 0 {
			list = append(list, Located{*d, name, doc.at.line})
		}
		return true
	}
	b := new(budget)
	isJSON, bad := readJSON(s, b, each)
	if bad != nil {
		problems = append(problems, *bad)
	}
	if !isJSON {
		problems = append(problems, readYAML(s, b, each)...)
	}
	return list, problems
}

// readYAML reads the documents of a YAML file.
func readYAML(s string, b *budget, each func(*node, *findings) bool) (problems []Problem) {
	if bad := checkCharacters(s); bad != nil {
		return []Problem{*bad}
	}
	chunks, bad := splitDocuments(s)
	for _, p := range bad {
		problems = append(problems, *p)
	}
	for _, c := range chunks {
		doc, bad := readSyntax(c, b)
		switch {
		case bad != nil:
			problems = append(problems, *bad)
			continue
		case doc == nil || len(doc.Content) == 0:
			continue
		}
		found := new(findings)
		st := structure{found: found, budget: b, line: c.line, open: map[*yaml.Node]bool{}}
		root, err := st.value(doc.Content[0], nil)
		if err != nil {
			problems = append(problems, found.problems...)
			if b.passed() {
				return append(problems, *problemAt(place{}, "%v", err))
			}
			problems = append(problems, *problemAt(st.last, "%v", err))
			continue
		}
		if root.kind == null && len(found.problems) == 0 {
			continue // an empty document
		}
		if !each(root, found) {
			return problems
		}
	}
	return problems
}

// checkTwice refuses a kind and name that another document of this call has.
func (r *reader) checkTwice(file string, doc *node, found *findings) {
	k, name := doc.get("kind"), doc.get("metadata").get("name")
	if k == nil || name == nil || k.kind != text || name.kind != text || name.text == "" {
		return
	}
	id := k.text + "/" + name.text
	was, again := r.first[id]
	if !again {
		r.first[id] = origin{file, name.at}
		return
	}
	where := fmt.Sprintf("line %d", was.at.line)
	if was.file != file {
		where = fmt.Sprintf("%s:%d", filepath.ToSlash(was.file), was.at.line)
	}
	found.note(name.at, "metadata.name", "%s %s is defined twice, first in %s; keep one of them, or give it another name", k.text, quote(name.text), where)
}
