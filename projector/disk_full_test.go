package projector

import (
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// fullableDisk is a real file system whose disk a test can fill: then nothing can be
// written, and no room is left.
type fullableDisk struct {
	vfs.FS
	full  atomic.Bool
	asked chan struct{} // somebody asked for room while there was none
}

func newFullableDisk() *fullableDisk {
	d := &fullableDisk{asked: make(chan struct{}, 1)}
	d.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		switch op.Kind {
		case errorfs.OpCreate, errorfs.OpFileWrite, errorfs.OpFileWriteAt, errorfs.OpFilePreallocate, errorfs.OpFileSync, errorfs.OpFileSyncData:
			if d.full.Load() {
				return syscall.ENOSPC
			}
		}
		return nil
	}))
	return d
}

func (d *fullableDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	if !d.full.Load() {
		return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
	}
	select {
	case d.asked <- struct{}{}:
	default:
	}
	return vfs.DiskUsage{}, nil
}

// write writes rows and begins to flush them.
func writeRows(t *testing.T, v *Views) (flushed <-chan error) {
	t.Helper()
	for i := range 1000 {
		if err := v.db.Set([]byte{'z', byte(i >> 8), byte(i)}, make([]byte, 1000), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- v.db.Flush() }()
	return done
}

// On a full disk the views wait, and go on when there is room.
func TestViewsWaitForRoom(t *testing.T) {
	disk := newFullableDisk()
	v, err := openViews(Options{Dir: t.TempDir()}, disk)
	if err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	flushed := writeRows(t, v)
	<-disk.asked // it waits
	select {
	case err := <-flushed:
		t.Fatalf("flushed onto a full disk: %v", err)
	default:
	}
	disk.full.Store(false)
	if err := <-flushed; err != nil {
		t.Fatalf("there is room again: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
}

// Views on a full disk can be closed, and are as they were last when they are
// opened again.
func TestViewsCloseOnFullDisk(t *testing.T) {
	disk := newFullableDisk()
	dir := t.TempDir()
	v, err := openViews(Options{Dir: dir}, disk)
	if err != nil {
		t.Fatal(err)
	}
	disk.full.Store(true)
	_ = writeRows(t, v)
	<-disk.asked
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		defer func() { _ = recover() }() // Pebble may have a word to say about its manifest
		_ = v.Close()
	}()
	<-closed
	disk.full.Store(false)
	v, err = OpenViews(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := v.Snapshot().Meta(); err != nil || m.Cursor != 0 {
		t.Errorf("cursor %d, %v", m.Cursor, err)
	}
}
