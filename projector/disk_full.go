package projector

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// diskRoom is how much of the disk has to be free for writing to go on after
	// it was full: enough for the memtables that wait.
	diskRoom      = 32 << 20
	diskFullCheck = 200 * time.Millisecond
)

// diskFull lets Pebble's writes wait while the disk is full: Pebble itself ends
// the process when it cannot write its manifest. What waits is lost by no crash,
// since the log has it.
type diskFull struct {
	fs  vfs.FS
	dir string
	log *slog.Logger

	waiting atomic.Bool
	once    sync.Once
	closing chan struct{}
}

// filesystem gives the file system for Pebble.
func (d *diskFull) filesystem() vfs.FS { return vfs.OnDiskFull(d.fs, d.wait) }

// wait returns when there is room, or when the views are being closed.
func (d *diskFull) wait() {
	d.waiting.Store(true)
	defer d.waiting.Store(false)
	if d.log != nil {
		d.log.Error("the disk is full; the views wait for room", "dir", d.dir, "room", diskRoom)
	}
	tick := time.NewTicker(diskFullCheck)
	defer tick.Stop()
	for {
		select {
		case <-d.closing:
			return
		case <-tick.C:
			if use, err := d.fs.GetDiskUsage(d.dir); err == nil && use.AvailBytes >= diskRoom {
				return
			}
		}
	}
}

// close lets go whoever waits, and reports whether anybody did.
func (d *diskFull) close() bool {
	was := d.waiting.Load()
	d.once.Do(func() { close(d.closing) })
	return was
}
