package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/replay"
)

// source is a log to read, and the views that go with it.
type source struct {
	log   events.Log
	dump  func(ctx context.Context) (io.ReadCloser, error)
	what  string
	close func() error
}

// openSource opens the log of the server that runs, or that of the data folder
// if none does.
func (c *cli) openSource(ctx context.Context) (*source, error) {
	addr, err := c.address()
	if err != nil {
		return nil, err
	}
	folder, ferr := ax.OpenFolder(c.data, events.Namespace(c.namespace))
	if ferr == nil {
		log, err := folder.Log(ctx)
		if err != nil {
			return nil, errors.Join(err, folder.Close())
		}
		return &source{log, func(context.Context) (io.ReadCloser, error) { return folder.Dump() }, "the data folder " + c.data, folder.Close}, nil
	}
	if !errors.Is(ferr, ax.ErrDataInUse) && c.nats == "" {
		if _, err := os.Stat(filepath.Join(c.data, "mode")); errors.Is(err, os.ErrNotExist) {
			return nil, failWith(exitNotFound, "there is no data folder at %s; say where it is with --data", c.data)
		}
		return nil, ferr
	}
	nc, err := c.connect()
	if err != nil {
		return nil, err
	}
	log, err := events.OpenJetStreamLog(ctx, nc, addr, 0)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &source{
		log,
		func(ctx context.Context) (io.ReadCloser, error) { return c.open(ctx, "views", nil) },
		"the server at " + c.server,
		func() error { nc.Close(); return nil },
	}, nil
}

