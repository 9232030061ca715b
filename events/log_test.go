package events_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/events/logtest"
)

func TestMemoryLog(t *testing.T) {
	logtest.Run(t, func(*testing.T) events.Log { return events.NewMemoryLog(nil) })
}

func TestJetStreamLog(t *testing.T) {
	logtest.Run(t, func(t *testing.T) events.Log {
		nc := startNATS(t)
		addr, err := events.NewAddress("test")
		if err != nil {
			t.Fatal(err)
		}
		log, err := events.CreateJetStreamLog(t.Context(), nc, addr, 0, events.StreamOptions{MaxBytes: 1 << 30, MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return log
	})
}

// startNATS runs a server in this process and gives a connection to it.
func startNATS(t *testing.T) *nats.Conn {
	t.Helper()
	s, err := server.NewServer(&server.Options{ServerName: "test", DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("NATS did not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.NoReconnect())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// TestAReaderNoticesAMissingEnd: a store that has lost its last messages still says
// how far it went, and a consumer would wait for them for ever.
func TestAReaderNoticesAMissingEnd(t *testing.T) {
	t.Parallel()
	nc := startNATS(t)
	addr, err := events.NewAddress("test")
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	// AX's own log lets nobody delete a message.
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: addr.LogStream(0), Subjects: []string{addr.Log(0), addr.Led(0)}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := js.Publish(t.Context(), addr.Log(0), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.DeleteMsg(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	log, err := events.OpenJetStreamLog(t.Context(), nc, addr, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, err := log.Read(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var last uint64
	for m := range r.C() {
		last = m.Seq
	}
	var gap *events.GapError
	if err := r.Err(); last != 2 || !errors.As(err, &gap) || gap.Want != 3 || gap.Have != 4 {
		t.Errorf("it ended behind sequence %d with %v, want a gap from 3 to 4", last, err)
	}
}
