package definition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ax-scheduler/ax/events"
)

// wrongType is about a value that is, say, a number where a text is wanted.
func (x *explainer) wrongType(v verdict) string {
	n := v.node
	if n.kind == null {
		return x.empty(v)
	}
	if isDurationPart(v.url) && n.kind == number && n.text != "0" && n.text[0] != '-' {
		return fmt.Sprintf("is %s; write the unit with it, such as %ss", n.describe(), cut(n.text, 60))
	}
	switch v.part["type"] {
	case "string":
		if !isDurationPart(v.url) && (n.kind == number || n.kind == boolean) {
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
	return strings.HasSuffix(url, "#/$defs/duration") || strings.HasSuffix(url, "#/$defs/positiveDuration")
}

func isNamePart(url string) bool {
	return strings.HasSuffix(url, "#/$defs/name") || strings.HasSuffix(url, "#/$defs/taskName")
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

// otherUnits are what people write for a unit.
var otherUnits = map[string]string{
	"ms": "ms", "msec": "ms", "millis": "ms", "milliseconds": "ms",
	"s": "s", "sec": "s", "secs": "s", "second": "s", "seconds": "s",
	"m": "m", "min": "m", "mins": "m", "minute": "m", "minutes": "m",
	"h": "h", "hr": "h", "hrs": "h", "hour": "h", "hours": "h",
	"d": "d", "day": "d", "days": "d", "w": "w", "week": "w", "weeks": "w",
}

// wrongDuration is about a text that is no duration, or is none in effect.
func wrongDuration(s string) string {
	unit := strings.TrimLeft(s, " 0123456789")
	if n, err := strconv.ParseInt(strings.TrimSpace(s[:len(s)-len(unit)]), 10, 64); err == nil && n > 0 && n < 100_000 {
		meant, known := otherUnits[strings.ToLower(strings.TrimSpace(unit))]
		switch {
		case unit == "":
			return fmt.Sprintf("is %s; write the unit with it, such as %ds", quote(s), n)
		case meant == "d":
			return fmt.Sprintf("is %s; the longest unit is the hour: write %dh", quote(s), 24*n)
		case meant == "w":
			return fmt.Sprintf("is %s; the longest unit is the hour: write %dh", quote(s), 7*24*n)
		case known:
			return fmt.Sprintf("is %s; write %d%s", quote(s), n, meant)
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
