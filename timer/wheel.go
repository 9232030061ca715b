package timer

import (
	"math"
	"math/bits"
)

// Handle names one timer of one Wheel, from the Add that returned it until the
// timer is delivered, cancelled or cleared. After that it is stale, and Cancel
// refuses it for ever (W6). The zero Handle names nothing. A Handle means
// nothing to any other Wheel.
//
// The upper 32 bits are a generation, the lower 32 the id that has it.
type Handle uint64

const (
	wheelBits  = 8
	wheelSlots = 1 << wheelBits // slots of a level, and milliseconds of a block
	wheelMask  = wheelSlots - 1
)

// The lists of a wheel, by their index in Wheel.lists.
const (
	listMillis = 0              // + due&wheelMask: a millisecond of the block of Wheel.now
	listBlocks = wheelSlots     // + due>>wheelBits&wheelMask: a later block
	listRun    = 2 * wheelSlots // overdue, left by an Expire that was stopped or that passed whole blocks
	listLate   = listRun + 1    // + run: added when due already, see Wheel.late
	listCount  = listLate + 72  // 34 settled runs and 34 fresh ones cannot be exceeded, see settle
)

// Wheel is a hierarchical time wheel of two levels: 256 slots of 1 ms and 256
// slots of 256 ms. Times are int64 Unix milliseconds throughout. It holds what is
// due within about 65 seconds; what is due later stays with the caller, who adds
// it when it has come under Horizon.
//
// A block is an aligned stretch of 256 ms. The first level has a list for each
// millisecond of the block the wheel's time is in, the second a list for each of
// the 255 blocks after it. Entering a block cascades its list into the first
// level.
//
// A list is a chain of chunks of records, written at its end and read from its
// front. A timer has an id, by which its generation is found, and the ids of a
// block are taken from pages that it has to itself. So Add, cascade and Expire walk
// through memory that is close together. Cancel, which can come for any timer,
// touches the id only: the record stays behind, dead, and goes when its block comes
// or when there are too many (W8). None of it holds pointers that the garbage
// collector would follow.
//
// What holds:
//
//	W1  A timer is never delivered by an Expire whose now is before its due.
//	W2  An Expire that is not stopped delivers, once, every timer that was there
//	    when it began, has due <= now and is not cancelled meanwhile.
//	W3  Within one Expire the order is due, then order of addition.
//	W4  A timer added while Expire runs is not delivered by that Expire, so a
//	    callback that adds what is due at once cannot hold the loop.
//	W5  The wheel's own time is the largest now it has seen; only Clear sets it
//	    back. An Expire with a smaller now delivers what W1 allows, and nothing
//	    is lost.
//	W6  A stale Handle cancels nothing, ever: generations only grow, and an id
//	    whose generations are used up is not used again.
//	W7  Add, Cancel and Next take constant time, amortised over the records that
//	    die, timers added when already due apart (see Add). Expire takes time for
//	    what it cascades and delivers and a few hundred steps more, however far
//	    now jumps.
//	W8  A record takes 24.1 bytes and its id 4.5. When dead records are 5/16 of
//	    the timers (and 1,024), an Add that would need memory looks for some of
//	    them first, and looks at 32 for each that it then allocates in vain. That
//	    makes at most 40 bytes for each timer of the largest number held at once,
//	    and 2.6 MB for chunks and pages that are used in part. A wheel that has
//	    grown to that allocates nothing more, and gives nothing back until it is
//	    dropped.
//	W9  Memory grows 64 KiB at a time, and no record is copied for it.
//
// A Wheel belongs to one goroutine; it takes no lock.
//
// Measured by BenchmarkTimers on two virtual cores with other load, 2026-11-30:
// nanoseconds a timer while that many are held whose dues are spread over 65 s
// (1 million: medians of three runs), and bytes a timer. Renew cancels one and adds
// another, and so pays for finding dead records; drain expires all at once.
//
//	1 million         add  expire  cancel  renew  drain  bytes
//	Wheel              54      44      31    155     43   29.5
//	4-ary value heap    9     441       -      -    426   17.8
//	container/heap    132    2265     797   1070   1523   33.1
//	nats thw, 1 s     372      82     274    570     73   38.2
//	time.AfterFunc    299    1347     293    618      -  130.6
//
//	10 million        add  expire  cancel  renew  drain  bytes
//	Wheel              69      55      77    305     61   28.8
//	4-ary value heap    9     970       -      -    539   16.6
//	container/heap    111    2832     878   1128   2816   32.5
//	nats thw, 1 s     722      83     453    854     81   30.7
//	time.AfterFunc    245    1484     285    970      -  131.1
type Wheel struct {
	now     int64 // the wheel's own time
	count   int   // timers
	records int   // records in lists: timers and dead ones

	lists    [listCount]wheelList
	occupied [2 * wheelSlots / 64]uint64 // bit l: lists[l], a slot of either level, has records
	earliest [wheelSlots]uint8           // of a block with records: ms into it before which none is due

	// Timers that were due already when they were added are in runs, each in
	// order of due, from old to new.
	late    uint32 // runs
	settled uint32 // the first of them, which were there when the last Expire began

	hand uint32 // list that sweep looked at last

	chunks []*[wheelSegment]wheelChunk
	empty  uint32 // first chunk not in use, linked by next; 0 none

	generations []*[wheelIDs]uint32   // by id: the one given last
	over        []uint64              // by id, a bit each: the timer that has it is no more
	pages       []wheelPage           // by id/64
	used        uint32                // pages ever used, page 0 included
	filling     [wheelSlots]wheelFill // by block: where its next timers get ids from
	whole       uint32                // first page with all its ids free, linked by next; 0 none
	holes       int                   // free ids in the ring of pages that begins at page 0
}

