package definition

import (
	"bytes"
	"cmp"
	_ "embed" // the schemas
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/ax-scheduler/ax/events"
)

// The schemas are the source; docs/schema has copies, which a test compares.

//go:embed task.schema.json
var taskSchema []byte

//go:embed group.schema.json
var groupSchema []byte

// Schema gives the published JSON Schema (draft 2020-12) of a kind, and nil for a
// kind that has none.
func Schema(k events.ObjectKind) []byte {
	switch k {
	case events.ObjectTask:
		return bytes.Clone(taskSchema)
	case events.ObjectGroup:
		return bytes.Clone(groupSchema)
	}
	return nil
}

// kinds are those that have a schema, in the order in which they are named.
var kinds = []events.ObjectKind{events.ObjectTask, events.ObjectGroup}

// schema is a compiled schema beside its text, in which an explanation looks up
// what would have been right.
type schema struct {
	compiled *jsonschema.Schema
	text     map[string]any
	homes    map[string]home // by the name of a field in small letters
}

// home says which objects have a field of a name.
type home struct {
	name    string
	objects []string
}

var schemas = sync.OnceValue(func() map[events.ObjectKind]*schema {
	m := map[events.ObjectKind]*schema{}
	for _, k := range kinds {
		s, err := compileSchema(Schema(k))
		if err != nil {
			panic(fmt.Sprintf("schema of %s: %v", k, err)) // it is part of the program; a test compiles it
		}
		m[k] = s
	}
	return m
})

func compileSchema(b []byte) (*schema, error) {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	const name = "https://ax.invalid/schema.json" // a path would depend on the working folder
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(jsonschema.SchemeURLLoader{}) // nothing is fetched from anywhere
	if err := c.AddResource(name, v); err != nil {
		return nil, err
	}
	s := &schema{homes: map[string]home{}}
	if s.compiled, err = c.Compile(name); err != nil {
		return nil, err
	}
	s.text, _ = v.(map[string]any)
	s.findHomes(s.text, "")
	for _, homes := range s.homes {
		slices.Sort(homes.objects)
	}
	return s, nil
}

// at gives the part of the schema that a location of the validator names.
func (s *schema) at(location string) map[string]any {
	_, pointer, _ := strings.Cut(location, "#")
	part := s.text
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		if step == "" {
			continue
		}
		if u, err := url.PathUnescape(step); err == nil {
			step = u
		}
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		next, ok := part[step].(map[string]any)
		if !ok {
			return nil
		}
		part = next
	}
	return part
}

// resolved gives a part with what it refers to; what it says itself wins.
func (s *schema) resolved(part map[string]any) map[string]any {
	ref, ok := part["$ref"].(string)
	if !ok {
		return part
	}
	m := map[string]any{}
	for k, v := range s.resolved(s.at(ref)) {
		m[k] = v
	}
	for k, v := range part {
		m[k] = v
	}
	return m
}

// isRequired says whether an object has to have the field that a path names.
func (s *schema) isRequired(path string) bool {
	part, required := s.text, false
	for path != "" {
		name, i, rest := cutPath(path)
		path = rest
		if i >= 0 {
			part, _ = part["items"].(map[string]any)
			required = false
		} else {
			list, _ := part["required"].([]any)
			required = slices.Contains(list, any(name))
			part, _ = properties(part)[name].(map[string]any)
		}
		part = s.resolved(part)
	}
	return required
}

// properties gives the fields of an object.
func properties(part map[string]any) map[string]any {
	m, _ := part["properties"].(map[string]any)
	return m
}

// findHomes notes for every field which objects have it, so that a field in the
// wrong object can be sent home. The schema has no cycles.
func (s *schema) findHomes(part map[string]any, path string) {
	for name, v := range properties(part) {
		h := s.homes[strings.ToLower(name)]
		h.name, h.objects = name, append(h.objects, cmp.Or(path, "the top level of the document"))
		s.homes[strings.ToLower(name)] = h
		child, _ := v.(map[string]any)
		child = s.resolved(child)
		childAt := childPath(path, name)
		if items, ok := child["items"].(map[string]any); ok {
			child, childAt = s.resolved(items), childAt+"[]"
		}
		s.findHomes(child, childAt)
	}
}
