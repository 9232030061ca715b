package projector

import (
	"container/heap"
)

// priorities is the number of base priorities, 0 to 9.
const priorities = 10

// maxAgeing is how many minutes of waiting raise an instance's priority, by one
// each.
const maxAgeing = 9

// queue holds the SCHEDULED instances of a group. Order: priority plus whole
// minutes waited since the due time (at most maxAgeing), higher first; then
// due, then id. All of one base priority age alike, so each has a heap by due
// and id, and the best is among the ten heads.
type queue struct {
	byPriority [priorities]instanceHeap
	size       int
}

func (q *queue) len() int { return q.size }

func (q *queue) push(i *Instance) {
	heap.Push(&q.byPriority[clampPriority(i.Priority)], i)
	q.size++
}

func (q *queue) remove(i *Instance) {
	heap.Remove(&q.byPriority[clampPriority(i.Priority)], i.heapIndex)
	q.size--
}

// best gives the instance that is next at now (Unix milliseconds), or nil.
func (q *queue) best(now int64) *Instance {
	var best *Instance
	var rank int64
	for p := range q.byPriority {
		h := q.byPriority[p]
		if len(h) == 0 {
			continue
		}
		i := h[0]
		r := int64(p) + min(max(now-i.Due, 0)/60_000, maxAgeing)
		if best == nil || r > rank || r == rank && before(i, best) {
			best, rank = i, r
		}
	}
	return best
}

func clampPriority(p int64) int { return int(min(max(p, 0), priorities-1)) }

func before(a, b *Instance) bool {
	if a.Due != b.Due {
		return a.Due < b.Due
	}
	return a.ID < b.ID
}

// instanceHeap implements heap.Interface; each instance knows its place.
type instanceHeap []*Instance

func (h instanceHeap) Len() int           { return len(h) }
func (h instanceHeap) Less(i, j int) bool { return before(h[i], h[j]) }
func (h instanceHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heapIndex, h[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (h *instanceHeap) Push(x any) {
	i := x.(*Instance)
	i.heapIndex = len(*h)
	*h = append(*h, i)
}

// Pop implements heap.Interface.
func (h *instanceHeap) Pop() any {
	old := *h
	i := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return i
}
