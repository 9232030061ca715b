package ax

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
)

// Client asks a namespace's leader for changes.
type Client struct {
	nc    *nats.Conn
	addr  events.Address
	actor string
}

// NewClient makes a client on a connection. actor stands in the log as who asked.
func NewClient(nc *nats.Conn, addr events.Address, actor string) *Client {
	return &Client{nc, addr, actor}
}

// ErrNoLeader is returned where no leader has answered in time.
var ErrNoLeader = errors.New("no leader has answered")

// Do sends commands, in as many requests as they need, and gives an answer for
// each. A request that got no answer because nobody leads is sent again until
// ctx ends; each command is safe to send twice (a trigger by its key).
func (c *Client) Do(ctx context.Context, commands ...events.Command) ([]events.Done, error) {
	var all []events.Done
	for len(commands) > 0 {
		n, size := 0, 0
		for n < len(commands) && n < events.MaxItems {
			size += len(commands[n].Definition) + len(commands[n].Params) + 500
			if size > events.MaxRequest*3/4 && n > 0 {
				break
			}
			n++
		}
		answers, err := c.ask(ctx, commands[:n])
		if err != nil {
			return all, err
		}
		all = append(all, answers...)
		commands = commands[n:]
	}
	return all, nil
}

func (c *Client) ask(ctx context.Context, commands []events.Command) ([]events.Done, error) {
	req := events.Commands{Actor: c.actor, Commands: commands}
	body := req.Encode(nil)
	subject := c.addr.RPC(0, events.RPCCommand, "")
	wait := 20 * time.Millisecond
	for {
		rctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		msg, err := c.nc.RequestWithContext(rctx, subject, body)
		cancel()
		if err == nil {
			var m events.CommandAnswers
			if err := m.Decode(msg.Data); err != nil {
				return nil, err
			}
			if m.Error != "" {
				return nil, errors.New(m.Error)
			}
			if len(m.Answers) != len(commands) {
				return nil, fmt.Errorf("%d answers to %d commands", len(m.Answers), len(commands))
			}
			return m.Answers, nil
		}
		if !errors.Is(err, nats.ErrNoResponders) {
			return nil, fmt.Errorf("%w: %w; it is not known whether it was done: definitions may be applied again, and triggers with a key", ErrNoLeader, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: nobody leads; see ax get leaders: %w", ErrNoLeader, ctx.Err())
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}
