package workers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// Attempt is what an executor runs.
type Attempt struct {
	Instance events.InstanceID
	Number   int64 // of the attempt, from 1
	Task     events.TaskName
	Trigger  events.TriggerName
	Due      time.Time       // nominal time
	Key      string          // idempotency key: the same through retries
	Token    uint64          // fencing token: rises over all attempts of a shard
	Timeout  time.Duration   // the context ends after it
	Params   json.RawMessage // nil: none
}

// Executor runs attempts of one definition. Run returns when the work has really
// ended: after the context's end it has Grace to end it gently, and then, when
// the channel that Killed gives is closed, to end it at all.
//
// The result is JSON, at most events.MaxParams bytes, or nil. An error is a
// failure that is retried, unless Permanent or RetryAfter says otherwise.
type Executor interface {
	Run(ctx context.Context, a *Attempt) (json.RawMessage, error)
}

// Factory makes an executor of a definition's configuration. A factory is called
// for each version of a definition that a worker meets, not for each attempt.
type Factory func(config json.RawMessage) (Executor, error)

// Registry holds the executors of a worker by their kind.
type Registry map[string]Factory

// Kinds lists the kinds, sorted.
func (r Registry) Kinds() []string {
	kinds := make([]string, 0, len(r))
	for k := range r {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

// Causes of the end of an attempt's context, see context.Cause.
var (
	// ErrTimeout: the attempt's time limit is over.
	ErrTimeout = errors.New("time limit is over")
	// ErrCancelled: somebody asked for the attempt to end.
	ErrCancelled = errors.New("cancelled")
	// ErrSuperseded: nobody waits for the attempt any more.
	ErrSuperseded = errors.New("superseded: the attempt is over for the leader")
	// ErrLeaseOver: no leader has answered a beat for a run lease.
	ErrLeaseOver = errors.New("run lease is over: no leader has answered")
	// ErrShutdown: the worker goes away. What ends for it has not failed: it runs
	// again elsewhere, and counts as lost.
	ErrShutdown = errors.New("the worker is shutting down")
)

type permanentError struct{ err error }

func (p permanentError) Error() string { return p.err.Error() }
func (p permanentError) Unwrap() error { return p.err }

// Permanent marks an error that a retry would not help: the instance becomes a
// dead letter at once.
func Permanent(err error) error { return permanentError{err} }

type retryAfterError struct {
	err   error
	after time.Duration
}

func (r retryAfterError) Error() string { return r.err.Error() }
func (r retryAfterError) Unwrap() error { return r.err }

// RetryAfter marks an error after which the next attempt comes no earlier than
// after d, at most an hour.
func RetryAfter(err error, d time.Duration) error { return retryAfterError{err, d} }

type killKey struct{}

// killSwitch tells an executor to end its work without mercy.
type killSwitch struct {
	once sync.Once
	c    chan struct{}
}

func (k *killSwitch) kill() { k.once.Do(func() { close(k.c) }) }

// Killed gives a channel that is closed when an attempt's work has to be ended
// without mercy: Grace after its context, or earlier where the run lease leaves
// less. For a context that is no attempt's it is the context's own.
func Killed(ctx context.Context) <-chan struct{} {
	if k, ok := ctx.Value(killKey{}).(*killSwitch); ok {
		return k.c
	}
	return ctx.Done()
}

// outcomeOf makes the report of what Run returned.
func outcomeOf(ctx context.Context, result json.RawMessage, err error) (r events.Report) {
	r.Result = string(result)
	cause := context.Cause(ctx)
	switch {
	case err == nil && (cause == nil || !errors.Is(cause, ErrTimeout)):
		r.Outcome = events.OutcomeSucceeded
	case errors.Is(cause, ErrTimeout):
		r.Outcome = events.OutcomeTimedOut
	case cause != nil:
		r.Outcome = events.OutcomeCancelled
	default:
		r.Outcome = events.OutcomeFailed
		var p permanentError
		r.Permanent = errors.As(err, &p)
		var after retryAfterError
		if errors.As(err, &after) {
			r.RetryAfter = max(after.after.Milliseconds(), 1)
		}
	}
	if err != nil {
		r.Error = err.Error()
		if cause != nil && !errors.Is(err, cause) {
			r.Error = fmt.Sprintf("%v: %v", cause, err)
		}
	}
	r.Result, r.Error = keptResult(r.Result, r.Error)
	return r
}

// keptResult gives a result and an error's text as they can be recorded. What of
// a result cannot is dropped, and said in the text: it changes no outcome.
func keptResult(result, text string) (string, string) {
	why := ""
	if len(result) > events.MaxParams {
		why = fmt.Sprintf("at most %d are kept", events.MaxParams)
	} else if result != "" {
		if strings.ContainsAny(result, "\r\n") {
			var b bytes.Buffer
			if json.Compact(&b, []byte(result)) == nil {
				result = b.String()
			}
		}
		if err := events.CheckJSON(result); err != nil {
			why = err.Error()
		}
	}
	if why != "" {
		dropped := fmt.Sprintf("result of %d bytes was dropped: %s", len(result), why)
		if text != "" {
			dropped += "; " + text
		}
		result, text = "", dropped
	}
	return result, clipText(text, events.MaxErrorText)
}
