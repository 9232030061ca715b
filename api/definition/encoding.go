package definition

import (
	"bytes"
	"unicode/utf8"
)

// byteOrderMark may stand at the very beginning of a file.
const byteOrderMark = "\ufeff"

// checkEncoding looks at the bytes of a file: it has to be UTF-8 of bounded size.
// It gives the text without its byte order mark.
func checkEncoding(data []byte) (string, *Problem) {
	if len(data) > MaxBytes {
		return "", &Problem{Reason: "has more than 1 MiB; split it into several files"}
	}
	for _, mark := range []string{"\xff\xfe", "\xfe\xff"} {
		if bytes.HasPrefix(data, []byte(mark)) {
			return "", &Problem{Line: 1, Column: 1, Reason: "is UTF-16; save it as UTF-8"}
		}
	}
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	s := string(data)
	c := cursor{text: s}
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 {
			at := c.at(i)
			return "", problemAt(at, "byte 0x%02X is no UTF-8; save the file as UTF-8", s[i])
		}
		i += n
	}
	return s, nil
}

// checkCharacters finds what may not stand in YAML. JSON has rules of its own.
func checkCharacters(s string) *Problem {
	c := cursor{text: s}
	for i, r := range s {
		switch {
		case r == '\t', r == '\n', r == '\r', r >= 0x20 && r <= 0x7e, r == 0x85:
		case r == 0xfeff && i > 0 && (s[i-1] == '\n' || s[i-1] == '\r'):
			return problemAt(c.at(i), "a byte order mark inside the file, as of files put together; remove it")
		case r >= 0xa0 && r <= 0xfffd, r >= 0x10000:
		default:
			return problemAt(c.at(i), "character U+%04X may not stand in YAML; remove it, or write it as \\u%04X in double quotes", r, r)
		}
	}
	return nil
}

// cursor turns offsets, asked in rising order, into places.
type cursor struct {
	text   string
	offset int
	place  place // of offset, from 0
}

func (c *cursor) at(offset int) place {
	for i, r := range c.text[c.offset:offset] {
		i += c.offset
		switch {
		case r == '\r' && i+1 < len(c.text) && c.text[i+1] == '\n':
			// The line ends with the '\n'.
		case isBreak(r):
			c.place = place{c.place.line + 1, 0}
		default:
			c.place.column++
		}
	}
	c.offset = offset
	return place{c.place.line + 1, c.place.column + 1}
}

// isBreak says whether a line ends with r, by the rules of YAML 1.1, which is how
// the YAML reader counts lines.
func isBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}
