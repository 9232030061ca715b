package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// APIVersion stands in every definition.
const APIVersion = "ax/v1"

// Definition is what somebody wants AX to know: a task or a group. In the log
// it stands complete, with every default filled in, so that what it means can
// not change with a version of AX.
type Definition struct {
	APIVersion string     `json:"apiVersion"`
	Kind       ObjectKind `json:"kind"`
	Metadata   Metadata   `json:"metadata"`
	Task       *TaskSpec  `json:"-"` // the spec, for kind Task
	Group      *GroupSpec `json:"-"` // the spec, for kind Group
}

// Metadata names a definition.
type Metadata struct {
	Name   string            `json:"name"`
	Title  string            `json:"title,omitempty"`  // free text in any script
	Labels map[string]string `json:"labels,omitempty"` // free pairs for selection
}

// TaskSpec says what a task does and when.
type TaskSpec struct {
	Triggers []TriggerSpec   `json:"triggers,omitempty"`
	Executor ExecutorSpec    `json:"executor"`
	Group    Group           `json:"group"`
	Params   json.RawMessage `json:"params,omitempty"`
	// Timeout bounds one attempt's run. Default 60s.
	Timeout Duration `json:"timeout"`
	// Retry says what follows a failed or timed out attempt.
	Retry RetrySpec `json:"retry"`
	// MaxLost is how many attempts may be lost with their worker; the next loss
	// makes the instance a dead letter. Default 3.
	MaxLost int64 `json:"maxLost"`
	// Overlap says what a due time does while an earlier instance is open.
	Overlap OverlapSpec `json:"overlap"`
	// Priority orders a group's queue: 0 to 9, higher first. Default 5.
	Priority *int64 `json:"priority"`
	// Limit bounds the task's attempts offered or running at once; 0: none.
	Limit int64 `json:"limit,omitempty"`
}

// TriggerSpec says why a task becomes due. Exactly one of Cron, Interval and
// Once is given.
type TriggerSpec struct {
	Name     TriggerName   `json:"name"`
	Cron     string        `json:"cron,omitempty"`
	TimeZone string        `json:"timeZone,omitempty"` // IANA name, for cron; default UTC
	Dialect  string        `json:"dialect,omitempty"`  // auto, quartz or unix, for cron
	Interval *IntervalSpec `json:"interval,omitempty"`
	Once     *OnceSpec     `json:"once,omitempty"`
	Misfire  MisfireSpec   `json:"misfire"`
	// CatchUp says what a resume does about due times in the pause: none
	// (default), or policy: the misfire policy.
	CatchUp string `json:"catchUp"`
}

// Reboot is the cron text of a trigger that fires once per boot of the machine.
const Reboot = "@reboot"

// IntervalSpec is a fixed rate: due at every multiple of Every since the Unix
// epoch, plus Offset.
type IntervalSpec struct {
	Every  Duration `json:"every"`
	Offset Duration `json:"offset,omitempty"`
}

// OnceSpec is a single due time.
type OnceSpec struct {
	At    *time.Time `json:"at,omitempty"`
	Delay Duration   `json:"delay,omitempty"` // counted from the moment the trigger was defined
}

// Misfire policies.
const (
	MisfireOnce = "fire-once" // the last of the missed due times fires
	MisfireAll  = "fire-all"  // the newest Limit of them fire
	MisfireSkip = "skip"      // none fires
)

// CatchUp values.
const (
	CatchUpNone   = "none"
	CatchUpPolicy = "policy"
)

// MisfireSpec says what happens to due times that were missed by more than
// Threshold.
type MisfireSpec struct {
	Policy    string   `json:"policy"`
	Limit     int64    `json:"limit"`
	Threshold Duration `json:"threshold"`
}

// Overlap policies.
const (
	OverlapForbid = "forbid" // the due time is skipped
	OverlapAllow  = "allow"  // it fires, while at most Max are open
)

// OverlapSpec says what a due time does while an earlier instance is open.
type OverlapSpec struct {
	Policy string `json:"policy"`
	Max    int64  `json:"max,omitempty"` // for allow; 0: no bound
}

// Backoff names.
const (
	BackoffExponential = "exponential"
	BackoffFixed       = "fixed"
	BackoffList        = "list"
)

// RetrySpec says how often and when an attempt is followed by another.
type RetrySpec struct {
	// Max counts retries, so an instance has at most Max+1 attempts that failed
	// or timed out. Default 3.
	Max *int64 `json:"max"`
	// Backoff is exponential (min(Base·2^(n-1), Cap)), fixed (Base), or list.
	Backoff string     `json:"backoff"`
	Base    Duration   `json:"base,omitempty"`
	Cap     Duration   `json:"cap,omitempty"`
	List    []Duration `json:"list,omitempty"` // the last one repeats
	// Jitter shortens or lengthens each wait by up to this many per cent.
	Jitter int64 `json:"jitter,omitempty"`
}

