package events

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/ax-scheduler/ax/events/internal/jsonline"
)

// Event is one fact in the log. It is one flat struct for all kinds, with the
// fields that a kind needs and may have given by kindTable; a field that is
// zero is absent. Times are Unix milliseconds, UTC.
//
// A decoded event shares its strings with the frame it came from; whoever
// keeps one longer clones it.
type Event struct {
	Kind Kind

	// What it is about.
	Task     TaskName
	Trigger  TriggerName
	Instance InstanceID
	Object   ObjectKind // what Name names, for definitions
	Name     string

	// Why.
	Cause Position // the event this follows from; absent: the instance's last one
	Root  Position // the first event of the whole chain; absent: the instance's own fired
	Actor string   // who decided; absent: the frame's own
	Depth int64    // links from Root, at most MaxDepth
	Inbox uint64   // sequence of the inbox message this answers

	// What, by kind.
	Version     int64 // of a definition
	Due         int64 // nominal time
	Next        int64 // the trigger's next due time; absent: none
	From        int64 // first of a range of due times, Due the last
	Count       int64 // how many due times the range holds
	At          int64 // when something has to have happened or will happen
	Generation  int64 // of a deliberate rerun
	Attempt     int64 // from 1
	Offer       int64 // from 1, rising over all attempts of an instance
	Worker      WorkerName
	Incarnation int64  // of the worker's process: Unix microseconds at its start
	Lease       int64  // run lease of the worker, milliseconds
	Nonce       string // SHA-256 of the claim's nonce, base64url without padding
	Params      string // JSON
	Result      string // JSON
	Error       string // text
	Reason      string // a short code, see Reason*
	Permanent   bool   // a retry would not help
	Outcome     Kind   // of a late report
	Key         string // idempotency key given by a caller
	Body        string // JSON: a definition, a restated row, LedBody, CheckpointBody
}

// Bounds of an event. What is over them is refused where it comes in, with both
// numbers in the error.
const (
	MaxParams     = 256 << 10 // bytes of parameters, and of a result
	MaxDefinition = 320 << 10 // bytes of a definition
	MaxBody       = 400 << 10 // bytes of a restated row, which has one of them in it
	MaxErrorText  = 8 << 10   // bytes of an error's text
	MaxText       = 1 << 10   // bytes of any other string
	MaxDepth      = 1000      // links from the root
	// MaxNesting is how deep JSON may nest that comes in; restated nests it deeper.
	MaxNesting = 120
)

// ObjectKind names what a definition defines.
type ObjectKind string

// The kinds of object. Workflow, Calendar and Alert come with their issues.
const (
	ObjectTask    ObjectKind = "Task"
	ObjectGroup   ObjectKind = "Group"
	ObjectTrigger ObjectKind = "Trigger" // restated only
	// ObjectInstance and ObjectKey are restated only.
	ObjectInstance ObjectKind = "Instance"
	ObjectKey      ObjectKind = "Key"
	// ObjectNamespace is the whole namespace: restated counters and positions.
	ObjectNamespace ObjectKind = "Namespace"
)

// Reasons: codes that stand in events and answers. They are an interface; the
// words that people read are made from them elsewhere.
const (
	ReasonOverlap        = "overlap"        // skipped: an earlier instance is open
	ReasonMisfire        = "misfire"        // skipped: too late, by policy
	ReasonPaused         = "paused"         // skipped: due while paused
	ReasonQueue          = "queue"          // timedout: waited too long
	ReasonRun            = "run"            // timedout: ran too long
	ReasonUnclaimed      = "unclaimed"      // withdrawn: nobody claimed in time
	ReasonReplaced       = "replaced"       // withdrawn or skipped: the definition changed
	ReasonByWorker       = "by-worker"      // failed: the worker ended it by itself
	ReasonWorkerGone     = "worker-gone"    // lost: no beat for a run lease
	ReasonNewProcess     = "new-process"    // lost: a newer incarnation beats
	ReasonOmitted        = "omitted"        // lost: two beats did not list it
	ReasonAttempts       = "attempts"       // dead: no retry left
	ReasonLostTooOften   = "lost-too-often" // dead: MaxLost reached
	ReasonPermanent      = "permanent"      // dead: a retry would not help
	ReasonInternal       = "internal"       // dead: AX could not decide
	ReasonNoSuchTask     = "no-such-task"
	ReasonNotFound       = "not-found"
	ReasonNoSuchInstance = "no-such-instance"
	ReasonNotHeld        = "not-held"    // a report for an attempt that this nonce did not start
	ReasonOver           = "over"        // the attempt or instance has ended
	ReasonNotOffered     = "not-offered" // a claim of what is not on offer
	ReasonTaken          = "taken"       // a claim of what another one has
	ReasonUnusable       = "unusable"    // a message that could not be read
	ReasonTooLarge       = "too-large"
	ReasonTooDeep        = "too-deep"      // past MaxDepth links from the root
	ReasonDuplicate      = "duplicate"     // the idempotency key is known
	ReasonConflict       = "conflict"      // the state does not allow it
	ReasonDiskFull       = "disk-full"     // new work is refused to keep room
	ReasonForeign        = "foreign-frame" // incident: a message nobody's term wrote
	ReasonLogWentBack    = "log-went-back" // incident: the log lost what was folded
	ReasonPoison         = "poison"        // incident: a decision that could not be made
	ReasonClockStep      = "clock-step"    // incident: the clock jumped
)

