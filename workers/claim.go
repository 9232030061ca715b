package workers

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"iter"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Grace is how long a worker has to end an attempt by TERM before it uses KILL.
const Grace = 5 * time.Second

// reportSlack is added to a time limit and the grace before the leader itself
// ends an attempt: the worker's own report should come first.
const reportSlack = 2 * time.Second

// Bounds of a claim's nonce, in bytes.
const (
	minNonce = 16
	maxNonce = 64
)

// maxAnswer bounds the bytes of an answer to claims: what does not fit is not
// answered, and claimed again.
const maxAnswer = events.MaxRequest * 3 / 4

// NonceHash is what the log keeps of a claim's nonce.
func NonceHash(nonce string) string {
	sum := sha256.Sum256([]byte(nonce))
	var text [43]byte // of 32 bytes
	base64.RawURLEncoding.Encode(text[:], sum[:])
	return string(text[:])
}

// ClaimRequest is a request for attempts. It has the methods of a leader's
// request.
type ClaimRequest struct {
	rules  *Rules
	group  events.Group
	claims events.Claims
	hashes []string // of the nonces
	done   int      // claims decided
	goes   []events.Go
	size   int
}

// HandleClaims reads claims of a group.
func (r *Rules) HandleClaims(group events.Group, body []byte) (*ClaimRequest, error) {
	c := &ClaimRequest{rules: r, group: group}
	if err := c.claims.Decode(body); err != nil {
		return nil, err
	}
	if err := events.CheckName(string(c.claims.Worker)); err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	if err := inRange(number{"incarnation", c.claims.Incarnation}, number{"beat", c.claims.Beat}, number{"runLease", c.claims.RunLease}); err != nil {
		return nil, err
	}
	for i := range c.claims.Claims {
		x := &c.claims.Claims[i]
		if err := inRange(number{"attempt", x.Attempt}, number{"offer", x.Offer}); err != nil {
			return nil, err
		}
		n := x.Nonce
		if len(n) < minNonce || len(n) > maxNonce {
			return nil, fmt.Errorf("%w: a nonce has %d bytes, want %d to %d", events.ErrRequest, len(n), minNonce, maxNonce)
		}
		c.hashes = append(c.hashes, NonceHash(n))
	}
	c.goes = make([]events.Go, 0, len(c.claims.Claims))
	return c, nil
}

// Decide starts what is on offer. A claim that is repeated gets the answer it
// got: `go` while its attempt runs, `no` when that is over.
func (c *ClaimRequest) Decide(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		var e events.Event
		for ; c.done < len(c.claims.Claims); c.done++ {
			claim, hash := &c.claims.Claims[c.done], c.hashes[c.done]
			i := s.Instance(claim.Instance)
			s.Focus(i, nil)
			spec, why := c.offered(s, i, claim, hash)
			if why == "" && i.State == events.StateDispatched {
				e = events.Event{
					Kind: events.KindStarted, Instance: i.ID, Attempt: i.Attempt, Offer: i.Offer, Nonce: hash,
					Worker: c.claims.Worker, Incarnation: c.claims.Incarnation, Lease: clampLease(time.Duration(c.claims.RunLease) * time.Millisecond).Milliseconds(),
					At: now.Millis() + spec.Timeout.Milliseconds() + (Grace + reportSlack).Milliseconds(),
				}
				if !yield(&e) {
					return
				}
				c.rules.started(c.claims.Worker, attemptID{i.ID, i.Attempt}, c.claims.Beat, now.Mono)
			}
			g := events.Go{Instance: claim.Instance, Attempt: claim.Attempt, Offer: claim.Offer, Reason: why}
			if why == "" {
				g.Run = runOf(i, spec)
				c.size += len(g.Run.Params) + len(g.Run.Config) + 600
			}
			if c.size <= maxAnswer {
				c.goes = append(c.goes, g)
			}
		}
	}
}

// offered says why a claim is refused, or gives the definition that it runs by.
func (c *ClaimRequest) offered(s *projector.State, i *projector.Instance, claim *events.Claim, hash string) (*events.TaskSpec, string) {
	switch {
	case i == nil:
		return nil, events.ReasonNoSuchInstance
	case claim.Attempt != i.Attempt || i.State != events.StateDispatched && i.State != events.StateRunning:
		return nil, events.ReasonOver
	case i.Group != c.group:
		return nil, events.ReasonNotOffered
	case i.State == events.StateRunning && (i.Nonce != hash || i.Worker != c.claims.Worker):
		return nil, events.ReasonTaken
	case i.State == events.StateDispatched && claim.Offer != i.Offer:
		return nil, events.ReasonNotOffered
	case c.rules.outdated(c.claims.Worker, c.claims.Incarnation):
		return nil, events.ReasonNewProcess
	}
	spec := s.Spec(i.Task, i.Version)
	if spec == nil {
		return nil, events.ReasonInternal
	}
	return spec, ""
}

// runOf is what a worker needs to run the instance's attempt.
func runOf(i *projector.Instance, spec *events.TaskSpec) *events.Run {
	params := i.Params
	if params == "" {
		params = string(spec.Params)
	}
	return &events.Run{
		Task: i.Task, Trigger: i.Trigger, Due: i.Due, Key: i.IdempotencyKey(), Token: events.FencingToken(i.Token),
		Timeout: spec.Timeout.Milliseconds(), Version: i.Version, Params: params,
		Executor: spec.Executor.Kind, Config: string(spec.Executor.Config),
	}
}

// Answer encodes the answers.
func (c *ClaimRequest) Answer(term events.Term, b []byte) []byte {
	m := events.ClaimAnswers{Term: term, Answers: c.goes}
	return m.Encode(b)
}

// Fail answers nothing: who claims asks again.
func (c *ClaimRequest) Fail(events.Term, string, []byte) []byte { return nil }
