package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// tellUsage lets every command that gets the wrong arguments say its usage line:
// cobra itself says only how many it accepts.
func tellUsage(cmd *cobra.Command) {
	if check := cmd.Args; check != nil && !cmd.HasSubCommands() {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil {
				return nil
			}
			if errors.As(err, new(*codedError)) {
				return err // the check says it better
			}
			return failWith(exitUsage, "%s; usage: %s", got(args), usageLine(cmd))
		}
	}
	for _, sub := range cmd.Commands() {
		tellUsage(sub)
	}
}

// usageLine is how a command is written.
func usageLine(cmd *cobra.Command) string {
	return strings.TrimSuffix(cmd.UseLine(), " [flags]")
}

// got says which arguments were given.
func got(args []string) string {
	switch len(args) {
	case 0:
		return "arguments are missing"
	case 1:
		return fmt.Sprintf("the argument %q does not fit", args[0])
	}
	return fmt.Sprintf("%d arguments do not fit", len(args))
}
