package definition

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	schemakind "github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/ax-scheduler/ax/events"
)

// explainer puts what the schema's validator found into words, at the place in
// the file.
type explainer struct {
	schema *schema
	found  *findings
	meant  map[string]bool // fields that are there under another name
}

// verdict is one thing that the validator found.
type verdict struct {
	kind jsonschema.ErrorKind
	node *node
	path string
	url  string         // of the part of the schema
	part map[string]any // that part
}

// checkSchema validates a document and reports what is wrong. It says whether
// all is well.
func checkSchema(doc *node, s *schema, found *findings) bool {
	err := s.compiled.Validate(doc.any())
	if err == nil {
		return true
	}
	x := &explainer{s, found, map[string]bool{}}
	var list []verdict
	var e *jsonschema.ValidationError
	if errors.As(err, &e) {
		list = x.collect(e, doc, nil)
	}
	// What a wrong name may have been meant for is not missing, so names come
	// first. The validator walks maps, so its own order is a new one each time.
	slices.SortStableFunc(list, func(a, b verdict) int {
		return cmp.Or(rank(a.kind)-rank(b.kind), strings.Compare(a.path, b.path), strings.Compare(a.url, b.url))
	})
	for _, v := range list {
		x.explain(v)
	}
	return false
}

func rank(k jsonschema.ErrorKind) int {
	switch k.(type) {
	case *schemakind.AdditionalProperties:
		return 0
	case *schemakind.Required, *schemakind.OneOf, *schemakind.DependentRequired:
		return 2
	}
	return 1
}

// collect gives the leaves of the validator's tree of errors.
func (x *explainer) collect(e *jsonschema.ValidationError, doc *node, list []verdict) []verdict {
	switch e.ErrorKind.(type) {
	case *schemakind.Schema, *schemakind.Group, *schemakind.Reference, *schemakind.AllOf:
		for _, cause := range e.Causes {
			list = x.collect(cause, doc, list)
		}
		return list
	}
	n, path := doc, ""
	for _, step := range e.InstanceLocation {
		if n.kind == array {
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(n.items) {
				break
			}
			n, path = n.items[i], itemPath(path, i)
			continue
		}
		next := n.get(step)
		if next == nil {
			break
		}
		n, path = next, childPath(path, step)
	}
	return append(list, verdict{e.ErrorKind, n, path, e.SchemaURL, x.schema.at(e.SchemaURL)})
}

func (x *explainer) explain(v verdict) {
	bad := func(format string, args ...any) { x.found.value(v.node.at, v.path, format, args...) }
	switch k := v.kind.(type) {
	case *schemakind.AdditionalProperties:
		x.unknown(v, k.Properties)
	case *schemakind.Required:
		x.missing(v, k.Missing)
	case *schemakind.OneOf:
		x.oneOf(v)
	case *schemakind.DependentRequired:
		if f := v.node.field(k.Prop); f != nil && !x.meant[childPath(v.path, k.Missing[0])] {
			x.found.add(f.at, childPath(v.path, k.Prop), "is for %s only; write %s too, or leave it out", k.Missing[0], k.Missing[0])
		}
	case *schemakind.Type:
		bad("%s", x.wrongType(v))
	case *schemakind.Const:
		bad("is %s, want %v", show(v.node), v.part["const"])
	case *schemakind.Enum:
		bad("%s", wrongValue(v))
	case *schemakind.Minimum, *schemakind.Maximum:
		bad("is %s, want %v to %v", v.node.text, v.part["minimum"], v.part["maximum"])
	case *schemakind.Pattern:
		bad("%s", wrongPattern(v))
	case *schemakind.MinLength:
		bad("%s", x.empty(v))
	case *schemakind.MaxLength:
		if isNamePart(v.url) {
			bad("%s", wrongPattern(v))
			return
		}
		bad("has %d characters, at most %d", k.Got, k.Want)
	case *schemakind.MinItems:
		bad("%s", x.empty(v))
	case *schemakind.MaxItems:
		x.found.add(v.node.at, v.path, "has %d entries, at most %d", k.Got, k.Want)
	case *schemakind.MaxProperties:
		x.found.add(v.node.at, v.path, "has %d entries, at most %d", k.Got, k.Want)
	case *schemakind.Not: // a name that is kept; Complete says why
	default:
		bad("is not what the schema wants (%s)", strings.Join(v.kind.KeywordPath(), "/"))
	}
}

