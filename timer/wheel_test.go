package timer

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// wheelModel is what a Wheel promises, slow and obvious: a slice sorted by due,
// then order of addition.
type wheelModel struct {
	now    int64
	timers []modelTimer
	added  uint64
}

type modelTimer struct {
	due   int64
	added uint64 // doubles as ref
	h     Handle
}

func (m *wheelModel) horizon() int64 { return (m.now>>8+255)<<8 | 255 }

func (m *wheelModel) add(due int64, h Handle) {
	x := modelTimer{due, m.added, h}
	i, _ := slices.BinarySearchFunc(m.timers, x, func(a, b modelTimer) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.added, b.added))
	})
	m.timers = slices.Insert(m.timers, i, x)
	m.added++
}

func (m *wheelModel) remove(added uint64) {
	m.timers = slices.DeleteFunc(m.timers, func(x modelTimer) bool { return x.added == added })
}

// checkWheel fails unless the wheel's parts agree with each other.
func checkWheel(t interface {
	Helper()
	Fatalf(string, ...any)
}, w *Wheel) {
	t.Helper()
	records, dead := 0, 0
	ids, chunks := make(map[uint32]bool), make(map[uint32]bool)
	claim := func(set map[uint32]bool, i uint32, what string) {
		if set[i] {
			t.Fatalf("%s %d is in two places", what, i)
		}
		set[i] = true
	}
	for list := range uint32(listCount) {
		l := w.lists[list]
		if list < listRun && (w.occupied[list/64]>>(list%64)&1 != 0) != (l.n > 0) {
			t.Fatalf("list %d: %d records, occupied says otherwise", list, l.n)
		}
		if list >= listLate+w.late && l.n > 0 {
			t.Fatalf("list %d: records in a run that is not in use", list)
		}
		last := int64(math.MinInt64)
		chunk, at := l.first, l.from
		for n := range l.n {
			if n == 0 || at == wheelChunkRecords {
				if n > 0 {
					chunk, at = w.chunk(chunk).next, 0
				}
				claim(chunks, chunk, "chunk")
			}
			r := w.chunk(chunk).records[at]
			at++
			claim(ids, r.id, "id")
			records++
			if w.isOver(r.id) {
				dead++
			}
			if w.pages[r.id/64].free>>(r.id%64)&1 != 0 {
				t.Fatalf("id %d is in a list, and free", r.id)
			}
			switch block := r.due >> wheelBits; {
			case list < listBlocks && (r.due <= w.now || block != w.now>>wheelBits || uint32(r.due)&wheelMask != list):
				// What a stopped Expire left is still in its slot, and overdue.
				if r.due > w.now || block != w.now>>wheelBits || uint32(r.due)&wheelMask != list {
					t.Fatalf("due %d at time %d in millisecond %d", r.due, w.now, list)
				}
			case list >= listBlocks && list < listRun:
				if ahead := block - w.now>>wheelBits; ahead < 1 || ahead > 255 || uint32(block)&wheelMask != list-listBlocks {
					t.Fatalf("due %d at time %d in block slot %d", r.due, w.now, list-listBlocks)
				}
				if !w.isOver(r.id) && uint8(r.due) < w.earliest[block&wheelMask] {
					t.Fatalf("due %d before the block's earliest", r.due)
				}
			case list >= listRun:
				if r.due > w.now || r.due < last {
					t.Fatalf("due %d at time %d after %d in list %d", r.due, w.now, last, list)
				}
				last = r.due
			}
		}
		if l.n > 0 && (chunk != l.last || at != l.to) || l.n == 0 && l.to != wheelChunkRecords {
			t.Fatalf("list %d ends at %d/%d: %+v", list, chunk, at, l)
		}
	}
	if records != w.records || records-dead != w.count {
		t.Fatalf("%d records, %d of them dead; the wheel says %d and %d timers", records, dead, w.records, w.count)
	}
	for chunk := w.empty; chunk != 0; chunk = w.chunk(chunk).next {
		claim(chunks, chunk, "chunk")
	}
	if n := max(len(w.chunks)*wheelSegment-1, 0); len(chunks) != n {
		t.Fatalf("%d of %d chunks found", len(chunks), n)
	}

	pages := map[uint32]bool{}
	holes := 0
	free := 0
	for slot, f := range w.filling {
		if f.page != 0 {
			claim(pages, f.page, "page")
			free += bits.OnesCount64(f.free)
			if p := w.pages[f.page]; !p.filling || p.free&f.free != 0 {
				t.Fatalf("slot %d fills %+v, page %+v", slot, f, p)
			}
		} else if f.free != 0 {
			t.Fatalf("slot %d fills %+v", slot, f)
		}
	}
	for page := w.whole; page != 0; page = w.pages[page].next {
		claim(pages, page, "page")
		if p := w.pages[page]; p.free != math.MaxUint64 || p.filling {
			t.Fatalf("whole page %d: %+v", page, p)
		}
	}
	for page := uint32(0); len(w.pages) > 0 && w.pages[page].next != 0; {
		prev := page
		page = w.pages[page].next
		claim(pages, page, "page")
		p := w.pages[page]
		if p.prev != prev || p.free == 0 || p.free == math.MaxUint64 || p.filling {
			t.Fatalf("page with holes %d: %+v", page, p)
		}
		holes += bits.OnesCount64(p.free)
	}
	if holes != w.holes {
		t.Fatalf("%d holes, the wheel says %d", holes, w.holes)
	}
	for page, p := range w.pages {
		if free += bits.OnesCount64(p.free); page > 0 && p.free != 0 && !pages[uint32(page)] {
			t.Fatalf("page %d is lost: %+v", page, p)
		}
		if w.over[page]&p.free != p.free {
			t.Fatalf("page %d has timers whose ids are free", page)
		}
	}
	if n := int(w.used)*64 - 64; n > 0 && len(ids)+free != n {
		t.Fatalf("%d ids in lists and %d free of %d", len(ids), free, n)
	}
}

func TestWheelModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.OneOf(rapid.Int64Range(-1000, 1000), rapid.Int64Range(1.79e12, 1.8e12)).Draw(t, "start")
		w, m := NewWheel(start), &wheelModel{now: start}
		var stale []Handle

		// Dues and steps cluster where something changes: now, the end of the
		// block, whole blocks, the horizon.
		offset := rapid.OneOf(
			rapid.Int64Range(-3, 3),
			rapid.Int64Range(0, 300),
			rapid.Custom(func(t *rapid.T) int64 {
				return rapid.Int64Range(0, 257).Draw(t, "blocks")*256 + rapid.Int64Range(-2, 2).Draw(t, "ms")
			}),
			rapid.Int64Range(-70_000, 70_000),
		)
		add := func(t *rapid.T) {
			due := m.now + offset.Draw(t, "due")
			h, ok := w.Add(due, m.added)
			if want := due <= m.horizon(); ok != want {
				t.Fatalf("Add(%d) at %d: %v", due, m.now, ok)
			}
			if !ok {
				return
			}
			if h == 0 {
				t.Fatalf("Add returned the zero Handle")
			}
			m.add(due, h)
		}
		cancel := func(t *rapid.T) {
			if len(m.timers) == 0 {
				return
			}
			x := m.timers[rapid.IntRange(0, len(m.timers)-1).Draw(t, "cancel")]
			if !w.Cancel(x.h) {
				t.Fatalf("Cancel of %v: false", x)
			}
			m.remove(x.added)
			stale = append(stale, x.h)
		}
		expire := func(t *rapid.T, now int64, stop int, busy bool) {
			due := slices.Clone(m.timers)
			due = slices.DeleteFunc(due, func(x modelTimer) bool { return x.due > now })
			m.now = max(m.now, now)
			delivered := 0
			w.Expire(now, func(d int64, ref uint64) bool {
				// The first of those that were there at the start and still are.
				for len(due) > 0 && !slices.Contains(m.timers, due[0]) {
					due = due[1:]
				}
				if len(due) == 0 || d != due[0].due || ref != due[0].added {
					t.Fatalf("Expire(%d) delivers %d at %d, want %v", now, ref, d, due)
				}
				m.remove(ref)
				stale = append(stale, due[0].h)
				if w.Cancel(due[0].h) {
					t.Fatalf("the timer in hand could be cancelled")
				}
				if w.Len() != len(m.timers) {
					t.Fatalf("Len is %d, want %d", w.Len(), len(m.timers))
				}
				due = due[1:]
				if busy {
					for range rapid.IntRange(0, 3).Draw(t, "inside") {
						rapid.SampledFrom([]func(*rapid.T){add, add, cancel, func(*rapid.T) { w.Next() }}).Draw(t, "do")(t)
					}
				}
				delivered++
				return delivered != stop
			})
			if stop == 0 || delivered < stop {
				for _, x := range due {
					if slices.Contains(m.timers, x) {
						t.Fatalf("Expire(%d) did not deliver %v", now, x)
					}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add":    add,
			"cancel": cancel,
			"addMany": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					add(t)
				}
			},
			"cancelMany": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					cancel(t)
				}
			},
			"cancelStale": func(t *rapid.T) {
				for _, h := range stale {
					if w.Cancel(h) {
						t.Fatalf("stale handle %x cancelled something", h)
					}
				}
			},
			"expire": func(t *rapid.T) { expire(t, m.now+offset.Draw(t, "step"), 0, false) },
			"expireStop": func(t *rapid.T) {
				expire(t, m.now+offset.Draw(t, "step"), rapid.IntRange(1, 20).Draw(t, "stop"), true)
			},
			"expireBusy": func(t *rapid.T) { expire(t, m.now+offset.Draw(t, "step"), 0, true) },
			"suspend": func(t *rapid.T) {
				expire(t, m.now+rapid.Int64Range(0, 1e9).Draw(t, "step"), rapid.IntRange(0, 3).Draw(t, "stop"), true)
			},
			"sweep": func(t *rapid.T) { w.compact(rapid.Uint32Range(0, listCount-1).Draw(t, "list")) },
			"clear": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "really") > 0 {
					return
				}
				for _, x := range m.timers {
					stale = append(stale, x.h)
				}
				m.timers, m.now = nil, m.now+offset.Draw(t, "step")
				w.Clear(m.now)
			},
			"": func(t *rapid.T) {
				checkWheel(t, w)
				if w.Len() != len(m.timers) || w.Horizon() != m.horizon() {
					t.Fatalf("Len %d, Horizon %d; want %d, %d", w.Len(), w.Horizon(), len(m.timers), m.horizon())
				}
				next, ok := w.Next()
				if ok != (len(m.timers) > 0) {
					t.Fatalf("Next says %v with %d timers", ok, len(m.timers))
				}
				if !ok {
					return
				}
				switch first := m.timers[0].due; {
				case next > first:
					t.Fatalf("Next is %d, after %d", next, first)
				case next != first && (first>>8 <= m.now>>8 || next>>8 != first>>8):
					t.Fatalf("Next is %d at %d, want %d", next, m.now, first)
				}
			},
		})
	})
}