const (
	wheelChunkRecords = 85      // a chunk is 2 KiB
	wheelSegment      = 32      // chunks allocated at once: 64 KiB
	wheelIDs          = 1 << 14 // generations allocated at once: 64 KiB
)

// wheelPage is 64 ids. One that no block fills and that has some ids free and some
// not is in a ring with page 0, which has no ids.
type wheelPage struct {
	free       uint64 // a bit for each id that no record has, and no wheelFill
	next, prev uint32
	filling    bool
}

// wheelFill is the page that a block fills, 0 if none, and ids of it that are free.
type wheelFill struct {
	free uint64
	page uint32
}

type wheelRecord struct {
	due int64
	ref uint64
	id  uint32
}

type wheelChunk struct {
	records [wheelChunkRecords]wheelRecord
	next    uint32
}

// wheelList is a chain of chunks. Only the first may have been read in part and
// only the last be written in part. Without records it has no chunk, and to is
// wheelChunkRecords.
type wheelList struct {
	first, last uint32
	n           uint32 // records
	from        uint16 // first record of first that is not read
	to          uint16 // records written of last
}

// NewWheel returns an empty wheel whose time is now, in Unix milliseconds.
func NewWheel(now int64) *Wheel {
	w := &Wheel{now: now}
	for list := range w.lists {
		w.lists[list].to = wheelChunkRecords
	}
	return w
}

// Len returns the number of timers in the wheel.
func (w *Wheel) Len() int { return w.count }

// Horizon returns the last due, in Unix milliseconds, that Add accepts now: the
// end of the 255th block after the current one, 65,280 to 65,535 ms after the
// wheel's time. It moves only with that.
func (w *Wheel) Horizon() int64 {
	const lastBlock = math.MaxInt64 >> wheelBits
	return min(w.now>>wheelBits+wheelMask, lastBlock)<<wheelBits | wheelMask
}

// Add puts a timer into the wheel, which the first Expire with now >= due hands
// over as (due, ref); due is in Unix milliseconds. It refuses a due beyond
// Horizon and returns false: the caller keeps that one and adds it later.
//
// A due at or before the wheel's time is accepted too. It is delivered by the
// next Expire, unless the clock has gone back and that Expire's now is before
// due (W1). k timers of this kind cost a step each if they come in order of due, in
// any other order log k.
func (w *Wheel) Add(due int64, ref uint64) (Handle, bool) {
	ahead := due>>wheelBits - w.now>>wheelBits // in blocks; cannot overflow
	if ahead >= wheelSlots {
		return 0, false
	}
	// This may sweep, so lists are looked at only after it.
	id := w.take(uint32(w.now>>wheelBits+max(ahead, 0)) & wheelMask)
	gen := *w.generation(id)
	var list uint32
	switch {
	case due <= w.now:
		list = w.lateRun(due)
	case ahead == 0:
		list = listMillis + uint32(due)&wheelMask
		w.occupied[list/64] |= 1 << (list % 64)
	default:
		slot, ms := uint32(due>>wheelBits)&wheelMask, uint8(due&wheelMask)
		list = listBlocks + slot
		if w.lists[list].n == 0 || ms < w.earliest[slot] {
			w.earliest[slot] = ms
		}
		w.occupied[list/64] |= 1 << (list % 64)
	}
	w.push(&w.lists[list], wheelRecord{due, ref, id})
	w.count++
	w.records++
	return Handle(gen)<<32 | Handle(id), true
}