// fieldSet is a set of fields of an event.
type fieldSet uint64

const (
	fTask fieldSet = 1 << iota
	fTrigger
	fInstance
	fObject
	fName
	fCause
	fRoot
	fActor
	fDepth
	fInbox
	fVersion
	fDue
	fNext
	fFrom
	fCount
	fAt
	fGeneration
	fAttempt
	fOffer
	fWorker
	fIncarnation
	fLease
	fNonce
	fParams
	fResult
	fError
	fReason
	fPermanent
	fOutcome
	fKey
	fBody
	fEnd
)

// fieldInfo names a field in the log and gives its type in the JSON Schema.
type fieldInfo struct{ name, typ, doc string }

// fieldTable gives each field, by the number of its bit.
var fieldTable = []fieldInfo{
	{"task", "name", "task"},
	{"trigger", "name", "trigger of the task"},
	{"instance", "text", "instance"},
	{"object", "text", "kind of the object that name names"},
	{"name", "text", "name of the object"},
	{"cause", "position", "event this follows from; absent: the last one of the instance"},
	{"root", "position", "first event of the whole chain; absent: the instance's own fired"},
	{"by", "text", "who decided; absent: the frame's own"},
	{"depth", "count", "links from root"},
	{"inbox", "count", "sequence of the inbox message this answers"},
	{"version", "count", "version of the definition"},
	{"due", "time", "nominal time; of a range, the last"},
	{"next", "time", "the trigger's next due time; absent: none"},
	{"from", "time", "first due time of a range"},
	{"count", "count", "due times in the range"},
	{"at", "time", "when something has to have happened, or will happen"},
	{"generation", "count", "generation of a deliberate rerun"},
	{"attempt", "count", "attempt, from 1"},
	{"offer", "count", "offer, from 1, rising over all attempts"},
	{"worker", "name", "worker"},
	{"incarnation", "count", "incarnation of the worker's process"},
	{"lease", "count", "run lease of the worker, milliseconds"},
	{"nonce", "text", "SHA-256 of the claim's nonce, base64url"},
	{"params", "json", "parameters"},
	{"result", "json", "result"},
	{"error", "text", "error text"},
	{"reason", "text", "short code"},
	{"permanent", "bool", "a retry would not help"},
	{"outcome", "kind", "outcome that a late report gave"},
	{"key", "text", "idempotency key given by a caller"},
	{"body", "json", "definition, restated row, leadership or checkpoint"},
}

// kindInfo says what a kind is called, what it is about and which fields it
// has. Every kind may have the fields of anyKind besides.
type kindInfo struct {
	name     string
	instance bool // it acts on an instance: it has a column in the state table
	required fieldSet
	optional fieldSet
}

const (
	anyKind     = fCause | fRoot | fActor | fDepth | fInbox
	onInstance  = fInstance
	onAttempt   = fInstance | fAttempt
	onObject    = fObject | fName
	onTrigger   = fTask | fTrigger
	outcomeText = fError | fReason
)

