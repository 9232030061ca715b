package timer

import (
	"container/heap"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/nats-io/nats-server/v2/server/thw"
)

// BenchmarkTimers measures the wheel beside what could stand in its place, each
// holding 1 or 10 million timers (10 million not with -short) whose dues are
// spread evenly over 65 s. One operation is one timer:
//
//	add     one more; as many have expired, untimed, before
//	expire  in steps of 1 ms of the clock; as many are added, untimed, after
//	cancel  a random one; as many are added, untimed, after
//	renew   cancel a random one and add another, so memory that cancelled
//	        timers leave behind has to be found again while it is timed
//	drain   all of them expire at once, after a suspend
//
// AfterFunc cannot be given another clock: its timers are far in the future,
// expire and drain measure a batch whose time has just come, until the last
// callback has run. thw ticks once a second, and is asked once a second.
//
//	go test ./timer -run - -bench Timers/1M -benchtime 2000000x
func BenchmarkTimers(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"1M", 1_000_000}, {"10M", 10_000_000}} {
		b.Run(size.name, func(b *testing.B) {
			if size.n > 1_000_000 && testing.Short() {
				b.Skip("10 million timers take a while")
			}
			b.Run("wheel", func(b *testing.B) { benchTimers(b, size.n, newBenchWheel) })
			b.Run("heap4", func(b *testing.B) { benchTimers(b, size.n, newBenchHeap4) })
			b.Run("containerheap", func(b *testing.B) { benchTimers(b, size.n, newBenchHeap) })
			b.Run("thw", func(b *testing.B) { benchTimers(b, size.n, newBenchTHW) })
			b.Run("AfterFunc", func(b *testing.B) { benchAfterFunc(b, size.n) })
		})
	}
}

// benchQueue is one of the contestants; H is what it needs to cancel a timer.
type benchQueue[H any] interface {
	add(due int64, ref uint64) H
	cancel(H)
	expire(now int64, yield func(ref uint64))
	step() int64 // milliseconds from one expire to the next, 0 if it cannot cancel
}

const (
	benchSpan  = 65_000  // ms
	benchBatch = 1 << 15 // timers between two untimed parts
)

// benchState is a queue with timers, and a slot for each, whose index is ref. A
// batch is prepared and put away while the clock stands, so that what is measured
// reads and writes its arrays in order.
type benchState[H any] struct {
	q       benchQueue[H]
	rng     *rand.Rand
	now     int64
	handles []H      // by slot
	at      []uint32 // by slot: its index in live
	live    []uint32 // slots in use
	unused  []uint32
	batch   []benchTimer[H]
	expired []uint32
	bytes   float64
}

type benchTimer[H any] struct {
	due    int64
	slot   uint32
	handle H
}

func newBenchState[H any](n int, q func() benchQueue[H]) *benchState[H] {
	slots := n + benchBatch
	s := &benchState[H]{
		rng:     rand.New(rand.NewPCG(1, 2)),
		now:     1_796_000_000_000,
		handles: make([]H, slots),
		at:      make([]uint32, slots),
		live:    make([]uint32, 0, slots),
		unused:  make([]uint32, 0, slots),
		batch:   make([]benchTimer[H], benchBatch),
		expired: make([]uint32, 0, slots),
	}
	for slot := range slots {
		s.unused = append(s.unused, uint32(slots-1-slot))
	}
	before := heapInUse()
	s.q = q()
	s.fill(n)
	s.bytes = float64(heapInUse()-before) / float64(n)
	return s
}

func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// draw prepares n timers to be added.
func (s *benchState[H]) draw(n int) {
	for i := range s.batch[:n] {
		last := len(s.unused) - 1
		s.batch[i].due = s.now + 1 + s.rng.Int64N(benchSpan)
		s.batch[i].slot = s.unused[last]
		s.unused = s.unused[:last]
	}
}

// keep notes n timers that were added.
func (s *benchState[H]) keep(n int) {
	for _, t := range s.batch[:n] {
		s.handles[t.slot] = t.handle
		s.at[t.slot] = uint32(len(s.live))
		s.live = append(s.live, t.slot)
	}
}

// pick prepares n random timers to be cancelled.
func (s *benchState[H]) pick(n int) {
	for i := range s.batch[:n] {
		slot := s.live[s.rng.IntN(len(s.live))]
		s.batch[i].due = s.now + 1 + s.rng.Int64N(benchSpan)
		s.batch[i].slot = slot
		s.batch[i].handle = s.handles[slot]
		s.forget(slot)
	}
}

func (s *benchState[H]) forget(slot uint32) {
	last := s.live[len(s.live)-1]
	s.live[s.at[slot]], s.at[last] = last, s.at[slot]
	s.live = s.live[:len(s.live)-1]
}

// fill adds timers until there are n.
func (s *benchState[H]) fill(n int) {
	for len(s.live) < n {
		k := min(n-len(s.live), benchBatch)
		s.draw(k)
		s.add(k)
		s.keep(k)
	}
}

