package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/api/definition"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/timer"
)

// devExample is what dev defines in a new data folder.
//
//go:embed dev_example.yaml
var devExample []byte

func (c *cli) devCommand() *cobra.Command {
	var s serverFlags
	var w workerFlags
	var example bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: NATS, server, a worker that runs any command, an example",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.dev(cmd.Context(), &s, &w, example)
		},
	}
	s.add(cmd)
	f := cmd.Flags()
	f.IntVar(&w.slots, "slots", 16, "slots of the worker")
	f.StringSliceVar(&w.groups, "group", []string{"default"}, "group that the worker serves, as NAME or NAME=SLOTS")
	f.StringArrayVar(&w.shell, "shell", []string{"*"}, "commands that the worker may run")
	f.BoolVar(&example, "example", true, "define the example if the data folder is new")
	return cmd
}

func (c *cli) dev(ctx context.Context, s *serverFlags, w *workerFlags, example bool) (err error) {
	log, err := c.logger()
	if err != nil {
		return err
	}
	if _, err := w.parseGroups(); err != nil {
		return err
	}
	_, statErr := os.Stat(filepath.Join(c.data, "mode"))
	fresh := errors.Is(statErr, os.ErrNotExist)
	c.nats = "" // dev embeds its own
	r, err := c.start(ctx, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop(context.Background())) }()
	if err := r.connectLog(ctx, log); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := r.server.WaitReady(ready); err != nil {
		return err
	}
	w.name = "dev"
	worker, err := c.newWorker(w, r.server.Connect, log)
	if err != nil {
		return err
	}
	wctx, stopWorker := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- worker.Run(wctx) }()
	defer func() {
		stopWorker()
		err = errors.Join(err, <-worked)
	}()
	if example && fresh {
		if err := c.defineExample(ctx, r); err != nil {
			return err
		}
	}
	fmt.Fprintf(c.out, `AX is up: http://%s, NATS at %s, data in %s

Try, in another terminal%s:
  ax get tasks                  what is defined, and when it is due next
  ax get instances              what ran
%s  ax why INSTANCE               why it ran
  ax import crontab FILE        put a crontab on AX
  ax verify                     prove that log and views agree
(ax is what you just started: 'go run ./cmd/ax' works in its place.) Stop with Ctrl-C.

`, r.http.Addr(), r.server.NATSListen(), c.data, c.flagHint(r), exampleHint(example))
	if example {
		go c.sayFirstSuccess(ctx, r)
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-worked:
		worked <- nil
		return err
	}
}

func exampleHint(example bool) string {
	if !example {
		return "  ax apply -f FILE              define tasks\n"
	}
	return "  ax trigger hello              run the example once more, now\n"
}

// flagHint says what other commands need to find this server, where it does not
// stand at the defaults.
func (c *cli) flagHint(r *running) string {
	hint := ""
	if r.http.Addr().String() != ax.DefaultHTTPListen {
		hint += fmt.Sprintf(" --server http://%s", r.http.Addr())
	}
	if n := r.server.NATSListen(); n != "" && n != ax.DefaultNATSListen {
		hint += " --nats nats://" + n
	}
	if c.data != "./ax-data" {
		hint += " --data " + c.data
	}
	if hint != "" {
		hint = ", each with" + hint
	}
	return hint
}

func (c *cli) defineExample(ctx context.Context, r *running) error {
	all, err := definition.Parse("dev_example.yaml", devExample, definition.Options{CheckTask: (&timer.Calendars{}).CheckTask})
	if err != nil {
		return err
	}
	var commands []events.Command
	for i := range all {
		body, err := all[i].Encode()
		if err != nil {
			return err
		}
		commands = append(commands, events.Command{Verb: events.VerbDefine, Definition: body})
	}
	answers, err := ax.NewClient(r.nc, r.server.Address(), "dev").Do(ctx, commands...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if err := refusal(a); err != nil {
			return err
		}
	}
	return nil
}

// sayFirstSuccess prints the first instance that succeeded since the start.
func (c *cli) sayFirstSuccess(ctx context.Context, r *running) {
	began := time.Now().UnixMicro()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var first *projector.Instance
		err := r.server.Views().Instances(events.Position{}, func(i *projector.Instance) bool {
			if i.State == events.StateSuccess && i.EndedAt > began {
				first = i
			}
			return i.FiredAt > began
		})
		if err != nil {
			return
		}
		if first != nil {
			fmt.Fprintf(c.out, "first SUCCESS: %s, %s after its due time: %s\n", first.ID,
				time.UnixMicro(first.EndedAt).Sub(time.UnixMilli(first.Due)).Round(time.Millisecond), first.Result)
			return
		}
	}
}
