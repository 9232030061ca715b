package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax/api/definition"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/timer"
)

// change is what became of one object.
type change struct {
	Kind     events.ObjectKind `json:"kind"`
	Name     string            `json:"name"`
	Result   string            `json:"result"` // defined, unchanged, deleted, paused, resumed, cancelled, refused
	Position string            `json:"position,omitempty"`
	Error    string            `json:"error,omitempty"`
}

// changes shows what became of objects. Refusals are the error, with the exit code
// of the first; a table does not repeat them.
func (c *cli) changes(all []change, answers []events.Done) error {
	var refused []string
	var first *codedError
	for i := range answers {
		a := &answers[i]
		all[i].Position = a.Position.String()
		if a.Unchanged {
			all[i].Result = "unchanged"
		}
		if r := refusal(*a); r != nil {
			if first == nil {
				errors.As(r, &first)
			}
			all[i].Result, all[i].Error = "refused", a.Error
			refused = append(refused, fmt.Sprintf("%s %s refused: %s", strings.ToLower(string(all[i].Kind)), all[i].Name, a.Error))
		}
	}
	err := c.print(all, func(w io.Writer) {
		for _, x := range all {
			if x.Error == "" {
				fmt.Fprintf(w, "%s %s %s\n", strings.ToLower(string(x.Kind)), x.Name, x.Result)
			}
		}
	})
	if first != nil {
		return failWith(first.code, "%s", strings.Join(refused, "\n"))
	}
	return err
}

func (c *cli) applyCommand() *cobra.Command {
	var files []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE|FOLDER...",
		Short: "Define tasks and groups as YAML files say; what is unchanged stays untouched",
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0:
				return failWith(exitUsage, "name the files with -f: ax apply -f %s", strings.Join(append(files, args...), " -f "))
			case len(files) == 0:
				return failWith(exitUsage, "name the files with -f: ax apply -f FILE|FOLDER, or -f - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			calendars := &timer.Calendars{}
			all, err := definition.Load(files, c.in, definition.Options{CheckTask: calendars.CheckTask})
			if err != nil {
				return &codedError{exitUsage, err}
			}
			var commands []events.Command
			var list []change
			for i := range all {
				d := &all[i].Definition
				body, err := d.Encode()
				if err != nil {
					return err
				}
				commands = append(commands, events.Command{Verb: events.VerbDefine, Definition: body})
				list = append(list, change{Kind: d.Kind, Name: d.Metadata.Name, Result: "defined"})
			}
			if dryRun {
				for i := range list {
					list[i].Result = "valid"
				}
				return c.changes(list, nil)
			}
			answers, err := c.do(cmd.Context(), commands...)
			if err != nil {
				return err
			}
			return c.changes(list, answers)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file, folder, or - for standard input; may be given several times")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "only check the files")
	return cmd
}

// object reads "task NAME" or "group NAME" of the arguments.
func object(args []string) (events.ObjectKind, string, error) {
	switch strings.ToLower(args[0]) {
	case "task", "tasks":
		return events.ObjectTask, args[1], nil
	case "group", "groups":
		return events.ObjectGroup, args[1], nil
	}
	return "", "", failWith(exitUsage, "%q: want task or group, and its name", args[0])
}

func (c *cli) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use: "delete task|group NAME", Short: "Remove a task or group; what is open finishes", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := object(args)
			if err != nil {
				return err
			}
			answers, err := c.do(cmd.Context(), events.Command{Verb: events.VerbRemove, Object: kind, Name: name})
			if err != nil {
				return err
			}
			return c.changes([]change{{Kind: kind, Name: name, Result: "deleted"}}, answers)
		},
	}
}

func (c *cli) pauseCommand(pause bool) *cobra.Command {
	verb, result, short := events.VerbResume, "resumed", "Let a task, or one trigger of it, fire again"
	if pause {
		verb, result, short = events.VerbPause, "paused", "Stop a task, or one trigger of it, from firing"
	}
	var trigger, reason string
	cmd := &cobra.Command{
		Use: verb + " task NAME", Short: short, Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := object(args)
			if err != nil {
				return err
			}
			if kind != events.ObjectTask {
				return failWith(exitUsage, "only tasks can be paused")
			}
			answers, err := c.do(cmd.Context(), events.Command{Verb: verb, Object: kind, Name: name, Trigger: events.TriggerName(trigger), Reason: reason})
			if err != nil {
				return err
			}
			return c.changes([]change{{Kind: kind, Name: name, Result: result}}, answers)
		},
	}
	cmd.Flags().StringVar(&trigger, "trigger", "", "only this trigger of the task")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

// triggered is what a trigger by hand led to.
type triggered struct {
	Task     string            `json:"task"`
	Instance events.InstanceID `json:"instance"`
	Position string            `json:"position,omitempty"`
	Known    bool              `json:"known,omitempty"` // the key was known: no new instance
}

