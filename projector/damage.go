package projector

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
)

// damage deals with views whose files were changed or lost. They are worth nothing:
// the log has everything. So they are put aside, and the next views are folded anew.
type damage struct {
	dir string
	log *slog.Logger
}

// damageMark is a file in the views' folder that says that they are damaged: found
// out while they were open, they can only be put aside at the next start.
const damageMark = "DAMAGED"

// found is told by Pebble of a file that does not hold what was written. What reads
// it gets the error too, and stops.
func (d *damage) found(info pebble.DataCorruptionInfo) {
	d.note(info.Details)
}

func (d *damage) note(err error) {
	if d.log != nil {
		d.log.Error("the views are damaged; the next start folds them again from the log", "dir", d.dir, "error", err)
	}
	if f, err := os.Create(filepath.Join(d.dir, damageMark)); err == nil {
		_ = f.Close()
	}
}

// setAside renames the folder of views that are marked as damaged to <dir>.damaged,
// where the last ones of these are kept.
func (d *damage) setAside() error {
	if _, err := os.Stat(filepath.Join(d.dir, damageMark)); err != nil {
		return nil
	}
	aside := d.dir + ".damaged"
	err := os.RemoveAll(aside)
	if err == nil {
		err = os.Rename(d.dir, aside)
	}
	if err == nil {
		err = os.MkdirAll(d.dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("damaged views: %w; delete %s, it is folded again from the log", err, d.dir)
	}
	if d.log != nil {
		d.log.Error("damaged views were put aside; they are folded again from the log", "dir", aside)
	}
	return nil
}

// damaged reports whether views that do not open are to blame themselves, and not
// who holds them, who may read them, or the disk.
func damaged(err error) bool {
	for _, other := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOTDIR, syscall.ENOMEM, syscall.EIO} {
		if errors.Is(err, other) {
			return false
		}
	}
	return !isLocked(err)
}
