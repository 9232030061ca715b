//go:build unix && !linux

package workers

import "syscall"

// dieWithParent: this system has no such thing; a command outlives a worker that
// is killed.
func dieWithParent(*syscall.SysProcAttr) {}