func (c *cli) triggerCommand() *cobra.Command {
	var params, key, reason string
	cmd := &cobra.Command{
		Use: "trigger TASK", Short: "Run a task once, now", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := c.params(params)
			if err != nil {
				return err
			}
			answers, err := c.do(cmd.Context(), events.Command{Verb: events.VerbTrigger, Name: args[0], Params: text, Key: key, Reason: reason})
			if err != nil {
				return err
			}
			if err := refusal(answers[0]); err != nil {
				return err
			}
			t := triggered{args[0], answers[0].Instance, answers[0].Position.String(), answers[0].Unchanged}
			if t.Known { // beside the output, which scripts take the id from
				fmt.Fprintf(c.err, "ax: the key %s is known: no new instance\n", key)
			}
			return c.print(t, func(w io.Writer) { fmt.Fprintln(w, t.Instance) })
		},
	}
	cmd.Flags().StringVar(&params, "params", "", "parameters as JSON, or @FILE, or @- for standard input")
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same key within 24 h gives the same instance")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

// params reads parameters: JSON, or a file with JSON.
func (c *cli) params(arg string) (string, error) {
	text := []byte(arg)
	if name, ok := strings.CutPrefix(arg, "@"); ok {
		var err error
		if name == "-" {
			text, err = io.ReadAll(io.LimitReader(c.in, events.MaxParams+1))
		} else {
			text, err = os.ReadFile(name)
		}
		if err != nil {
			return "", failWith(exitUsage, "--params: %w", err)
		}
	}
	if len(text) == 0 {
		return "", nil
	}
	if len(text) > events.MaxParams {
		return "", failWith(exitUsage, "--params: %d bytes, at most %d; put large data elsewhere and pass its address", len(text), events.MaxParams)
	}
	if !json.Valid(text) {
		return "", failWith(exitUsage, "--params: not JSON; for a text write '\"text\"'")
	}
	return strings.TrimSpace(string(text)), nil
}

// redriveCommand and discardCommand are for dead letters.
func (c *cli) redriveCommand() *cobra.Command {
	var params, reason string
	cmd := &cobra.Command{
		Use: "redrive INSTANCE...", Short: "Run dead letters again, as their next attempt", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := c.params(params)
			if err != nil {
				return err
			}
			return c.toEach(cmd.Context(), args, events.Command{Verb: events.VerbRedrive, Params: text, Reason: reason}, "redriven")
		},
	}
	cmd.Flags().StringVar(&params, "params", "", "other parameters, as JSON, or @FILE, or @- for standard input")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

func (c *cli) discardCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "discard INSTANCE...", Short: "Put dead letters away for good", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.toEach(cmd.Context(), args, events.Command{Verb: events.VerbDiscard, Reason: reason}, "discarded")
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

// toEach sends a command for each of several instances.
func (c *cli) toEach(ctx context.Context, ids []string, command events.Command, result string) error {
	var commands []events.Command
	var list []change
	for _, id := range ids {
		command.Name = id
		commands = append(commands, command)
		list = append(list, change{Kind: events.ObjectInstance, Name: id, Result: result})
	}
	answers, err := c.do(ctx, commands...)
	if err != nil {
		return err
	}
	return c.changes(list, answers)
}

func (c *cli) cancelCommand() *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "cancel INSTANCE...", Short: "End instances: at once if they do not run, else by asking their worker", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var commands []events.Command
			var list []change
			for _, id := range args {
				commands = append(commands, events.Command{Verb: events.VerbCancel, Name: id, Reason: reason})
				list = append(list, change{Kind: events.ObjectInstance, Name: id, Result: "cancelled, or asked to end"})
			}
			answers, err := c.do(cmd.Context(), commands...)
			if err != nil {
				return err
			}
			c.cancelled(cmd.Context(), list, answers)
			return c.changes(list, answers)
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the log")
	return cmd
}

// cancelled says of each instance which of the two a cancel led to. The answer
// names the event; where that cannot be read, the cancel holds all the same.
func (c *cli) cancelled(ctx context.Context, list []change, answers []events.Done) {
	nc, err := c.connect()
	if err != nil {
		return
	}
	defer nc.Close()
	addr, err := c.address()
	if err != nil {
		return
	}
	log, err := events.OpenJetStreamLog(ctx, nc, addr, 0)
	if err != nil {
		return
	}
	for i := range answers {
		if answers[i].Reason != "" || answers[i].Unchanged {
			continue
		}
		switch r, err := replay.At(ctx, log, answers[i].Position); {
		case err != nil:
		case r.Kind == events.KindCancelAsked:
			list[i].Result = "asked to end: its worker runs it"
		case r.Kind == events.KindCancelled:
			list[i].Result = "cancelled"
		}
	}
}
