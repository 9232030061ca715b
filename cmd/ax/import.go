package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/timer"
	"github.com/ax-scheduler/ax/timer/crontab"
	"github.com/ax-scheduler/ax/workers"
)

// imported is what became of one file. Field names are a contract.
type imported struct {
	File     string          `json:"file"`
	Accepted int             `json:"accepted"`
	Rejected int             `json:"rejected"`
	Entries  []importedEntry `json:"entries"`
	Errors   []importError   `json:"errors"`
	Notes    []string        `json:"notes,omitempty"` // what is not taken over
	Pruned   []string        `json:"pruned,omitempty"`
}

type importedEntry struct {
	Line     int    `json:"line"`
	Task     string `json:"task"`
	Schedule string `json:"schedule"`
	TimeZone string `json:"timeZone,omitempty"`
	User     string `json:"user,omitempty"`
	Command  string `json:"command"`
	Result   string `json:"result,omitempty"` // defined, unchanged or refused; absent with --dry-run
	Note     string `json:"note,omitempty"`
	// Definition is the task, with --dry-run.
	Definition json.RawMessage `json:"definition,omitempty"`
}

type importError struct {
	Line  int    `json:"line"` // 0: the whole file
	Text  string `json:"text,omitempty"`
	Error string `json:"error"`
}

type importOptions struct {
	system  bool
	dryRun  bool
	zone    string
	group   string
	prefix  string
	overlap string
	timeout time.Duration
	prune   bool
	keep    bool
}

func (c *cli) importCommand() *cobra.Command {
	parent := &cobra.Command{
		Use: "import", Short: "Take schedules over from elsewhere", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return failWith(exitUsage, "say what to import: ax import crontab FILE...")
		},
	}
	var o importOptions
	cmd := &cobra.Command{
		Use:   "crontab FILE...",
		Short: "Make a task of each entry of crontab files; - is standard input",
		Long: `Make a task of each entry of crontab(5) files.

Each entry becomes a task <file>-<line> that runs the command with the shell and
the environment that hold there. As with cron there is no retry and no catching
up of what was missed by more than a minute. Other than with cron an entry does
not fire while its last run is open (--overlap allow lets it), and a run ends
after --timeout. It runs in HOME, as cron does. Lines that cannot be taken are
reported with file and line; the rest is imported.

Importing a file again changes only what has changed in it. Where that would leave
tasks of an earlier import behind, because their lines have gone or moved, say
whether to remove them (--prune) or not (--keep).`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.importCrontabs(cmd, args, &o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.system, "system", false, "system crontabs: a user column between the time fields and the command")
	f.BoolVar(&o.dryRun, "dry-run", false, "only read the files and say what would be done")
	f.StringVar(&o.zone, "zone", hostZone(), "time zone of entries without CRON_TZ; it is written into each task")
	f.StringVar(&o.group, "group", string(events.DefaultGroup), "group of the tasks")
	f.StringVar(&o.prefix, "prefix", "", "beginning of the tasks' names in place of the file's name")
	f.StringVar(&o.overlap, "overlap", events.OverlapForbid, "forbid or allow")
	f.DurationVar(&o.timeout, "timeout", 24*time.Hour, "time limit of a run")
	f.BoolVar(&o.prune, "prune", false, "remove tasks of an earlier import whose lines are not there any more")
	f.BoolVar(&o.keep, "keep", false, "leave such tasks as they are")
	cmd.MarkFlagsMutuallyExclusive("prune", "keep")
	parent.AddCommand(cmd)
	return parent
}

