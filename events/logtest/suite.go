// Package logtest is the suite that every implementation of events.Log passes.
package logtest

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// Run holds a log to L1 and L2. open gives an empty log; a log it gives may be
// used from several goroutines.
func Run(t *testing.T, open func(t *testing.T) events.Log) {
	t.Run("an empty log has no led and no message", func(t *testing.T) {
		log := open(t)
		if _, err := log.LastLed(t.Context()); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("LastLed: %v", err)
		}
		if _, err := log.Get(t.Context(), 1); !errors.Is(err, events.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		info, err := log.Info(t.Context())
		if err != nil || info.First != 1 || info.Last != 0 || info.Created.IsZero() || info.Now.IsZero() {
			t.Errorf("Info: %+v, %v", info, err)
		}
	})

	t.Run("the first led is written once", func(t *testing.T) {
		log := open(t)
		a, b := led(t, 1), led(t, 2)
		seq, err := log.AppendLed(t.Context(), a, 0)
		if err != nil || seq != 1 {
			t.Fatalf("first: %d, %v", seq, err)
		}
		if _, err := log.AppendLed(t.Context(), b, 0); !errors.Is(err, events.ErrFenced) {
			t.Fatalf("second: %v", err)
		}
		got, err := log.LastLed(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		equal(t, got, a, 1)
	})

	t.Run("a frame is stored only under the last led", func(t *testing.T) {
		log := open(t)
		fence := appendLed(t, log, led(t, 1), 0)
		seq, err := log.Append(t.Context(), frame(t, 10, 1), fence, fence)
		if err != nil || seq != fence+1 {
			t.Fatalf("under the last led: %d, %v", seq, err)
		}
		newer := appendLed(t, log, led(t, 2), fence)
		if _, err := log.Append(t.Context(), frame(t, 11, 1), fence, newer); !errors.Is(err, events.ErrFenced) {
			t.Fatalf("under an older led: %v", err)
		}
		if _, err := log.Append(t.Context(), frame(t, 12, 1), 0, newer); err == nil {
			t.Fatal("without a fence it was stored")
		}
		if seq, err := log.Append(t.Context(), frame(t, 13, 1), newer, newer); err != nil || seq != newer+1 {
			t.Fatalf("under the newer led: %d, %v", seq, err)
		}
	})

	t.Run("a frame is stored only right behind what it expects", func(t *testing.T) {
		log := open(t)
		fence := appendLed(t, log, led(t, 1), 0)
		first, err := log.Append(t.Context(), frame(t, 10, 1), fence, fence)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range []uint64{fence, first + 1} {
			if _, err := log.Append(t.Context(), frame(t, 11, 1), fence, after); !errors.Is(err, events.ErrMoved) {
				t.Errorf("after %d: %v", after, err)
			}
		}
		if _, err := log.Append(t.Context(), frame(t, 11, 1), fence, first); err != nil {
			t.Error(err)
		}
	})

	t.Run("a leadership is taken only from the one that was read", func(t *testing.T) {
		log := open(t)
		first := appendLed(t, log, led(t, 1), 0)
		second := appendLed(t, log, led(t, 2), first)
		if _, err := log.AppendLed(t.Context(), led(t, 3), first); !errors.Is(err, events.ErrFenced) {
			t.Errorf("from an older one: %v", err)
		}
		if got, err := log.LastLed(t.Context()); err != nil || got.Seq != second {
			t.Errorf("last led: %+v, %v", got, err)
		}
	})

	t.Run("two leaders race and every frame has its own led before it", func(t *testing.T) {
		log := open(t)
		race(t, log)
	})

	t.Run("a reader gives all messages in order and waits for the next", func(t *testing.T) {
		log := open(t)
		fence := appendLed(t, log, led(t, 1), 0)
		want := []*events.Message{led(t, 1)}
		after := fence
		put := func(i int) {
			m := frame(t, 100+i, 1+i%7)
			seq, err := log.Append(t.Context(), m, fence, after)
			if err != nil {
				t.Fatal(err)
			}
			after = seq
			want = append(want, m)
		}
		for i := range 300 {
			put(i)
		}
		r, err := log.Read(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i := range 20 {
			put(300 + i)
		}
		for i := range want {
			if i > 0 {
				equal(t, next(t, r), want[i], uint64(i+1))
			} else if m := next(t, r); m.Kind != events.MessageLed || m.Seq != 1 {
				t.Fatalf("first message: %+v", m)
			}
		}
		put(320)
		equal(t, next(t, r), want[len(want)-1], after)
		mid, err := log.Get(t.Context(), 150)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, mid, want[149], 150)
	})

	t.Run("a reader can start anywhere and be closed at any time", func(t *testing.T) {
		log := open(t)
		fence := appendLed(t, log, led(t, 1), 0)
		after := fence
		for i := range 50 {
			seq, err := log.Append(t.Context(), frame(t, i+1, 1), fence, after)
			if err != nil {
				t.Fatal(err)
			}
			after = seq
		}
		r, err := log.Read(t.Context(), 40)
		if err != nil {
			t.Fatal(err)
		}
		if m := next(t, r); m.Seq != 40 {
			t.Errorf("first is %d", m.Seq)
		}
		r.Close()
		r.Close()
		if r.Err() != nil {
			t.Errorf("after Close: %v", r.Err())
		}
		if _, ok := <-r.C(); ok {
			t.Error("a message after Close")
		}
	})
}

// race lets two writers take the leadership from each other while they append,
// and then checks the whole log.
func race(t *testing.T, log events.Log) {
	appendLed(t, log, led(t, 1), 0)
	ctx := t.Context()
	const rounds = 40
	done := make(chan error, 2)
	for w := range 2 {
		go func() {
			for range rounds {
				last, err := log.LastLed(ctx)
				if err != nil {
					done <- err
					return
				}
				mine := newLed(byte(w + 1))
				fence, err := log.AppendLed(ctx, mine, last.Seq)
				if err != nil {
					continue
				}
				after := fence
				for i := range 10 {
					m := newFrame(mine.Term, 1+i, 1)
					seq, err := log.Append(ctx, m, fence, after)
					if errors.Is(err, events.ErrBusy) {
						continue
					}
					if err != nil {
						break
					}
					after = seq
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	info, err := log.Info(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r, err := log.Read(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var term events.Term
	frames := 0
	for seq := uint64(1); seq <= info.Last; seq++ {
		m := next(t, r)
		if m.Kind == events.MessageLed {
			term = m.Term
			continue
		}
		frames++
		if m.Term != term {
			t.Fatalf("sequence %d: a frame of term %s under the led of %s", m.Seq, m.Term, term)
		}
	}
	if frames == 0 {
		t.Fatal("the race wrote no frame")
	}
}

func next(t *testing.T, r events.Reader) *events.Message {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case m, ok := <-r.C():
		if !ok {
			t.Fatalf("the reader ended: %v", r.Err())
		}
		return m
	case <-ctx.Done():
		t.Fatal("no message came")
		return nil
	}
}

func appendLed(t *testing.T, log events.Log, m *events.Message, last uint64) uint64 {
	t.Helper()
	seq, err := log.AppendLed(t.Context(), m, last)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// newLed makes a led of a new term; the first byte of the term tells who.
func newLed(who byte) *events.Message {
	term := events.NewTerm()
	term[0] = who
	var b events.FrameBuilder
	b.Begin(1_800_000_000_000_000_000, "server")
	if _, _, err := b.Add(&events.Event{Kind: events.KindLed, Body: `{"server":"s"}`}, b.Time()); err != nil {
		panic(err)
	}
	m := b.Seal(term)
	m.Kind = events.MessageLed
	return m
}

func led(_ *testing.T, who byte) *events.Message { return newLed(who) }

func newFrame(term events.Term, n, count int) *events.Message {
	var b events.FrameBuilder
	b.Begin(1_800_000_000_000_000_000+int64(n), "server")
	for range count {
		if _, _, err := b.Add(&events.Event{Kind: events.KindReady, Instance: "some-instance", Attempt: int64(n)}, b.Time()); err != nil {
			panic(err)
		}
	}
	m := b.Seal(term)
	m.Prev = events.Chain(events.Hash{}, m)
	return m
}

func frame(_ *testing.T, n, count int) *events.Message { return newFrame(events.NewTerm(), n, count) }

func equal(t *testing.T, got, want *events.Message, seq uint64) {
	t.Helper()
	if got.Seq != seq || got.Kind != want.Kind || got.Version != want.Version || got.Term != want.Term || got.Time != want.Time ||
		got.Prev != want.Prev || got.Compressed != want.Compressed || !bytes.Equal(got.Body, want.Body) || got.Stored == 0 {
		t.Fatalf("sequence %d:\n got %+v\nwant %+v", seq, got, want)
	}
}
