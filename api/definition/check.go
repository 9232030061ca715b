package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// checkDocument makes a definition of a document. Without one, found says why.
func checkDocument(doc *node, opts Options, found *findings) *events.Definition {
	if doc.kind != object {
		found.add(doc.at, "", "a document is %s, want an object with apiVersion, kind, metadata and spec; several are separated by ---", doc.describe())
		return nil
	}
	k := kindOf(doc, found)
	s := schemas()[k]
	if s == nil {
		return nil
	}
	valid := checkSchema(doc, s, found)
	checkLabels(doc.get("metadata").get("labels"), found)
	var top *steps
	spec, specAt := doc.get("spec"), top.down("spec", -1)
	checkDoubtful(spec.get("params"), specAt.down("params", -1), found)
	checkDoubtful(spec.get("executor").get("external"), specAt.down("executor", -1).down("external", -1), found)

	d := decode(doc, k, found)
	if d != nil {
		complain(doc, found, d.Complete())
		if opts.CheckTask != nil && d.Task != nil && len(d.Task.Triggers) <= events.MaxTriggers {
			complain(doc, found, opts.CheckTask(taskToCheck(d.Task, found)))
		}
	}
	if len(found.problems) == 0 {
		switch body, err := encode(d); {
		case err != nil:
			found.add(doc.at, "", "%v", err)
		case len(body) > events.MaxDefinition:
			found.add(doc.at, "", "the definition has %d bytes with its defaults, at most %d", len(body), events.MaxDefinition)
		case !valid:
			found.add(doc.at, "", "is not what the schema wants; please report this file")
		}
	}
	if len(found.problems) > 0 {
		return nil
	}
	return d
}

func encode(d *events.Definition) (string, error) {
	if d == nil {
		return "", errors.New("no definition can be made of this document; please report this file")
	}
	return d.Encode()
}

// kindOf finds out which schema is meant. It reports an unknown kind and goes on
// with the one that is nearest, if one is.
func kindOf(doc *node, found *findings) events.ObjectKind {
	known := make([]string, len(kinds))
	for i, k := range kinds {
		known[i] = string(k)
	}
	f := doc.field("kind")
	if f == nil {
		for _, g := range doc.fields {
			if strings.EqualFold(g.name, "kind") {
				found.add(g.at, childPath("", g.name), "unknown field %s; did you mean `kind`?", tick(g.name))
				return ""
			}
		}
		found.add(doc.at, "kind", "is missing; write kind: %s", words(known, "or kind:"))
		checkVersion(doc, found)
		return ""
	}
	if f.value.kind == text && slices.Contains(known, f.value.text) {
		return events.ObjectKind(f.value.text)
	}
	if laterKinds[f.value.text] {
		found.value(f.value.at, "kind", "%s comes with a later version; this one knows %s", f.value.text, words(known, "and"))
		checkVersion(doc, found)
		return ""
	}
	near := nearest(f.value.text, known)
	advice := ""
	if near != "" {
		advice = "; did you mean " + near + "?"
	}
	found.value(f.value.at, "kind", "is %s, want %s%s", show(f.value), words(known, "or"), advice)
	if near == "" {
		checkVersion(doc, found)
	}
	return events.ObjectKind(near)
}

// checkVersion is for documents that no schema can be found for.
func checkVersion(doc *node, found *findings) {
	switch v := doc.get("apiVersion"); {
	case v == nil:
		found.add(doc.at, "apiVersion", "is missing; write apiVersion: %s", events.APIVersion)
	case v.text != events.APIVersion:
		found.add(v.at, "apiVersion", "is %s, want %s", show(v), events.APIVersion)
	}
}

// checkLabels counts bytes, where the schema can only count characters. Complete
// does so too, but cannot say which label it is about.
func checkLabels(labels *node, found *findings) {
	if labels == nil {
		return
	}
	for _, f := range labels.fields {
		path := childPath("metadata.labels", f.name)
		if n := len(f.name); n > events.MaxNameLen {
			found.add(f.at, path, "the key of a label has %d bytes, want 1 to %d", n, events.MaxNameLen)
		}
		if n := len(f.value.text); f.value.kind == text && n > events.MaxTitle {
			found.add(f.value.at, path, "has %d bytes, at most %d", n, events.MaxTitle)
		}
	}
}

