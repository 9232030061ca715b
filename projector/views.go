package projector

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/ax-scheduler/ax/events"
)

// Views is the folded state on disk. It is safe for use from any goroutine; a
// State writes it.
type Views struct {
	db   *pebble.DB
	full *diskFull // nil in memory
	rows
}

// Options of views.
type Options struct {
	// Dir is the folder; empty keeps the views in memory.
	Dir string
	// Cache is the size of the block cache in bytes. Default 32 MiB.
	Cache int64
	// ReadOnly opens views that no State will write.
	ReadOnly bool
	// Logger takes what Pebble has to say. Default: discard.
	Logger *slog.Logger
}

// localVersion is the row of the layout's version. It is no part of the fold.
var localVersion = []byte("~version")

// ErrInUse is returned where another process has the views open.
var ErrInUse = errors.New("views are in use")

// OpenViews opens views, empty ones if there are none. Views of another layout
// are dropped: the log has everything.
func OpenViews(opt Options) (*Views, error) { return openViews(opt, vfs.Default) }

func openViews(opt Options, fs vfs.FS) (*Views, error) {
	o := &pebble.Options{
		DisableWAL:                  true, // the log is the write-ahead log
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                16 << 20,
		MemTableStopWritesThreshold: 4,
		L0CompactionThreshold:       4,
		CacheSize:                   32 << 20,
		ReadOnly:                    opt.ReadOnly,
		Logger:                      pebbleLogger{opt.Logger},
	}
	if opt.Cache > 0 {
		o.CacheSize = opt.Cache
	}
	dir := opt.Dir
	var full *diskFull
	if dir == "" {
		o.FS = vfs.NewMem()
		dir = "views"
	} else if !opt.ReadOnly {
		full = &diskFull{fs: fs, dir: dir, log: opt.Logger, closing: make(chan struct{})}
		o.FS = full.filesystem()
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("views: %w", err)
		}
	}
	hurt := &damage{dir: dir, log: opt.Logger}
	if opt.Dir != "" {
		o.EventListener = &pebble.EventListener{DataCorruption: hurt.found}
		if !opt.ReadOnly {
			if err := hurt.setAside(); err != nil {
				return nil, err
			}
		}
	}
	db, err := pebble.Open(dir, o)
	if err != nil && !opt.ReadOnly && opt.Dir != "" && damaged(err) {
		hurt.note(err)
		if serr := hurt.setAside(); serr != nil {
			return nil, errors.Join(err, serr)
		}
		db, err = pebble.Open(dir, o)
	}
	if err != nil {
		if isLocked(err) {
			return nil, fmt.Errorf("%w: %s: another AX process uses this data folder: %w", ErrInUse, dir, err)
		}
		return nil, fmt.Errorf("views in %s: %w; the folder may be deleted, the views are then folded again from the log", dir, err)
	}
	v := newViews(db)
	v.full = full
	if !opt.ReadOnly {
		if err := v.checkVersion(); err != nil {
			_ = db.Close()
			return nil, err
		}
	}
	return v, nil
}

func newViews(db *pebble.DB) *Views { return &Views{db: db, rows: rows{db}} }

// checkVersion empties views of another layout.
func (v *Views) checkVersion() error {
	have, closer, err := v.db.Get(localVersion)
	if err == nil {
		same := len(have) == 8 && binary.BigEndian.Uint64(have) == formatVersion
		_ = closer.Close()
		if same {
			return nil
		}
	} else if !errors.Is(err, pebble.ErrNotFound) {
		return fmt.Errorf("views: %w", err)
	}
	return v.Empty()
}

// Empty drops all rows. The next State folds from the beginning.
func (v *Views) Empty() error {
	b := v.db.NewBatch()
	defer b.Close()
	err := b.DeleteRange([]byte{0}, []byte{0xff}, nil)
	if err == nil {
		err = b.Set(localVersion, binary.BigEndian.AppendUint64(nil, formatVersion), nil)
	}
	if err == nil {
		err = b.Commit(pebble.NoSync)
	}
	if err == nil {
		err = v.db.Flush()
	}
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	return nil
}

// Close closes the views. What was flushed by a State is kept, unless the disk is
// full: then the next State folds it again.
func (v *Views) Close() error {
	var err error
	if v.full == nil || !v.full.close() {
		err = v.db.Flush()
	}
	return errors.Join(err, v.db.Close())
}

// Snapshot gives the views as they are now, unmoved by what is written later.
// Close it.
func (v *Views) Snapshot() *Snapshot {
	s := v.db.NewSnapshot()
	return &Snapshot{rows{s}, s}
}

// Snapshot is the views at one cursor.
type Snapshot struct {
	rows
	closer io.Closer
}

// Close frees the snapshot.
func (s *Snapshot) Close() error { return s.closer.Close() }

// rows reads single rows and lists.
type rows struct{ r pebble.Reader }

func (v rows) get(key []byte) ([]byte, error) {
	b, closer, err := v.r.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return nil, events.ErrNotFound
		}
		return nil, fmt.Errorf("views: %w", err)
	}
	defer closer.Close()
	return bytes.Clone(b), nil
}

// Meta gives the row about the fold itself; a zero one where nothing was
// folded yet.
func (v rows) Meta() (m Meta, err error) {
	b, err := v.get([]byte{keyMeta})
	if errors.Is(err, events.ErrNotFound) {
		return Meta{}, nil
	}
	if err != nil {
		return Meta{}, err
	}
	return m, m.decode(b)
}

