package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
)

const token = "the-token"

// startAPI runs a server and its HTTP side on a test listener.
func startAPI(t *testing.T, hosts ...string) (*ax.Server, *httptest.Server) {
	t.Helper()
	s, err := ax.Start(t.Context(), ax.Options{Dir: t.TempDir(), Name: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	nc, err := s.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	a := api.New(api.Config{
		Token: token, Hosts: hosts, Shard: s.Shard(), Views: s.Views(), Liveness: s.Liveness(), Version: "v1", Zones: "z1", RefusesWork: s.RefusesWork, Wait: 300 * time.Millisecond,
		Log: func(ctx context.Context) (events.Log, error) { return events.OpenJetStreamLog(ctx, nc, s.Address(), 0) },
	})
	h := httptest.NewServer(a.Handler())
	t.Cleanup(func() {
		h.Close()
		nc.Close()
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: "job", Title: "订单"}, Task: &events.TaskSpec{
		Executor: events.ExecutorSpec{Kind: "external", Config: json.RawMessage(`{}`)},
		Triggers: []events.TriggerSpec{{Cron: "0 0 3 * * ?", TimeZone: "Asia/Shanghai"}},
	}}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ax.NewClient(nc, s.Address(), "test").Do(ctx, events.Command{Verb: events.VerbDefine, Definition: body}, events.Command{Verb: events.VerbTrigger, Name: "job"}); err != nil {
		t.Fatal(err)
	}
	return s, h
}

func request(t *testing.T, h *httptest.Server, path string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if change != nil {
		change(r)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

// TestWhoMayAsk holds A1 and A2.
func TestWhoMayAsk(t *testing.T) {
	_, h := startAPI(t, "ax.example.com")
	for _, c := range []struct {
		name, path string
		change     func(*http.Request)
		status     int
	}{
		{"with the token", "/api/v1/tasks", nil, 200},
		{"without a token", "/api/v1/tasks", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"with another token", "/api/v1/tasks", func(r *http.Request) { r.Header.Set("Authorization", "Bearer nope") }, 401},
		{"metrics without a token", "/metrics", func(r *http.Request) { r.Header.Del("Authorization") }, 401},
		{"health without a token", "/healthz", func(r *http.Request) { r.Header.Del("Authorization") }, 200},
		{"readiness without a token", "/readyz", func(r *http.Request) { r.Header.Del("Authorization") }, 200},
		{"for a host that was given", "/api/v1/tasks", func(r *http.Request) { r.Host = "ax.example.com:8480" }, 200},
		{"for localhost", "/api/v1/tasks", func(r *http.Request) { r.Host = "localhost:8480" }, 200},
		{"for another host", "/api/v1/tasks", func(r *http.Request) { r.Host = "evil.example.com" }, 421},
		{"for a host that begins like loopback", "/healthz", func(r *http.Request) { r.Host = "127.0.0.1.evil.example.com" }, 421},
		{"from a page of ours", "/api/v1/tasks", func(r *http.Request) { r.Header.Set("Origin", "http://"+r.URL.Host) }, 200},
		{"from a page of another site", "/api/v1/tasks", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example.com") }, 403},
		{"from a page of nowhere", "/api/v1/tasks", func(r *http.Request) { r.Header.Set("Origin", "null") }, 403},
		{"a write", "/api/v1/tasks", func(r *http.Request) { r.Method = http.MethodPost }, 405},
		{"a write of one", "/api/v1/tasks/job", func(r *http.Request) { r.Method = http.MethodDelete }, 405},
		{"a write to a probe", "/healthz", func(r *http.Request) { r.Method = http.MethodPut }, 405},
		{"a write to nothing", "/api/v1/nothing", func(r *http.Request) { r.Method = http.MethodPost }, 404},
		{"only the head", "/api/v1/tasks", func(r *http.Request) { r.Method = http.MethodHead }, 200},
		{"something else", "/api/v2/tasks", nil, 404},
	} {
		status, body, header := request(t, h, c.path, c.change)
		if allow := header.Get("Allow"); (allow != "") != (status == 405) {
			t.Errorf("%s: %d allows %q", c.name, status, allow)
		}
		if strings.Contains(body, `\u00`) {
			t.Errorf("%s: people cannot read %s", c.name, body)
		}
		if status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, status, c.status, body)
		}
		if status >= 400 {
			var p api.Problem
			if json.Unmarshal([]byte(body), &p) != nil || p.Code == "" || p.Error == "" {
				t.Errorf("%s: the problem is not told: %s", c.name, body)
			}
		}
	}
}

func TestTheReadSide(t *testing.T) {
	_, h := startAPI(t)
	for _, c := range []struct {
		path   string
		status int
		want   string
	}{
		{"/api/v1/version", 200, `"version":"v1"`},
		{"/api/v1/leaders", 200, `"leading":true`},
		{"/api/v1/tasks", 200, `"title":"订单"`},
		{"/api/v1/tasks/job", 200, `"schedule":"0 0 3 * * ? Asia/Shanghai"`},
		{"/api/v1/tasks/nobody", 404, "not-found"},
		{"/api/v1/instances?task=job", 200, `"state":"SCHEDULED"`},
		{"/api/v1/instances?state=RUNNING", 200, `[]`},
		{"/api/v1/instances?state=running", 400, "capitals"},
		{"/api/v1/instances?limit=0", 400, "1 to 10000"},
		{"/api/v1/instances?limit=10001", 400, "1 to 10000"},
		{"/api/v1/instances?since=yesterday", 400, "10m"},
		{"/api/v1/instances?since=10m", 200, `"task":"job"`},
		{"/api/v1/instances/nobody-1-s1", 404, "not-found"},
		{"/api/v1/instances/nobody-1-s1/history", 404, "not-found"},
		{"/api/v1/instances/nobody-1-s1/why", 404, "not-found"},
		{"/api/v1/events?kind=fired", 200, `"kind":"fired"`},
		{"/api/v1/events?kind=eaten", 400, "eaten"},
		{"/api/v1/groups", 200, `"queued":1`},
		{"/api/v1/workers", 200, `[]`},
		{"/api/v1/due", 200, `"trigger":"main"`},
		{"/api/v1/tasks?at-least=1", 200, `"job"`},
		{"/api/v1/tasks?at-least=x", 400, "at-least"},
		{"/api/v1/tasks?state=DEAD", 400, "after, at-least, limit"},
		{"/api/v1/instances?tsak=job", 400, "at-least, limit, since, state, task"},
		{"/api/v1/instances/x?limit=1", 400, "at-least"},
		{"/api/v1/events?task=job&at-least=1", 400, "instance, kind, limit, since, task"},
		{"/api/v1/workers?group=default", 400, "takes none"},
		{"/api/v1/tasks?limit=%zz", 400, "cannot be read"},
		{"/api/v1/events?task=job", 200, `"kind":"defined"`},
		{"/metrics", 200, "ax_leading 1"},
		{"/readyz", 200, "ready"},
	} {
		status, body, header := request(t, h, c.path, nil)
		if status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %s", c.path, status, body)
		}
		if strings.HasPrefix(c.path, "/api/v1/tasks") && status == 200 && header.Get("Ax-Cursor") == "" {
			t.Errorf("%s does not say what it shows", c.path)
		}
	}
	status, body, _ := request(t, h, "/api/v1/instances", nil)
	var all []api.Instance
	if err := json.Unmarshal([]byte(body), &all); status != 200 || err != nil || len(all) != 1 {
		t.Fatalf("%d %s", status, body)
	}
	// Nobody serves the group: that is all that is known.
	_, why, _ := request(t, h, "/api/v1/instances/"+string(all[0].ID)+"/why", nil)
	for _, want := range []string{"queue of group default", "1 waiting there", "no worker that beats to this leader"} {
		if !strings.Contains(why, want) {
			t.Errorf("why does not say %q: %s", want, why)
		}
	}
	for _, sub := range []string{"", "/history", "/why"} {
		if status, body, _ := request(t, h, "/api/v1/instances/"+string(all[0].ID)+sub, nil); status != 200 || !strings.Contains(body, "job") {
			t.Errorf("%s: %d %s", sub, status, body)
		}
	}
}

// TestAReadWaitsForWhatIsNotThereYet: at-least of the future is unavailable, not
// an older answer.
func TestAReadWaitsForWhatIsNotThereYet(t *testing.T) {
	s, h := startAPI(t)
	if status, body, _ := request(t, h, "/api/v1/tasks?at-least=100000", nil); status != http.StatusServiceUnavailable {
		t.Errorf("%d %s, at cursor %d", status, body, s.Shard().Status().Cursor)
	}
}
