package definition

import (
	"strings"
	"unicode/utf8"
)

// chunk is the text of one document of a YAML file.
type chunk struct {
	text string
	line int // lines of the file before it
}

// splitDocuments cuts a YAML file at its document markers. A line that begins
// with --- or ... and a space or its end is a marker wherever it stands, in a
// block of text too, so this needs no YAML reader. Documents are read one by one:
// a fault in one does not hide those of the next, and no anchor reaches from one
// into another.
func splitDocuments(s string) (chunks []chunk, bad []*Problem) {
	var (
		c       = cursor{text: s}
		start   = 0     // of the current chunk
		started = false // its --- has been seen
	)
	cut := func(end int) {
		body := s[start:end]
		if !started {
			body = passDirectives(body, c.at(start), &bad)
		}
		if started || !isBlank(body) {
			chunks = append(chunks, chunk{body, c.at(start).line - 1})
		}
	}
	for line := 0; line < len(s); {
		next := nextLine(s, line)
		switch {
		case isMarker(s[line:next], "---"):
			cut(line)
			start, started = line, true
		case isMarker(s[line:next], "..."):
			cut(line)
			start, started = next, false
		}
		line = next
	}
	cut(len(s))
	return chunks, bad
}

func nextLine(s string, from int) int {
	i := strings.IndexFunc(s[from:], isBreak)
	if i < 0 {
		return len(s)
	}
	i += from
	if strings.HasPrefix(s[i:], "\r\n") {
		return i + 2
	}
	_, n := utf8.DecodeRuneInString(s[i:])
	return i + n
}

func isMarker(line, marker string) bool {
	rest, ok := strings.CutPrefix(line, marker)
	return ok && (rest == "" || strings.ContainsRune(" \t\r\n", rune(rest[0])))
}

// passDirectives blanks the lines that may stand before the first --- of a
// document: the YAML reader does not know %YAML 1.2.
func passDirectives(body string, at place, bad *[]*Problem) string {
	if !strings.Contains(body, "%") {
		return body
	}
	var b strings.Builder
	for i, line := 0, at.line; i < len(body); line++ {
		next := nextLine(body, i)
		text := body[i:next]
		i = next
		switch {
		case !strings.HasPrefix(text, "%"):
			if !isBlank(text) { // the document has begun
				b.WriteString(text)
				b.WriteString(body[i:])
				return b.String()
			}
		case !strings.HasPrefix(text, "%YAML 1."):
			*bad = append(*bad, problemAt(place{line, 1}, "directive %s is not supported; remove the line", quote(strings.TrimSpace(text))))
		}
		b.WriteString("#\n")
	}
	return b.String()
}

// isBlank says whether there are only comments.
func isBlank(s string) bool {
	for len(s) > 0 {
		next := nextLine(s, 0)
		if line := strings.TrimSpace(s[:next]); line != "" && line[0] != '#' {
			return false
		}
		s = s[next:]
	}
	return true
}
