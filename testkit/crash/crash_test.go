// Package crash kills the real processes of AX, stops them, cuts them off and
// takes their NATS away, and reads in the log what became of every due time and
// every attempt.
//
// `go test` runs a few rounds of each; AX_LONG=1 runs the numbers that the
// promises are made for and prints what was measured.
package crash

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Short tests mostly wait, so they wait together. At full length they measure,
	// so each has the machine to itself.
	parallel := "16"
	if testkit.Long() {
		parallel = "1"
	}
	if f := flag.Lookup("test.parallel"); f != nil && f.Value.String() == f.DefValue {
		_ = f.Value.Set(parallel) // a number
	}
	code := m.Run()
	testkit.RemoveBinaries()
	os.Exit(code)
}

// random gives a source whose seed is printed; AX_SEED repeats one.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("AX_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("AX_SEED: %v", err)
		}
	}
	t.Logf("AX_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// task makes the command that defines a task.
func task(t *testing.T, name string, spec events.TaskSpec) events.Command {
	t.Helper()
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: name}, Task: &spec}
	body, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return events.Command{Verb: events.VerbDefine, Definition: body}
}

func shell(command string) events.ExecutorSpec {
	return events.ExecutorSpec{Kind: "shell", Config: []byte(fmt.Sprintf(`{"command":%q}`, command))}
}

func every(d time.Duration, offset time.Duration) events.TriggerSpec {
	return events.TriggerSpec{Name: "every", Interval: &events.IntervalSpec{Every: events.Duration(d), Offset: events.Duration(offset)}}
}

// client gives a client on a connection.
func client(nc *nats.Conn) *ax.Client { return ax.NewClient(nc, testkit.Addresses(), "test") }

// do sends commands until they are answered, and fails the test if one is
// refused. All commands that tests send may be sent twice.
func do(t *testing.T, nc *nats.Conn, commands ...events.Command) []events.Done {
	t.Helper()
	var answers []events.Done
	var err error
	deadline := time.Now().Add(time.Minute)
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		answers, err = client(nc).Do(ctx, commands...)
		cancel()
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no answer to %s %s and %d more: %v", commands[0].Verb, commands[0].Name, len(commands)-1, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	for k, a := range answers {
		if a.Reason != "" {
			t.Fatalf("%s %s was refused: %s: %s", commands[k].Verb, commands[k].Name, a.Reason, a.Error)
		}
	}
	return answers
}

// openLog opens the log over a connection.
func openLog(t *testing.T, nc *nats.Conn) events.Log {
	t.Helper()
	log, err := testkit.OpenLog(t.Context(), nc)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// records gives all events of the log.
func records(t *testing.T, log events.Log) (all []replay.Record) {
	t.Helper()
	info, err := log.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = replay.Messages(t.Context(), log, info.First, info.Last, func(m *events.Message, d *events.Decoded) error {
		for k := range d.Events {
			all = append(all, replay.NewRecord(&d.Events[k], events.Position{Seq: m.Seq, Index: uint32(k)}, d.Times[k], d.Actor))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func of(all []replay.Record, want func(*replay.Record) bool) (found []replay.Record) {
	for i := range all {
		if want(&all[i]) {
			found = append(found, all[i])
		}
	}
	return found
}

// audit holds a log against what AX promises, and fails the test with what it
// finds.
func audit(t *testing.T, log events.Log, opt testkit.AuditOptions) *testkit.Audit {
	t.Helper()
	a, err := testkit.ReadAudit(t.Context(), log, opt)
	if err != nil {
		t.Fatal(err)
	}
	a.Report(t, log)
	t.Log(a)
	return a
}

// waitClosed waits until no instance of any task is open.
func waitClosed(t *testing.T, s *testkit.Server, limit time.Duration) {
	t.Helper()
	var open []string
	defer func() {
		if t.Failed() {
			t.Logf("still open: %s", strings.Join(open[:min(len(open), 20)], ", "))
		}
	}()
	testkit.Until(t, limit, "no instance is open", func() bool {
		var all []struct {
			Name string `json:"name"`
			Open int64  `json:"open"`
		}
		if s.Get("/api/v1/tasks?limit=10000", &all) != nil {
			return false
		}
		open = open[:0]
		for _, x := range all {
			if x.Open > 0 {
				open = append(open, fmt.Sprintf("%d of %s", x.Open, x.Name))
			}
		}
		return len(open) == 0
	})
}

// sorted gives the times in order, and their middle and greatest.
func sorted(all []time.Duration) (p50, worst time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)-1]
}

// machine describes the load of the machine, for figures.
func machine() string {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "load unknown"
	}
	return "load " + strings.Join(strings.Fields(string(b))[:3], " ")
}
