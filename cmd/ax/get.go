package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/workers"
)

func (c *cli) getCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "List tasks, instances, events, groups, workers, leaders, dead letters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return failWith(exitUsage, "say what to list: ax get tasks|instances|events|groups|workers|leaders|dead")
		},
	}
	cmd.AddCommand(c.getTasks(), c.getInstances(false), c.getInstances(true), c.getEvents(), c.getGroups(), c.getWorkers(), c.getLeaders())
	return cmd
}

// listFlags are what every listing takes.
type listFlags struct {
	limit int
	since string
}

func (l *listFlags) add(cmd *cobra.Command, since bool) {
	cmd.Flags().IntVar(&l.limit, "limit", api.DefaultLimit, "at most so many, 1 to 10000")
	if since {
		cmd.Flags().StringVar(&l.since, "since", "", "only what is newer: a time, or a duration before now such as 10m")
	}
}

func (l *listFlags) query(pairs ...string) url.Values {
	q := url.Values{"limit": {strconv.Itoa(l.limit)}}
	if l.since != "" {
		q.Set("since", l.since)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

func (c *cli) wide() bool { return c.output == "wide" }

func (c *cli) getTasks() *cobra.Command {
	var l listFlags
	cmd := &cobra.Command{
		Use: "tasks", Aliases: []string{"task"}, Short: "Tasks by name", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []api.Task{}
			if err := c.get(cmd.Context(), "tasks", l.query(), &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				head := []string{"NAME", "SCHEDULE", "NEXT", "OPEN", "DEAD", "FIRED"}
				if c.wide() {
					head = append(head, "GROUP", "VERSION", "TITLE")
				}
				var body [][]string
				for _, t := range all {
					var schedules []string
					var next *time.Time
					for i := range t.Triggers {
						tr := &t.Triggers[i]
						s := tr.Schedule
						if tr.Paused {
							s += " (paused)"
						} else if tr.Exhausted {
							s += " (exhausted)"
						}
						schedules = append(schedules, s)
						if tr.Next != nil && (next == nil || tr.Next.Before(*next)) {
							next = tr.Next
						}
					}
					row := []string{string(t.Name), strings.Join(schedules, "; "), when(next), fmt.Sprint(t.Open), fmt.Sprint(t.Dead), fmt.Sprint(t.Fired)}
					if c.wide() {
						row = append(row, string(t.Group), fmt.Sprint(t.Version), t.Title)
					}
					body = append(body, row)
				}
				rows(w, head, body)
			})
		},
	}
	l.add(cmd, false)
	return cmd
}

func (c *cli) getInstances(dead bool) *cobra.Command {
	var l listFlags
	var state, task string
	cmd := &cobra.Command{
		Use: "instances", Aliases: []string{"instance"}, Short: "Instances, the newest first", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dead {
				state = events.StateDead.String()
			}
			all := []api.Instance{}
			if err := c.get(cmd.Context(), "instances", l.query("state", strings.ToUpper(state), "task", task), &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) { c.instanceTable(w, all) })
		},
	}
	l.add(cmd, true)
	cmd.Flags().StringVar(&task, "task", "", "only of this task")
	if dead {
		cmd.Use, cmd.Aliases, cmd.Short = "dead", nil, "Dead letters, the newest first"
	} else {
		cmd.Flags().StringVar(&state, "state", "", "only in this state, such as RUNNING")
	}
	return cmd
}

func (c *cli) instanceTable(w io.Writer, all []api.Instance) {
	head := []string{"ID", "STATE", "DUE", "ATTEMPT", "WORKER", "REASON"}
	if c.wide() {
		head = append(head, "TASK", "TRIGGER", "GROUP", "STARTED", "ENDED", "ERROR")
	}
	var body [][]string
	for i := range all {
		x := &all[i]
		reason, text := x.Reason, x.Error
		// What a retry waits after is an earlier attempt's: say whose.
		if e := x.Earlier; e != nil && x.State == events.StateRetrying {
			if e.Reason != "" && reason == "" {
				reason = fmt.Sprintf("attempt %d: %s", e.Attempt, e.Reason)
			}
			if e.Error != "" && text == "" {
				text = fmt.Sprintf("attempt %d: %s", e.Attempt, e.Error)
			}
		}
		row := []string{string(x.ID), x.State.String(), when(&x.Due), fmt.Sprint(x.Attempt), string(x.Worker), reason}
		if c.wide() {
			row = append(row, string(x.Task), string(x.Trigger), string(x.Group), when(x.StartedAt), when(x.EndedAt), clip(text, 80))
		}
		body = append(body, row)
	}
	rows(w, head, body)
}

func (c *cli) getEvents() *cobra.Command {
	var l listFlags
	var kind, task, instance string
	cmd := &cobra.Command{
		Use: "events", Aliases: []string{"event"}, Short: "Events of the log, the newest last", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []replay.Record{}
			if err := c.get(cmd.Context(), "events", l.query("kind", kind, "task", task, "instance", instance), &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) { c.eventTable(w, all) })
		},
	}
	l.add(cmd, true)
	cmd.Flags().StringVar(&kind, "kind", "", "only of this kind, such as fired")
	cmd.Flags().StringVar(&task, "task", "", "only of this task")
	cmd.Flags().StringVar(&instance, "instance", "", "only of this instance")
	return cmd
}