var kindTable = [NumKinds]kindInfo{
	KindDefined:     {"defined", false, onObject | fVersion | fBody, 0},
	KindRemoved:     {"removed", false, onObject, fReason},
	KindPaused:      {"paused", false, onObject, fTrigger | fReason},
	KindResumed:     {"resumed", false, onObject, fTrigger | fReason},
	KindRestated:    {"restated", true, onObject | fBody, fInstance},
	KindPlanned:     {"planned", false, onTrigger | fVersion, fDue | fNext | fReason},
	KindFired:       {"fired", true, fTask | fInstance | fDue | fVersion, fTrigger | fNext | fGeneration | fParams | fKey | fReason},
	KindSkipped:     {"skipped", true, fReason, fTask | fTrigger | fInstance | fDue | fFrom | fCount | fNext | fError},
	KindReady:       {"ready", true, onAttempt, 0},
	KindDispatched:  {"dispatched", true, onAttempt | fOffer | fAt, 0},
	KindWithdrawn:   {"withdrawn", true, onAttempt | fOffer | fReason, 0},
	KindStarted:     {"started", true, onAttempt | fOffer | fWorker | fNonce, fIncarnation | fLease | fAt},
	KindRetrying:    {"retrying", true, onAttempt | fAt, fReason},
	KindDead:        {"dead", true, onInstance | fReason, fError},
	KindDiscarded:   {"discarded", true, onInstance, fReason},
	KindRedriven:    {"redriven", true, onAttempt, fParams | fReason},
	KindCancelAsked: {"cancel-asked", true, onInstance, fReason},
	KindCancelled:   {"cancelled", true, onInstance, outcomeText | fAttempt},
	KindLost:        {"lost", true, onAttempt | fReason, fWorker},
	KindThrottled:   {"throttled", false, fTask, fCount | fReason},
	KindRunStarted:  {"run-started", false, fName, fVersion | fParams | fDue | fGeneration},
	KindRunFinished: {"run-finished", false, fName, outcomeText},
	KindNodeSkipped: {"node-skipped", true, onInstance | fReason, 0},
	KindApproved:    {"approved", true, onInstance, fReason},
	KindSignalled:   {"signalled", true, onInstance, fParams | fName},
	KindOverridden:  {"overridden", true, onInstance | fOutcome, fReason},
	KindSucceeded:   {"succeeded", true, onAttempt, fResult | outcomeText},
	KindFailed:      {"failed", true, onAttempt | fError, fReason | fPermanent | fAt | fResult},
	KindTimedOut:    {"timedout", true, onAttempt | fReason, fError | fResult | fWorker},
	KindLate:        {"late", true, onAttempt | fOutcome, outcomeText | fResult},
	KindRefused:     {"refused", false, fReason, fError | fTask | fTrigger | fInstance | fObject | fName | fAttempt | fOffer | fWorker | fOutcome | fKey},
	KindIgnored:     {"ignored", false, fReason, fError | fTask | fTrigger | fInstance | fAttempt},
	KindAlerted:     {"alerted", false, fReason, fError | fTask | fName},
	KindIncident:    {"incident", false, fReason, fError | fTask | fTrigger | fInstance | fFrom | fCount},
	KindLed:         {"led", false, fBody, 0},
	KindCheckpoint:  {"checkpoint", false, fBody, 0},
}

// OnInstance reports whether the kind acts on an instance, so that the state
// table has a column for it.
func (k Kind) OnInstance() bool { return k < NumKinds && kindTable[k].instance }

// fields gives the set of fields that are present.
func (e *Event) fields() (s fieldSet) {
	set := func(present bool, f fieldSet) {
		if present {
			s |= f
		}
	}
	set(e.Task != "", fTask)
	set(e.Trigger != "", fTrigger)
	set(e.Instance != "", fInstance)
	set(e.Object != "", fObject)
	set(e.Name != "", fName)
	set(e.Cause.Seq != 0, fCause)
	set(e.Root.Seq != 0, fRoot)
	set(e.Actor != "", fActor)
	set(e.Depth != 0, fDepth)
	set(e.Inbox != 0, fInbox)
	set(e.Version != 0, fVersion)
	set(e.Due != 0, fDue)
	set(e.Next != 0, fNext)
	set(e.From != 0, fFrom)
	set(e.Count != 0, fCount)
	set(e.At != 0, fAt)
	set(e.Generation != 0, fGeneration)
	set(e.Attempt != 0, fAttempt)
	set(e.Offer != 0, fOffer)
	set(e.Worker != "", fWorker)
	set(e.Incarnation != 0, fIncarnation)
	set(e.Lease != 0, fLease)
	set(e.Nonce != "", fNonce)
	set(e.Params != "", fParams)
	set(e.Result != "", fResult)
	set(e.Error != "", fError)
	set(e.Reason != "", fReason)
	set(e.Permanent, fPermanent)
	set(e.Outcome != 0, fOutcome)
	set(e.Key != "", fKey)
	set(e.Body != "", fBody)
	return s
}

// Check reports whether the event has what its kind requires and nothing else,
// within the bounds, and whether it reads back as it is (E2). It is run before
// an event is written.
func (e *Event) Check() error {
	if err := e.check(e.fields()); err != nil {
		return err
	}
	return e.checkText()
}

