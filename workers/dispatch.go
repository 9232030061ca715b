package workers

import (
	"iter"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// OfferDeadline is how long an offer may stay unclaimed.
const OfferDeadline = 10 * time.Second

// Rules are the leader's rules about work. One value belongs to one shard.
type Rules struct {
	*Liveness
	// Address gives the subjects of offers.
	Address events.Address
	Shard   events.Shard

	subjects map[events.Group]string // of offers; groups are few
}

// Dispatch is the decider that offers queued instances: into the free slots of
// the workers that are present, within the limits of group and task, in the
// order of the queue.
func (r *Rules) Dispatch(s *projector.State, now events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		var e events.Event
		for _, g := range s.Groups() {
			if g.Queued() == 0 {
				continue
			}
			free := r.free(s, g, now.Mono)
			for free > 0 {
				i := s.Best(g, now.Millis())
				if i == nil {
					break
				}
				s.Focus(i, nil)
				if t := s.Task(i.Task); t != nil {
					if spec := s.Spec(i.Task, i.Version); spec != nil && spec.Limit > 0 && t.Active() >= spec.Limit {
						s.Block(i)
						continue
					}
				}
				e = events.Event{
					Kind: events.KindDispatched, Instance: i.ID, Attempt: i.Attempt, Offer: i.Offer + 1,
					At: now.Millis() + OfferDeadline.Milliseconds(),
				}
				if !yield(&e) {
					return
				}
				free--
			}
		}
	}
}

// free is how many more attempts of a group may be offered: the slots of its
// workers that are present, less what these workers run and what is on offer,
// within the group's limit.
//
// Attempts on workers that are gone take no slot of those that are there, but
// count for the limit.
func (r *Rules) free(s *projector.State, g *projector.Group, mono int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	slots, present := int64(0), int64(0)
	for _, w := range r.workers {
		if n := w.slots[g.Name]; n > 0 && w.present(mono) {
			slots += n
			present += s.RunsIn(w.name, g.Name)
		}
	}
	free := slots - present - g.Offered()
	if g.Limit > 0 {
		free = min(free, g.Limit-g.Active())
	}
	return free
}

// OfferEffect is the reaction to dispatched: the offer, and the subject in the
// work stream that it goes to. It is nil if the instance is not there.
func (r *Rules) OfferEffect(s *projector.State, e *events.Event) (subject string, offer *events.Offer) {
	i := s.Instance(e.Instance)
	if i == nil {
		return "", nil
	}
	offer = &events.Offer{Shard: r.Shard, Instance: i.ID, Attempt: i.Attempt, Offer: i.Offer, Task: i.Task}
	if spec := s.Spec(i.Task, i.Version); spec != nil {
		offer.Executor = spec.Executor.Kind
	}
	subject, ok := r.subjects[i.Group]
	if !ok {
		if r.subjects == nil {
			r.subjects = map[events.Group]string{}
		}
		subject = r.Address.Work(r.Shard, i.Group)
		r.subjects[i.Group] = subject
	}
	return subject, offer
}
