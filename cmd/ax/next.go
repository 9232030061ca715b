package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax/timer"
)

func (c *cli) nextCommand() *cobra.Command {
	var dialect, dst, zone, from string
	var n int
	cmd := &cobra.Command{
		Use: "next EXPR", Short: "When a cron expression is due next", Args: cobra.ExactArgs(1),
		Example: "  ax next '0 30 9 ? * MON-FRI' --zone Europe/Berlin -n 3\n  ax next '*/15 * * * *'",
		RunE: func(_ *cobra.Command, args []string) error {
			start := time.Now()
			if from != "" {
				t, err := time.Parse(time.RFC3339, from)
				if err != nil {
					return failWith(exitUsage, "--from %q: want a time such as 2026-11-30T12:00:00Z", from)
				}
				start = t
			}
			loc, err := time.LoadLocation(zone)
			if err != nil || zone == "Local" {
				return failWith(exitUsage, "--zone %q is no IANA time zone; write one such as Europe/Berlin", zone)
			}
			if n < 1 || n > 10_000 {
				return failWith(exitUsage, "-n %d: want 1 to 10000", n)
			}
			cal, err := timer.ParseCron(args[0], timer.CronOptions{Dialect: timer.Dialect(dialect), Zone: loc, DST: timer.DST(dst)})
			if errors.Is(err, timer.ErrReboot) {
				fmt.Fprintln(c.err, "ax: @reboot fires once per boot of the machine; it has no times")
				return nil
			}
			if err != nil {
				return &codedError{exitUsage, err}
			}
			times := []string{}
			for range n {
				t, err := cal.Next(start)
				if err != nil {
					return err
				}
				if t.IsZero() {
					fmt.Fprintf(c.err, "ax: %s: no further time comes\n", args[0])
					break
				}
				times = append(times, t.Format(time.RFC3339))
				start = t
			}
			if c.output == "json" || c.output == "yaml" {
				return c.print(times, nil)
			}
			for _, t := range times {
				fmt.Fprintln(c.out, t)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&dialect, "dialect", "auto", "auto, quartz (6 or 7 fields) or unix (5 fields)")
	f.StringVar(&dst, "dst", "ax", "rule at changes of the clock: ax, quartz or wall")
	f.StringVar(&zone, "zone", "UTC", "time zone of the expression")
	f.StringVar(&from, "from", "", "times strictly after this one (default now)")
	f.IntVarP(&n, "count", "n", 5, "how many")
	return cmd
}
