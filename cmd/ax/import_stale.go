package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
)

// staleTasks finds the tasks that an earlier import of the same files has made and
// that this one would not: their lines have gone, or have moved. Left alone, an
// entry that has moved would run twice.
func (c *cli) staleTasks(ctx context.Context, files []string, entries []*importedEntry, o *importOptions) (stale []string, err error) {
	made := map[string]bool{}
	for _, e := range entries {
		made[e.Task] = true
	}
	for _, file := range files {
		prefix := taskBase(file, o) + "-"
		after := prefix
		for after != "" {
			const page = 1000
			var all []api.Task
			if err := c.get(ctx, "tasks", url.Values{"after": {after}, "limit": {fmt.Sprint(page)}}, &all); err != nil {
				return nil, err
			}
			after = ""
			for i := range all {
				name := string(all[i].Name)
				line, ours := strings.CutPrefix(name, prefix)
				if !ours {
					break
				}
				if strings.Trim(line, "0123456789") == "" && !made[name] {
					is, err := c.importedFrom(ctx, name, file)
					if err != nil {
						return nil, err
					}
					if is {
						stale = append(stale, name)
					}
				}
				if i == page-1 {
					after = name
				}
			}
		}
	}
	return stale, nil
}

// importedFrom reports whether a task's labels say that it is an import of a file.
func (c *cli) importedFrom(ctx context.Context, task, file string) (bool, error) {
	var t api.Task
	if err := c.get(ctx, "tasks/"+url.PathEscape(task), nil, &t); err != nil {
		return false, err
	}
	var d events.Definition
	if err := json.Unmarshal(t.Definition, &d); err != nil {
		return false, fmt.Errorf("task %s: %w", task, err)
	}
	return d.Metadata.Labels["crontab"] == fileLabel(file), nil
}
