package definition

import (
	"cmp"
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
	if e, ok := err.(*jsonschema.ValidationError); ok {
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
	absent := slices.DeleteFunc(slices.Clone(known), func(k string) bool { return v.node.get(k) != nil })
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
	near = cmp.Or(nearest(name, absent), near)
	if near == "" {
		if h, ok := x.schema.homes[strings.ToLower(synonym)]; ok {
			return "; did you mean " + tick(h.name) + "? It belongs into " + words(h.objects, "or")
		}
		return "; known here: " + words(known, "and")
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

// wrongType is about a value that is, say, a number where a text is wanted.
func (x *explainer) wrongType(v verdict) string {
	n := v.node
	if n.kind == null {
		return x.empty(v)
	}
	if isDurationPart(v.url) && n.kind == number {
		return fmt.Sprintf("is %s; write the unit with it, such as %ss", n.describe(), cut(n.text, 60))
	}
	switch v.part["type"] {
	case "string":
		if n.kind == number || n.kind == boolean {
			return fmt.Sprintf("is %s, want %s; put it into quotes: %s", n.describe(), x.wanted(v.part), quote(n.text))
		}
	case "integer":
		if n.kind == text && numberForm.MatchString(n.text) {
			return fmt.Sprintf("is %s, want a number; write it without quotes", n.describe())
		}
	case "array":
		if n.kind == object {
			return fmt.Sprintf("is one object, want a list; write \"- \" before its first field, or %s", x.wanted(v.part))
		}
	}
	return "is " + n.describe() + ", want " + x.wanted(v.part)
}

// empty is about a field without a value, or with one that counts as none.
func (x *explainer) empty(v verdict) string {
	s := "is empty; write " + x.wanted(v.part)
	if !x.schema.isRequired(v.path) {
		s += ", or leave the field out"
	}
	return s
}

// wanted says what a part of the schema asks for.
func (x *explainer) wanted(part map[string]any) string {
	example := ""
	if list, _ := part["examples"].([]any); len(list) > 0 {
		example = " such as " + flow(list[0])
	}
	switch part["type"] {
	case "string":
		if part["pattern"] == x.schema.duration() {
			return "a duration such as 30s"
		}
		return "a text" + example
	case "integer":
		return fmt.Sprintf("a whole number from %v to %v", part["minimum"], part["maximum"])
	case "array":
		return "a list" + example
	case "object":
		return "an object" + example
	}
	return "a value" + example
}

// duration is the pattern by which a part of the schema is known to be one.
func (s *schema) duration() any { return s.at("#/$defs/duration")["pattern"] }

func isDurationPart(url string) bool {
	return strings.HasSuffix(url, "/duration") || strings.HasSuffix(url, "/positiveDuration")
}

func isNamePart(url string) bool {
	return strings.HasSuffix(url, "/name") || strings.HasSuffix(url, "/taskName")
}

// wrongValue is about a value that is not one of some words.
func wrongValue(v verdict) string {
	if reason := laterValues[v.path][v.node.text]; reason != "" {
		return reason
	}
	var names []string
	list, _ := v.part["enum"].([]any)
	for _, e := range list {
		names = append(names, fmt.Sprint(e))
	}
	reason := "is " + show(v.node) + ", want " + words(names, "or")
	if v.node.kind == text {
		if near := nearest(v.node.text, names); near != "" {
			reason += "; did you mean " + near + "?"
		}
	}
	return reason
}

// wrongPattern is about a text of the wrong form.
func wrongPattern(v verdict) string {
	s := v.node.text
	switch {
	case isDurationPart(v.url):
		return wrongDuration(s)
	case isNamePart(v.url):
		check := events.CheckName
		if strings.HasSuffix(v.url, "/taskName") {
			check = events.CheckTaskName
		}
		if err := check(s); err != nil {
			return err.Error()
		}
	case strings.TrimSpace(s) == "":
		return "is empty; write a value, or leave the field out"
	case strings.Contains(s, "\x00"):
		return "has a NUL character in it, which no program can be given; remove it"
	}
	return "is " + quote(s) + ", which has not the form that is wanted"
}

// wrongDuration is about a text that is no duration, or is none in effect.
func wrongDuration(s string) string {
	trimmed := strings.TrimSpace(s)
	digits := strings.TrimRight(trimmed, "dDwW")
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil && n > 0 && n < 3660 {
		switch strings.ToLower(trimmed[len(digits):]) {
		case "":
			return fmt.Sprintf("is %s; write the unit with it, such as %ds", quote(s), n)
		case "d":
			return fmt.Sprintf("is %s; the longest unit is the hour: write %dh", quote(s), 24*n)
		case "w":
			return fmt.Sprintf("is %s; the longest unit is the hour: write %dh", quote(s), 7*24*n)
		}
	}
	if d, err := events.ParseDuration(s); err == nil && d == 0 {
		return fmt.Sprintf("is %s, want more than nothing; leave it out for the default", quote(s))
	}
	return fmt.Sprintf("is %s, want a number and a unit such as 500ms, 30s, 5m or 24h, without spaces", quote(s))
}

// show is describe, with a text as it was written.
func show(n *node) string {
	if n.kind == text {
		return quote(n.text)
	}
	return n.describe()
}

func tick(name string) string {
	if isPlainName(name) {
		return "`" + name + "`"
	}
	return quote(name)
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

// flow writes an example of the schema as YAML in one line.
func flow(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var list []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			list = append(list, k+": "+flow(v[k]))
		}
		return "{" + strings.Join(list, ", ") + "}"
	case []any:
		var list []string
		for _, e := range v {
			list = append(list, flow(e))
		}
		return "[" + strings.Join(list, ", ") + "]"
	case string:
		if strings.ContainsAny(v, "*@?:,{}[]#&\"'") || v == "" {
			return strconv.Quote(v)
		}
		return v
	}
	return fmt.Sprint(v)
}
