package crash

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

// mount puts a file system of a size (tmpfs) at a folder for as long as the test
// runs. Without the right to it the test is skipped.
func mount(t *testing.T, dir, options string, flags uintptr) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, options); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
			t.Skipf("mounting needs rights that this process does not have: %v", err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// fill writes a file until the file system of a folder is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			if !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			size /= 2
		}
	}
}

// The disk becomes full while work is done, to the last byte. The process stays,
// says what is wrong and takes no triggers; when there is room again it goes on by
// itself, and everything that was answered is there.
func TestAFullDiskStopsNothingForEver(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	disk := ps.Dir("disk")
	mount(t, disk, "size=200m", 0)
	s := ps.Dev("dev", "--log-size", "64MiB")
	s.Dir = filepath.Join(disk, "data")
	s.Args = append(s.Args, "--data", s.Dir) // the last one counts
	s.Run()
	t.Cleanup(s.Kill) // before the disk goes
	nc := s.Connect()
	tick := events.TaskSpec{
		Triggers: []events.TriggerSpec{every(200*time.Millisecond, 0)}, Executor: shell(":"), Overlap: events.OverlapSpec{Policy: events.OverlapAllow}, MaxLost: 1000,
	}
	do(t, nc, task(t, "tick", tick), task(t, "job", events.TaskSpec{Executor: shell(":"), MaxLost: 1000}))
	log := openLog(t, nc)
	done := func() int {
		return len(of(records(t, log), func(r *replay.Record) bool { return r.Kind == events.KindSucceeded }))
	}
	testkit.Until(t, time.Minute, "work is done", func() bool { return done() > 5 })
	calls := startCaller(t, nc, "job", 20*time.Millisecond, 0)
	testkit.Until(t, time.Minute, "triggers are answered", func() bool { return calls.answered() > 20 })

	for range testkit.Rounds(1, 5) {
		filler := filepath.Join(disk, "filler")
		fill(t, filler)
		testkit.Until(t, time.Minute, "the server says that the disk is full", func() bool {
			// As long as there is nothing to write it is ready, and takes nothing new.
			var body bytes.Buffer
			err := s.GetText("/readyz", &body)
			return strings.Contains(body.String(), "disk") || err != nil && (strings.Contains(err.Error(), "disk") || strings.Contains(err.Error(), "no space"))
		})
		_, stderr, code := s.AX("trigger", "job")
		if code == 0 || !strings.Contains(stderr, "disk") && !strings.Contains(stderr, "leader") {
			t.Errorf("ax trigger on a full disk: exit %d, %s", code, stderr)
		}
		if !s.Alive() {
			t.Fatalf("the server has ended: %s", s.Tail(20))
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		s.WaitReady()
		answered, before := calls.answered(), done()
		testkit.Until(t, time.Minute, "triggers are answered again", func() bool { return calls.answered() > answered+20 })
		testkit.Until(t, time.Minute, "work is done again", func() bool { return done() > before+20 })
	}
	calls.end()
	do(t, nc, events.Command{Verb: events.VerbPause, Object: events.ObjectTask, Name: "tick"})
	waitClosed(t, s, time.Minute)
	audit(t, log, testkit.AuditOptions{Closed: true})
	calls.check(records(t, log))
	s.Verify()
	s.End()
}

// A data folder on a file system that cannot be written is an error that names it
// and the flag, and ends the process.
func TestAReadOnlyFolderIsAClearError(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	disk := ps.Dir("disk")
	mount(t, disk, "size=64m", syscall.MS_RDONLY)
	for _, dir := range []string{disk, filepath.Join(disk, "data")} {
		_, stderr, code := ps.Run("dev", "--data", dir, "--http", ps.Port(), "--nats-listen", ps.Port())
		if code != 1 || !strings.Contains(stderr, dir) || !strings.Contains(stderr, "read-only") || !strings.Contains(stderr, "--data") {
			t.Errorf("ax dev on %s: exit %d, %s", dir, code, stderr)
		}
	}
}
