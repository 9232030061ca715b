package events

// The messages between workers, commands and a leader. Claims, reports and
// commands travel in arrays, so that a busy worker needs few requests; an
// answer comes after the commit of what it says.

// Bounds of a request.
const (
	// MaxItems bounds the items of one request.
	MaxItems = 1000
	// MaxRequest bounds the bytes of one request or answer.
	MaxRequest = 1 << 20
)

// Offer is a message of the work stream: an attempt that may be claimed.
type Offer struct {
	Shard    Shard
	Instance InstanceID
	Attempt  int64
	Offer    int64
	Task     TaskName
	Executor string // kind of executor it needs
}

// Claim asks for one offered attempt.
type Claim struct {
	Instance InstanceID
	Attempt  int64
	Offer    int64
	// Nonce is the claimant's secret: random, of 16 to 64 bytes of text. The log
	// keeps its SHA-256. Who repeats it gets the same answer.
	Nonce string
}

// Claims is a request for attempts.
type Claims struct {
	Worker      WorkerName
	Incarnation int64
	Beat        int64 // number of the last beat that was sent
	RunLease    int64 // milliseconds: how long its runs outlive the last answered beat
	Claims      []Claim
}

// Go is the leader's answer to one claim.
type Go struct {
	Instance InstanceID
	Attempt  int64
	Offer    int64
	Reason   string // empty: go; else no, and why
	Run      *Run   // what to run, on go
}

// Run is all that a worker needs to run an attempt.
type Run struct {
	Task     TaskName
	Trigger  TriggerName
	Due      int64  // nominal time, Unix milliseconds
	Key      string // idempotency key: the same through retries
	Token    uint64 // fencing token: rises over all attempts of a shard, see FencingToken
	Timeout  int64  // milliseconds
	Version  int64  // of the definition
	Params   string // JSON
	Executor string // kind of executor
	Config   string // JSON: the executor's own
}

// ClaimAnswers answers Claims, in their order.
type ClaimAnswers struct {
	Term    Term
	Answers []Go
}

// Outcome names of reports.
const (
	OutcomeSucceeded = "succeeded"
	OutcomeFailed    = "failed"
	OutcomeTimedOut  = "timedout"
	OutcomeCancelled = "cancelled"
)

// Report says how an attempt ended.
type Report struct {
	Instance   InstanceID
	Attempt    int64
	Offer      int64
	Nonce      string // the claim's, in clear: it proves who reports
	Outcome    string
	Result     string // JSON
	Error      string
	Permanent  bool
	RetryAfter int64 // milliseconds; 0: the definition's backoff decides
}

// Reports is a request that reports ends of attempts. It is repeated until it
// is answered.
type Reports struct {
	Worker      WorkerName
	Incarnation int64
	Reports     []Report
}

// Recorded is the leader's answer to one report: Outcome says what was
// recorded (late, if the attempt was over), or Reason why nothing was.
type Recorded struct {
	Instance InstanceID
	Attempt  int64
	Outcome  string
	Reason   string
}

// ReportAnswers answers Reports, in their order.
type ReportAnswers struct {
	Term    Term
	Answers []Recorded
}

// BeatAttempt is an attempt that a worker has in hand: from before its first
// claim until its outcome is answered.
type BeatAttempt struct {
	Instance InstanceID `json:"instance"`
	Attempt  int64      `json:"attempt"`
	Offer    int64      `json:"offer"`
	Nonce    string     `json:"nonce"` // SHA-256 of the claim's nonce, base64url
}

// Beat is a worker's sign of life.
type Beat struct {
	Worker      WorkerName      `json:"worker"`
	Incarnation int64           `json:"incarnation"`
	Number      int64           `json:"number"`   // from 1, rising
	RunLease    int64           `json:"runLease"` // milliseconds: how long its runs outlive the last answered beat
	Slots       map[Group]int64 `json:"slots"`
	Executors   []string        `json:"executors,omitempty"`
	Attempts    []BeatAttempt   `json:"attempts,omitempty"`
}

// BeatAnswer answers a beat.
type BeatAnswer struct {
	Term   Term      `json:"term"`
	Number int64     `json:"number"`
	Stop   []StopRun `json:"stop,omitempty"`
	// Error refuses the beat: a newer process has the worker's name, or the beat
	// came late.
	Error string `json:"error,omitempty"`
}

// FencingToken makes one number of a position: what a handler hands to the
// systems it changes, so that they can refuse an older attempt.
func FencingToken(p Position) uint64 { return p.Seq<<11 | uint64(p.Index) } // MaxFrameEvents < 1<<11

// StopRun tells a worker to stop an attempt it listed.
type StopRun struct {
	Instance InstanceID `json:"instance"`
	Attempt  int64      `json:"attempt"`
	Offer    int64      `json:"offer"`
	// Reason is "cancel": end it and report cancelled; or "over": end it, nobody
	// waits for it.
	Reason string `json:"reason"`
}

// Reasons of StopRun.
const (
	StopCancel = "cancel"
	StopOver   = "over"
)

// Verbs of commands.
const (
	VerbDefine  = "define"
	VerbRemove  = "remove"
	VerbPause   = "pause"
	VerbResume  = "resume"
	VerbTrigger = "trigger"
	VerbCancel  = "cancel"
	VerbRedrive = "redrive" // a dead letter, with its own or other parameters
	VerbDiscard = "discard" // a dead letter
	// VerbReport is for the inbox: a worker's report that got no answer.
	VerbReport = "report"
)

// Command asks for a change.
type Command struct {
	Verb       string
	Object     ObjectKind // remove, pause, resume
	Name       string     // task or group; of cancel the instance
	Trigger    TriggerName
	Params     string // JSON: trigger
	Key        string // idempotency key: trigger
	Reason     string
	Definition string // JSON: define
}

// Commands is a request for changes, made in order, each on its own.
type Commands struct {
	Actor    string
	Commands []Command
}

// Done is the leader's answer to one command.
type Done struct {
	Position  Position   // of the event that the command led to
	Instance  InstanceID // trigger: the instance; also of an earlier one with the same key
	Unchanged bool       // nothing had to change
	Reason    string     // code of the refusal; empty: done
	Error     string     // the refusal in words
}

// CommandAnswers answers Commands, in their order.
type CommandAnswers struct {
	Term    Term
	Answers []Done
	// Error refuses the request as a whole.
	Error string
}
