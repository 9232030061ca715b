package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/ax-scheduler/ax/events/internal/jsonline"
)

// ErrRequest is wrapped where a request or answer cannot be read.
var ErrRequest = errors.New("unreadable request")

// Encode writes the offer as JSON.
func (f *Offer) Encode(b []byte) []byte {
	o := jsonline.Begin(b)
	o.Uint("shard", uint64(f.Shard))
	o.String("instance", string(f.Instance))
	o.Int("attempt", f.Attempt)
	o.Int("offer", f.Offer)
	o.String("task", string(f.Task))
	o.String("executor", f.Executor)
	return o.End()
}

// Decode reads what Encode wrote.
func (f *Offer) Decode(body []byte) error {
	return decodeObject(string(body), func(r *jsonline.Reader, name string) bool {
		switch name {
		case "shard":
			n := r.Uint()
			if n > math.MaxUint32 {
				r.Fail(fmt.Errorf("shard %d", n))
			}
			f.Shard = Shard(n)
		case "instance":
			f.Instance = InstanceID(r.String())
		case "attempt":
			f.Attempt = r.Int()
		case "offer":
			f.Offer = r.Int()
		case "task":
			f.Task = TaskName(r.String())
		case "executor":
			f.Executor = r.String()
		default:
			return false
		}
		return true
	})
}

// Encode writes the request as JSON.
func (c *Claims) Encode(b []byte) []byte {
	o := jsonline.Begin(b)
	o.String("worker", string(c.Worker))
	o.Int("incarnation", c.Incarnation)
	o.Int("beat", c.Beat)
	o.Int("runLease", c.RunLease)
	o.BeginArray("claims")
	for i := range c.Claims {
		x := &c.Claims[i]
		o.BeginItem()
		o.String("instance", string(x.Instance))
		o.Int("attempt", x.Attempt)
		o.Int("offer", x.Offer)
		o.String("nonce", x.Nonce)
		o.EndItem()
	}
	o.EndArray()
	return o.End()
}