// GroupSpec bounds a group.
type GroupSpec struct {
	// Limit bounds the group's attempts offered or running at once; 0: none.
	Limit int64 `json:"limit"`
}

// ExecutorSpec names an executor and holds its own configuration: an object
// with exactly one field.
type ExecutorSpec struct {
	Kind   string          // func, shell, external
	Config json.RawMessage // an object
}

// MarshalJSON writes {"<kind>": config}.
func (x ExecutorSpec) MarshalJSON() ([]byte, error) {
	return encodeJSON(map[string]json.RawMessage{x.Kind: x.Config})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (x *ExecutorSpec) UnmarshalJSON(b []byte) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil || len(m) != 1 {
		return errors.New("executor: want an object with exactly one field, such as {shell: {command: ...}}")
	}
	for k, v := range m {
		var compact bytes.Buffer
		if err := json.Compact(&compact, v); err != nil {
			return fmt.Errorf("executor %s: %w", k, err)
		}
		x.Kind, x.Config = k, compact.Bytes()
	}
	return nil
}

// MarshalJSON writes the definition with its spec.
func (d Definition) MarshalJSON() ([]byte, error) {
	type head Definition
	var spec any = d.Task
	if d.Kind == ObjectGroup {
		spec = d.Group
	}
	return encodeJSON(struct {
		head
		Spec any `json:"spec"`
	}{head(d), spec})
}

// Encode writes the definition as it stands in a log: JSON in one line, without
// the escapes that HTML would need.
func (d *Definition) Encode() (string, error) {
	b, err := encodeJSON(d)
	if err != nil {
		return "", fmt.Errorf("definition %s: %w", d.Metadata.Name, err)
	}
	return string(b), nil
}

// encodeJSON is json.Marshal without the escapes that HTML would need.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeDefinition reads what Encode wrote.
func DecodeDefinition(body string) (*Definition, error) {
	d := new(Definition)
	if err := json.Unmarshal([]byte(body), d); err != nil {
		return nil, err
	}
	return d, nil
}

// UnmarshalJSON reads a definition; unknown fields are errors.
func (d *Definition) UnmarshalJSON(b []byte) error {
	type head Definition
	var raw struct {
		head
		Spec json.RawMessage `json:"spec"`
	}
	if err := strict(b, &raw); err != nil {
		return err
	}
	*d = Definition(raw.head)
	if len(raw.Spec) == 0 {
		raw.Spec = json.RawMessage("{}")
	}
	switch d.Kind {
	case ObjectTask:
		d.Task = new(TaskSpec)
		return strict(raw.Spec, d.Task)
	case ObjectGroup:
		d.Group = new(GroupSpec)
		return strict(raw.Spec, d.Group)
	}
	return fmt.Errorf("kind %.40q: want Task or Group", d.Kind)
}

func strict(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	return dec.Decode(v)
}

// FieldError says what is wrong with one field of a definition.
type FieldError struct {
	Field  string // path, such as spec.triggers[0].cron
	Reason string // what is wrong and what to write instead
}

// Error implements error.
func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

// Bounds of a definition.
const (
	MaxTriggers = 100
	MaxLabels   = 64
	MinInterval = Duration(100 * time.Millisecond)
	MaxTitle    = 256 // bytes
	MaxRetries  = 1000
	MaxLimit    = 1_000_000
)

// Defaults of a definition.
const (
	DefaultGroup            = Group("default")
	DefaultTimeout          = Duration(60 * time.Second)
	DefaultPriority         = int64(5)
	DefaultMaxLost          = int64(3)
	DefaultRetries          = int64(3)
	DefaultBackoffBase      = Duration(time.Second)
	DefaultBackoffCap       = Duration(60 * time.Second)
	DefaultMisfireLimit     = int64(100)
	DefaultMisfireThreshold = Duration(60 * time.Second)
)