func (c *cli) eventTable(w io.Writer, all []replay.Record) {
	head := []string{"POSITION", "TIME", "KIND", "SUBJECT", "WHAT"}
	if c.wide() {
		head = append(head, "ACTOR", "CAUSE")
	}
	var body [][]string
	for i := range all {
		r := &all[i]
		subject := string(r.Instance)
		switch {
		case subject != "":
		case r.Task != "":
			subject = string(r.Task)
			if r.Trigger != "" {
				subject += "/" + string(r.Trigger)
			}
		case r.Name != "":
			subject = strings.ToLower(string(r.Object)) + " " + r.Name
		case r.Kind == events.KindLed:
			var led events.LedBody
			if json.Unmarshal(r.Body, &led) == nil {
				subject = "server " + string(led.Server)
			}
		}
		row := []string{r.Position.String(), when(&r.Time), r.Kind.String(), subject, clip(describe(r), 100)}
		if c.wide() {
			cause := ""
			if r.Cause != nil {
				cause = r.Cause.String()
			}
			row = append(row, r.Actor, cause)
		}
		body = append(body, row)
	}
	rows(w, head, body)
}

// describe says in a few words what an event adds to its kind.
func describe(r *replay.Record) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.Term != "" {
		add("term %s", r.Term)
	}
	if r.Attempt > 0 {
		add("attempt %d", r.Attempt)
	}
	if r.Offer > 0 {
		add("offer %d", r.Offer)
	}
	if r.Worker != "" {
		add("worker %s", r.Worker)
	}
	if r.Version > 0 {
		add("version %d", r.Version)
	}
	if r.Kind == events.KindSkipped && r.Count > 0 {
		add("%d from %s to %s", r.Count, when(r.From), when(r.Due))
	} else if r.Due != nil {
		add("due %s", when(r.Due))
	}
	if r.At != nil {
		add("at %s", when(r.At))
	}
	if r.Next != nil {
		add("next %s", when(r.Next))
	}
	if r.Outcome != "" {
		add("outcome %s", r.Outcome)
	}
	if r.Reason != "" {
		add("%s", r.Reason)
	}
	if r.Error != "" {
		first, _, _ := strings.Cut(r.Error, "\n")
		add("%s", first)
	}
	return strings.Join(parts, ", ")
}

func (c *cli) getGroups() *cobra.Command {
	return &cobra.Command{
		Use: "groups", Aliases: []string{"group"}, Short: "Groups by name", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []api.Group{}
			if err := c.get(cmd.Context(), "groups", nil, &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				var body [][]string
				for _, g := range all {
					limit := ""
					if g.Limit > 0 {
						limit = fmt.Sprint(g.Limit)
					}
					body = append(body, []string{string(g.Name), limit, fmt.Sprint(g.Slots), fmt.Sprint(g.Active), fmt.Sprint(g.Queued)})
				}
				rows(w, []string{"NAME", "LIMIT", "SLOTS", "ACTIVE", "QUEUED"}, body)
			})
		},
	}
}

func (c *cli) getWorkers() *cobra.Command {
	return &cobra.Command{
		Use: "workers", Aliases: []string{"worker"}, Short: "Workers that beat to the leader", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []workers.WorkerInfo{}
			if err := c.get(cmd.Context(), "workers", nil, &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				var body [][]string
				for _, x := range all {
					state := "present"
					if !x.Present {
						state = "silent"
					}
					var groups []string
					for _, g := range slices.Sorted(maps.Keys(x.Slots)) {
						groups = append(groups, fmt.Sprintf("%s=%d", g, x.Slots[g]))
					}
					body = append(body, []string{string(x.Name), state, strings.Join(groups, ","), fmt.Sprint(x.Running), strings.Join(x.Executors, ","), fmt.Sprintf("%.1fs", x.Silent)})
				}
				rows(w, []string{"NAME", "STATE", "SLOTS", "RUNNING", "EXECUTORS", "LAST BEAT"}, body)
			})
		},
	}
}

func (c *cli) getLeaders() *cobra.Command {
	return &cobra.Command{
		Use: "leaders", Aliases: []string{"leader"}, Short: "How the server's shards stand", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := []leader.Status{}
			if err := c.get(cmd.Context(), "leaders", nil, &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				var body [][]string
				for _, s := range all {
					role := "follows " + string(s.Leader)
					if s.Leading {
						role = "leads"
					}
					body = append(body, []string{fmt.Sprint(s.Shard), string(s.Server), role, fmt.Sprint(s.Cursor), fmt.Sprintf("%d..%d", s.LogFirst, s.LogLast), fmt.Sprintf("%.1f MiB", float64(s.LogBytes)/(1<<20)), s.Trouble})
				}
				rows(w, []string{"SHARD", "SERVER", "ROLE", "CURSOR", "LOG", "BYTES", "TROUBLE"}, body)
			})
		},
	}
}

func (c *cli) historyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "history INSTANCE", Short: "Every event of an instance", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := []replay.Record{}
			if err := c.get(cmd.Context(), "instances/"+url.PathEscape(args[0])+"/history", nil, &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) { c.eventTable(w, all) })
		},
	}
}

func (c *cli) whyCommand() *cobra.Command {
	return &cobra.Command{
		Use: "why INSTANCE", Short: "Why an instance is as it is, and why it fired", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := []replay.Reason{}
			if err := c.get(cmd.Context(), "instances/"+url.PathEscape(args[0])+"/why", nil, &all); err != nil {
				return err
			}
			return c.print(all, func(w io.Writer) {
				for i, r := range all {
					lead := "because "
					if i == 0 {
						lead = ""
					}
					fmt.Fprintf(w, "%s%s\n", lead, plain(r.Text))
					if r.Position != nil && r.Time != nil {
						fmt.Fprintf(w, "    %s  %s  by %s\n", r.Position, when(r.Time), plain(r.Actor))
					}
				}
			})
		},
	}
}
