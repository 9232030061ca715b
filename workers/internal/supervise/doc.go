// Package supervise runs a command under a supervisor of its own: this program,
// executed again. The supervisor ends everything that the command has started,
// wherever that has gone: into the background, into another process group or
// session, or to another parent.
//
//	S1  When Wait returns, the command and all that came of it have ended.
//	S2  When the process that called Start ends, however it ends, so do they, at
//	    once: the supervisor holds one end of a pipe whose other end only that
//	    process has.
//	S3  Terminate and Kill reach all of them, not only the command.
//
// A command may stop or kill its supervisor, or the kernel may for lack of memory.
// Then the process that called Start kills it, and finds what is left by a mark in its
// environment.
//
// What another user runs (sudo) can only be ended if the kernel lets us; the
// supervisor does not wait for such processes.
//
// It works on Linux, which can make a process the parent of its orphans
// (PR_SET_CHILD_SUBREAPER, see prctl(2)). Elsewhere there is only the command's
// process group, and S2 does not hold.
package supervise

import "os/exec"

// Ending is how a command ended.
type Ending struct {
	Code int    // exit code; -1 if a signal ended it, or it did not start
	Text string // "exit status 3" or "signal: killed"
}

// Process is a command that runs.
type Process interface {
	// Terminate sends SIGTERM.
	Terminate()
	// Kill sends SIGKILL until nothing is left.
	Kill()
	// Wait waits until all have ended. Its error is exec.ErrWaitDelay if the output
	// was held open, or says why the command did not start.
	Wait() (Ending, error)
}

// Start starts a command. It takes over the command's SysProcAttr and ExtraFiles.
func Start(cmd *exec.Cmd) (Process, error) { return start(cmd) }