// Complete fills in every default and checks the definition. It returns all
// complaints at once; with none the definition is ready to be written.
// What a calendar has to say about a trigger is checked elsewhere.
func (d *Definition) Complete() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, &FieldError{field, fmt.Sprintf(format, args...)})
	}
	if d.APIVersion != APIVersion {
		bad("apiVersion", "is %q, want %q", d.APIVersion, APIVersion)
	}
	checkName := CheckName
	if d.Kind == ObjectTask {
		checkName = CheckTaskName
	}
	if err := checkName(d.Metadata.Name); err != nil {
		bad("metadata.name", "%v", err)
	}
	if len(d.Metadata.Title) > MaxTitle {
		bad("metadata.title", "has %d bytes, at most %d", len(d.Metadata.Title), MaxTitle)
	}
	if len(d.Metadata.Labels) > MaxLabels {
		bad("metadata.labels", "has %d entries, at most %d", len(d.Metadata.Labels), MaxLabels)
	}
	for _, k := range slices.Sorted(maps.Keys(d.Metadata.Labels)) {
		if k == "" || len(k) > MaxNameLen || len(d.Metadata.Labels[k]) > MaxTitle {
			bad("metadata.labels", "entry %.40q: keys have 1 to %d bytes, values at most %d", k, MaxNameLen, MaxTitle)
		}
	}
	switch {
	case d.Kind == ObjectTask && d.Task != nil:
		d.Task.complete(bad)
	case d.Kind == ObjectGroup && d.Group != nil:
		if d.Group.Limit < 0 || d.Group.Limit > MaxLimit {
			bad("spec.limit", "is %d, want 0 (none) to %d", d.Group.Limit, MaxLimit)
		}
	default:
		bad("kind", "is %q, want Task or Group", d.Kind)
	}
	return errors.Join(errs...)
}

// whole complains about a duration that AX would round.
func whole(field string, d Duration, bad func(field, format string, args ...any)) {
	if time.Duration(d)%time.Millisecond != 0 {
		bad(field, "is %s, want whole milliseconds", d)
	}
}

func (s *TaskSpec) complete(bad func(field, format string, args ...any)) {
	if s.Group == "" {
		s.Group = DefaultGroup
	}
	if err := CheckName(string(s.Group)); err != nil {
		bad("spec.group", "%v", err)
	}
	if s.Executor.Kind == "" {
		bad("spec.executor", "is missing; say what runs, such as {shell: {command: ...}}")
	} else if !json.Valid(s.Executor.Config) || s.Executor.Config[0] != '{' {
		bad("spec.executor."+s.Executor.Kind, "want an object")
	}
	if len(s.Params) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, s.Params); err != nil {
			bad("spec.params", "is no JSON: %v", err)
		} else {
			s.Params = compact.Bytes()
		}
		if len(s.Params) > MaxParams {
			bad("spec.params", "has %d bytes, at most %d", len(s.Params), MaxParams)
		}
	}
	if s.Timeout == 0 {
		s.Timeout = DefaultTimeout
	}
	whole("spec.timeout", s.Timeout, bad)
	if s.Priority == nil {
		p := DefaultPriority
		s.Priority = &p
	}
	if *s.Priority < 0 || *s.Priority > 9 {
		bad("spec.priority", "is %d, want 0 to 9", *s.Priority)
	}
	if s.Limit < 0 || s.Limit > MaxLimit {
		bad("spec.limit", "is %d, want 0 (none) to %d", s.Limit, MaxLimit)
	}
	if s.MaxLost == 0 {
		s.MaxLost = DefaultMaxLost
	}
	if s.MaxLost < 0 || s.MaxLost > MaxRetries {
		bad("spec.maxLost", "is %d, want 1 to %d", s.MaxLost, MaxRetries)
	}
	s.Retry.complete(bad)
	switch s.Overlap.Policy {
	case "":
		s.Overlap.Policy = OverlapForbid
	case OverlapForbid, OverlapAllow:
	default:
		bad("spec.overlap.policy", "is %q, want forbid or allow", s.Overlap.Policy)
	}
	if s.Overlap.Policy == OverlapForbid && s.Overlap.Max != 0 {
		bad("spec.overlap.max", "is for policy allow only")
	}
	if s.Overlap.Max < 0 || s.Overlap.Max > MaxLimit {
		bad("spec.overlap.max", "is %d, want 0 (no bound) to %d", s.Overlap.Max, MaxLimit)
	}
	if len(s.Triggers) > MaxTriggers {
		bad("spec.triggers", "has %d entries, at most %d", len(s.Triggers), MaxTriggers)
		return
	}
	seen := map[TriggerName]bool{}
	for i := range s.Triggers {
		t := &s.Triggers[i]
		field := fmt.Sprintf("spec.triggers[%d]", i)
		t.complete(field, bad)
		if seen[t.Name] {
			bad(field+".name", "%q is the name of another trigger of this task; give each its own", t.Name)
		}
		seen[t.Name] = true
	}
}

