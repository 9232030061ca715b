package events_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

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