// delivered returns what Expire(now) hands over, as "due:ref".
func delivered(w *Wheel, now int64) []string {
	var got []string
	w.Expire(now, func(due int64, ref uint64) bool {
		got = append(got, fmt.Sprintf("%d:%d", due, ref))
		return true
	})
	return got
}

func mustAdd(t *testing.T, w *Wheel, due int64, ref uint64) Handle {
	t.Helper()
	h, ok := w.Add(due, ref)
	if !ok {
		t.Fatalf("Add(%d): beyond the horizon %d", due, w.Horizon())
	}
	return h
}

func wantStrings(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// Each due alone, at starts on, before and after the borders of a block: it is not
// delivered a millisecond before, and is at its time, whether the clock comes
// there in steps or at once.
func TestWheelBorders(t *testing.T) {
	starts := []int64{0, 1, 254, 255, 256, 257, 65535, 65536, -1, -256, -257, 1_796_000_000_000}
	offsets := []int64{1, 2, 254, 255, 256, 257, 511, 512, 513, 65023, 65024, 65025, 65279, 65280}
	for _, start := range starts {
		for _, offset := range offsets {
			due := start + offset
			for _, step := range []int64{1, 7, 255, 256, 257, offset} {
				w := NewWheel(start)
				mustAdd(t, w, due, 1)
				if next, ok := w.Next(); !ok || next != due {
					t.Fatalf("start %d: Next is %d, %v; want %d", start, next, ok, due)
				}
				for now := start; now < due; now = min(now+step, due) {
					if got := delivered(w, now); got != nil {
						t.Fatalf("start %d step %d: %v delivered at %d", start, step, got, now)
					}
				}
				wantStrings(t, delivered(w, due-1))
				wantStrings(t, delivered(w, due), fmt.Sprintf("%d:1", due))
				checkWheel(t, w)
			}
		}
	}
}

func TestWheelHorizon(t *testing.T) {
	for _, now := range []int64{0, 1, 255, 256, -1, 1_796_000_000_123, math.MaxInt64 - 70_000} {
		w := NewWheel(now)
		h := w.Horizon()
		if ahead := h - now; ahead < 65_280 || ahead > 65_535 {
			t.Fatalf("at %d the horizon is %d ms ahead", now, ahead)
		}
		if _, ok := w.Add(h+1, 0); ok {
			t.Fatalf("at %d: accepted a due after the horizon", now)
		}
		mustAdd(t, w, h, 1)
		delivered(w, h-1)
		wantStrings(t, delivered(w, h), fmt.Sprintf("%d:1", h))
	}

	// At the end of time the horizon is the end of time.
	for _, now := range []int64{math.MaxInt64, math.MaxInt64 - 300} {
		w := NewWheel(now)
		if w.Horizon() != math.MaxInt64 {
			t.Fatalf("at %d the horizon is %d", now, w.Horizon())
		}
		mustAdd(t, w, math.MaxInt64, 1)
		wantStrings(t, delivered(w, math.MaxInt64), fmt.Sprintf("%d:1", int64(math.MaxInt64)))
	}
	w := NewWheel(math.MinInt64)
	if _, ok := w.Add(math.MaxInt64, 1); ok {
		t.Fatal("accepted all of time")
	}
	mustAdd(t, w, math.MinInt64, 2)
	wantStrings(t, delivered(w, math.MinInt64), fmt.Sprintf("%d:2", int64(math.MinInt64)))
}

// Timers of one block are in order when it cascades, and those added to it after
// that come behind those of the same millisecond that were there before.
func TestWheelCascadeKeepsOrder(t *testing.T) {
	w := NewWheel(0)
	for ref, due := range []int64{515, 513, 515, 514, 515} {
		mustAdd(t, w, due, uint64(ref))
	}
	wantStrings(t, delivered(w, 512)) // enters the block
	mustAdd(t, w, 515, 5)
	mustAdd(t, w, 513, 6)
	wantStrings(t, delivered(w, 515), "513:1", "513:6", "514:3", "515:0", "515:2", "515:4", "515:5")
}

func TestWheelAlreadyDue(t *testing.T) {
	w := NewWheel(1000)
	for ref, due := range []int64{1000, 400, 999, 400, 1001, -5, 1000} {
		mustAdd(t, w, due, uint64(ref))
	}
	if next, _ := w.Next(); next != -5 {
		t.Fatalf("Next is %d", next)
	}
	wantStrings(t, delivered(w, 1001), "-5:5", "400:1", "400:3", "999:2", "1000:0", "1000:6", "1001:4")
	checkWheel(t, w)
}

// A clock that goes back fires nothing early and loses nothing (W1, W5).
func TestWheelClockGoesBack(t *testing.T) {
	w := NewWheel(0)
	mustAdd(t, w, 5000, 1)
	mustAdd(t, w, 9000, 2)
	mustAdd(t, w, 9001, 3)
	w.Expire(9000, func(int64, uint64) bool { return false }) // 1 delivered, 2 left over
	mustAdd(t, w, 8000, 4)                                    // already due by the wheel's time
	mustAdd(t, w, 3000, 5)
	mustAdd(t, w, 9500, 6)
	wantStrings(t, delivered(w, 2999))
	wantStrings(t, delivered(w, 3000), "3000:5")
	mustAdd(t, w, 3500, 7)
	wantStrings(t, delivered(w, 7999), "3500:7")
	if next, _ := w.Next(); next != 8000 {
		t.Fatalf("Next is %d", next)
	}
	wantStrings(t, delivered(w, 9000), "8000:4", "9000:2")
	wantStrings(t, delivered(w, 10_000), "9001:3", "9500:6")
}

func TestWheelStopAndResume(t *testing.T) {
	w := NewWheel(0)
	var want []string
	for ref := range uint64(500) {
		due := int64(1 + ref*131%60_000)
		mustAdd(t, w, due, ref)
		want = append(want, fmt.Sprintf("%d:%d", due, ref))
	}
	slices.SortStableFunc(want, func(a, b string) int {
		var x, y int64
		fmt.Sscanf(a, "%d", &x)
		fmt.Sscanf(b, "%d", &y)
		return cmp.Compare(x, y)
	})
	var got []string
	for now := int64(60_000); w.Len() > 0; now += 300 { // leaves its block every time
		w.Expire(now, func(due int64, ref uint64) bool {
			got = append(got, fmt.Sprintf("%d:%d", due, ref))
			return len(got)%7 != 0
		})
		checkWheel(t, w)
	}
	wantStrings(t, got, want...)
}

// A suspended machine wakes after years: the wheel does not count them (W7).
func TestWheelSuspend(t *testing.T) {
	const century = 100 * 365 * 24 * 3600 * 1000
	w := NewWheel(0)
	for i := range int64(100) {
		w.Clear(i * century)
		mustAdd(t, w, w.Horizon(), 2)
		mustAdd(t, w, w.Horizon()-60_000, 1)
		if got := delivered(w, (i+1)*century-1); len(got) != 2 {
			t.Fatalf("delivered %v", got)
		}
		checkWheel(t, w)
	}
	mustAdd(t, w, w.Horizon(), 3)
	if got := delivered(w, math.MaxInt64); len(got) != 1 {
		t.Fatalf("delivered %v", got)
	}
}

// A callback that adds what is due at once, and to the very milliseconds that are
// being delivered, gets it with the next Expire (W4).
func TestWheelAddWhileExpiring(t *testing.T) {
	w := NewWheel(0)
	for ref := range uint64(3) {
		mustAdd(t, w, 300, ref)
	}
	var got []uint64
	w.Expire(300, func(_ int64, ref uint64) bool {
		got = append(got, ref)
		mustAdd(t, w, 300, ref+10)
		mustAdd(t, w, 0, ref+20)
		mustAdd(t, w, 301, ref+30)
		return true
	})
	if !slices.Equal(got, []uint64{0, 1, 2}) {
		t.Fatalf("got %v", got)
	}
	checkWheel(t, w)
	wantStrings(t, delivered(w, 300), "0:20", "0:21", "0:22", "300:10", "300:11", "300:12")
	wantStrings(t, delivered(w, 301), "301:30", "301:31", "301:32")
}

func TestWheelCancelWhileExpiring(t *testing.T) {
	w := NewWheel(0)
	var hs []Handle
	for ref := range uint64(6) {
		hs = append(hs, mustAdd(t, w, 300+int64(ref)/2, ref))
	}
	var got []uint64
	w.Expire(400, func(_ int64, ref uint64) bool {
		got = append(got, ref)
		if w.Cancel(hs[ref]) {
			t.Fatalf("timer %d is still there while it is delivered", ref)
		}
		if !w.Cancel(hs[ref+1]) {
			t.Fatalf("timer %d could not be cancelled", ref+1)
		}
		return true
	})
	if !slices.Equal(got, []uint64{0, 2, 4}) || w.Len() != 0 {
		t.Fatalf("got %v, %d left", got, w.Len())
	}
	checkWheel(t, w)
}

func TestWheelNextAfterCancel(t *testing.T) {
	w := NewWheel(0)
	a := mustAdd(t, w, 20, 0)
	b := mustAdd(t, w, 700, 1)
	mustAdd(t, w, 760, 2)
	c := mustAdd(t, w, 1100, 3)
	w.Cancel(a)
	if next, _ := w.Next(); next != 700 {
		t.Fatalf("Next is %d", next)
	}
	w.Cancel(b) // due earlier in the same block as 760: the bound stays
	if next, _ := w.Next(); next != 700 {
		t.Fatalf("Next is %d", next)
	}
	wantStrings(t, delivered(w, 700))
	if next, _ := w.Next(); next != 760 {
		t.Fatalf("Next is %d", next)
	}
	wantStrings(t, delivered(w, 760), "760:2")
	w.Cancel(c)
	if next, ok := w.Next(); ok {
		t.Fatalf("Next is %d in an empty wheel", next)
	}
	checkWheel(t, w)
}

func TestWheelStaleHandles(t *testing.T) {
	w := NewWheel(0)
	if w.Cancel(0) || w.Cancel(1<<32) || w.Cancel(math.MaxUint64) {
		t.Fatal("an empty wheel cancelled something")
	}
	h := mustAdd(t, w, 10, 1)
	if w.Cancel(0) || w.Cancel(1<<32) || w.Cancel(h&math.MaxUint32) || w.Cancel(h+1<<32) {
		t.Fatal("a handle that was never given cancelled something")
	}
	if !w.Cancel(h) || w.Cancel(h) {
		t.Fatal("want one Cancel to succeed")
	}
	delivered(w, 20)
	next := mustAdd(t, w, 30, 2)
	for n := 0; uint32(next) != uint32(h); n++ {
		if n == 1000 {
			t.Fatal("the id is not used again, this tests nothing")
		}
		if w.Cancel(h) || !w.Cancel(next) {
			t.Fatal("a stale handle cancelled another timer")
		}
		delivered(w, 20)
		next = mustAdd(t, w, 30, 2)
	}
	if w.Cancel(h) {
		t.Fatal("a stale handle cancelled another timer")
	}
	w.Clear(0)
	if w.Cancel(next) || w.Len() != 0 {
		t.Fatal("Clear left a timer")
	}
	checkWheel(t, w)
}

// An id whose generations are used up is not used again (W6).
func TestWheelGenerationsRunOut(t *testing.T) {
	for _, end := range []string{"cancel", "deliver", "clear"} {
		w := NewWheel(0)
		first := mustAdd(t, w, 1, 0)
		delivered(w, 1)
		*w.generation(uint32(first)) = math.MaxUint32 - 2
		var last Handle
		for n := 0; uint32(last) != uint32(first); n++ {
			if n == 1000 {
				t.Fatal("the id is not used again, this tests nothing")
			}
			last = mustAdd(t, w, w.now, 0)
			if uint32(last) != uint32(first) {
				delivered(w, w.now)
			}
		}
		switch end {
		case "cancel":
			w.Cancel(last)
			delivered(w, 2)
		case "deliver":
			delivered(w, 2)
		case "clear":
			w.Clear(0)
		}
		for range 1000 {
			if next := mustAdd(t, w, w.now, 1); uint32(next) == uint32(last) {
				t.Fatalf("%s: the id is used again", end)
			}
			delivered(w, w.now)
		}
		if w.Cancel(first) || w.Cancel(last) || w.Cancel(last&math.MaxUint32) || w.Cancel(last+1<<32) {
			t.Fatalf("%s: a stale handle cancelled something", end)
		}
	}
}

// Late timers in the worst orders, with stopped Expires between: never more runs
// than there are lists, and everything in order.
func TestWheelLateRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := NewWheel(1_000_000)
	most, total := uint32(0), 0
	for round := range 100 {
		switch n := 1 + rng.IntN(3000); rng.IntN(3) {
		case 0:
			for range n {
				mustAdd(t, w, rng.Int64N(1_000_000), 0)
			}
		case 1:
			for i := range int64(n) {
				mustAdd(t, w, 900_000-i, 0)
			}
		case 2:
			for i := range int64(n) {
				mustAdd(t, w, i, 0)
			}
		}
		most = max(most, w.late)
		last, stop := int64(-1), rng.IntN(3000)
		w.Expire(1_000_000, func(due int64, _ uint64) bool {
			if due < last {
				t.Fatalf("%d delivered after %d", due, last)
			}
			last = due
			if rng.IntN(2) == 0 {
				mustAdd(t, w, rng.Int64N(1_000_000), 0)
			}
			total++
			stop--
			return stop > 0
		})
		most = max(most, w.late)
		if round%20 == 0 {
			checkWheel(t, w)
		}
	}
	t.Logf("%d delivered, %d left, at most %d runs", total, w.Len(), most)
}

