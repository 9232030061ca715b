package projector

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/ax-scheduler/ax/events"
)

// benchLog builds a log of n instances of one task, each with its whole life of
// four events, in frames of up to size events, interleaved as in real work.
func benchLog(tb testing.TB, n, size int) []*events.Message {
	tb.Helper()
	term := events.NewTerm()
	var msgs []*events.Message
	var chain events.Hash
	var b events.FrameBuilder
	now := int64(1_800_000_000_000_000_000)
	seal := func(kind events.MessageKind) {
		if b.Len() == 0 {
			return
		}
		m := b.Seal(term)
		m.Kind = kind
		if kind == events.MessageLog {
			m.Prev = chain
		}
		m.Seq = uint64(len(msgs) + 1)
		chain = events.Chain(chain, m)
		msgs = append(msgs, m)
		now += 1e6
		b.Begin(now, "server/s1")
	}
	add := func(e events.Event) {
		if _, _, err := b.Add(&e, now); err != nil {
			tb.Fatal(err)
		}
		if b.Len() >= size {
			seal(events.MessageLog)
		}
	}
	b.Begin(now, "server/s1")
	add1 := func(e events.Event) { b.Add(&e, now) }
	add1(events.Event{Kind: events.KindLed, Body: `{"server":"s1"}`})
	seal(events.MessageLed)
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: "bench"},
		Task: &events.TaskSpec{Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{"name":"noop"}`)}}}
	if err := d.Complete(); err != nil {
		tb.Fatal(err)
	}
	body, _ := d.Encode()
	add(events.Event{Kind: events.KindDefined, Object: events.ObjectTask, Name: "bench", Version: 1, Body: body})
	params := `{"payload":"` + fmt.Sprintf("%080d", 7) + `"}`
	sum := sha256.Sum256([]byte("nonce"))
	nonce := base64.RawURLEncoding.EncodeToString(sum[:])
	const width = 500
	for base := 0; base < n; base += width {
		ids := make([]events.InstanceID, 0, width)
		for i := base; i < min(base+width, n); i++ {
			id := events.NewInstanceID("bench", 1_800_000_000_000, "s1", int64(i))
			ids = append(ids, id)
			add(events.Event{Kind: events.KindFired, Task: "bench", Trigger: "manual", Instance: id, Due: 1_800_000_000_000, Version: 1, Params: params})
			add(events.Event{Kind: events.KindDispatched, Instance: id, Attempt: 1, Offer: 1, At: 1_800_000_010_000})
		}
		for _, id := range ids {
			add(events.Event{Kind: events.KindStarted, Instance: id, Attempt: 1, Offer: 1, Worker: "w1", Incarnation: 1, Nonce: nonce, At: 1_800_000_065_000})
		}
		for _, id := range ids {
			add(events.Event{Kind: events.KindSucceeded, Instance: id, Attempt: 1})
		}
	}
	seal(events.MessageLog)
	return msgs
}

func BenchmarkFold(b *testing.B) {
	const n = 50_000
	for _, size := range []int{500, 16, 1} {
		b.Run(fmt.Sprintf("frames-of-%d", size), func(b *testing.B) {
			msgs := benchLog(b, n, size)
			var bytes int
			for _, m := range msgs {
				bytes += len(m.Body)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				v, err := OpenViews(Options{Dir: b.TempDir()})
				if err != nil {
					b.Fatal(err)
				}
				s, err := NewState(v)
				if err != nil {
					b.Fatal(err)
				}
				for _, m := range msgs {
					if err := s.Fold(m); err != nil {
						b.Fatal(err)
					}
					if s.Dirty() > 10_000 {
						if err := s.Flush(); err != nil {
							b.Fatal(err)
						}
					}
				}
				if err := s.Flush(); err != nil {
					b.Fatal(err)
				}
				if s.meta.Passed != 0 || s.tasks["bench"].Finished != n {
					b.Fatalf("%+v %+v", s.meta, s.tasks["bench"])
				}
				v.Close()
			}
			b.ReportMetric(float64(4*n*b.N)/b.Elapsed().Seconds(), "events/s")
			b.ReportMetric(float64(bytes)/n, "bytes/instance")
		})
	}
}