func (s *benchState[H]) add(n int) {
	for i := range s.batch[:n] {
		t := &s.batch[i]
		t.handle = s.q.add(t.due, uint64(t.slot))
	}
}

// expire lets the clock run until n timers have expired.
func (s *benchState[H]) expire(n int) {
	s.expired = s.expired[:0]
	for len(s.expired) < n {
		s.now += max(s.q.step(), 1)
		s.q.expire(s.now, func(ref uint64) { s.expired = append(s.expired, uint32(ref)) })
	}
}

func (s *benchState[H]) forgetExpired() int {
	for _, slot := range s.expired {
		s.forget(slot)
		s.unused = append(s.unused, slot)
	}
	return len(s.expired)
}

// benchBatches runs batch with the timer stopped, for b.N timers or some more;
// batch starts and stops it and returns how many timers it has done.
func benchBatches(b *testing.B, batch func(n int) int) {
	b.ReportAllocs()
	b.StopTimer()
	b.ResetTimer()
	done := 0
	for done < b.N {
		done += batch(min(benchBatch, b.N-done))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/op")
}

func benchTimers[H any](b *testing.B, n int, q func() benchQueue[H]) {
	s := newBenchState(n, q)
	b.Run("add", func(b *testing.B) {
		benchBatches(b, func(k int) int {
			s.fill(n)
			s.draw(k)
			b.StartTimer()
			s.add(k)
			b.StopTimer()
			s.keep(k)
			s.expire(k)
			s.forgetExpired()
			return k
		})
		b.ReportMetric(s.bytes, "bytes/timer")
	})
	b.Run("expire", func(b *testing.B) {
		benchBatches(b, func(k int) int {
			s.fill(n)
			b.StartTimer()
			s.expire(k)
			b.StopTimer()
			return s.forgetExpired()
		})
	})
	if s.q.step() > 0 {
		b.Run("cancel", func(b *testing.B) {
			benchBatches(b, func(k int) int {
				s.fill(n)
				s.pick(k)
				b.StartTimer()
				for i := range s.batch[:k] {
					s.q.cancel(s.batch[i].handle)
				}
				b.StopTimer()
				for i := range s.batch[:k] {
					s.unused = append(s.unused, s.batch[i].slot)
				}
				return k
			})
		})
		b.Run("renew", func(b *testing.B) {
			benchBatches(b, func(k int) int {
				s.fill(n)
				s.pick(k)
				b.StartTimer()
				for i := range s.batch[:k] {
					t := &s.batch[i]
					s.q.cancel(t.handle)
					t.handle = s.q.add(t.due, uint64(t.slot))
				}
				b.StopTimer()
				s.keep(k)
				return k
			})
		})
	}
	b.Run("drain", func(b *testing.B) {
		benchBatches(b, func(int) int {
			s.fill(n)
			s.now += 2 * benchSpan
			s.expired = s.expired[:0]
			b.StartTimer()
			s.q.expire(s.now, func(ref uint64) { s.expired = append(s.expired, uint32(ref)) })
			b.StopTimer()
			return s.forgetExpired()
		})
	})
}

type benchWheel struct{ w *Wheel }

func newBenchWheel() benchQueue[Handle] { return benchWheel{NewWheel(1_796_000_000_000)} }

func (q benchWheel) add(due int64, ref uint64) Handle {
	h, _ := q.w.Add(due, ref)
	return h
}
func (q benchWheel) cancel(h Handle) { q.w.Cancel(h) }
func (q benchWheel) expire(now int64, yield func(uint64)) {
	q.w.Expire(now, func(_ int64, ref uint64) bool { yield(ref); return true })
}
func (benchWheel) step() int64 { return 1 }

// benchHeap4 is a heap of values with four children each, the fastest plain heap:
// it cannot cancel.
type benchHeap4 struct{ timers []heap4Timer }

type heap4Timer struct {
	due int64
	ref uint64
}

func newBenchHeap4() benchQueue[struct{}] { return &benchHeap4{} }

func (q *benchHeap4) add(due int64, ref uint64) struct{} {
	q.timers = append(q.timers, heap4Timer{})
	i := len(q.timers) - 1
	for i > 0 {
		parent := (i - 1) / 4
		if q.timers[parent].due <= due {
			break
		}
		q.timers[i] = q.timers[parent]
		i = parent
	}
	q.timers[i] = heap4Timer{due, ref}
	return struct{}{}
}

func (q *benchHeap4) cancel(struct{}) { panic("cannot") }

func (q *benchHeap4) expire(now int64, yield func(uint64)) {
	for len(q.timers) > 0 && q.timers[0].due <= now {
		ref := q.timers[0].ref
		n := len(q.timers) - 1
		last := q.timers[n]
		q.timers = q.timers[:n]
		for i := 0; n > 0; {
			child := 4*i + 1
			if child >= n {
				q.timers[i] = last
				break
			}
			for c := child + 1; c < min(child+4, n); c++ {
				if q.timers[c].due < q.timers[child].due {
					child = c
				}
			}
			if q.timers[child].due >= last.due {
				q.timers[i] = last
				break
			}
			q.timers[i] = q.timers[child]
			i = child
		}
		yield(ref)
	}
}

func (*benchHeap4) step() int64 { return 0 }

type benchHeap []*heapTimer

type heapTimer struct {
	due int64
	ref uint64
	i   int
}

func newBenchHeap() benchQueue[*heapTimer] { return &benchHeap{} }

func (h benchHeap) Len() int           { return len(h) }
func (h benchHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h benchHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].i, h[j].i = i, j }
func (h *benchHeap) Push(x any) {
	t := x.(*heapTimer)
	t.i = len(*h)
	*h = append(*h, t)
}
func (h *benchHeap) Pop() any {
	t := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return t
}