// unknown is about fields that the schema does not know.
func (x *explainer) unknown(v verdict, names []string) {
	known := slices.Sorted(maps.Keys(properties(v.part)))
	unknown := map[string]bool{}
	for _, name := range names {
		unknown[name] = true
	}
	for _, f := range v.node.fields { // in the order of the file
		if !unknown[f.name] {
			continue
		}
		path := childPath(v.path, f.name)
		reason := laterFields[anyItem(path)]
		switch {
		case reason != "":
		case v.path == "metadata.labels":
			reason = fmt.Sprintf("the key of a label has %d bytes, want 1 to %d", len(f.name), events.MaxNameLen)
		case len(known) == 0:
			reason = "no name for an environment variable; names are not empty and have no = in them"
		default:
			reason = "unknown field " + tick(f.name) + x.advice(v, f.name, known)
		}
		x.found.add(f.at, path, "%s", reason)
	}
}

// advice says what may have been meant by an unknown name.
func (x *explainer) advice(v verdict, name string, known []string) string {
	near := nearest(name, known)
	synonym := synonyms[strings.ToLower(name)]
	// Half a name is a guess; the very name in another object is none.
	if h, ok := x.schema.homes[strings.ToLower(name)]; ok && !strings.EqualFold(near, name) && (near == "" || near != synonym) {
		it := "it"
		if h.name != name {
			it = tick(h.name)
		}
		return "; " + it + " belongs into " + words(h.objects, "or")
	}
	switch {
	case near == "":
		if h, ok := x.schema.homes[strings.ToLower(synonym)]; ok {
			return "; did you mean " + tick(h.name) + "? It belongs into " + words(h.objects, "or")
		}
		return "; known here: " + words(known, "and")
	case v.node.get(near) != nil:
		return "; " + tick(near) + " is there already"
	}
	path := childPath(v.path, near)
	x.meant[path] = true
	x.found.lose(path)
	return "; did you mean " + tick(near) + "?"
}

func (x *explainer) missing(v verdict, names []string) {
	for _, name := range names {
		path := childPath(v.path, name)
		if x.meant[path] {
			continue
		}
		child, _ := properties(v.part)[name].(map[string]any)
		x.found.value(v.node.at, path, "is missing; write %s", x.withName(name, child))
	}
}

// withName shows a field with an example value.
func (x *explainer) withName(name string, part map[string]any) string {
	part = x.schema.resolved(part)
	if c, ok := part["const"]; ok {
		return fmt.Sprintf("%s: %v", name, c)
	}
	if list, _ := part["examples"].([]any); len(list) > 0 {
		return "one such as " + name + ": " + flow(list[0])
	}
	return x.wanted(part)
}

// oneOf is about objects that have exactly one of some fields.
func (x *explainer) oneOf(v verdict) {
	var names, given []string
	alternatives, _ := v.part["oneOf"].([]any)
	for _, a := range alternatives {
		m, _ := a.(map[string]any)
		required, _ := m["required"].([]any)
		for _, r := range required {
			name, _ := r.(string)
			names = append(names, name)
			if v.node.get(name) != nil {
				given = append(given, name)
			}
			if x.meant[childPath(v.path, name)] {
				return
			}
		}
	}
	// An executor of an unknown kind is not missing.
	if len(given) == 0 && v.path == "spec.executor" && len(v.node.fields) > 0 {
		return
	}
	have := "none"
	if len(given) > 0 {
		have = words(given, "and")
	}
	x.found.add(v.node.at, v.path, "has %s, want exactly one of %s", have, words(names, "and"))
}

// anyItem makes spec.triggers[0].cron to spec.triggers[].cron.
func anyItem(path string) string {
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if i > 0 && path[i-1] == '[' {
			for i < len(path) && path[i] >= '0' && path[i] <= '9' {
				i++
			}
		}
		if i < len(path) {
			b.WriteByte(path[i])
		}
	}
	return b.String()
}
