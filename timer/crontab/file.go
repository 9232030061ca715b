package crontab

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// The bounds of what is read. The largest file of the public collection in
// testdata has 12 kB and 300 lines.
const (
	MaxFile  = 4 << 20   // bytes in a file
	MaxLines = 20_000    // lines in a file, comments included
	MaxLine  = 128 << 10 // bytes in a line; cronie's bound of a command
)

// A File is what a crontab says.
type File struct {
	Name      string
	Entries   []Entry    // in the file's order
	Variables []Variable // every assignment, in the file's order
	Rejects   []Reject   // every line that could not be read, in the file's order
}

// A Reject is a line that could not be read. It is an error, of one line of
// text.
type Reject struct {
	File   string
	Line   int    // counts from 1
	Text   string // the line, cut at 80 bytes
	Reason string // what is wrong, where, and what to write instead
}

func (r Reject) Error() string { return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Reason) }

// Parse reads a crontab. System says that entries have a user column, as in
// /etc/crontab and /etc/cron.d. The name is for messages only.
//
// An error means that nothing was read: the reader failed or the file is over a
// bound. What is wrong with single lines is in File.Rejects.
func Parse(name string, r io.Reader, system bool) (*File, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxFile+1))
	if err != nil {
		return nil, fmt.Errorf("crontab %s: %w", name, err)
	}
	if len(data) > MaxFile {
		return nil, fmt.Errorf("crontab %s: has more than %d bytes; is it a crontab? split it if so", name, MaxFile)
	}
	if n := bytes.Count(data, []byte("\n")); n > MaxLines {
		return nil, fmt.Errorf("crontab %s: has %d lines, more than %d; split it", name, n, MaxLines)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))

	p := parser{file: &File{Name: name}, system: system}
	for number := 1; len(data) > 0; number++ {
		line, rest, ended := bytes.Cut(data, []byte("\n"))
		data = rest
		p.line(number, bytes.TrimSuffix(line, []byte("\r")), ended)
	}
	return p.file, nil
}

// A parser holds what is in force at the line it has come to.
type parser struct {
	file   *File
	system bool
	zone   zone
}

// line reads one line. It has no newline; ended says that the file had one.
func (p *parser) line(number int, raw []byte, ended bool) {
	raw = bytes.TrimLeft(raw, blanks)
	if len(raw) == 0 || raw[0] == '#' {
		return
	}
	reject := func(reason string) {
		const limit = 80
		p.file.Rejects = append(p.file.Rejects, Reject{
			File: p.file.Name, Line: number, Reason: reason,
			Text: strings.ToValidUTF8(string(raw[:min(len(raw), limit)]), "\ufffd"),
		})
	}
	switch {
	case len(raw) > MaxLine:
		reject(fmt.Sprintf("the line has %d bytes, more than %d; put the command into a script", len(raw), MaxLine))
		return
	case bytes.IndexByte(raw, 0) >= 0:
		reject("the line has a NUL byte; a crontab is text")
		return
	case !utf8.Valid(raw):
		reject("the line is not UTF-8; convert the file (iconv -f latin1 -t utf-8)")
		return
	}
	text := string(raw)

	v, isVariable, reason := parseVariable(text)
	if reason != "" {
		reject(reason)
		return
	}
	if isVariable {
		v.Line = number
		p.file.Variables = append(p.file.Variables, v)
		if v.Name == "CRON_TZ" {
			p.zone = readZone(v)
		}
		return
	}

	e, reason := p.parseEntry(text)
	if reason != "" {
		reject(reason)
		return
	}
	e.Line = number
	// A slice of what is set so far, shared by all entries: the list only grows
	// at its end, so no entry sees a later assignment.
	e.variables = p.file.Variables[:len(p.file.Variables):len(p.file.Variables)]
	if !ended {
		e.Note = "no newline after this last line: cron would not run it; make sure that the file is complete"
	}
	p.file.Entries = append(p.file.Entries, e)
}

// blanks are what separates fields.
const blanks = " \t"
