package definition

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/timer"
)

var update = flag.Bool("update", false, "write golden files and docs/schema anew")

// withCalendars is what the command line and the server check with.
func withCalendars() Options { return Options{CheckTask: new(timer.Calendars).CheckTask} }

// TestBad holds the complaints about every file of testdata/bad against the text
// beside it. Read the texts after -update: they are what people will read.
func TestBad(t *testing.T) {
	eachFile(t, "testdata/bad", func(t *testing.T, file string, data []byte) string {
		list, err := Parse(filepath.Base(file), data, withCalendars())
		var bad *Error
		if !errors.As(err, &bad) {
			t.Fatalf("want an *Error, have %v", err)
		}
		if len(list) > 0 {
			t.Errorf("D1: %d definitions beside an error", len(list))
		}
		return err.Error() + "\n"
	})
}

// TestGood holds what every file of testdata/good means against the text beside
// it.
func TestGood(t *testing.T) {
	eachFile(t, "testdata/good", func(t *testing.T, file string, data []byte) string {
		list, err := Parse(filepath.Base(file), data, withCalendars())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for i := range list {
			wantRoundTrip(t, list[i])
			b.WriteString(encoded(t, &list[i]) + "\n")
		}
		return b.String()
	})
}

func eachFile(t *testing.T, folder string, f func(t *testing.T, file string, data []byte) string) {
	files, err := filepath.Glob(folder + "/*")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		n++
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			wantGolden(t, file+".golden", f(t, file, data))
		})
	}
	if n == 0 {
		t.Fatalf("%s is empty", folder)
	}
}

func wantGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\nto write it: go test ./api/definition -update", err)
	}
	if got != string(want) {
		t.Errorf("differs from %s\ngot:\n%swant:\n%s\nto accept: go test ./api/definition -update", file, got, want)
	}
}

func encoded(t *testing.T, d *events.Definition) string {
	t.Helper()
	s, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return s
}
