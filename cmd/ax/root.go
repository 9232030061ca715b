package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// cli is one run of the command line: its streams and global flags.
type cli struct {
	in       io.Reader
	out, err io.Writer

	namespace string
	data      string
	server    string
	nats      string
	output    string
	logLevel  string
}

// Exit codes: a contract.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitConflict    = 4
	exitUnavailable = 5
)

// codedError is an error with the exit code it calls for.
type codedError struct {
	code int
	err  error
}

func (e *codedError) Error() string { return e.err.Error() }
func (e *codedError) Unwrap() error { return e.err }

func failWith(code int, format string, args ...any) error {
	return &codedError{code, fmt.Errorf(format, args...)}
}

// run runs one command line and gives its exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errw io.Writer) int {
	c := &cli{in: in, out: out, err: errw}
	root := c.rootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errw)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	code := exitUsage // what cobra itself complains about
	var coded *codedError
	if errors.As(err, &coded) {
		code = coded.code
	}
	fmt.Fprintf(errw, "ax: %s\n", strings.TrimSpace(err.Error()))
	return code
}

func (c *cli) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "ax",
		Short: "AX decides when work is due, hands it to workers, and proves afterwards what happened",
		Long: `AX decides when work is due, hands it to workers, and proves afterwards what happened.

Commands prove who they are by the server's token: that of the environment variable
AX_TOKEN, or the one in the file token of the data folder (--data, AX_DATA).`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	f := root.PersistentFlags()
	f.StringVar(&c.namespace, "ns", env("AX_NS", "default"), "namespace (AX_NS)")
	f.StringVar(&c.data, "data", env("AX_DATA", "./ax-data"), "data folder: of the server, or to find its token in (AX_DATA)")
	f.StringVar(&c.server, "server", env("AX_SERVER", "http://127.0.0.1:8480"), "URL of the server's HTTP side (AX_SERVER)")
	f.StringVar(&c.nats, "nats", env("AX_NATS", ""), "URL of the NATS; default nats://127.0.0.1:4280 (AX_NATS)")
	f.StringVarP(&c.output, "output", "o", "table", "table, wide, json or yaml")
	f.StringVar(&c.logLevel, "log-level", env("AX_LOG_LEVEL", "info"), "debug, info, warn or error (AX_LOG_LEVEL)")
	root.AddCommand(
		c.devCommand(), c.serverCommand(), c.workerCommand(),
		c.applyCommand(), c.deleteCommand(), c.pauseCommand(true), c.pauseCommand(false), c.triggerCommand(), c.cancelCommand(), c.redriveCommand(), c.discardCommand(),
		c.getCommand(), c.historyCommand(), c.whyCommand(), c.nextCommand(), c.importCommand(),
		c.verifyCommand(), c.replayCommand(), c.benchCommand(), c.versionCommand(),
	)
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		switch c.output {
		case "table", "wide", "json", "yaml":
			return nil
		}
		return failWith(exitUsage, "-o %s: want table, wide, json or yaml", c.output)
	}
	wrap(root)
	tellUsage(root)
	return root
}

// wrap lets every command's own errors exit with 1 where they do not say another
// code: cobra's are usage errors and exit with 2.
func wrap(cmd *cobra.Command) {
	if runE := cmd.RunE; runE != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := runE(cmd, args)
			if err != nil && !errors.As(err, new(*codedError)) {
				return &codedError{exitFailed, err}
			}
			return err
		}
	}
	for _, sub := range cmd.Commands() {
		wrap(sub)
	}
}

func env(name, fallback string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return fallback
}

// logger writes to standard error.
func (c *cli) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.logLevel)); err != nil {
		return nil, failWith(exitUsage, "--log-level %s: want debug, info, warn or error", c.logLevel)
	}
	return slog.New(slog.NewTextHandler(c.err, &slog.HandlerOptions{Level: level})), nil
}

// version: the verb.
func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Show the versions of this binary and of its time zone data",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := thisVersion()
			return c.print(v, func(w io.Writer) {
				fmt.Fprintf(w, "ax     %s\ngo     %s\nzones  %s\n", v.Version, v.Go, v.Zones)
			})
		},
	}
}
