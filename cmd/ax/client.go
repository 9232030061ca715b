package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/api"
	"github.com/ax-scheduler/ax/events"
)

const defaultNATS = "nats://" + ax.DefaultNATSListen

// token gives the token that the server wants: AX_TOKEN, or the one in its data
// folder.
func (c *cli) token() (string, error) {
	if t := os.Getenv("AX_TOKEN"); t != "" {
		return t, nil
	}
	t, err := ax.ReadToken(c.data)
	if errors.Is(err, os.ErrNotExist) {
		return "", failWith(exitUnavailable, "no token: there is no data folder at %s; start ax dev there, or say where the server's is with --data or AX_DATA, or give AX_TOKEN", c.data)
	}
	return t, err
}

// wrongToken says what to do where a server does not take the token.
func (c *cli) wrongToken(who string) error {
	from := "the file token of the data folder " + c.data
	if os.Getenv("AX_TOKEN") != "" {
		from = "the environment variable AX_TOKEN"
	} else if _, err := ax.ReadToken(c.data); err != nil {
		from = "nowhere: there is none in the data folder " + c.data
	}
	return failWith(exitUnavailable, "%s refuses the token, which is from %s; give the folder of that server with --data or AX_DATA, or its token in AX_TOKEN", who, from)
}

// get reads a path of the API into v, or hands the body to v if that is an
// io.Writer.
func (c *cli) get(ctx context.Context, path string, query url.Values, v any) error {
	body, err := c.open(ctx, path, query)
	if err != nil {
		return err
	}
	defer body.Close()
	if w, ok := v.(io.Writer); ok {
		_, err = io.Copy(w, body)
		return err
	}
	if err := json.NewDecoder(body).Decode(v); err != nil {
		return fmt.Errorf("unreadable answer of %s: %w", c.server, err)
	}
	return nil
}

// open reads a path of the API.
func (c *cli) open(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
	token, err := c.token()
	if err != nil {
		return nil, err
	}
	address := strings.TrimSuffix(c.server, "/") + "/api/v1/" + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, failWith(exitUsage, "--server %s: %w", c.server, err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, failWith(exitUnavailable, "no server answers at %s: %w; start one with ax dev, or say where it is with --server", c.server, err)
	}
	if resp.StatusCode == http.StatusOK {
		if why := resp.Header.Get("Ax-Stale"); why != "" {
			fmt.Fprintf(c.err, "ax: this may be old or not all of it: %s\n", why)
		}
		return resp.Body, nil
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized {
		return nil, c.wrongToken("the server at " + c.server)
	}
	var p api.Problem
	if json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&p) != nil || p.Error == "" {
		p.Error = resp.Status
	}
	code := exitFailed
	switch resp.StatusCode {
	case http.StatusNotFound:
		code = exitNotFound
	case http.StatusBadRequest:
		code = exitUsage
	case http.StatusServiceUnavailable:
		code = exitUnavailable
	}
	return nil, failWith(code, "%s", p.Error)
}

// connect opens a connection to the server's NATS.
func (c *cli) connect(opts ...nats.Option) (*nats.Conn, error) {
	address, token := c.nats, os.Getenv("AX_TOKEN")
	if address == "" {
		address = defaultNATS
	}
	if token == "" {
		// An existing NATS may need none.
		t, err := c.token()
		if err != nil && c.nats == "" {
			return nil, err
		}
		token = t
	}
	nc, err := ax.DialNATS(address, token, append([]nats.Option{nats.Name("ax")}, opts...)...)
	if errors.Is(err, nats.ErrAuthorization) {
		return nil, c.wrongToken("NATS at " + withoutPassword(address))
	}
	if err != nil {
		return nil, &codedError{exitUnavailable, fmt.Errorf("%w; start a server with ax dev, or say where NATS is with --nats", err)}
	}
	return nc, nil
}

// withoutPassword takes the credentials out of an address.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the given address"
	}
	u.User = nil
	return u.String()
}

func (c *cli) address() (events.Address, error) {
	addr, err := events.NewAddress(events.Namespace(c.namespace))
	if err != nil {
		return addr, failWith(exitUsage, "--ns: %w", err)
	}
	return addr, nil
}

// commandTime is how long a command waits for a leader.
var commandTime = 15 * time.Second // tests wait less

// do sends commands to the leader.
func (c *cli) do(ctx context.Context, commands ...events.Command) ([]events.Done, error) {
	addr, err := c.address()
	if err != nil {
		return nil, err
	}
	nc, err := c.connect()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	answers, err := ax.NewClient(nc, addr, actor()).Do(ctx, commands...)
	if errors.Is(err, ax.ErrNoLeader) && !errors.Is(err, context.Canceled) {
		return answers, failWith(exitUnavailable, "no leader of namespace %s has answered within %s; look at ax get leaders, at %s/readyz, and at the server's log",
			c.namespace, commandTime, strings.TrimSuffix(c.server, "/"))
	}
	return answers, err
}

// actor names who asks, for the log.
func actor() string {
	name := "cli"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name += "/" + u.Username
	}
	return name
}

// refusal makes an error of an answer that refuses.
func refusal(d events.Done) error {
	if d.Reason == "" {
		return nil
	}
	code := exitFailed
	switch d.Reason {
	case events.ReasonNoSuchTask, events.ReasonNotFound, events.ReasonNoSuchInstance:
		code = exitNotFound
	case events.ReasonConflict, events.ReasonOver:
		code = exitConflict
	case events.ReasonUnusable, events.ReasonTooLarge:
		code = exitUsage
	case events.ReasonDiskFull:
		code = exitUnavailable
	}
	return failWith(code, "%s", d.Error)
}
