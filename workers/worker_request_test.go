package workers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
)

// TestARequestEndsWhenAnotherLeaderBegins: what a leader was asked that is gone is
// asked again at once, not after a time-out.
func TestARequestEndsWhenAnotherLeaderBegins(t *testing.T) {
	s, err := server.NewServer(&server.Options{DontListen: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	addr, err := events.NewAddress("test")
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{Address: addr, Name: "w", Groups: map[events.Group]int{"g": 1}, Connect: func(context.Context) (*nats.Conn, error) { return nc, nil }})
	if err != nil {
		t.Fatal(err)
	}
	w.nc = nc
	asked := make(chan struct{})
	// A leader that answers nothing any more.
	if _, err := nc.Subscribe(addr.RPC(0, events.RPCClaim, "g"), func(*nats.Msg) { close(asked) }); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.request(t.Context(), events.RPCClaim, "g", nil, func([]byte) error { return nil }) }()
	<-asked
	w.askAgain()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the request ended with %v, want that it was given up", err)
	}
}
