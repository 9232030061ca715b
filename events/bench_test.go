package events

import (
	"fmt"
	"testing"
)

// usual is a mix of events as a busy shard has them: instances that fire, are
// offered, claimed and succeed, and some that fail and are tried again.
func usual(n int) (all []Event) {
	for i := 0; len(all) < n; i++ {
		due := int64(1_800_000_000_000 + i*5000)
		task := TaskName(fmt.Sprintf("task-%d", i%20))
		id := NewInstanceID(task, due, "s1", 0)
		all = append(all,
			Event{Kind: KindFired, Task: task, Trigger: "main", Instance: id, Version: 2, Due: due, Next: due + 5000},
			Event{Kind: KindDispatched, Instance: id, Attempt: 1, Offer: 1, At: due + 10_000},
			Event{Kind: KindStarted, Instance: id, Attempt: 1, Offer: 1, At: due + 40_000, Worker: "worker-1", Incarnation: 1799999000123456, Lease: 15000,
				Nonce: "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"})
		if i%10 == 9 {
			all = append(all,
				Event{Kind: KindFailed, Instance: id, Attempt: 1, Error: "exit status 75: \"try later\"\n"},
				Event{Kind: KindRetrying, Instance: id, Attempt: 2, At: due + 2000})
			continue
		}
		all = append(all, Event{Kind: KindSucceeded, Instance: id, Attempt: 1, Result: `{"rows":1234,"table":"orders"}`})
	}
	return all[:n]
}

func perEvent(b *testing.B, events int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*events), "ns/event")
	b.ReportAllocs()
}

func BenchmarkEvent(b *testing.B) {
	all := usual(500)
	lines := make([]string, len(all))
	bytes := 0
	for i := range all {
		lines[i] = line(&all[i])
		bytes += len(lines[i]) + 1
	}
	b.Run("check", func(b *testing.B) {
		for range b.N {
			for i := range all {
				if err := all[i].Check(); err != nil {
					b.Fatal(err)
				}
			}
		}
		perEvent(b, len(all))
	})
	b.Run("append", func(b *testing.B) {
		var buf []byte
		b.SetBytes(int64(bytes))
		for range b.N {
			for i := range all {
				buf = all[i].AppendJSON(buf[:0], -1)
			}
		}
		perEvent(b, len(all))
	})
	b.Run("decode", func(b *testing.B) {
		b.SetBytes(int64(bytes))
		for range b.N {
			for i := range lines {
				var e Event
				if _, err := e.decode(lines[i]); err != nil {
					b.Fatal(err)
				}
			}
		}
		perEvent(b, len(all))
	})
}

func BenchmarkFrame(b *testing.B) {
	all := usual(500)
	build := func(fb *FrameBuilder) {
		fb.Begin(someTime, "server/s1")
		for i := range all {
			if _, _, err := fb.Add(&all[i], someTime+int64(i/10)*1_000_000); err != nil {
				b.Fatal(err)
			}
		}
	}
	var fb FrameBuilder
	build(&fb)
	m := fb.Seal(someTerm)
	b.Logf("500 events: %d bytes of lines, %d compressed", len(fb.buf), len(m.Body))
	b.Run("build", func(b *testing.B) {
		b.SetBytes(int64(len(fb.buf)))
		for range b.N {
			build(&fb)
		}
		perEvent(b, len(all))
	})
	b.Run("build and seal", func(b *testing.B) {
		b.SetBytes(int64(len(fb.buf)))
		for range b.N {
			build(&fb)
			fb.Seal(someTerm)
		}
		perEvent(b, len(all))
	})
	b.Run("decode", func(b *testing.B) {
		var d Decoded
		b.SetBytes(int64(len(fb.buf)))
		for range b.N {
			if err := d.Decode(m); err != nil {
				b.Fatal(err)
			}
		}
		perEvent(b, len(all))
	})
	b.Run("chain", func(b *testing.B) {
		var h Hash
		for range b.N {
			h = Chain(h, m)
		}
		perEvent(b, len(all))
	})
}

// TestTheHotPathsAllocateLittle: what a frame of 500 events may cost, so that
// nobody makes it dearer without seeing it.
func TestTheHotPathsAllocateLittle(t *testing.T) {
	all := usual(500)
	var fb FrameBuilder
	build := func() {
		fb.Begin(someTime, "server/s1")
		for i := range all {
			_, _, _ = fb.Add(&all[i], someTime)
		}
	}
	build()
	m := fb.Seal(someTerm)
	var d Decoded
	if err := d.Decode(m); err != nil {
		t.Fatal(err)
	}
	failed := 0 // their texts have escapes and need memory of their own
	for i := range all {
		if all[i].Kind == KindFailed {
			failed++
		}
	}
	for _, c := range []struct {
		what string
		most float64
		f    func()
	}{
		{"building", 0, build},
		{"building and sealing", 4, func() { build(); fb.Seal(someTerm) }},
		{"decoding", float64(4 + 2*failed), func() { _ = d.Decode(m) }},
	} {
		if have := testing.AllocsPerRun(20, c.f); have > c.most {
			t.Errorf("%s 500 events allocates %v times, at most %v", c.what, have, c.most)
		}
	}
}
