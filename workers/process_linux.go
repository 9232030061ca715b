package workers

import "syscall"

// dieWithParent lets the kernel kill the command when the worker dies. It does
// so when the thread that started it ends; runInGroup keeps that thread.
func dieWithParent(a *syscall.SysProcAttr) { a.Pdeathsig = syscall.SIGKILL }
