package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
	"github.com/ax-scheduler/ax/workers"
)

const crontabs = "../../timer/crontab/testdata"

// crontabIndex reads the right answers that come with the real crontabs.
func crontabIndex(t *testing.T) (all []crontabAnswer) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(crontabs, "index.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n")[1:] {
		f := strings.Split(line, "\t")
		a := crontabAnswer{file: filepath.Join(crontabs, f[0]), system: f[3] == "system"}
		var eerr, rerr error
		a.entries, eerr = strconv.Atoi(f[4])
		a.rejects, rerr = strconv.Atoi(f[5])
		a.doubtful = eerr != nil || rerr != nil
		all = append(all, a)
	}
	return all
}

type crontabAnswer struct {
	file             string
	system, doubtful bool
	entries, rejects int
}

// TestEveryRealCrontabImportsAsItsIndexSays: 172 files from public repositories.
func TestEveryRealCrontabImportsAsItsIndexSays(t *testing.T) {
	checked, doubtful := 0, 0
	for _, a := range crontabIndex(t) {
		args := []string{"import", "crontab", "--dry-run", "-o", "json", "--zone", "UTC"}
		if a.system {
			args = append(args, "--system")
		}
		out, errOut, code := axRun(t, "", append(args, a.file)...)
		if code != 0 {
			t.Errorf("%s: exit %d, %s", a.file, code, errOut)
			continue
		}
		got := decode[[]imported](t, out)
		if len(got) != 1 || got[0].File != a.file || got[0].Accepted != len(got[0].Entries) || got[0].Rejected != len(got[0].Errors) {
			t.Errorf("%s: %s", a.file, out)
			continue
		}
		if a.doubtful {
			doubtful++
			continue
		}
		checked++
		if got[0].Accepted != a.entries || got[0].Rejected != a.rejects {
			t.Errorf("%s: %d accepted and %d rejected, want %d and %d: %+v", a.file, got[0].Accepted, got[0].Rejected, a.entries, a.rejects, got[0].Errors)
		}
	}
	if checked+doubtful != 172 || checked < 100 {
		t.Errorf("%d files checked, %d doubtful", checked, doubtful)
	}
}

func TestACrontabBecomesTasks(t *testing.T) {
	file := filepath.Join(t.TempDir(), "backup.crontab")
	text := "SHELL=/bin/bash\nCRON_TZ=Asia/Shanghai\nDIR = \"/srv/my data\"\r\n" +
		"*/5 1-3 * * mon-fri\techo \"$DIR\" 100\\% done%line one%line two\n" +
		"61 * * * * never\n@reboot /bin/true\n@daily echo 每日"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := axRun(t, "", "import", "crontab", "--dry-run", "-o", "json", file)
	if code != 0 {
		t.Fatal(errOut)
	}
	got := decode[[]imported](t, out)[0]
	if got.Accepted != 3 || got.Rejected != 1 || got.Errors[0].Line != 5 || !strings.Contains(got.Errors[0].Error, "61") {
		t.Fatalf("%s", out)
	}
	e := got.Entries[0]
	if e.Task != "backup-4" || e.Schedule != "*/5 1-3 * * mon-fri" || e.TimeZone != "Asia/Shanghai" || e.Command != `echo "$DIR" 100% done` {
		t.Errorf("%+v", e)
	}
	if got.Entries[1].Schedule != "@reboot" || got.Entries[2].Command != "echo 每日" {
		t.Errorf("%+v", got.Entries)
	}

	t.Run("on a server, once", func(t *testing.T) {
		d := startDev(t, "--example=false")
		first := decode[[]imported](t, d.ax("import", "crontab", "-o", "json", file))
		again := decode[[]imported](t, d.ax("import", "crontab", "-o", "json", file))
		for i := range first[0].Entries {
			if first[0].Entries[i].Result != "defined" || again[0].Entries[i].Result != "unchanged" {
				t.Errorf("%+v, again %+v", first[0].Entries[i], again[0].Entries[i])
			}
		}
		id := strings.TrimSpace(d.ax("trigger", "backup-4"))
		var result struct {
			Output string `json:"output"`
		}
		eventually(t, "it succeeds", func() bool {
			h := decode[[]replay.Record](t, d.ax("history", id, "-o", "json"))
			last := h[len(h)-1]
			return last.Kind == events.KindSucceeded && json.Unmarshal(last.Result, &result) == nil
		})
		if result.Output != "/srv/my data 100% done\n" {
			t.Errorf("it said %q", result.Output)
		}
	})
}

