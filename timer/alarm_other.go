//go:build !linux

package timer

import "time"

// timerfd exists on Linux only. Elsewhere an Alarm has the runtime's timer alone,
// and nothing else calls these methods.
type timerfd struct{}

func newTimerfd(func()) (*timerfd, error) { return nil, nil }

func (*timerfd) set(time.Duration) {}
func (*timerfd) expired() bool     { return false }
func (*timerfd) close()            {}
