package ax

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"
)

// diskRefuseAt is the share of the disk, in per cent, from which new work is
// refused, so that there is room to finish what runs.
const diskRefuseAt = 90

// minDiskFree is what has to be free for a server to start.
const minDiskFree = 32 << 20

// diskGuard watches the disk of the data folder.
type diskGuard struct {
	dir  string
	full atomic.Pointer[string] // why new work is refused; nil: it is not
}

func newDiskGuard(dir string) *diskGuard {
	g := &diskGuard{dir: dir}
	g.look()
	return g
}

// refuse gives the reason why new work is refused, or "".
func (g *diskGuard) refuse() string {
	if why := g.full.Load(); why != nil {
		return *why
	}
	return ""
}

func (g *diskGuard) watch(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			g.look()
		}
	}
}

// checkRoom refuses to start where nothing could be written.
func (g *diskGuard) checkRoom() error {
	free, _, err := diskSpace(g.dir)
	if err == nil && free < minDiskFree {
		err = fmt.Errorf("the disk of %s is full: %d MiB are free, want at least %d; free some space", g.dir, free>>20, minDiskFree>>20)
	}
	return err
}

func (g *diskGuard) look() {
	free, total, err := diskSpace(g.dir)
	if err != nil || total == 0 {
		return
	}
	used := 100 - int(free*100/total)
	if used < diskRefuseAt {
		g.full.Store(nil)
		return
	}
	why := fmt.Sprintf("the disk of %s is %d %% full: definitions and triggers are refused from %d %% on so that what runs can finish; free some space",
		g.dir, used, diskRefuseAt)
	g.full.Store(&why)
}

// defaultLogSize is 20 GiB or half of what is free.
func (g *diskGuard) defaultLogSize() int64 {
	free, _, err := diskSpace(g.dir)
	if err != nil {
		return minLogSize
	}
	return max(min(defaultLogSize, int64(free/2)), minLogSize)
}

// diskSpace gives the bytes that a user may still write, and all.
func diskSpace(dir string) (free, total uint64, err error) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0, fmt.Errorf("disk of %s: %w", dir, err)
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}
