package testkit

import "syscall"

// dieWithTest lets the kernel kill a process when the test that started it
// dies, however it does: a test that times out runs no cleanup.
func dieWithTest(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
