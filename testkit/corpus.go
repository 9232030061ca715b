package testkit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/ax-scheduler/ax/events"
)

// A history on file: one message a line, as JSON, so that a diff of two
// histories can be read. Bodies are text where they are not compressed.

type messageLine struct {
	Seq     uint64      `json:"seq"`
	Led     bool        `json:"led,omitempty"`
	Version int         `json:"version,omitempty"`
	Term    events.Term `json:"term,omitzero"`
	Time    int64       `json:"time,omitempty"`
	Prev    events.Hash `json:"prev,omitzero"`
	Stored  int64       `json:"stored,omitempty"`
	Text    string      `json:"text,omitempty"` // body
	Zstd    []byte      `json:"zstd,omitempty"` // body, compressed
}

// maxHistoryLine bounds a line of a history file.
const maxHistoryLine = 2 << 20

// WriteHistory writes messages as lines.
func WriteHistory(w io.Writer, msgs []*events.Message) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, m := range msgs {
		line := messageLine{Seq: m.Seq, Led: m.Kind == events.MessageLed, Version: m.Version, Term: m.Term, Time: m.Time, Prev: m.Prev, Stored: m.Stored}
		if m.Compressed {
			line.Zstd = m.Body
		} else {
			line.Text = string(m.Body)
		}
		if err := enc.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// ReadHistory reads what WriteHistory wrote.
func ReadHistory(r io.Reader) (msgs []*events.Message, err error) {
	scan := bufio.NewScanner(r)
	scan.Buffer(nil, maxHistoryLine)
	for scan.Scan() {
		var line messageLine
		if err := json.Unmarshal(scan.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("history, line %d: %w", len(msgs)+1, err)
		}
		m := &events.Message{Seq: line.Seq, Kind: events.MessageLog, Version: line.Version, Term: line.Term, Time: line.Time, Prev: line.Prev, Stored: line.Stored, Body: []byte(line.Text)}
		if line.Led {
			m.Kind = events.MessageLed
		}
		if len(line.Zstd) > 0 {
			m.Compressed, m.Body = true, line.Zstd
		}
		msgs = append(msgs, m)
	}
	return msgs, scan.Err()
}