// Cancel takes a timer out of the wheel and reports whether it was there: false
// if it has been delivered, cancelled or cleared, and for the zero Handle.
func (w *Wheel) Cancel(h Handle) bool {
	id, gen := uint32(h), uint32(h>>32)
	if id/64 >= w.used || w.isOver(id) || *w.generation(id) != gen {
		return false
	}
	w.over[id/64] |= 1 << (id % 64)
	w.count--
	return true
}

// Expire sets the wheel's time to now, in Unix milliseconds, unless it is past
// that, and hands every timer with due <= now to yield, in order of due and
// within one millisecond in order of addition. A timer is out of the wheel when
// yield gets it. When yield returns false, Expire stops: the timer in hand counts
// as delivered, all others stay for the next call.
//
// yield may call Add, Cancel, Next, Len and Horizon. What it cancels is not
// delivered, what it adds is not delivered before the next Expire (W4). It must
// not call Expire or Clear.
func (w *Wheel) Expire(now int64, yield func(due int64, ref uint64) bool) {
	w.advance(now)
	w.settle()
	for {
		list, ok := w.ripest()
		if !ok {
			return
		}
		// As long as no late run can come between, the list is read to its end.
		l := &w.lists[list]
		for more := true; more && l.n > 0; more = w.settled == 0 {
			r := *w.head(l)
			if r.due > now {
				return // the clock went back
			}
			w.pop(list)
			if w.finish(r.id) && !yield(r.due, r.ref) {
				return
			}
		}
	}
}

// Next returns a time in Unix milliseconds that is not after the due of any
// timer in the wheel, and whether there is one. It is the exact due of the first
// timer if that is in the current block of 256 ms or before it. Beyond, it is
// exact unless a timer that was due still earlier in the same block has been
// cancelled; then it is too early by less than 256 ms, and an Expire at that time
// delivers nothing and makes the next answer exact.
func (w *Wheel) Next() (due int64, ok bool) {
	if w.count == 0 {
		return 0, false
	}
	due = math.MaxInt64
	for list := uint32(listRun); list < listLate+w.late; list++ {
		if w.prune(list) {
			due, ok = min(due, w.head(&w.lists[list]).due), true
		}
	}
	for slot := w.firstOccupied(listMillis, 0); slot < wheelSlots; slot = w.firstOccupied(listMillis, slot) {
		if w.prune(listMillis + slot) {
			due, ok = min(due, w.now&^wheelMask|int64(slot)), true
			break
		}
	}
	if ok {
		return due, true // later blocks are due after all of these
	}
	for block := w.now >> wheelBits; ; {
		block, _ = w.nextBlock(block)
		if slot := uint32(block) & wheelMask; w.prune(listBlocks + slot) {
			return block<<wheelBits | int64(w.earliest[slot]), true
		}
	}
}

// Clear drops every timer undelivered and sets the wheel's time to now, in Unix
// milliseconds, even if that is earlier than it was. All handles become stale. It
// takes a step for each record, and keeps the memory.
func (w *Wheel) Clear(now int64) {
	for list := range uint32(listCount) {
		for l := &w.lists[list]; l.n > 0; {
			id := w.head(l).id
			w.pop(list)
			w.finish(id)
		}
	}
	for slot := range uint32(wheelSlots) {
		w.leave(slot)
	}
	w.now, w.late, w.settled = now, 0, 0
}

// advance moves the wheel's time to now. All that is due by then is in listRun
// afterwards or in the slots of the first level up to now, and all of listRun is
// due before the current block.
func (w *Wheel) advance(now int64) {
	if now <= w.now {
		return
	}
	if from, to := w.now>>wheelBits, now>>wheelBits; from != to {
		w.overrun()
		for block, ok := w.nextBlock(from); ok && block <= to; block, ok = w.nextBlock(block) {
			w.cascade(uint32(block) & wheelMask)
			if block == to {
				break
			}
			w.overrun()
		}
		for n := range min(to-from, wheelSlots) {
			w.leave(uint32(from+n) & wheelMask)
		}
	}
	w.now = now
}

