package definition

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func group(name string) string {
	return "apiVersion: ax/v1\nkind: Group\nmetadata: {name: " + name + "}\n"
}

// writeFiles makes a folder of files and works in it, so that errors are the
// same everywhere.
func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func wantLoad(t *testing.T, paths []string, stdin string, want string) {
	t.Helper()
	var in io.Reader
	if stdin != "" {
		in = strings.NewReader(stdin)
	}
	list, err := Load(paths, in, withCalendars())
	var b strings.Builder
	for _, l := range list {
		b.WriteString(filepath.ToSlash(l.File) + ":" + string(rune('0'+l.Line)) + " " + l.Definition.Metadata.Name + "\n")
	}
	got := b.String()
	if err != nil {
		if len(list) > 0 {
			t.Errorf("D1: %d definitions beside an error", len(list))
		}
		if len(AsErrors(err)) == 0 {
			t.Errorf("%T is not Errors", err)
		}
		got = err.Error() + "\n"
	}
	if got != strings.TrimLeft(want, "\n") {
		t.Errorf("\n got\n%swant%s", got, want)
	}
}

func TestLoad(t *testing.T) {
	writeFiles(t, map[string]string{
		"all/b.yml":             group("b") + "---\n" + group("b2"),
		"all/a.yaml":            group("a"),
		"all/c.json":            `{"apiVersion":"ax/v1","kind":"Group","metadata":{"name":"c"}}`,
		"all/below/d.YAML":      group("d"),
		"all/below/notes.md":    "no definition",
		"all/.hidden.yaml":      "wrong",
		"all/.git/e.yaml":       "wrong",
		"all/only-comments.yml": "# a task was here\n",
		"definition.txt":        "# comment\n" + group("any-name"),
		"none/readme.md":        "",
		"empty.yaml":            "# nothing\n",
		"bad/one.yaml":          group("One") + "x: 1\n",
		"bad/two.yaml":          "kind: [",
		"bad/three.yaml":        group("a"),
	})
	if err := os.Symlink(filepath.Join("..", "..", "definition.txt"), "all/below/link.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", "all/below/loop.yaml"); err != nil { // a link to a folder
		t.Fatal(err)
	}
	if err := os.Symlink("gone", "bad/zero.yaml"); err != nil {
		t.Fatal(err)
	}
	wantLoad(t, []string{"all"}, "", `
all/a.yaml:1 a
all/b.yml:1 b
all/b.yml:5 b2
all/below/d.YAML:1 d
all/below/link.yaml:2 any-name
all/c.json:1 c
`)
	wantLoad(t, []string{"definition.txt", "-", "./definition.txt", "-"}, group("piped"), `
definition.txt:2 any-name
<stdin>:1 piped
`)
	wantLoad(t, []string{"all", "none", "empty.yaml", "bad", "gone.yaml", "-"}, "", `
none: has no *.yaml, *.yml or *.json file in it
empty.yaml: has no definition; write one with apiVersion, kind, metadata and spec
bad/one.yaml:3:18: metadata.name: invalid name "One": byte 1 ('O'); use a-z, 0-9, and '-' or '_' in between, and put any other text into the title
bad/one.yaml:4:1: x: unknown field `+"`x`"+`; known here: apiVersion, kind, metadata and spec
bad/three.yaml:3:18: metadata.name: Group "a" is defined twice, first in all/a.yaml:3; keep one of them, or give it another name
bad/two.yaml:1: a value is missing, or a bracket is opened here and not closed
bad/zero.yaml: cannot be read: no such file or directory
gone.yaml: cannot be read: no such file or directory
-: there is no standard input
`)
	wantLoad(t, nil, "", `
-: no file is named; name files, folders, or - for standard input
`)
}

func TestLoadErrorsAreFound(t *testing.T) {
	writeFiles(t, map[string]string{"a.yaml": "x: [", "b.yaml": "y: ]"})
	_, err := Load([]string{"."}, nil, Options{})
	var all Errors
	var first *Error
	if !errors.As(err, &all) || len(all) != 2 || !errors.As(err, &first) || first.File != "a.yaml" {
		t.Errorf("%#v", err)
	}
}

func TestLoadIsBounded(t *testing.T) {
	writeFiles(t, map[string]string{"a.yaml": "#" + strings.Repeat("a", MaxBytes)})
	wantLoad(t, []string{"a.yaml"}, "", `
a.yaml: has more than 1 MiB; split it into several files
`)
	dir := strings.Repeat("d/", MaxFolderDepth)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	wantLoad(t, []string{"d"}, "", "\nd: has no *.yaml, *.yml or *.json file in it\n")
	if err := os.MkdirAll(dir+"e", 0o755); err != nil {
		t.Fatal(err)
	}
	wantLoad(t, []string{"d"}, "", "\n"+dir+"e: folders are nested more than 32 deep\n")

	// One text again and again: no file system is needed to pass these bounds.
	l := loader{reader: reader{first: map[string]origin{}}}
	big := "# " + strings.Repeat("a", MaxBytes-2)
	for range 100 {
		if !l.full {
			l.read("big.yaml", strings.NewReader(big), false)
		}
	}
	if got := l.errs.Error(); got != "big.yaml: more than 64 MiB in all files; apply them in parts" || l.files != 65 {
		t.Errorf("%d files, %s", l.files, got)
	}
	l = loader{reader: reader{first: map[string]origin{}}}
	for range MaxFiles + 5 {
		if !l.full {
			l.read("small.yaml", strings.NewReader(""), false)
		}
	}
	if got := l.errs.Error(); got != "small.yaml: more than 10000 files; apply them in parts" {
		t.Error(got)
	}
}
