package projector_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ax-scheduler/ax/projector"
)

// TestDamagedViewsArePutAside: whatever has become of their files, the next start
// has views again, empty ones at worst, and the damaged ones stay for who wants to
// look at them.
func TestDamagedViewsArePutAside(t *testing.T) {
	for name, hurt := range map[string]func(path string) error{
		"removed":   os.Remove,
		"emptied":   func(path string) error { return os.Truncate(path, 0) },
		"cut":       func(path string) error { return os.Truncate(path, 100) },
		"overwrote": func(path string) error { return os.WriteFile(path, make([]byte, 5000), 0o600) },
	} {
		for _, kind := range []string{"*.sst", "MANIFEST-*"} {
			t.Run(kind+" "+name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "views")
				v := openViews(t, dir)
				s := newState(t, v)
				for _, m := range life(t) {
					if err := s.Fold(m); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
				if err := v.Close(); err != nil {
					t.Fatal(err)
				}
				files, err := filepath.Glob(filepath.Join(dir, kind))
				if err != nil || len(files) == 0 {
					t.Fatalf("no files %s: %v", kind, err)
				}
				for _, f := range files {
					if err := hurt(f); err != nil {
						t.Fatal(err)
					}
				}
				// It may show at the opening, or only when something is read; then
				// the next opening is the one.
				for try := range 3 {
					v, err := projector.OpenViews(projector.Options{Dir: dir})
					if err != nil {
						t.Fatalf("opening %d: %v", try+1, err)
					}
					s, err := projector.NewState(v)
					cursor := uint64(0)
					if err == nil {
						cursor = s.Meta().Cursor
					}
					_ = v.Close()
					if err != nil {
						continue
					}
					if _, err := os.Stat(dir + ".damaged"); cursor == 0 && err != nil {
						t.Errorf("the damaged views are gone: %v", err)
					}
					return
				}
				t.Error("no opening gives views that can be read")
			})
		}
	}
}