// nextBlock returns the first block with records after the given one, which is
// the current block or one after it.
func (w *Wheel) nextBlock(block int64) (int64, bool) {
	from := uint32(block+1) & wheelMask
	slot := w.firstOccupied(listBlocks, from)
	if slot == wheelSlots {
		if slot = w.firstOccupied(listBlocks, 0); slot == wheelSlots {
			return 0, false
		}
	}
	return block + 1 + int64((slot-from)&wheelMask), true
}

// firstOccupied returns the first slot with records at or after from, of the
// level whose lists begin at base, or wheelSlots.
func (w *Wheel) firstOccupied(base, from uint32) uint32 {
	words := w.occupied[base/64 : base/64+wheelSlots/64]
	mask := ^uint64(0) << (from % 64)
	for n := from / 64; n < uint32(len(words)); n++ {
		if set := words[n] & mask; set != 0 {
			return n*64 + uint32(bits.TrailingZeros64(set))
		}
		mask = ^uint64(0)
	}
	return wheelSlots
}

// cascade spreads the block in slot over the first level, which is empty. The
// block's list is in order of addition, and nothing has been added to its
// milliseconds yet, so their lists are in that order too (W3).
func (w *Wheel) cascade(slot uint32) {
	block := listBlocks + slot
	l := &w.lists[block]
	for l.n > 0 {
		part := w.front(l)
		for i := range part {
			r := &part[i]
			if w.isOver(r.id) {
				w.finish(r.id)
				continue
			}
			list := listMillis + uint32(r.due)&wheelMask
			w.occupied[list/64] |= 1 << (list % 64)
			w.push(&w.lists[list], *r)
		}
		w.skip(l, len(part))
	}
	w.vacate(block)
}

// overrun moves the first level to listRun, whose end is due before all of it.
func (w *Wheel) overrun() {
	for slot := w.firstOccupied(listMillis, 0); slot < wheelSlots; slot = w.firstOccupied(listMillis, slot) {
		w.move(&w.lists[listRun], &w.lists[listMillis+slot])
		w.vacate(listMillis + slot)
	}
}

// ripest returns the list whose head is to be delivered next, not looking at
// runs that are not settled (W4). A record of listRun or of a slot was added
// before the wheel's time reached its due, and is older than one with the same
// due in a late run; an earlier run is older than a later one.
func (w *Wheel) ripest() (list uint32, ok bool) {
	due := int64(math.MaxInt64)
	if l := &w.lists[listRun]; l.n > 0 {
		list, due, ok = listRun, w.head(l).due, true
	} else if slot := w.firstOccupied(listMillis, 0); slot <= uint32(w.now)&wheelMask {
		list, due, ok = listMillis+slot, w.now&^wheelMask|int64(slot), true
	}
	for run := uint32(listLate); run < listLate+w.settled; run++ {
		if l := &w.lists[run]; l.n > 0 && (!ok || w.head(l).due < due) {
			list, due, ok = run, w.head(l).due, true
		}
	}
	return list, ok
}

// lateRun returns the run that a timer with the given due, at or before the
// wheel's time, is appended to: the last one if that keeps its order of due, else
// a new one.
func (w *Wheel) lateRun(due int64) uint32 {
	if w.late > w.settled {
		list := listLate + w.late - 1
		l := &w.lists[list]
		if l.n == 0 || w.chunk(l.last).records[l.to-1].due <= due {
			return list
		}
		w.merge(w.settled)
	}
	w.late++
	return listLate + w.late - 1
}

// settle makes one run of those added since the last Expire began, and lets
// Expire deliver it.
//
// A run is begun, or settled, only when the one before it has at least twice as
// many records; after that neither grows. So there are never more settled runs,
// and never more fresh ones, than a record number has bits.
func (w *Wheel) settle() {
	if w.late == 0 {
		return
	}
	for w.late > w.settled+1 {
		w.mergeLast()
	}
	for w.late > 0 && w.lists[listLate+w.late-1].n == 0 {
		w.late--
	}
	w.merge(0)
	w.settled = w.late
}

// merge joins the last run with those before it that are less than twice its
// size, the first base runs excepted.
func (w *Wheel) merge(base uint32) {
	for w.late > base+1 && w.lists[listLate+w.late-2].n < 2*w.lists[listLate+w.late-1].n {
		w.mergeLast()
	}
}

