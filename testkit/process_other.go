//go:build unix && !linux

package testkit

import "syscall"

// dieWithTest: there is no such thing here; a test that times out leaves its
// processes behind.
func dieWithTest(*syscall.SysProcAttr) {}