// Decode reads what Encode wrote.
func (c *Claims) Decode(body []byte) error {
	return decodeObject(string(body), func(r *jsonline.Reader, name string) bool {
		switch name {
		case "worker":
			c.Worker = WorkerName(r.String())
		case "incarnation":
			c.Incarnation = r.Int()
		case "beat":
			c.Beat = r.Int()
		case "runLease":
			c.RunLease = r.Int()
		case "claims":
			c.Claims = readItems(r, c.Claims, func(r *jsonline.Reader, name string, x *Claim) bool {
				switch name {
				case "instance":
					x.Instance = InstanceID(r.String())
				case "attempt":
					x.Attempt = r.Int()
				case "offer":
					x.Offer = r.Int()
				case "nonce":
					x.Nonce = r.String()
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

// Encode writes the answer as JSON.
func (c *ClaimAnswers) Encode(b []byte) []byte {
	o := jsonline.Begin(b)
	o.String("term", c.Term.String())
	o.BeginArray("answers")
	for i := range c.Answers {
		x := &c.Answers[i]
		o.BeginItem()
		o.String("instance", string(x.Instance))
		o.Int("attempt", x.Attempt)
		o.Int("offer", x.Offer)
		o.String("reason", x.Reason)
		if run := x.Run; run != nil {
			o.BeginObject("run")
			o.String("task", string(run.Task))
			o.String("trigger", string(run.Trigger))
			o.Int("due", run.Due)
			o.String("key", run.Key)
			o.Uint("token", run.Token)
			o.Int("timeout", run.Timeout)
			o.Int("version", run.Version)
			o.Raw("params", run.Params)
			o.String("executor", run.Executor)
			o.Raw("config", run.Config)
			o.EndObject()
		}
		o.EndItem()
	}
	o.EndArray()
	return o.End()
}

// Decode reads what Encode wrote.
func (c *ClaimAnswers) Decode(body []byte) error {
	return decodeObject(string(body), func(r *jsonline.Reader, name string) bool {
		switch name {
		case "term":
			c.Term = readTerm(r)
		case "answers":
			c.Answers = readItems(r, c.Answers, func(r *jsonline.Reader, name string, x *Go) bool {
				switch name {
				case "instance":
					x.Instance = InstanceID(r.String())
				case "attempt":
					x.Attempt = r.Int()
				case "offer":
					x.Offer = r.Int()
				case "reason":
					x.Reason = r.String()
				case "run":
					x.Run = readRun(r)
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

func readRun(r *jsonline.Reader) *Run {
	run := new(Run)
	readFields(r, func(r *jsonline.Reader, name string) bool {
		switch name {
		case "task":
			run.Task = TaskName(r.String())
		case "trigger":
			run.Trigger = TriggerName(r.String())
		case "due":
			run.Due = r.Int()
		case "key":
			run.Key = r.String()
		case "token":
			run.Token = r.Uint()
		case "timeout":
			run.Timeout = r.Int()
		case "version":
			run.Version = r.Int()
		case "params":
			run.Params = r.Raw()
		case "executor":
			run.Executor = r.String()
		case "config":
			run.Config = r.Raw()
		default:
			return false
		}
		return true
	})
	return run
}

// Encode writes the request as JSON.
func (c *Reports) Encode(b []byte) []byte {
	o := jsonline.Begin(b)
	o.String("worker", string(c.Worker))
	o.Int("incarnation", c.Incarnation)
	o.BeginArray("reports")
	for i := range c.Reports {
		x := &c.Reports[i]
		o.BeginItem()
		o.String("instance", string(x.Instance))
		o.Int("attempt", x.Attempt)
		o.Int("offer", x.Offer)
		o.String("nonce", x.Nonce)
		o.String("outcome", x.Outcome)
		o.Raw("result", x.Result)
		o.String("error", x.Error)
		o.Bool("permanent", x.Permanent)
		o.Int("retryAfter", x.RetryAfter)
		o.EndItem()
	}
	o.EndArray()
	return o.End()
}

// Decode reads what Encode wrote.
func (c *Reports) Decode(body []byte) error {
	return decodeObject(string(body), func(r *jsonline.Reader, name string) bool {
		switch name {
		case "worker":
			c.Worker = WorkerName(r.String())
		case "incarnation":
			c.Incarnation = r.Int()
		case "reports":
			c.Reports = readItems(r, c.Reports, func(r *jsonline.Reader, name string, x *Report) bool {
				switch name {
				case "instance":
					x.Instance = InstanceID(r.String())
				case "attempt":
					x.Attempt = r.Int()
				case "offer":
					x.Offer = r.Int()
				case "nonce":
					x.Nonce = r.String()
				case "outcome":
					x.Outcome = r.String()
				case "result":
					x.Result = readJSON(r)
				case "error":
					x.Error = r.String()
				case "permanent":
					x.Permanent = r.Bool()
				case "retryAfter":
					x.RetryAfter = r.Int()
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

// Encode writes the answer as JSON.
func (c *ReportAnswers) Encode(b []byte) []byte {
	o := jsonline.Begin(b)
	o.String("term", c.Term.String())
	o.BeginArray("answers")
	for i := range c.Answers {
		x := &c.Answers[i]
		o.BeginItem()
		o.String("instance", string(x.Instance))
		o.Int("attempt", x.Attempt)
		o.String("outcome", x.Outcome)
		o.String("reason", x.Reason)
		o.EndItem()
	}
	o.EndArray()
	return o.End()
}

// Decode reads what Encode wrote.
func (c *ReportAnswers) Decode(body []byte) error {
	return decodeObject(string(body), func(r *jsonline.Reader, name string) bool {
		switch name {
		case "term":
			c.Term = readTerm(r)
		case "answers":
			c.Answers = readItems(r, c.Answers, func(r *jsonline.Reader, name string, x *Recorded) bool {
				switch name {
				case "instance":
					x.Instance = InstanceID(r.String())
				case "attempt":
					x.Attempt = r.Int()
				case "outcome":
					x.Outcome = r.String()
				case "reason":
					x.Reason = r.String()
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

// Encode writes the request as JSON.
func (c *Commands) Encode(b []byte) []byte {
	o := jsonline.Begin(b)
	o.String("actor", c.Actor)
	o.BeginArray("commands")
	for i := range c.Commands {
		x := &c.Commands[i]
		o.BeginItem()
		o.String("verb", x.Verb)
		o.String("object", string(x.Object))
		o.String("name", x.Name)
		o.String("trigger", string(x.Trigger))
		o.Raw("params", x.Params)
		o.String("key", x.Key)
		o.String("reason", x.Reason)
		o.Raw("definition", x.Definition)
		o.EndItem()
	}
	o.EndArray()
	return o.End()
}

// Decode reads what Encode wrote.
func (c *Commands) Decode(body []byte) error {
	return decodeObject(string(body), func(r *jsonline.Reader, name string) bool {
		switch name {
		case "actor":
			c.Actor = r.String()
		case "commands":
			c.Commands = readItems(r, c.Commands, func(r *jsonline.Reader, name string, x *Command) bool {
				switch name {
				case "verb":
					x.Verb = r.String()
				case "object":
					x.Object = ObjectKind(r.String())
				case "name":
					x.Name = r.String()
				case "trigger":
					x.Trigger = TriggerName(r.String())
				case "params":
					x.Params = readJSON(r)
				case "key":
					x.Key = r.String()
				case "reason":
					x.Reason = r.String()
				case "definition":
					x.Definition = r.Raw()
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

// Encode writes the answer as JSON.
func (c *CommandAnswers) Encode(b []byte) []byte {
	o := jsonline.Begin(b)
	o.String("term", c.Term.String())
	o.String("error", c.Error)
	o.BeginArray("answers")
	for i := range c.Answers {
		x := &c.Answers[i]
		o.BeginItem()
		o.String("position", x.Position.String())
		o.String("instance", string(x.Instance))
		o.Bool("unchanged", x.Unchanged)
		o.String("reason", x.Reason)
		o.String("error", x.Error)
		o.EndItem()
	}
	o.EndArray()
	return o.End()
}

// Decode reads what Encode wrote.
func (c *CommandAnswers) Decode(body []byte) error {
	return decodeObject(string(body), func(r *jsonline.Reader, name string) bool {
		switch name {
		case "term":
			c.Term = readTerm(r)
		case "error":
			c.Error = r.String()
		case "answers":
			c.Answers = readItems(r, c.Answers, func(r *jsonline.Reader, name string, x *Done) bool {
				switch name {
				case "position":
					x.Position = readPosition(r)
				case "instance":
					x.Instance = InstanceID(r.String())
				case "unchanged":
					x.Unchanged = r.Bool()
				case "reason":
					x.Reason = r.String()
				case "error":
					x.Error = r.String()
				default:
					return false
				}
				return true
			})
		default:
			return false
		}
		return true
	})
}

// DecodeBeat reads a beat. Beats come every few seconds and are read by the
// standard library.
func DecodeBeat(body []byte) (*Beat, error) {
	if len(body) > MaxRequest {
		return nil, fmt.Errorf("%w: beat: %d bytes, at most %d", ErrRequest, len(body), MaxRequest)
	}
	b := new(Beat)
	if err := json.Unmarshal(body, b); err != nil {
		return nil, fmt.Errorf("%w: beat: %w", ErrRequest, err)
	}
	return b, nil
}

// readJSON reads a value that may go into the log, where it stands in one line.
func readJSON(r *jsonline.Reader) string {
	s := r.Raw()
	if strings.IndexByte(s, '\n') < 0 {
		return s
	}
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(s)); err != nil {
		r.Fail(err)
	}
	return b.String()
}

func readTerm(r *jsonline.Reader) Term {
	t, err := ParseTerm(r.String())
	if err != nil {
		r.Fail(err)
	}
	return t
}

func readItems[T any](r *jsonline.Reader, items []T, read func(*jsonline.Reader, string, *T) bool) []T {
	r.Array()
	for r.Element() {
		if len(items) == MaxItems {
			r.Fail(fmt.Errorf("more than %d items in one request", MaxItems))
			break
		}
		var zero T
		items = append(items, zero)
		x := &items[len(items)-1]
		r.Object()
		for {
			name, ok := r.Field()
			if !ok {
				break
			}
			if !read(r, name, x) {
				r.Raw()
			}
		}
	}
	return items
}

func readFields(r *jsonline.Reader, read func(*jsonline.Reader, string) bool) {
	r.Object()
	for {
		name, ok := r.Field()
		if !ok {
			return
		}
		if !read(r, name) {
			r.Raw() // a field of a newer worker or command: what it means is optional
		}
	}
}

func decodeObject(body string, read func(*jsonline.Reader, string) bool) error {
	if len(body) > MaxRequest {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrRequest, len(body), MaxRequest)
	}
	var r jsonline.Reader
	r.Reset(body)
	readFields(&r, read)
	r.End()
	if err := r.Err(); err != nil {
		return fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return nil
}