func (c *cli) importCrontabs(cmd *cobra.Command, files []string, o *importOptions) error {
	if _, err := time.LoadLocation(o.zone); err != nil || o.zone == "Local" {
		return failWith(exitUsage, "--zone %q is no IANA time zone; write one such as Europe/Berlin", o.zone)
	}
	if o.overlap != events.OverlapForbid && o.overlap != events.OverlapAllow {
		return failWith(exitUsage, "--overlap %q: want forbid or allow", o.overlap)
	}
	if o.timeout < time.Second {
		return failWith(exitUsage, "--timeout %s: want at least 1s", o.timeout)
	}
	if err := events.CheckName(o.group); err != nil {
		return failWith(exitUsage, "--group: %w", err)
	}
	out := []imported{}
	var commands []events.Command
	var targets []*importedEntry
	failed := false
	for _, name := range files {
		r := imported{File: name, Entries: []importedEntry{}, Errors: []importError{}}
		file, err := c.readCrontab(name, o.system)
		if err != nil {
			r.Errors = append(r.Errors, importError{Error: err.Error()})
			failed = true
		} else {
			for i := range file.Rejects {
				x := &file.Rejects[i]
				r.Errors = append(r.Errors, importError{x.Line, x.Text, x.Reason})
			}
			for _, e := range file.Entries {
				body, entry, err := crontabTask(name, e, o)
				if err != nil {
					r.Errors = append(r.Errors, importError{e.Line, e.Schedule, err.Error()})
					continue
				}
				if o.dryRun {
					entry.Definition = json.RawMessage(body)
				}
				r.Entries = append(r.Entries, entry)
				r.Notes = noteLost(r.Notes, e)
				commands = append(commands, events.Command{Verb: events.VerbDefine, Definition: body})
			}
		}
		r.Accepted, r.Rejected = len(r.Entries), len(r.Errors)
		out = append(out, r)
	}
	for i := range out {
		for k := range out[i].Entries {
			targets = append(targets, &out[i].Entries[k])
		}
	}
	if dup := duplicate(targets); dup != "" {
		return failWith(exitUsage, "two entries would become the same task %s: give the files different names, or import them apart with --prefix", dup)
	}
	var refused error
	if !o.dryRun && !o.keep {
		stale, err := c.staleTasks(cmd.Context(), files, targets, o)
		switch {
		case err != nil:
			fmt.Fprintf(c.err, "ax: whether an earlier import left tasks behind is not known: %v\n", err)
		case len(stale) > 0 && !o.prune:
			return failWith(exitConflict, "nothing was imported: %d tasks of an earlier import are not in the file any more, or have moved to another line: %s; remove them with --prune, or leave them with --keep",
				len(stale), strings.Join(stale, ", "))
		}
		for _, name := range stale {
			commands = append(commands, events.Command{Verb: events.VerbRemove, Object: events.ObjectTask, Name: name, Reason: "not in the crontab any more"})
		}
		if len(out) > 0 {
			out[0].Pruned = stale
		}
	}
	if !o.dryRun && len(commands) > 0 {
		answers, err := c.do(cmd.Context(), commands...)
		if err != nil {
			return err
		}
		for i := range answers {
			if i >= len(targets) { // a removal
				refused = errors.Join(refused, refusal(answers[i]))
				continue
			}
			targets[i].Result = "defined"
			switch {
			case answers[i].Unchanged:
				targets[i].Result = "unchanged"
			case answers[i].Reason != "":
				targets[i].Result, targets[i].Note = "refused", answers[i].Error
				refused = errors.Join(refused, refusal(answers[i]))
			}
		}
	}
	err := c.print(out, func(w io.Writer) {
		for i := range out {
			r := &out[i]
			fmt.Fprintf(w, "%s: %d accepted, %d rejected\n", r.File, r.Accepted, r.Rejected)
			for _, e := range r.Errors {
				fmt.Fprintf(w, "  %s:%d: %s\n", r.File, e.Line, plain(e.Error))
			}
			for _, e := range r.Entries {
				if e.Note != "" {
					fmt.Fprintf(w, "  %s:%d: note: %s\n", r.File, e.Line, plain(e.Note))
				}
			}
		}
		for i := range out {
			for _, note := range out[i].Notes {
				fmt.Fprintf(w, "  %s: note: %s\n", out[i].File, note)
			}
			for _, name := range out[i].Pruned {
				fmt.Fprintf(w, "  removed: %s\n", name)
			}
		}
		if o.dryRun {
			fmt.Fprintln(w, "nothing was changed (--dry-run)")
		}
	})
	if err == nil {
		err = refused
	}
	if err == nil && failed {
		err = failWith(exitFailed, "some files could not be read")
	}
	return err
}

func duplicate(entries []*importedEntry) string {
	seen := map[string]bool{}
	for _, e := range entries {
		if seen[e.Task] {
			return e.Task
		}
		seen[e.Task] = true
	}
	return ""
}

