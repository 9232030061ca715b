package definition

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/ax-scheduler/ax/events"
)

// Located is a definition and where it was read.
type Located struct {
	Definition events.Definition
	File       string
	Line       int // of its document's first field
}

// Stdin is the path that stands for standard input.
const Stdin = "-"

// Load reads the definitions of files, of folders, and, for the path "-", of
// stdin, in the order of the paths. Errors are Errors, with all problems of all
// files; then there are no definitions.
//
// Of a folder it reads *.yaml, *.yml and *.json, in it and in the folders below,
// in the order of their names. What begins with a dot is passed over, and so is
// what is no regular file after following links, and links to folders. A file
// that is named itself may have any name and be a pipe. A file that several paths
// lead to is read once. A file of a folder may have no definition in it; one that
// is named itself may not, and a folder has to have a file.
func Load(paths []string, stdin io.Reader, opts Options) ([]Located, error) {
	l := loader{reader: reader{opts: opts, first: map[string]origin{}}, stdin: stdin, seen: map[string]bool{}}
	if len(paths) == 0 {
		return nil, Errors{fileError(Stdin, "no file is named; name files, folders, or - for standard input")}
	}
	for _, path := range paths {
		if l.full {
			break
		}
		l.path(path)
	}
	if len(l.errs) > 0 {
		return nil, l.errs
	}
	return l.list, nil
}

type loader struct {
	reader
	stdin   io.Reader
	seen    map[string]bool
	files   int
	bytes   int64
	entries int
	full    bool // a bound was passed; nothing more is read
	list    []Located
	errs    Errors
}

func (l *loader) fail(file, format string, args ...any) {
	l.errs = append(l.errs, fileError(file, format, args...))
}

// stop fails and reads nothing more.
func (l *loader) stop(file, format string, args ...any) {
	l.fail(file, format, args...)
	l.full = true
}

// path reads what somebody named.
func (l *loader) path(path string) {
	if path == Stdin {
		if l.again(Stdin) {
			return
		}
		if l.stdin == nil {
			l.fail(Stdin, "there is no standard input")
			return
		}
		l.read("<stdin>", l.stdin, true)
		return
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		l.fail(path, "%s", cause(err))
	case !info.IsDir():
		l.file(path, true)
	default:
		if files := l.folder(path, 1); files == 0 && !l.full {
			l.fail(path, "has no *.yaml, *.yml or *.json file in it")
		}
	}
}

// folder reads a folder and those below, and gives how many files it saw.
func (l *loader) folder(path string, depth int) (files int) {
	if depth > MaxFolderDepth {
		l.stop(path, "folders are nested more than %d deep", MaxFolderDepth)
		return 0
	}
	entries, err := os.ReadDir(path) // by name
	if err != nil {
		l.fail(path, "%s", cause(err))
		return 0
	}
	for _, e := range entries {
		if l.entries++; l.entries > MaxEntries {
			l.stop(path, "there are more than %d files and folders to look at; name the ones that have definitions", MaxEntries)
		}
		if l.full {
			return files
		}
		name := filepath.Join(path, e.Name())
		switch {
		case strings.HasPrefix(e.Name(), "."):
		case e.IsDir():
			files += l.folder(name, depth+1)
		case hasDefinitions(e.Name()):
			// A link is followed: a mounted config map consists of them. A pipe
			// would hang.
			info, err := os.Stat(name)
			switch {
			case err != nil:
				l.fail(name, "%s", cause(err))
			case !info.Mode().IsRegular():
				continue
			default:
				l.file(name, false)
			}
			files++
		}
	}
	return files
}

func hasDefinitions(name string) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return true
	}
	return false
}

func (l *loader) again(path string) bool {
	was := l.seen[path]
	l.seen[path] = true
	return was
}

func (l *loader) file(path string, named bool) {
	if l.again(filepath.Clean(path)) {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		l.fail(path, "%s", cause(err))
		return
	}
	defer f.Close()
	l.read(path, f, named)
}

func (l *loader) read(name string, from io.Reader, named bool) {
	if l.files++; l.files > MaxFiles {
		l.stop(name, "more than %d files; apply them in parts", MaxFiles)
		return
	}
	data, err := io.ReadAll(io.LimitReader(from, MaxBytes+1))
	if err != nil {
		l.fail(name, "%s", cause(err))
		return
	}
	if l.bytes += int64(len(data)); l.bytes > MaxTotalBytes {
		l.stop(name, "more than %d MiB in all files; apply them in parts", MaxTotalBytes>>20)
		return
	}
	list, problems := l.reader.file(name, data)
	if len(problems) > 0 {
		l.errs = append(l.errs, newError(name, problems))
		return
	}
	if len(list) == 0 && named {
		l.fail(name, "%s", noDefinition)
	}
	l.list = append(l.list, list...)
}

// cause leaves out the path, which the error names anyway.
func cause(err error) string {
	var p *fs.PathError
	if errors.As(err, &p) {
		return fmt.Sprintf("cannot be read: %v", p.Err)
	}
	return fmt.Sprintf("cannot be read: %v", err)
}
