package api

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/leader"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/workers"
)

// Config is what the HTTP side is made of.
type Config struct {
	// Token is what requests carry as "Authorization: Bearer <token>".
	Token string
	// Hosts are the names, without port, that requests may be for, besides those
	// of loopback.
	Hosts    []string
	Shard    *leader.Shard
	Views    *projector.Views
	Liveness *workers.Liveness
	// Log gives a log to read from.
	Log func(ctx context.Context) (events.Log, error)
	// RefusesWork gives the reason why no new work is taken, or "".
	RefusesWork func() string
	// Wait is how long a read waits for views that show what at-least asks for.
	// Default 10 s.
	Wait time.Duration
	// Version is that of the binary, Zones of the time zone data.
	Version, Zones string
	Logger         *slog.Logger
}

// Server answers HTTP requests.
type Server struct {
	cfg  Config
	http *http.Server
}

// Bounds of a request and of an answer.
const (
	DefaultLimit  = 100
	MaxLimit      = 10_000
	requestTime   = 30 * time.Second
	maxHeaderSize = 16 << 10
)

// New makes a server. Serve runs it.
func New(cfg Config) *Server {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Wait == 0 {
		cfg.Wait = 10 * time.Second
	}
	s := &Server{cfg: cfg}
	s.http = &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: requestTime, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: maxHeaderSize, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Serve answers on a listener until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("http: %w", err)
	}
	return nil
}

// Shutdown answers what is under way and ends.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Handler gives all routes behind the checks.
func (s *Server) Handler() http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newCollector(&s.cfg))
	mux := http.NewServeMux()
	get := func(path string, h http.Handler) {
		mux.Handle("GET "+path, h)
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", "GET, HEAD")
			problem(w, http.StatusMethodNotAllowed, "method", fmt.Sprintf("%s cannot be asked of %s, only GET; changes are commands: see ax help", r.Method, r.URL.Path))
		})
	}
	get("/healthz", http.HandlerFunc(s.healthz))
	get("/readyz", http.HandlerFunc(s.readyz))
	get("/metrics", s.withToken(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP))
	// Each with the parameters that it knows.
	for _, r := range []struct {
		path   string
		handle http.HandlerFunc
		query  []string
	}{
		{"version", s.version, nil},
		{"leaders", s.leaders, nil},
		{"tasks", s.tasks, []string{"after", "at-least", "limit"}},
		{"tasks/{name}", s.task, []string{"at-least"}},
		{"instances", s.instances, []string{"at-least", "limit", "since", "state", "task"}},
		{"instances/{id}", s.instance, []string{"at-least"}},
		{"instances/{id}/history", s.history, []string{"at-least"}},
		{"instances/{id}/why", s.why, []string{"at-least"}},
		{"events", s.events, []string{"instance", "kind", "limit", "since", "task"}},
		{"groups", s.groups, []string{"at-least"}},
		{"workers", s.workers, nil},
		{"due", s.due, []string{"at-least", "limit"}},
		{"views", s.dump, []string{"at-least"}},
	} {
		get("/api/v1/"+r.path, s.withToken(withQuery(r.query, r.handle)))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		problem(w, http.StatusNotFound, "not-found", fmt.Sprintf("no %s %s here; the API begins at /api/v1", r.Method, r.URL.Path))
	})
	return s.guarded(mux)
}

// guarded holds A1.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.knownHost(r.Host) {
			problem(w, http.StatusMisdirectedRequest, "host", fmt.Sprintf("this server does not answer for host %q; ask for localhost, or start it with that name", r.Host))
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || u.Host != r.Host {
				problem(w, http.StatusForbidden, "origin", fmt.Sprintf("requests of pages from %q are refused", origin))
				return
			}
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) knownHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(strings.ToLower(host), "[]")
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return host == "localhost" || slices.Contains(s.cfg.Hosts, host)
}