func (r *RetrySpec) complete(bad func(field, format string, args ...any)) {
	if r.Max == nil {
		n := DefaultRetries
		r.Max = &n
	}
	if r.Backoff == "" {
		r.Backoff = BackoffExponential
		if len(r.List) > 0 {
			r.Backoff = BackoffList
		}
	}
	switch r.Backoff {
	case BackoffExponential:
		if r.Base == 0 {
			r.Base = DefaultBackoffBase
		}
		if r.Cap == 0 {
			r.Cap = max(DefaultBackoffCap, r.Base)
		}
		if r.Cap < r.Base {
			bad("spec.retry.cap", "%s is less than base %s", r.Cap, r.Base)
		}
	case BackoffFixed:
		if r.Base == 0 {
			r.Base = DefaultBackoffBase
		}
		if r.Cap != 0 {
			bad("spec.retry.cap", "is for backoff exponential only")
		}
	case BackoffList:
		if r.Base != 0 || r.Cap != 0 {
			bad("spec.retry", "base and cap are for backoff exponential or fixed, not for list")
		}
		if len(r.List) == 0 || len(r.List) > MaxTriggers {
			bad("spec.retry.list", "want 1 to %d durations", MaxTriggers)
		}
	default:
		bad("spec.retry.backoff", "is %q, want exponential, fixed or list", r.Backoff)
	}
	if r.Backoff != BackoffList && len(r.List) > 0 {
		bad("spec.retry.list", "is for backoff list only")
	}
	whole("spec.retry.base", r.Base, bad)
	whole("spec.retry.cap", r.Cap, bad)
	for i, d := range r.List {
		whole(fmt.Sprintf("spec.retry.list[%d]", i), d, bad)
	}
	if *r.Max < 0 || *r.Max > MaxRetries {
		bad("spec.retry.max", "is %d, want 0 to %d", *r.Max, MaxRetries)
	}
	if r.Jitter < 0 || r.Jitter > 100 {
		bad("spec.retry.jitter", "is %d, want 0 to 100 (per cent)", r.Jitter)
	}
}

func (t *TriggerSpec) complete(field string, bad func(field, format string, args ...any)) {
	if t.Name == "" {
		t.Name = "main"
	}
	if err := CheckName(string(t.Name)); err != nil {
		bad(field+".name", "%v", err)
	} else if t.Name == ManualTrigger {
		bad(field+".name", "%q is kept for triggers by hand; take another name", t.Name)
	}
	t.Cron = strings.TrimSpace(t.Cron)
	kinds := 0
	for _, given := range []bool{t.Cron != "", t.Interval != nil, t.Once != nil} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		bad(field, "has %d of cron, interval and once, want exactly one", kinds)
	}
	if t.Cron != "" {
		switch own := strings.HasPrefix(t.Cron, "TZ=") || strings.HasPrefix(t.Cron, "CRON_TZ="); {
		case own && t.TimeZone != "":
			bad(field+".timeZone", "cron names a zone itself; write it in one place")
		case !own && t.TimeZone == "":
			t.TimeZone = "UTC"
		}
	} else if t.TimeZone != "" || t.Dialect != "" {
		bad(field, "timeZone and dialect are for cron only")
	}
	if v := t.Interval; v != nil {
		if v.Every < MinInterval {
			bad(field+".interval.every", "is %s, want at least %s", v.Every, MinInterval)
		}
		whole(field+".interval.every", v.Every, bad)
		whole(field+".interval.offset", v.Offset, bad)
		if v.Offset >= v.Every && v.Every > 0 {
			bad(field+".interval.offset", "is %s, want less than every (%s)", v.Offset, v.Every)
		}
	}
	if v := t.Once; v != nil {
		if (v.At == nil) == (v.Delay == 0) {
			bad(field+".once", "want either at or delay")
		}
		whole(field+".once.delay", v.Delay, bad)
		if v.At != nil {
			utc := v.At.UTC().Truncate(time.Millisecond)
			v.At = &utc
			if utc.Year() < 1970 || utc.Year() > 2262 {
				bad(field+".once.at", "is %s, want a time from 1970 to 2262", utc.Format(time.RFC3339))
			}
		}
	}
	if t.Misfire.Policy == "" {
		t.Misfire.Policy = MisfireOnce
	}
	switch t.Misfire.Policy {
	case MisfireOnce, MisfireAll, MisfireSkip:
	default:
		bad(field+".misfire.policy", "is %q, want fire-once, fire-all or skip", t.Misfire.Policy)
	}
	if t.Misfire.Limit == 0 {
		t.Misfire.Limit = DefaultMisfireLimit
	}
	if t.Misfire.Limit < 1 || t.Misfire.Limit > 10_000 {
		bad(field+".misfire.limit", "is %d, want 1 to 10000", t.Misfire.Limit)
	}
	if t.Misfire.Threshold == 0 {
		t.Misfire.Threshold = DefaultMisfireThreshold
	}
	whole(field+".misfire.threshold", t.Misfire.Threshold, bad)
	switch t.CatchUp {
	case "":
		t.CatchUp = CatchUpNone
	case CatchUpNone, CatchUpPolicy:
	default:
		bad(field+".catchUp", "is %q, want none or policy", t.CatchUp)
	}
}

// ManualTrigger is the trigger name of instances that somebody asked for.
const ManualTrigger = TriggerName("manual")
