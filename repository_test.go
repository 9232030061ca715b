package ax_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The repository tests itself: these tests read its own sources.

const module = "github.com/ax-scheduler/ax"

// room is what a folder may import of this module, and of other modules, and why
// no more.
type room struct {
	may     []string // rooms of this module
	modules []string // other modules; a prefix of the import path
	why     string
}

// rooms is the import table of the design, with its reasons. A room that is not
// in it may import nothing of the module.
var rooms = map[string]room{
	"events": {
		modules: []string{"github.com/nats-io/nats.go", "github.com/klauspost/compress"},
		why:     "the vocabulary imports nobody of ours, so that everybody can import it; NATS for the log, zstd for frames",
	},
	"projector": {
		may:     []string{"events"},
		modules: []string{"github.com/cockroachdb/pebble/v2"},
		why:     "the fold knows the log and its rows; it cannot know who leads, what time it is, or who works",
	},
	"leader": {
		may:     []string{"events", "projector"},
		modules: []string{"github.com/nats-io/nats.go", "github.com/klauspost/compress"},
		why:     "the loop runs deciders that the composition gives it; what they decide is none of its business",
	},
	"timer": {
		may:     []string{"events", "projector"},
		modules: []string{"github.com/netresearch/go-cron", "golang.org/x/sys"},
		why:     "time is decided from the folded state; it does not know what work is",
	},
	"dag": {
		may: []string{"events", "projector"},
		why: "workflows are decided from the folded state",
	},
	"workers": {
		may:     []string{"events", "projector"},
		modules: []string{"golang.org/x/sys", "github.com/nats-io/nats.go", "github.com/cenkalti/backoff/v4"},
		why:     "rules about work are decided from the folded state; the runtime speaks the protocol only",
	},
	"replay": {
		may: []string{"events", "projector"},
		why: "an audit that used the leader's code would prove nothing",
	},
	"api": {
		may:     []string{"events", "projector", "leader", "workers", "replay", "timer"},
		modules: []string{"github.com/prometheus/client_golang", "go.yaml.in/yaml/v3", "github.com/santhosh-tekuri/jsonschema/v6", "golang.org/x/text"},
		why:     "the outside sees through the rooms; no room sees the outside",
	},
	"testkit": {
		may: []string{"", "events", "projector", "leader", "timer", "dag", "workers", "replay", "api", "cmd"},
		modules: []string{
			"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "github.com/cockroachdb/pebble/v2", "pgregory.net/rapid", "github.com/cockroachdb/datadriven",
		},
		why: "tests may use everything",
	},
	"": {
		may:     []string{"events", "projector", "leader", "timer", "dag", "workers", "replay"},
		modules: []string{"github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2"},
		why:     "the composition puts the rooms together; it is what embedders import, so it stays free of the command line's libraries",
	},
	"cmd": {
		may: []string{"", "events", "projector", "leader", "timer", "dag", "workers", "replay", "api"},
		modules: []string{
			"github.com/nats-io/nats.go", "github.com/spf13/cobra", "go.yaml.in/yaml/v3",
		},
		why: "the command line composes; only tests know testkit",
	},
}

// source is a Go file of the repository.
type source struct {
	path string // slash-separated, from the root
	room string
	file *ast.File
	test bool
}