// checkText refuses text that would not read back: one event of that kind would
// make its whole frame unreadable, or another one than was decided. What was
// read needs no such check.
func (e *Event) checkText() error {
	for _, s := range [...]string{
		string(e.Task), string(e.Trigger), string(e.Instance), string(e.Object), e.Name, e.Actor, string(e.Worker), e.Nonce,
		e.Error, e.Reason, e.Key,
	} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("%w: %s with a text that is not UTF-8: %.40q", ErrMalformed, e.Kind, s)
		}
	}
	for _, s := range [...]string{e.Params, e.Result} {
		if s == "" {
			continue
		}
		if err := CheckJSON(s); err != nil {
			return fmt.Errorf("%s: %w", e.Kind, err)
		}
	}
	if e.Body != "" {
		if err := checkJSON(e.Body, jsonline.MaxDepth); err != nil {
			return fmt.Errorf("%s: %w", e.Kind, err)
		}
	}
	return nil
}

// CheckJSON reports whether text is JSON that an event can carry as parameters,
// result or definition: UTF-8 without lone surrogates, nested at most MaxNesting
// deep, and in one line. That is less than encoding/json takes.
func CheckJSON(text string) error { return checkJSON(text, MaxNesting) }

func checkJSON(text string, depth int) error {
	var r jsonline.Reader
	r.Reset(text)
	_ = r.RawWithin(depth)
	r.End()
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if strings.IndexByte(text, '\n') >= 0 {
		return fmt.Errorf("%w: JSON in more than one line", ErrMalformed)
	}
	return nil
}

func (e *Event) check(have fieldSet) error {
	if e.Kind <= kindNone || e.Kind >= NumKinds {
		return fmt.Errorf("%w: event without a kind", ErrMalformed)
	}
	info := &kindTable[e.Kind]
	if missing := info.required &^ have; missing != 0 {
		return fmt.Errorf("%w: %s without %s", ErrMalformed, info.name, missing)
	}
	if extra := have &^ (info.required | info.optional | anyKind); extra != 0 {
		return fmt.Errorf("%w: %s with %s", ErrMalformed, info.name, extra)
	}
	if len(e.Params) > MaxParams || len(e.Result) > MaxParams || len(e.Body) > MaxDefinition || len(e.Error) > MaxErrorText ||
		len(e.Task)|len(e.Trigger)|len(e.Instance)|len(e.Object)|len(e.Name)|len(e.Actor)|len(e.Worker)|len(e.Nonce)|len(e.Reason)|len(e.Key) > MaxText {
		if err := e.oversize(); err != nil {
			return err
		}
	}
	if e.Depth < 0 || e.Depth > MaxDepth || e.Version < 0 || e.Due < 0 || e.Next < 0 || e.From < 0 || e.Count < 0 || e.At < 0 ||
		e.Generation < 0 || e.Attempt < 0 || e.Offer < 0 || e.Incarnation < 0 || e.Lease < 0 || e.Inbox > math.MaxInt64 || e.Outcome >= NumKinds {
		return fmt.Errorf("%w: %s with a number out of range", ErrMalformed, info.name)
	}
	return nil
}

// maxBody is the bound of a kind's body.
func (k Kind) maxBody() int {
	if k == KindRestated {
		return MaxBody
	}
	return MaxDefinition
}

// oversize names the field that is over its bound. The caller's test is only a
// quick one: it lets through what needs no closer look.
func (e *Event) oversize() error {
	for _, f := range []struct {
		name string
		have int
		max  int
	}{
		{"params", len(e.Params), MaxParams}, {"result", len(e.Result), MaxParams}, {"body", len(e.Body), e.Kind.maxBody()},
		{"error", len(e.Error), MaxErrorText}, {"task", len(e.Task), MaxText}, {"trigger", len(e.Trigger), MaxText},
		{"instance", len(e.Instance), MaxText}, {"object", len(e.Object), MaxText}, {"name", len(e.Name), MaxText}, {"by", len(e.Actor), MaxText},
		{"worker", len(e.Worker), MaxText}, {"nonce", len(e.Nonce), MaxText}, {"reason", len(e.Reason), MaxText},
		{"key", len(e.Key), MaxText},
	} {
		if f.have > f.max {
			return fmt.Errorf("%w: %s: %s has %d bytes, at most %d", ErrTooLarge, e.Kind, f.name, f.have, f.max)
		}
	}
	return nil
}

// String lists the fields of a set by name.
func (s fieldSet) String() string {
	var out string
	for i, f := range fieldTable {
		if s&(1<<i) != 0 {
			if out != "" {
				out += ", "
			}
			out += f.name
		}
	}
	return out
}