// checkDoubtful refuses, in a value of any form, what the versions of YAML read
// differently (D4). It may be asked about what is not there.
func checkDoubtful(n *node, at *steps, found *findings) {
	if n == nil {
		return
	}
	if n.kind == text && n.plain {
		if other := doubt(n.text); other != "" {
			advice := quote(n.text)
			if other == "true" || other == "false" {
				advice = other + " or " + advice
			}
			found.value(n.at, at.path(), "%s is %s in YAML 1.1 and a text in YAML 1.2; write %s", cut(n.text, 60), other, advice)
		}
	}
	for _, f := range n.fields {
		checkDoubtful(f.value, at.down(f.name, -1), found)
	}
	for i, item := range n.items {
		checkDoubtful(item, at.down("", i), found)
	}
}

// decode makes a definition of all that fits. It gives nil where too little does.
func decode(doc *node, k events.ObjectKind, found *findings) *events.Definition {
	spec := reflect.TypeFor[events.TaskSpec]()
	if k == events.ObjectGroup {
		spec = reflect.TypeFor[events.GroupSpec]()
	}
	fitted := &node{kind: object, at: doc.at}
	for _, part := range []struct {
		name string
		t    reflect.Type
	}{
		{"apiVersion", reflect.TypeFor[string]()},
		{"metadata", reflect.TypeFor[events.Metadata]()},
		{"spec", spec},
	} {
		if f := doc.field(part.name); f != nil {
			if v := fit(f.value, part.t, part.name, found); v != nil {
				fitted.fields = append(fitted.fields, field{part.name, f.at, v})
			}
		}
	}
	fitted.fields = append(fitted.fields, field{"kind", doc.at, &node{kind: text, text: string(k)}})
	d := new(events.Definition)
	if err := json.Unmarshal(fitted.json(), d); err != nil {
		if len(found.problems) == 0 {
			found.add(doc.at, "", "%v", err)
		}
		return nil
	}
	return d
}

// complain reports the field errors in err, unless what is known already explains
// them.
func complain(doc *node, found *findings, err error) {
	for _, e := range fieldErrors(err, nil) {
		if e.Field == "spec" {
			found.note(doc.find(e.Field), e.Field, "%s", e.Reason)
			continue
		}
		if found.explains(e.Field) || related(e.Field) && found.beside[parentOf(e.Field)] {
			continue
		}
		found.add(doc.find(e.Field), e.Field, "%s", e.Reason)
	}
}

// related names the objects in which Complete compares values with each other:
// after one of them was reported and left out, what it says about the others is
// about a default.
func related(path string) bool {
	parent := parentOf(path)
	return parent == "spec.retry" || strings.HasSuffix(parent, ".interval")
}

// fieldErrors takes joined and wrapped errors apart. One that names no field is
// about the whole spec.
func fieldErrors(err error, list []*events.FieldError) []*events.FieldError {
	switch e := err.(type) { //nolint:errorlint // this takes the wrapping apart itself, one layer at a time
	case nil:
		return list
	case *events.FieldError:
		return append(list, e)
	case interface{ Unwrap() []error }:
		for _, e := range e.Unwrap() {
			list = fieldErrors(e, list)
		}
		return list
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); errors.As(inner, new(*events.FieldError)) {
			return fieldErrors(inner, list)
		}
	}
	return append(list, &events.FieldError{Field: "spec", Reason: err.Error()})
}

// taskToCheck puts triggers that nothing is wrong with in the place of those that
// are reported already, so that a check of all triggers sees each in its place.
func taskToCheck(s *events.TaskSpec, found *findings) *events.TaskSpec {
	c := *s
	c.Triggers = slices.Clone(s.Triggers)
	for i := range c.Triggers {
		if found.explains(fmt.Sprintf("spec.triggers[%d]", i)) {
			at := time.Unix(0, 0).UTC()
			c.Triggers[i] = events.TriggerSpec{Name: c.Triggers[i].Name, Once: &events.OnceSpec{At: &at}}
		}
	}
	return &c
}