// withToken holds A2.
func (s *Server) withToken(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.cfg.Token)) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="ax"`)
			problem(w, http.StatusUnauthorized, "token", "send the server's token as 'Authorization: Bearer <token>'; it is in the file token of its data folder")
			return
		}
		next(w, r)
	})
}

// withQuery refuses parameters that nobody reads: a misspelt filter would give a
// longer list than was asked for.
func withQuery(known []string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			problem(w, http.StatusBadRequest, "usage", fmt.Sprintf("the query cannot be read: %v", err))
			return
		}
		for _, name := range slices.Sorted(maps.Keys(q)) {
			if slices.Contains(known, name) {
				continue
			}
			want := "this path takes none"
			if len(known) > 0 {
				want = "this path takes " + strings.Join(known, ", ")
			}
			problem(w, http.StatusBadRequest, "usage", fmt.Sprintf("parameter %.60q is unknown; %s", name, want))
			return
		}
		next(w, r)
	}
}

// Problem is the body of every answer that is no success.
type Problem struct {
	Code  string `json:"code"`
	Error string `json:"error"`
}

func problem(w http.ResponseWriter, status int, code, text string) {
	answer(w, status, Problem{code, text})
}

func answer(w http.ResponseWriter, status int, v any) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	e.SetEscapeHTML(false) // it is no page: "<" is for people to read
	if err := e.Encode(v); err != nil {
		status = http.StatusInternalServerError
		body.Reset()
		body.WriteString(`{"code":"internal","error":"the answer could not be encoded"}` + "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client may be gone
}

// fail answers with the status that an error calls for.
func (s *Server) fail(w http.ResponseWriter, err error, what string) {
	switch {
	case errors.Is(err, events.ErrNotFound):
		problem(w, http.StatusNotFound, "not-found", what+" does not exist")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, errStale):
		problem(w, http.StatusServiceUnavailable, "unavailable", err.Error())
	default:
		s.cfg.Logger.Warn("a request failed", "what", what, "error", err)
		problem(w, http.StatusInternalServerError, "internal", err.Error())
	}
}

var errStale = errors.New("the views do not show that yet")

// fresh holds A3: it returns views that show what is asked for.
func (s *Server) fresh(w http.ResponseWriter, r *http.Request) (*projector.Snapshot, bool) {
	atLeast := uint64(0)
	if text := r.URL.Query().Get("at-least"); text != "" {
		pos, err := events.ParsePosition(text)
		if err != nil {
			problem(w, http.StatusBadRequest, "usage", "at-least: "+err.Error())
			return nil, false
		}
		atLeast = pos.Seq
	}
	wait := time.Second
	if atLeast > 0 {
		wait = s.cfg.Wait
	}
	ctx, cancel := context.WithTimeout(r.Context(), wait)
	defer cancel()
	if err := s.cfg.Shard.Sync(ctx, atLeast); err != nil {
		if atLeast > 0 {
			s.fail(w, fmt.Errorf("%w: %w", errStale, err), "")
			return nil, false
		}
		w.Header().Set("Ax-Stale", oneLine(err.Error()))
	}
	snap := s.cfg.Views.Snapshot()
	if m, err := snap.Meta(); err == nil {
		w.Header().Set("Ax-Cursor", strconv.FormatUint(m.Cursor, 10))
	}
	return snap, true
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// limit reads the bound of a list.
func limit(w http.ResponseWriter, r *http.Request) (int, bool) {
	text := r.URL.Query().Get("limit")
	if text == "" {
		return DefaultLimit, true
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > MaxLimit {
		problem(w, http.StatusBadRequest, "usage", fmt.Sprintf("limit %q: want 1 to %d", text, MaxLimit))
		return 0, false
	}
	return n, true
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

// readyz says whether the server leads or follows closely, and what is wrong.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	st := s.cfg.Shard.Status()
	body := map[string]string{"status": "ready"}
	status := http.StatusOK
	switch {
	case !st.Ready:
		status = http.StatusServiceUnavailable
		body["status"] = "not ready"
		body["reason"] = st.Trouble
		if st.Trouble == "" {
			body["reason"] = "the log is being folded"
		}
		if s.cfg.RefusesWork != nil && s.cfg.RefusesWork() != "" {
			body["reason"] += "; " + s.cfg.RefusesWork()
		}
	case s.cfg.RefusesWork != nil && s.cfg.RefusesWork() != "":
		body["status"] = "ready, but refuses new work"
		body["reason"] = s.cfg.RefusesWork()
	}
	answer(w, status, body)
}
