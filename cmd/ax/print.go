package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ax-scheduler/ax"
)

// print shows a value as the flag -o asks: as JSON, as YAML, or by table.
func (c *cli) print(v any, table func(io.Writer)) error {
	switch c.output {
	case "json":
		e := json.NewEncoder(c.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(v)
	case "yaml":
		// By way of JSON, so that both have the same fields.
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		var plain any
		if err := yaml.Unmarshal(b, &plain); err != nil {
			return err
		}
		e := yaml.NewEncoder(c.out)
		e.SetIndent(2)
		if err := e.Encode(plain); err != nil {
			return err
		}
		return e.Close()
	}
	table(c.out)
	return nil
}

// rows prints a table; "-" stands for an empty cell.
func rows(w io.Writer, head []string, body [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, row := range body {
		for i := range row {
			if row[i] == "" {
				row[i] = "-"
			}
			row[i] = plain(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
}

// plain makes a text safe for one cell of a terminal: no control characters, no
// new lines.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}

func clip(s string, n int) string {
	r := []rune(s)
	if len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func when(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Format("2006-01-02T15:04:05.999Z07:00")
}

type versionInfo struct {
	Version string `json:"version"`
	Go      string `json:"go"`
	Zones   string `json:"zones"`
}

func thisVersion() versionInfo {
	return versionInfo{ax.Version(), runtime.Version(), ax.ZoneVersion()}
}