func (h *benchHeap) add(due int64, ref uint64) *heapTimer {
	t := &heapTimer{due: due, ref: ref}
	heap.Push(h, t)
	return t
}
func (h *benchHeap) cancel(t *heapTimer) { heap.Remove(h, t.i) }
func (h *benchHeap) expire(now int64, yield func(uint64)) {
	for len(*h) > 0 && (*h)[0].due <= now {
		yield(heap.Pop(h).(*heapTimer).ref)
	}
}
func (*benchHeap) step() int64 { return 1 }

type benchTHW struct{ w *thw.HashWheel }

type thwTimer struct {
	seq     uint64
	expires int64
}

// thwExpire is what ExpireTasks calls with the wall clock.
//
//go:linkname thwExpire github.com/nats-io/nats-server/v2/server/thw.(*HashWheel).expireTasks
func thwExpire(w *thw.HashWheel, ns int64, callback func(seq uint64, expires int64) bool)

func newBenchTHW() benchQueue[thwTimer] { return benchTHW{thw.NewHashWheel()} }

func (q benchTHW) add(due int64, ref uint64) thwTimer {
	t := thwTimer{ref, due * int64(time.Millisecond)}
	if err := q.w.Add(t.seq, t.expires); err != nil {
		panic(err)
	}
	return t
}
func (q benchTHW) cancel(t thwTimer) {
	if err := q.w.Remove(t.seq, t.expires); err != nil {
		panic(err)
	}
}
func (q benchTHW) expire(now int64, yield func(uint64)) {
	thwExpire(q.w, now*int64(time.Millisecond), func(seq uint64, _ int64) bool { yield(seq); return true })
}
func (benchTHW) step() int64 { return 1000 }

func benchAfterFunc(b *testing.B, n int) {
	rng := rand.New(rand.NewPCG(1, 2))
	far := func() time.Duration { return time.Hour + time.Duration(rng.Int64N(benchSpan))*time.Millisecond }
	timers := make([]*time.Timer, 0, n+benchBatch)
	nop := func() {}
	before := heapInUse()
	for range n {
		timers = append(timers, time.AfterFunc(far(), nop))
	}
	bytes := float64(heapInUse()-before) / float64(n)
	defer func() {
		for _, t := range timers {
			t.Stop()
		}
	}()
	wait := make([]time.Duration, benchBatch)
	draw := func(n int) {
		for i := range n {
			wait[i] = far()
		}
	}
	shuffle := func(n int) { // n random timers to the end
		for i := range n {
			last := len(timers) - 1 - i
			k := rng.IntN(last + 1)
			timers[k], timers[last] = timers[last], timers[k]
		}
	}
	b.Run("add", func(b *testing.B) {
		benchBatches(b, func(k int) int {
			draw(k)
			b.StartTimer()
			for _, d := range wait[:k] {
				timers = append(timers, time.AfterFunc(d, nop))
			}
			b.StopTimer()
			for _, t := range timers[n:] {
				t.Stop()
			}
			timers = timers[:n]
			return k
		})
		b.ReportMetric(bytes, "bytes/timer")
	})
	expire := func(b *testing.B) {
		benchBatches(b, func(k int) int {
			var left atomic.Int64
			done := make(chan struct{})
			left.Store(int64(k))
			at := time.Now().Add(100 * time.Millisecond)
			for range k {
				time.AfterFunc(time.Until(at), func() {
					if left.Add(-1) == 0 {
						close(done)
					}
				})
			}
			for time.Now().Before(at) {
			}
			b.StartTimer()
			<-done
			b.StopTimer()
			return k
		})
	}
	b.Run("expire", expire)
	b.Run("cancel", func(b *testing.B) {
		benchBatches(b, func(k int) int {
			for len(timers) < n {
				timers = append(timers, time.AfterFunc(far(), nop))
			}
			shuffle(k)
			b.StartTimer()
			for _, t := range timers[n-k:] {
				t.Stop()
			}
			b.StopTimer()
			timers = timers[:n-k]
			return k
		})
	})
	b.Run("renew", func(b *testing.B) {
		benchBatches(b, func(k int) int {
			for len(timers) < n {
				timers = append(timers, time.AfterFunc(far(), nop))
			}
			shuffle(k)
			draw(k)
			b.StartTimer()
			for i, t := range timers[n-k:] {
				t.Stop()
				timers[n-k+i] = time.AfterFunc(wait[i], nop)
			}
			b.StopTimer()
			return k
		})
	})
}