// TestAnEntryThatMovedDoesNotRunTwice: tasks of an earlier import whose lines have
// gone or moved are not left alone silently.
func TestAnEntryThatMovedDoesNotRunTwice(t *testing.T) {
	d := startDev(t, "--example=false")
	file := filepath.Join(t.TempDir(), "bob")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tasks := func() (names []string) {
		for _, x := range decode[[]api.Task](t, d.ax("get", "tasks", "-o", "json")) {
			names = append(names, string(x.Name))
		}
		return names
	}
	put("0 3 * * * echo one\n0 4 * * * echo two\n")
	d.ax("import", "crontab", file)
	put("# about\n0 3 * * * echo one\n0 4 * * * echo two\n")
	_, errOut, code := axRun(t, "", append([]string{"import", "crontab", file}, d.args...)...)
	if code != exitConflict || !strings.Contains(errOut, "bob-1") || !strings.Contains(errOut, "--prune") {
		t.Errorf("exit %d, %s", code, errOut)
	}
	if have := tasks(); !slices.Equal(have, []string{"bob-1", "bob-2"}) {
		t.Errorf("it has changed something: %v", have)
	}
	d.ax("import", "crontab", "--prune", file)
	if have := tasks(); !slices.Equal(have, []string{"bob-2", "bob-3"}) {
		t.Errorf("with --prune: %v", have)
	}
	put("")
	d.ax("import", "crontab", "--keep", file)
	if have := tasks(); len(have) != 2 {
		t.Errorf("with --keep: %v", have)
	}
	d.ax("import", "crontab", "--prune", file)
	if have := tasks(); len(have) != 0 {
		t.Errorf("of an empty file: %v", have)
	}
}

func TestImportFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{{"--overlap", "maybe"}, {"--timeout", "1ms"}, {"--group", "A B"}, {"--zone", "Mars/Olympus"}, {"--keep", "--prune"}} {
		_, errOut, code := axRun(t, "0 3 * * * echo one\n", append([]string{"import", "crontab", "--dry-run", "-"}, args...)...)
		if code != exitUsage || !strings.Contains(errOut, strings.TrimPrefix(args[0], "--")) {
			t.Errorf("%v: exit %d, %s", args, code, errOut)
		}
	}
}

// TestTwentyRealCrontabsRun imports 20 of the real files and runs them with a
// stub in place of the shell: for a minute with AX_LONG=1, else for as long as
// it takes until something has fired. AX itself makes no error.
func TestTwentyRealCrontabsRun(t *testing.T) {
	s, err := ax.Start(t.Context(), ax.Options{Dir: t.TempDir(), Name: "s1", NATSListen: freeAddress(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	ran := make(chan string, 10_000)
	stub := func(config json.RawMessage) (workers.Executor, error) {
		var c workers.ShellConfig
		if err := json.Unmarshal(config, &c); err != nil {
			return nil, err
		}
		return stubShell{c.Command, ran}, nil
	}
	w, err := workers.New(workers.Config{
		Address: s.Address(), Name: "w1", Groups: map[events.Group]int{"default": 64}, Executors: workers.Registry{"shell": stub}, Connect: s.Connect,
	})
	if err != nil {
		t.Fatal(err)
	}
	wctx, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	go func() { worked <- w.Run(wctx) }()
	defer func() {
		stop()
		if err := <-worked; err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("AX_TOKEN", s.Token())
	entries, files := 0, 0
	index := crontabIndex(t)
	// Those with the most frequent entries first, so that a minute sees them fire.
	slices.SortStableFunc(index, func(a, b crontabAnswer) int { return busy(t, b) - busy(t, a) })
	for _, a := range index[:20] {
		args := []string{"import", "crontab", "-o", "json", "--zone", "Europe/Berlin", "--nats", "nats://" + s.NATSListen()}
		if a.system {
			args = append(args, "--system")
		}
		out, errOut, code := axRun(t, "", append(args, a.file)...)
		if code != 0 {
			t.Fatalf("%s: exit %d, %s", a.file, code, errOut)
		}
		entries += decode[[]imported](t, out)[0].Accepted
		files++
	}
	wait := time.Minute
	if os.Getenv("AX_LONG") == "" {
		wait = 2 * time.Second
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	count := 0
	for running := true; running; {
		select {
		case <-ran:
			count++
		case <-timer.C:
			running = false
		}
	}
	nc, err := s.Connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	log, err := events.OpenJetStreamLog(t.Context(), nc, s.Address(), 0)
	if err != nil {
		t.Fatal(err)
	}
	problems, err := testkit.Check(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Error(p)
	}
	for _, kind := range []events.Kind{events.KindIncident, events.KindRefused, events.KindIgnored, events.KindDead, events.KindFailed, events.KindLost} {
		found, _, err := replay.Events(t.Context(), log, replay.Filter{Kind: kind}, 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range found {
			t.Errorf("%s: %+v", kind, r)
		}
	}
	t.Logf("%d files, %d entries, %d runs in %s", files, entries, count, wait)
	if os.Getenv("AX_LONG") != "" && count == 0 {
		t.Error("nothing fired in a minute")
	}
}

// busy counts a file's entries that fire every few minutes.
func busy(t *testing.T, a crontabAnswer) int {
	t.Helper()
	b, err := os.ReadFile(a.file)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, line := range strings.Split(string(b), "\n") {
		if strings.HasPrefix(line, "* ") || strings.HasPrefix(line, "*/") {
			n++
		}
	}
	return n
}

type stubShell struct {
	command string
	ran     chan<- string
}

func (s stubShell) Run(context.Context, *workers.Attempt) (json.RawMessage, error) {
	select {
	case s.ran <- s.command:
	default:
	}
	return json.RawMessage(`{"exitCode":0}`), nil
}
