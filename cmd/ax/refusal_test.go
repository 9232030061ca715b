package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// TestWrongArgumentsTellTheUsage, and never how a library counts them.
func TestWrongArgumentsTellTheUsage(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"pause task", "usage: ax pause task NAME"},
		{"resume", "usage: ax resume task NAME"},
		{"delete task", "usage: ax delete task|group NAME"},
		{"trigger", "usage: ax trigger TASK"},
		{"trigger a b", "usage: ax trigger TASK"},
		{"cancel", "usage: ax cancel INSTANCE..."},
		{"history", "usage: ax history INSTANCE"},
		{"why a b", "usage: ax why INSTANCE"},
		{"next", "usage: ax next EXPR"},
		{"get tasks job", `"job" does not fit; usage: ax get tasks`},
		{"version now", "usage: ax version"},
		{"bench latency 5", "usage: ax bench latency"},
		{"apply good.yaml", "name the files with -f: ax apply -f good.yaml"},
		{"apply -f a.yaml b.yaml", "ax apply -f a.yaml -f b.yaml"},
		{"apply", "name the files with -f"},
	} {
		out, errOut, code := axRun(t, "", strings.Fields(c.args)...)
		if code != exitUsage || out != "" || !strings.Contains(errOut, c.want) || strings.Contains(errOut, "arg(s)") || strings.Contains(errOut, "unknown command") {
			t.Errorf("ax %s: exit %d, %q, %q, want %q", c.args, code, out, errOut, c.want)
		}
	}
}

// TestARefusalIsToldOnce, on standard error, whatever the verb; what went well
// stands on standard output.
func TestARefusalIsToldOnce(t *testing.T) {
	d := startDev(t, "--example=false")
	file := filepath.Join("testdata", "none")
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"delete", "task", "nobody"}, exitNotFound},
		{[]string{"delete", "group", "nobody"}, exitNotFound},
		{[]string{"pause", "task", "nobody"}, exitNotFound},
		{[]string{"trigger", "nobody"}, exitNotFound},
		{[]string{"cancel", "nobody-1-s1"}, exitNotFound},
		{[]string{"cancel", "nobody-1-s1", "nobody-2-s1"}, exitNotFound},
		{[]string{"apply", "-f", file}, exitUsage},
	} {
		out, errOut, code := axRun(t, "", append(c.args, d.args...)...)
		if code != c.code || out != "" || strings.Count(errOut, "nobody-1-s1") > 2 || errOut == "" {
			t.Errorf("ax %q: exit %d, out %q, err %q", c.args, code, out, errOut)
		}
	}
	_, errOut, _ := axRun(t, "", append([]string{"cancel", "nobody-1-s1", "nobody-2-s1"}, d.args...)...)
	if strings.Count(errOut, "refused") != 2 {
		t.Errorf("two refusals: %s", errOut)
	}
}

// TestAWrongTokenIsNamed: what is refused is the token, and this is where it came
// from.
func TestAWrongTokenIsNamed(t *testing.T) {
	d := startDev(t, "--example=false")
	t.Setenv("AX_TOKEN", "wrong")
	for _, args := range [][]string{{"trigger", "job"}, {"get", "tasks"}} {
		if got := d.fails(exitUnavailable, args...); !strings.Contains(got, "refuses the token") || !strings.Contains(got, "AX_TOKEN") || !strings.Contains(got, "--data") {
			t.Errorf("ax %q: %s", args, got)
		}
	}
	t.Setenv("AX_TOKEN", "")
	other := startDev(t, "--example=false")
	args := append([]string{"get", "tasks"}, d.args...)
	_, errOut, code := axRun(t, "", append(args, "--data", other.args[1])...)
	if code != exitUnavailable || !strings.Contains(errOut, "token of the data folder "+other.args[1]) {
		t.Errorf("another server's token: exit %d, %s", code, errOut)
	}
	if out, _, _ := axRun(t, "", "--help"); !strings.Contains(out, "AX_TOKEN") {
		t.Errorf("the help does not name AX_TOKEN: %s", out)
	}
}

// TestNoLeaderSaysWhereToLook, whether nobody listens or nobody answers.
func TestNoLeaderSaysWhereToLook(t *testing.T) {
	d := startDev(t, "--example=false")
	was := commandTime
	commandTime = time.Second
	t.Cleanup(func() { commandTime = was })
	got := d.fails(exitUnavailable, "trigger", "job", "--ns", "elsewhere")
	for _, want := range []string{"namespace elsewhere", "ax get leaders", "/readyz", "log"} {
		if !strings.Contains(got, want) {
			t.Errorf("it does not say %q: %s", want, got)
		}
	}
	if strings.Contains(got, "deadline") || strings.Contains(got, nats.ErrNoResponders.Error()) {
		t.Errorf("it says what only a programmer understands: %s", got)
	}
}

// TestBenchRefusesWhatMeasuresNothing, before it makes anything.
func TestBenchRefusesWhatMeasuresNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	for _, args := range []string{
		"throughput --instances 0", "throughput --instances -1", "throughput --slots 0", "latency --rate 0", "latency --seconds 0",
		"latency --slots -5", "rebuild --instances 0", "throughput --durability sometimes",
	} {
		out, errOut, code := axRun(t, "", append(append([]string{"bench"}, strings.Fields(args)...), "--dir", dir)...)
		if flag := strings.Fields(args)[1]; code != exitUsage || out != "" || !strings.Contains(errOut, flag) {
			t.Errorf("ax bench %s: exit %d, %q, %q", args, code, out, errOut)
		}
	}
	if found, _ := filepath.Glob(dir); len(found) != 0 {
		t.Error("it made the folder all the same")
	}
	file := filepath.Join("refusal_test.go", "sub")
	if _, errOut, code := axRun(t, "", "bench", "throughput", "--dir", file); code != exitUsage || !strings.Contains(errOut, "--dir") {
		t.Errorf("a folder that cannot be made: exit %d, %s", code, errOut)
	}
	// A folder that is not there is made.
	if _, errOut, code := axRun(t, "", "bench", "throughput", "--instances", "10", "--slots", "5", "--durability", "interval=1s", "--dir", dir); code != 0 {
		t.Errorf("in a new folder: exit %d, %s", code, errOut)
	}
}

// TestTheServersProblemIsTold, with the exit code of its status.
func TestTheServersProblemIsTold(t *testing.T) {
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"code":"usage","error":"limit: want <n>"}`))
	}))
	defer h.Close()
	t.Setenv("AX_TOKEN", "any")
	if out, errOut, code := axRun(t, "", "get", "tasks", "--server", h.URL); code != exitUsage || out != "" || errOut != "ax: limit: want <n>\n" {
		t.Errorf("exit %d, %q, %q", code, out, errOut)
	}
}