func (c *cli) readCrontab(name string, system bool) (*crontab.File, error) {
	if name == "-" {
		return crontab.Parse("-", c.in, system)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return crontab.Parse(name, f, system)
}

var notInTaskName = regexp.MustCompile(`[^a-z0-9]+`)

// maxTaskBase leaves room for a line number in a name.
const maxTaskBase = events.MaxNameLen - 10

// taskBase is what the names of a file's tasks begin with.
func taskBase(file string, o *importOptions) string {
	base := o.prefix
	if base == "" {
		base = filepath.Base(file)
		base = strings.TrimSuffix(strings.TrimSuffix(base, ".crontab"), ".cron")
	}
	base = strings.Trim(notInTaskName.ReplaceAllString(strings.ToLower(base), "-"), "-")
	if len(base) > maxTaskBase {
		base = strings.Trim(base[:maxTaskBase], "-")
	}
	if base == "" {
		base = "crontab"
	}
	return base
}

// fileLabel is the value of the label crontab.
func fileLabel(file string) string { return clipBytes(filepath.Base(file), 200) }

// notTaken says what of cron's own settings means nothing to AX. A command has them in
// its environment all the same, as with cron.
var notTaken = map[string]string{
	"MAILTO":       "MAILTO is not taken over: AX sends no mail; ax get instances shows what has failed",
	"RANDOM_DELAY": "RANDOM_DELAY is not taken over: entries fire when they are due",
}

// noteLost adds, once each, what is not taken over of an entry's settings.
func noteLost(notes []string, e crontab.Entry) []string {
	for _, v := range e.Env() {
		if note := notTaken[v.Name]; note != "" && v.Value != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	return notes
}

// crontabTask makes the definition of an entry.
func crontabTask(file string, e crontab.Entry, o *importOptions) (body string, entry importedEntry, err error) {
	base := taskBase(file, o)
	line := fmt.Sprint(e.Line)
	name := base + "-" + line
	shell := workers.ShellConfig{Command: e.Command, Stdin: e.Stdin, Env: map[string]string{}, Dir: "~"}
	for _, v := range e.Env() {
		switch v.Name {
		case "SHELL":
			shell.Shell = []string{v.Value, "-c"}
		default:
			shell.Env[v.Name] = v.Value
		}
	}
	config, err := json.Marshal(shell)
	if err != nil {
		return "", entry, err
	}
	trigger := events.TriggerSpec{Name: "cron", CatchUp: events.CatchUpNone, Misfire: events.MisfireSpec{Policy: events.MisfireSkip}}
	if e.Reboot {
		trigger.Cron = events.Reboot
	} else {
		trigger.Cron, trigger.Dialect = e.Schedule, string(timer.DialectUnix)
		if trigger.TimeZone = e.TimeZone; trigger.TimeZone == "" {
			trigger.TimeZone = o.zone
		}
	}
	none := int64(0)
	d := events.Definition{
		APIVersion: events.APIVersion, Kind: events.ObjectTask,
		Metadata: events.Metadata{Name: name, Title: title(e.Command), Labels: map[string]string{"crontab": fileLabel(file), "line": line}},
		Task: &events.TaskSpec{
			Triggers: []events.TriggerSpec{trigger},
			Executor: events.ExecutorSpec{Kind: "shell", Config: config},
			Group:    events.Group(o.group),
			Timeout:  events.Duration(o.timeout),
			Retry:    events.RetrySpec{Max: &none},
			Overlap:  events.OverlapSpec{Policy: o.overlap},
		},
	}
	if e.User != "" {
		d.Metadata.Labels["user"] = clipBytes(e.User, 200)
	}
	entry = importedEntry{Line: e.Line, Task: name, Schedule: e.Schedule, TimeZone: trigger.TimeZone, User: e.User, Command: e.Command, Note: e.Note}
	if e.User != "" && e.User != "root" && entry.Note == "" {
		entry.Note = fmt.Sprintf("the command runs as the worker's user, not as %s: give the task's group to a worker of that user", e.User)
	}
	if err := d.Complete(); err != nil {
		return "", entry, err
	}
	if err := (&timer.Calendars{}).CheckTask(d.Task); err != nil {
		return "", entry, err
	}
	body, err = d.Encode()
	return body, entry, err
}

// title is the command as a task's title.
func title(command string) string {
	return clipBytes(plain(strings.Join(strings.Fields(command), " ")), events.MaxTitle)
}

func clipBytes(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// hostZone is the zone of this machine, as cron would take it, or UTC where that
// has no name.
func hostZone() string {
	if tz := os.Getenv("TZ"); tz != "" {
		if _, err := time.LoadLocation(tz); err == nil && tz != "Local" {
			return strings.TrimPrefix(tz, ":")
		}
	}
	if target, err := os.Readlink("/etc/localtime"); err == nil {
		if _, name, ok := strings.Cut(target, "zoneinfo/"); ok {
			if _, err := time.LoadLocation(name); err == nil {
				return name
			}
		}
	}
	if b, err := os.ReadFile("/etc/timezone"); err == nil {
		if name := strings.TrimSpace(string(b)); name != "" {
			if _, err := time.LoadLocation(name); err == nil {
				return name
			}
		}
	}
	return "UTC"
}