func (c *cli) verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Fold the log anew and compare: hash chain, checkpoints, and the views key by key",
		Long: `Fold the log anew from its beginning, check the hash chain at every frame and the
digest and signature of every checkpoint, and compare the result key by key with
the views of the server that runs, or of the data folder if none does.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			src, err := c.openSource(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, src.close()) }()
			// A server that was killed may have views that hold nothing: then the log
			// is verified alone.
			var views io.Reader
			dump, err := src.dump(ctx)
			if err == nil {
				defer dump.Close()
				views = dump
			} else if !errors.Is(err, ax.ErrNoViews) {
				return err
			}
			began := time.Now()
			open, cleanup, err := scratchViews()
			if err != nil {
				return err
			}
			defer cleanup()
			rep, err := replay.Verify(ctx, src.log, views, open)
			if err != nil {
				return err
			}
			perr := c.print(rep, func(w io.Writer) {
				fmt.Fprintf(w, "%s: sequences %d to %d, %d events with an effect, %d without, %d terms, folded in %s\n", src.what, rep.First, rep.Cursor, rep.Events, rep.Void, rep.Terms, time.Since(began).Round(time.Millisecond))
				fmt.Fprintf(w, "chain   %s\ndigest  %s\n", rep.Hash, rep.Digest)
				if views == nil {
					fmt.Fprintln(w, "views   hold nothing yet: the next start folds them from the log")
				} else {
					fmt.Fprintf(w, "views   %d rows equal, %d different\n", rep.Rows, len(rep.Differences))
				}
				fmt.Fprintf(w, "checkpoints compared: %d\n", rep.Checkpoints)
				for _, p := range rep.Problems {
					fmt.Fprintf(w, "PROBLEM %s\n", p)
				}
				for _, d := range rep.Differences {
					fmt.Fprintf(w, "DIFFERS %s\n  refolded %s\n  views    %s\n", d.Key, orNone(d.A), orNone(d.B))
				}
				if rep.Clean {
					fmt.Fprintln(w, "clean")
				}
			})
			if perr != nil {
				return perr
			}
			if !rep.Clean {
				return failWith(exitFailed, "log and views do not agree: %d problems, %d differences", len(rep.Problems), len(rep.Differences))
			}
			return nil
		},
	}
}

func orNone(s string) string {
	if s == "" {
		return "no row"
	}
	return s
}

// scratchViews gives views in a folder that cleanup deletes.
func scratchViews() (open func() (*projector.Views, error), cleanup func(), err error) {
	dir, err := os.MkdirTemp("", "ax-fold-")
	if err != nil {
		return nil, nil, err
	}
	n := 0
	return func() (*projector.Views, error) {
		n++
		return projector.OpenViews(projector.Options{Dir: filepath.Join(dir, fmt.Sprint(n))})
	}, func() { _ = os.RemoveAll(dir) }, nil
}

// replayed is the state at a past position.
type replayed struct {
	Cursor    uint64         `json:"cursor"`
	Time      time.Time      `json:"time"` // of the last event folded
	Hash      events.Hash    `json:"hash"`
	Leader    string         `json:"leader"`
	States    map[string]int `json:"states"` // instances by state
	Tasks     []string       `json:"tasks"`
	Instances []api.Instance `json:"instances"`
}

func (c *cli) replayCommand() *cobra.Command {
	var at, task, instance string
	var limit int
	cmd := &cobra.Command{
		Use: "replay --at TIME|POSITION", Short: "Show the state as it was at a time or position of the log", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			ctx := cmd.Context()
			var until replay.Until
			if t, terr := time.Parse(time.RFC3339, at); terr == nil {
				until.Time = t
			} else if pos, perr := events.ParsePosition(at); perr == nil {
				until.Seq = pos.Seq
			} else if at != "" {
				return failWith(exitUsage, "--at %q: want a time such as 2026-11-30T12:00:00Z, or a position such as 1042", at)
			}
			src, err := c.openSource(ctx)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, src.close()) }()
			open, cleanup, err := scratchViews()
			if err != nil {
				return err
			}
			defer cleanup()
			views, err := open()
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, views.Close()) }()
			state, err := replay.Fold(ctx, src.log, views, until, nil)
			if errors.Is(err, events.ErrNotFound) {
				return &codedError{exitNotFound, err}
			}
			if err != nil {
				return err
			}
			out, found, err := replayedState(state, views, events.TaskName(task), events.InstanceID(instance), limit)
			if err != nil {
				return err
			}
			switch {
			case found:
			case instance != "":
				return failWith(exitNotFound, "there was no instance %s%s at sequence %d; ax get instances lists those of now, ax replay --at another time those of then", instance, ofTask(task), out.Cursor)
			case task != "" && !slices.Contains(out.Tasks, task):
				return failWith(exitNotFound, "there was no task %s at sequence %d; the tasks of then were: %s", task, out.Cursor, listOrNone(out.Tasks))
			}
			return c.print(out, func(w io.Writer) {
				fmt.Fprintf(w, "sequence %d, %s, led by %s\n", out.Cursor, when(&out.Time), out.Leader)
				var parts []string
				for s := events.StateCreated; s < events.NumStates; s++ {
					if n := out.States[s.String()]; n > 0 {
						parts = append(parts, fmt.Sprintf("%d %s", n, s))
					}
				}
				fmt.Fprintf(w, "%d tasks; instances: %s\n\n", len(out.Tasks), strings.Join(parts, ", "))
				c.instanceTable(w, out.Instances)
			})
		},
	}
	cmd.Flags().StringVar(&at, "at", "", "time (RFC 3339) or position; default: the log's end")
	cmd.Flags().StringVar(&task, "task", "", "only instances of this task")
	cmd.Flags().StringVar(&instance, "instance", "", "only this instance")
	cmd.Flags().IntVar(&limit, "limit", api.DefaultLimit, "at most so many instances, the newest first")
	return cmd
}

func ofTask(task string) string {
	if task == "" {
		return ""
	}
	return " of task " + task
}

// listOrNone names a few of many.
func listOrNone(names []string) string {
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > 10:
		return strings.Join(names[:10], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}

func replayedState(state *projector.State, views *projector.Views, task events.TaskName, instance events.InstanceID, limit int) (out *replayed, found bool, err error) {
	m := state.Meta()
	out = &replayed{
		Cursor: m.Cursor, Time: time.Unix(0, m.Time).UTC(), Hash: m.Hash, Leader: string(m.Leader), States: map[string]int{}, Tasks: []string{},
		Instances: []api.Instance{},
	}
	if err := views.Tasks("", func(t *projector.Task) bool {
		out.Tasks = append(out.Tasks, string(t.Name))
		return true
	}); err != nil {
		return nil, false, err
	}
	err = views.Instances(events.Position{}, func(i *projector.Instance) bool {
		out.States[i.State.String()]++
		if task != "" && i.Task != task || instance != "" && i.ID != instance {
			return true
		}
		found = true
		if len(out.Instances) < limit {
			out.Instances = append(out.Instances, api.NewInstance(i, instance != ""))
		}
		return true
	})
	return out, found, err
}
