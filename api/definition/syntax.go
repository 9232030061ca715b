package definition

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sort"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readSyntax reads the YAML of one document. It gives nil for an empty one. The
// budget is for locating faults.
func readSyntax(c chunk, b *budget) (*yaml.Node, *Problem) {
	doc, err := parseYAML(c.text)
	if err == nil {
		return doc, nil
	}
	message, line := splitYAMLError(err)
	near := ""
	if found := locate(c.text, message, b); found > 0 {
		line = found
	} else {
		near = "here or soon after: "
	}
	return nil, &Problem{Line: c.line + max(line, 1), Reason: oneLine(near + explainSyntax(message, lineOf(c.text, line)))}
}

// parseYAML turns a panic of the YAML reader into an error: what people write
// must not end the process (D7).
func parseYAML(s string) (doc *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			doc, err = nil, fmt.Errorf("the YAML reader failed: %v; please report this file", p)
		}
	}()
	dec := yaml.NewDecoder(strings.NewReader(s))
	doc = new(yaml.Node)
	if err := dec.Decode(doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(new(yaml.Node)); err == nil {
		return nil, errors.New("a second document without --- before it")
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	return doc, nil
}

// locate finds the line that makes a text wrong. The YAML reader itself names
// the line before, or where the enclosing block began, or nothing at all, or,
// for a quote that is never closed, the end. But it reads from front to back, so
// there is a shortest beginning of the text, in lines, that it finds the same
// fault with; the last line of that is the one to look at. It gives 0 where this
// would take too much reading.
func locate(s, message string, b *budget) int {
	ends := []int{}
	for i := 0; i < len(s); {
		i = nextLine(s, i)
		ends = append(ends, i)
	}
	if b.reread += len(s) * bits.Len(uint(len(ends))); b.reread > maxReread {
		return 0
	}
	return 1 + sort.Search(max(0, len(ends)-1), func(i int) bool {
		_, err := parseYAML(s[:ends[i]])
		if err == nil {
			return false
		}
		m, _ := splitYAMLError(err)
		return m == message
	})
}

// splitYAMLError takes "yaml: line 3: message" apart.
func splitYAMLError(err error) (message string, line int) {
	message = strings.TrimPrefix(err.Error(), "yaml: ")
	if n, _ := fmt.Sscanf(message, "line %d: ", &line); n == 1 {
		_, message, _ = strings.Cut(message, ": ")
	}
	return message, line
}

func lineOf(s string, line int) string {
	for ; line > 1 && s != ""; line-- {
		s = s[nextLine(s, 0):]
	}
	return strings.TrimRight(s[:nextLine(s, 0)], "\r\n")
}

// explainSyntax says what to do about a message of the YAML reader; line is where
// it was found.
func explainSyntax(message, line string) string {
	if v := unquoted(message, line); v != "" {
		return fmt.Sprintf("a text that begins with %c has to be in quotes; write %s", v[0], inQuotes(cut(v, 60)))
	}
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t-"))]
	_, value, _ := strings.Cut(line, ": ")
	value = strings.TrimSpace(value)
	if value == "" {
		value = strings.TrimLeft(line, " \t-")
	}
	quoted := value != "" && strings.ContainsRune("'\"", rune(value[0]))
	switch {
	case strings.Contains(indent, "\t"):
		return "a tab indents this line; YAML wants spaces"
	case quoted && (strings.Contains(message, "expected key") || strings.Contains(message, "alphabetic")):
		return "something stands after the quote that closes the value; put the whole value into quotes, or under \"|\" on a line of its own"
	case strings.Contains(message, "mapping values are not allowed"):
		return "a second \": \" in one value, or a line that is indented too far; put the value into quotes, or line the field up with the ones above it"
	case strings.Contains(message, "unexpected end of stream"):
		return "a quote is opened here and never closed"
	case strings.Contains(message, "expected ',' or"):
		return "a bracket that is opened here is not closed, or a comma is missing: " + message
	case strings.Contains(message, "expected node content"):
		return "a value is missing, or a bracket is opened here and not closed"
	case strings.Contains(message, "could not find expected ':'"):
		return "want \"field: value\"; a colon with a space after it is missing"
	case strings.Contains(message, "did not find expected key"), strings.Contains(message, "did not find expected '-' indicator"):
		return "is no field or item of the block that it stands in; line it up with those above it, and look for a bracket too many"
	case strings.Contains(message, "unknown escape character"):
		return "a backslash in double quotes begins an escape; write \\\\ for a backslash, or use single quotes"
	case strings.Contains(message, "max depth"):
		return fmt.Sprintf("lists and objects are nested more than %d deep", MaxDepth)
	case strings.Contains(message, "unknown anchor"):
		return message + "; anchors reach only to the next ---; a text that begins with * has to be in quotes"
	}
	return "is no YAML: " + message
}

// indicators are the characters that mean something to YAML where a value
// begins, each with the message that its reader has for a text that only looks
// as if it meant that.
var indicators = map[byte]string{
	'*': "alphabetic or numeric character", // an alias without a name
	'&': "alphabetic or numeric character", // an anchor
	'!': "tag",
	'@': "cannot start any token",
	'`': "cannot start any token",
	'%': "cannot start any token",
	'|': "expected comment or line break", // a block of text
	'>': "expected comment or line break",
}

// unquoted finds the value in a line that begins with an indicator and is what a
// message complains about, or "". It looks inside brackets too.
func unquoted(message, line string) string {
	inBrackets := 0
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '{' || c == '[':
			inBrackets++
		case c == '}' || c == ']':
			inBrackets--
		}
		why := indicators[c]
		if why == "" || !strings.Contains(message, why) || !beginsValue(line[:i]) {
			continue
		}
		value := line[i:]
		if inBrackets > 0 {
			if end := strings.IndexAny(value, ",}]"); end > 0 {
				value = value[:end]
			}
		}
		value, _, _ = strings.Cut(value, " #")
		return strings.TrimSpace(value)
	}
	return ""
}

// inQuotes writes a text as YAML takes it: in double quotes, or in single ones
// where these would change what it says.
func inQuotes(s string) string {
	if strings.ContainsAny(s, `"\`) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return `"` + s + `"`
}

// beginsValue reports whether a value begins behind this part of a line.
func beginsValue(before string) bool {
	before = strings.TrimRight(before, " \t")
	return before == "" || strings.ContainsRune(":-,[{?", rune(before[len(before)-1]))
}