func sources(t *testing.T) (all []source) {
	t.Helper()
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "ax-data") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		top, _, nested := strings.Cut(path, "/")
		if !nested {
			top = ""
		}
		all = append(all, source{path, top, f, strings.HasSuffix(name, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func roomOf(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	rest, ok := strings.CutPrefix(importPath, module+"/")
	if !ok {
		return "", false
	}
	top, _, _ := strings.Cut(rest, "/")
	return top, true
}

func TestRoomsImportOnlyWhatTheTableAllows(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range sources(t) {
		r, known := rooms[s.room]
		if !known {
			t.Errorf("%s: the folder %s is in no row of the import table (repository_test.go)", s.path, s.room)
			continue
		}
		seen[s.room] = true
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			target, ours := roomOf(path)
			switch {
			case ours && target == s.room:
			case ours && slices.Contains(r.may, target):
			case ours && s.test:
				// Tests of a room may look at others, but for those of the vocabulary and
				// the fold, which have to stand alone.
				if s.room == "projector" && target != "events" && target != "testkit" {
					t.Errorf("%s imports %s in a test: %s", s.path, path, r.why)
				}
			case ours:
				t.Errorf("%s imports %s: %s", s.path, path, r.why)
			case !strings.Contains(strings.SplitN(path, "/", 2)[0], "."): // standard library
			case s.test:
			case !slices.ContainsFunc(r.modules, func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") }):
				t.Errorf("%s imports %s, which its room may not: %s", s.path, path, r.why)
			}
		}
	}
	for name := range rooms {
		if !seen[name] {
			t.Errorf("the import table has a row for %q, which is no folder any more", name)
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	comments := map[string][]string{}
	packages := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		dir := filepath.ToSlash(filepath.Dir(s.path))
		packages[dir] = true
		if s.file.Doc != nil {
			comments[dir] = append(comments[dir], s.path)
			text := s.file.Doc.Text()
			if want := "Package " + s.file.Name.Name; s.file.Name.Name != "main" && !strings.HasPrefix(text, want) {
				t.Errorf("%s: the package comment does not begin with %q", s.path, want)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		if n := len(comments[dir]); n != 1 {
			t.Errorf("%s has %d package comments, want one: %v", dir, n, comments[dir])
		}
	}
}

// TestTheFoldIsPure: what folds has no clock, no random source, no logger, no
// goroutine. The clock and the like come from the event.
func TestTheFoldIsPure(t *testing.T) {
	fold := []string{"apply.go", "apply_instance.go", "fold.go", "trim.go", "restate.go", "instance.go", "task.go", "queue.go", "meta.go", "row.go", "keys.go", "owed.go"}
	forbidden := map[string]string{
		"time":         "the time is the event's",
		"math/rand":    "two folds would differ",
		"math/rand/v2": "two folds would differ",
		"crypto/rand":  "two folds would differ",
		"log":          "a fold has nothing to say",
		"log/slog":     "a fold has nothing to say",
		"os":           "a fold does no I/O but on its rows",
		"context":      "a fold is not interrupted half-way",
		"sync":         "a fold belongs to one goroutine",
	}
	found := 0
	for _, s := range sources(t) {
		dir, name := filepath.Split(s.path)
		if dir != "projector/" || !slices.Contains(fold, name) {
			continue
		}
		found++
		for _, spec := range s.file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if why, bad := forbidden[path]; bad {
				t.Errorf("%s imports %s: %s", s.path, path, why)
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s starts a goroutine", s.path)
			}
			return true
		})
	}
	if found != len(fold) {
		t.Errorf("found %d of the fold's %d files; mend the list", found, len(fold))
	}
}

// TestNamesSayWhatThingsAre keeps words out that say nothing.
func TestNamesSayWhatThingsAre(t *testing.T) {
	for _, s := range sources(t) {
		for _, part := range strings.Split(strings.TrimSuffix(s.path, ".go"), "/") {
			for _, word := range strings.Split(part, "_") {
				switch word {
				case "util", "utils", "helper", "helpers", "common", "manager", "base", "misc":
					t.Errorf("%s: %q says nothing; name it for what it does", s.path, word)
				}
			}
		}
	}
}

func TestGoModHasNoReplacement(t *testing.T) {
	b, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "replace") {
			t.Errorf("go.mod:%d: %s: users of the module would not have it", i+1, line)
		}
	}
}

// TestDocumentsExist: what README and ARCHITECTURE point to is there.
func TestDocumentsExist(t *testing.T) {
	for _, doc := range []string{"README.md", "ARCHITECTURE.md"} {
		b, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		for {
			_, rest, ok := strings.Cut(text, "](")
			if !ok {
				break
			}
			target, after, ok := strings.Cut(rest, ")")
			if !ok {
				break
			}
			text = after
			target, _, _ = strings.Cut(target, "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s points to %s: %v", doc, target, fmt.Errorf("it is not there"))
			}
		}
	}
}