// mergeLast makes one run of the last two, both in order of due. Of two equals
// the one in the earlier run is older.
func (w *Wheel) mergeLast() {
	w.late--
	into, last := &w.lists[listLate+w.late-1], &w.lists[listLate+w.late]
	older, younger := *into, *last
	*into, *last = wheelList{to: wheelChunkRecords}, wheelList{to: wheelChunkRecords}
	for older.n > 0 && younger.n > 0 {
		from := &older
		if w.head(&younger).due < w.head(&older).due {
			from = &younger
		}
		w.push(into, *w.head(from))
		w.skip(from, 1)
	}
	w.move(into, &older)
	w.move(into, &younger)
}

// sweep looks for dead records, list by list where it left off, when there are
// many. It stops when it has freed a page's worth of ids, or has looked at 32
// records for each of them (W8).
func (w *Wheel) sweep() (found bool) {
	if dead := w.records - w.count; dead < w.count/16*5+1024 {
		return false
	}
	enough := w.records - 64
	for looked := uint32(0); w.records > enough && looked < 32*64; {
		if w.hand++; w.hand == listCount {
			w.hand = 0
		}
		looked += w.lists[w.hand].n + 1
		w.compact(w.hand)
	}
	return w.records <= enough
}

// compact writes a list anew without its dead records. The chunks that have been
// read are the ones that are written next.
func (w *Wheel) compact(list uint32) {
	l := &w.lists[list]
	old := *l
	*l = wheelList{to: wheelChunkRecords}
	for old.n > 0 {
		part := w.front(&old)
		for i := range part {
			if r := &part[i]; w.isOver(r.id) {
				w.finish(r.id)
			} else {
				w.push(l, *r)
			}
		}
		w.skip(&old, len(part))
	}
	if l.n == 0 {
		w.vacate(list)
	}
}

// prune drops dead records from the front of a list and reports whether a timer
// is left.
func (w *Wheel) prune(list uint32) bool {
	for l := &w.lists[list]; l.n > 0; {
		id := w.head(l).id
		if !w.isOver(id) {
			return true
		}
		w.pop(list)
		w.finish(id)
	}
	return false
}

// take returns an id for a record of the block in slot.
func (w *Wheel) take(slot uint32) uint32 {
	f := &w.filling[slot]
	for f.free == 0 {
		w.refill(slot)
	}
	k := uint32(bits.TrailingZeros64(f.free))
	f.free &= f.free - 1
	return f.page*64 + k
}

// refill gives the block in slot free ids, each with its next generation: those of
// its page that have become free again, else a whole page, or one with holes if
// there are many of those, or if dead records have just left some.
func (w *Wheel) refill(slot uint32) {
	f := &w.filling[slot]
	if f.page == 0 || w.pages[f.page].free == 0 {
		w.leave(slot)
		few := w.holes <= w.count/16
		if w.whole == 0 && few && w.sweep() {
			few = false
		}
		switch {
		case w.whole != 0:
			f.page = w.whole
			w.whole = w.pages[f.page].next
		case !few && w.holes > 0:
			f.page = w.pages[0].next
			w.unlink(f.page)
		default:
			f.page = w.newPage()
		}
	}
	p := &w.pages[f.page]
	f.free, p.free, p.filling = p.free, 0, true
	for ids := f.free; ids != 0; ids &= ids - 1 {
		k := uint32(bits.TrailingZeros64(ids))
		g := w.generation(f.page*64 + k)
		*g++
		if *g == math.MaxUint32 {
			f.free &^= 1 << k // used up: the id is lost (W6)
		}
	}
	w.over[f.page] &^= f.free
}

// leave ends the filling of a page for the block in slot: it is full, or the block
// is over.
func (w *Wheel) leave(slot uint32) {
	f := w.filling[slot]
	if f.page == 0 {
		return
	}
	w.filling[slot] = wheelFill{}
	w.over[f.page] |= f.free
	p := &w.pages[f.page]
	p.free |= f.free
	p.filling = false
	switch p.free {
	case 0:
	case math.MaxUint64:
		p.next, w.whole = w.whole, f.page
	default:
		w.link(f.page)
	}
}

// link puts a page at the end of the ring of those with holes.
func (w *Wheel) link(page uint32) {
	p, ring := &w.pages[page], &w.pages[0]
	p.prev, p.next = ring.prev, 0
	w.pages[ring.prev].next = page
	ring.prev = page
	w.holes += bits.OnesCount64(p.free)
}

// unlink takes a page out of that ring.
func (w *Wheel) unlink(page uint32) {
	p := &w.pages[page]
	w.pages[p.prev].next = p.next
	w.pages[p.next].prev = p.prev
	w.holes -= bits.OnesCount64(p.free)
}