// wheelBytes returns what the wheel has allocated.
func wheelBytes(w *Wheel) int {
	return len(w.chunks)*wheelSegment*2048 + len(w.generations)*wheelIDs*4 + len(w.over)*8 + len(w.pages)*24
}

// No order of calls makes the wheel need more than 40 bytes for each timer of the
// largest number it held, and the partly used chunks (W8).
func TestWheelMemory(t *testing.T) {
	const peak = 50_000
	rng := rand.New(rand.NewPCG(3, 4))
	uniform := func(w *Wheel, _ int) int64 { return w.now + 1 + rng.Int64N(65_000) }
	for _, tc := range []struct {
		name  string
		due   func(w *Wheel, i int) int64
		pick  func(n int) int // which of n live timers to cancel
		step  int64           // milliseconds for each 1,000 timers
		churn int
	}{
		{"uniform", uniform, rng.IntN, 0, 200_000},
		{"uniform, time passes", uniform, rng.IntN, 1, 200_000},
		{"the newest", uniform, func(n int) int { return n - 1 }, 0, 200_000},
		{"one millisecond", func(w *Wheel, _ int) int64 { return w.now&^255 + 1000 }, rng.IntN, 0, 200_000},
		{"already due", func(w *Wheel, _ int) int64 { return w.now }, rng.IntN, 0, 200_000},
		{"already due, any order", func(w *Wheel, _ int) int64 { return w.now - rng.Int64N(1e6) }, rng.IntN, 0, 100_000},
		{"block after block", func(w *Wheel, i int) int64 { return w.now + int64(i/4_000%250+1)*256 }, func(n int) int { return n - 1 - rng.IntN(n/20+1) }, 0, 500_000},
		{"timeouts", func(w *Wheel, _ int) int64 { return w.now + 60_000 }, func(n int) int { return n - 1 }, 400, 200_000}, // until few are left
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := NewWheel(1_796_000_000_000)
			var live []Handle
			for i := range peak {
				live = append(live, mustAdd(t, w, tc.due(w, i), 0))
			}
			most := 0
			for i := range tc.churn {
				most = max(most, w.records)
				k := tc.pick(len(live))
				w.Cancel(live[k])
				live[k] = live[len(live)-1]
				live = live[:len(live)-1]
				live = append(live, mustAdd(t, w, tc.due(w, i), 0))
				if tc.step > 0 && i%1000 == 0 {
					w.Expire(w.now+tc.step, func(int64, uint64) bool { return true })
				}
			}
			checkWheel(t, w)
			got, bound := wheelBytes(w), 40*peak+2_600_000
			t.Logf("%d timers, %d dead at most, %.1f bytes for each of the peak", w.Len(), most-peak, float64(got)/peak)
			if got > bound {
				t.Fatalf("%d bytes, bound %d", got, bound)
			}
			// The records alone, without the constant.
			if bound := peak*135/100 + 1024 + 64*wheelSlots; most > bound {
				t.Fatalf("%d records, bound %d", most, bound)
			}
		})
	}
}

func TestWheelAllocatesNothing(t *testing.T) {
	const n = 20_000
	rng := rand.New(rand.NewPCG(5, 6))
	w := NewWheel(0)
	now, live := int64(0), make([]Handle, n)
	round := func() {
		for i := range live {
			if i%3 == 0 {
				w.Cancel(live[i])
			}
			live[i], _ = w.Add(now+rng.Int64N(65_000)-50, 0)
		}
		w.Next()
		for range 40 {
			now += rng.Int64N(4000)
			w.Expire(now, func(int64, uint64) bool { return true })
		}
	}
	for range 20 {
		round()
	}
	if avg := testing.AllocsPerRun(20, round); avg != 0 {
		t.Fatalf("%.2f allocations in %d timers", avg, n)
	}
}