// Task gives a task's row, or events.ErrNotFound.
func (v rows) Task(name events.TaskName) (*Task, error) {
	b, err := v.get(taskKey(nil, name))
	if err != nil {
		return nil, err
	}
	t := &Task{}
	return t, t.decode(name, b)
}

// Definition gives the text of a version of a task's definition, JSON, or
// events.ErrNotFound.
func (v rows) Definition(name events.TaskName, version int64) (string, error) {
	b, err := v.get(versionKey(nil, name, version))
	return string(b), err
}

// Tasks calls f for each task that is defined, by name, from after on, until f
// returns false.
func (v rows) Tasks(after events.TaskName, f func(*Task) bool) error {
	return v.each(append(taskKey(nil, after), 0), []byte{keyTask}, func(key, value []byte) error {
		t := &Task{}
		if err := t.decode(events.TaskName(key[1:]), value); err != nil {
			return err
		}
		if !t.Removed && !f(t) {
			return errStop
		}
		return nil
	})
}

// Triggers gives the triggers of a task, by name.
func (v rows) Triggers(task events.TaskName) (all []*Trigger, err error) {
	prefix := append(append([]byte{keyTrigger}, task...), 0)
	err = v.each(prefix, prefix, func(key, value []byte) error {
		t := &Trigger{}
		if err := t.decode(TriggerID{task, events.TriggerName(key[len(prefix):])}, value); err != nil {
			return err
		}
		all = append(all, t)
		return nil
	})
	return all, err
}

// Groups gives the groups that are defined, by name.
func (v rows) Groups() (all []*Group, err error) {
	err = v.each([]byte{keyGroup}, []byte{keyGroup}, func(key, value []byte) error {
		g := &Group{}
		if err := g.decode(events.Group(key[1:]), value); err != nil {
			return err
		}
		all = append(all, g)
		return nil
	})
	return all, err
}

// Instance gives an instance's row, or events.ErrNotFound.
func (v rows) Instance(id events.InstanceID) (*Instance, error) {
	b, err := v.get(instanceKey(nil, id))
	if err != nil {
		return nil, err
	}
	i := &Instance{}
	return i, i.decode(id, b)
}

// Instances calls f for each instance, the one that fired last first, until f
// returns false. Only instances that fired before the position are given; the
// zero position is no bound.
func (v rows) Instances(before events.Position, f func(*Instance) bool) error {
	to := after([]byte{keyListed})
	if !before.IsZero() {
		to = listedKey(nil, before)
	}
	return v.newestFirst([]byte{keyListed}, to, f)
}

// Finished is Instances for the finished instances of one task, the one that
// ended last first.
func (v rows) Finished(task events.TaskName, f func(*Instance) bool) error {
	prefix := finishedPrefix(nil, task)
	return v.newestFirst(prefix, after(prefix), f)
}

// Dead is Instances for dead letters, the newest first.
func (v rows) Dead(f func(*Instance) bool) error {
	return v.newestFirst([]byte{keyDead}, after([]byte{keyDead}), f)
}

func (v rows) newestFirst(from, to []byte, f func(*Instance) bool) (err error) {
	it, err := v.r.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
	if err != nil {
		return fmt.Errorf("views: %w", err)
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for it.Last(); it.Valid(); it.Prev() {
		i, err := v.Instance(events.InstanceID(it.Value()))
		if errors.Is(err, events.ErrNotFound) {
			continue // removed between the two reads
		}
		if err != nil {
			return err
		}
		if !f(i) {
			return nil
		}
	}
	return nil
}

// OpenInstances calls f for each instance that is queued, offered, running,
// held or to be judged, by id, until f returns false.
func (v rows) OpenInstances(f func(*Instance) bool) error {
	prefix := []byte{keyOpen, keyInstance}
	return v.each(prefix, prefix, func(key, _ []byte) error {
		i, err := v.Instance(events.InstanceID(key[2:]))
		if errors.Is(err, events.ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		if !f(i) {
			return errStop
		}
		return nil
	})
}

// Due calls f for everything that waits for a time, the earliest first: a
// trigger, or an instance.
func (v rows) Due(f func(due int64, trigger *TriggerID, instance events.InstanceID) bool) error {
	return v.each([]byte{keyDue}, []byte{keyDue}, func(key, _ []byte) error {
		due := int64(binary.BigEndian.Uint64(key[1:]))
		rest := key[10:]
		if key[9] == keyInstance {
			if !f(due, nil, events.InstanceID(rest)) {
				return errStop
			}
			return nil
		}
		task, trigger, _ := bytes.Cut(rest, []byte{0})
		if !f(due, &TriggerID{events.TaskName(task), events.TriggerName(trigger)}, "") {
			return errStop
		}
		return nil
	})
}

func (v rows) each(from, prefix []byte, f func(key, value []byte) error) error {
	err := scanRows(v.r, from, after(prefix), f)
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// pebbleLogger hands Pebble's log on at DEBUG.
type pebbleLogger struct{ l *slog.Logger }

func (p pebbleLogger) Infof(format string, args ...any) {
	if p.l != nil {
		p.l.Debug(fmt.Sprintf(format, args...), "part", "pebble")
	}
}

func (p pebbleLogger) Errorf(format string, args ...any) {
	if p.l != nil {
		p.l.Warn(fmt.Sprintf(format, args...), "part", "pebble")
	}
}

func (p pebbleLogger) Fatalf(format string, args ...any) {
	// Pebble calls this where it cannot go on; it expects not to return.
	panic(fmt.Sprintf("pebble: "+format, args...))
}