// newPage returns a page that has never been used. Page 0 has no ids, so that 0 can
// mean no page, and no Handle is 0.
func (w *Wheel) newPage() uint32 {
	if int(w.used) == len(w.pages) {
		w.generations = append(w.generations, new([wheelIDs]uint32))
		w.over = append(w.over, make([]uint64, wheelIDs/64)...)
		w.pages = append(w.pages, make([]wheelPage, wheelIDs/64)...)
		if w.used == 0 {
			w.over[0] = math.MaxUint64
			w.used = 1
		}
	}
	page := w.used
	w.pages[page].free = math.MaxUint64
	w.used++
	return page
}

// finish frees the id of a record that has left its list, and reports whether it
// was a timer and not dead.
func (w *Wheel) finish(id uint32) bool {
	page, bit := id/64, uint64(1)<<(id%64)
	timer := w.over[page]&bit == 0
	w.over[page] |= bit
	w.records--
	if timer {
		w.count--
	}
	p := &w.pages[page]
	switch {
	case p.filling:
		p.free |= bit
	case p.free == 0:
		p.free = bit
		w.link(page)
	default:
		p.free |= bit
		w.holes++
		if p.free == math.MaxUint64 {
			w.unlink(page)
			p.next, w.whole = w.whole, page
		}
	}
	return timer
}

// generation returns where the generation of id is.
func (w *Wheel) generation(id uint32) *uint32 { return &w.generations[id/wheelIDs][id%wheelIDs] }

// isOver reports whether the timer that has id is no more. If a list has its record
// still, that is dead.
func (w *Wheel) isOver(id uint32) bool { return w.over[id/64]>>(id%64)&1 != 0 }

// vacate notes that a list has no records any more.
func (w *Wheel) vacate(list uint32) {
	if list < listRun {
		w.occupied[list/64] &^= 1 << (list % 64)
	}
}

// chunk returns a chunk by its number.
func (w *Wheel) chunk(i uint32) *wheelChunk { return &w.chunks[i/wheelSegment][i%wheelSegment] }

// newChunk takes a chunk that is not in use. Chunk 0 is never used, so that 0 can
// mean none.
func (w *Wheel) newChunk() uint32 {
	if w.empty == 0 {
		first := uint32(len(w.chunks)) * wheelSegment
		w.chunks = append(w.chunks, new([wheelSegment]wheelChunk))
		for i := first + wheelSegment - 1; i >= max(first, 1); i-- {
			w.chunk(i).next, w.empty = w.empty, i
		}
	}
	i := w.empty
	w.empty = w.chunk(i).next
	return i
}

// head returns the first record of a list that has one.
func (w *Wheel) head(l *wheelList) *wheelRecord { return &w.chunk(l.first).records[l.from] }

// front returns the records of a list that are in its first chunk.
func (w *Wheel) front(l *wheelList) []wheelRecord {
	return w.chunk(l.first).records[l.from:min(uint32(l.from)+l.n, wheelChunkRecords)]
}

// push appends a record to a list.
func (w *Wheel) push(l *wheelList, r wheelRecord) {
	if l.to == wheelChunkRecords {
		w.extend(l)
	}
	w.chunk(l.last).records[l.to] = r
	l.to++
	l.n++
}

// extend gives a list another chunk.
func (w *Wheel) extend(l *wheelList) {
	i := w.newChunk()
	if l.n == 0 {
		l.first, l.from = i, 0
	} else {
		w.chunk(l.last).next = i
	}
	l.last, l.to = i, 0
}

// pop drops the first record of a list.
func (w *Wheel) pop(list uint32) {
	l := &w.lists[list]
	w.skip(l, 1)
	if l.n == 0 {
		w.vacate(list)
	}
}

// skip drops the first k records of a list, all of them in its first chunk.
func (w *Wheel) skip(l *wheelList, k int) {
	l.from += uint16(k)
	l.n -= uint32(k)
	if l.n > 0 && l.from < wheelChunkRecords {
		return
	}
	c := w.chunk(l.first)
	l.first, c.next, w.empty = c.next, w.empty, l.first
	l.from = 0
	if l.n == 0 {
		l.to = wheelChunkRecords
	}
}

// move appends all records of one list to another.
func (w *Wheel) move(into, from *wheelList) {
	for from.n > 0 {
		part := w.front(from)
		for i := range part {
			w.push(into, part[i])
		}
		w.skip(from, len(part))
	}
}
