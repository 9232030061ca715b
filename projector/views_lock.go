package projector

import (
	"errors"
	"strings"
	"syscall"
)

// isLocked reports whether an error of Pebble's means that another process has
// the folder open.
func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || strings.Contains(err.Error(), "lock held by current process")
}
