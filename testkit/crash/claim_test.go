package crash

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	randv2 "math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/testkit"
	"github.com/ax-scheduler/ax/workers"
)

// claimGroup is the group that the claimants serve.
const claimGroup = events.Group("claims")

// patience is how long a claimant waits for any answer before it says that it
// waits for ever: much longer than a change of the leader takes.
const patience = 90 * time.Second

// attemptKey names an attempt.
type attemptKey struct {
	instance events.InstanceID
	attempt  int64
}

// bid is one claimant's claim of one offer, with every answer it got.
type bid struct {
	offer   events.Offer
	nonce   string
	stopped bool // an answer to a beat said to stop it
	answers []bidAnswer
	ran     bool
	report  string // what was recorded of its outcome
}

type bidAnswer struct {
	term   events.Term
	reason string // "" is go
	token  uint64
}

// claimant is a worker that speaks the protocol by hand, without the runtime. It
// bids for every offer that it sees.
type claimant struct {
	f      *claims
	nc     *nats.Conn
	name   events.WorkerName
	inc    int64
	number atomic.Int64 // of the last beat sent
	queue  chan *question

	mu   sync.Mutex
	held map[*bid]bool // from before the first claim until the outcome is answered
	bids []*bid
}

// question is a claim that waits to be sent in an array, and its answer.
type question struct {
	bid    *bid
	answer chan *bidAnswer // nil: none came
}

// claims is the test: two claimants that want the same.
type claims struct {
	*pair
	claimants [2]*claimant
	bidding   sync.WaitGroup
	offers    atomic.Int64
	cancels   atomic.Int64 // instances that were cancelled in the moment of the claim
	late      atomic.Int64 // offers that were claimed in the moment of their deadline
	dropped   atomic.Int64 // answers that were thrown away and asked for again
	silent    atomic.Int64 // questions that got no answer

	mu       sync.Mutex
	problems []string
	ran      map[attemptKey]events.WorkerName
}

func (f *claims) bad(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.problems) < 50 {
		f.problems = append(f.problems, fmt.Sprintf(format, args...))
	}
}

func (f *claims) newClaimant(name string) *claimant {
	c := &claimant{f: f, nc: f.n.Connect(), name: events.WorkerName(name), inc: time.Now().UnixMicro(), held: map[*bid]bool{}, queue: make(chan *question, 10_000)}
	ctx, cancel := context.WithCancel(context.Background())
	var owned sync.WaitGroup
	nudge := make(chan struct{}, 1)
	sub, err := c.nc.Subscribe(testkit.Addresses().FeedLedAll(), func(*nats.Msg) {
		select {
		case nudge <- struct{}{}:
		default:
		}
	})
	if err != nil {
		f.t.Fatal(err)
	}
	owned.Go(func() { c.beats(ctx, nudge) })
	owned.Go(func() { c.sender(ctx, &owned) })
	f.t.Cleanup(func() {
		_ = sub.Unsubscribe()
		cancel()
		owned.Wait()
	})
	return c
}

// beats sends a beat each second, and at once to a new leader.
func (c *claimant) beats(ctx context.Context, nudge chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		c.mu.Lock()
		b := events.Beat{
			Worker: c.name, Incarnation: c.inc, Number: c.number.Add(1), RunLease: workers.DefaultRunLease.Milliseconds(),
			Slots: map[events.Group]int64{claimGroup: 1500}, Executors: []string{"func"},
		}
		listed := map[events.BeatAttempt]*bid{}
		for x := range c.held {
			a := events.BeatAttempt{Instance: x.offer.Instance, Attempt: x.offer.Attempt, Offer: x.offer.Offer, Nonce: workers.NonceHash(x.nonce)}
			listed[events.BeatAttempt{Instance: a.Instance, Attempt: a.Attempt, Offer: a.Offer}] = x
			b.Attempts = append(b.Attempts, a)
		}
		c.mu.Unlock()
		body, err := json.Marshal(&b)
		if err != nil {
			c.f.bad("beat: %v", err)
			return
		}
		rctx, cancel := context.WithTimeout(ctx, time.Second)
		msg, err := c.nc.RequestWithContext(rctx, testkit.Addresses().RPC(0, events.RPCBeat, ""), body)
		cancel()
		var answer events.BeatAnswer
		if err == nil && json.Unmarshal(msg.Data, &answer) == nil {
			if answer.Error != "" {
				c.f.bad("beat %d of %s was refused: %s", b.Number, c.name, answer.Error)
			}
			c.mu.Lock()
			for _, s := range answer.Stop {
				if x := listed[events.BeatAttempt{Instance: s.Instance, Attempt: s.Attempt, Offer: s.Offer}]; x != nil && s.Reason == events.StopOver {
					x.stopped = true
				}
			}
			c.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-nudge:
		}
	}
}

// sender sends what is asked in arrays, as a busy worker does.
func (c *claimant) sender(ctx context.Context, owned *sync.WaitGroup) {
	for {
		var batch []*question
		select {
		case <-ctx.Done():
			return
		case q := <-c.queue:
			batch = append(batch, q)
		}
		for more := true; more && len(batch) < 50; {
			select {
			case q := <-c.queue:
				batch = append(batch, q)
			default:
				more = false
			}
		}
		owned.Go(func() { c.send(ctx, batch) })
	}
}

// send sends one array of claims and hands the answers out; nil to who got none.
func (c *claimant) send(ctx context.Context, batch []*question) {
	req := events.Claims{Worker: c.name, Incarnation: c.inc, Beat: c.number.Load(), RunLease: workers.DefaultRunLease.Milliseconds()}
	for _, q := range batch {
		o := &q.bid.offer
		req.Claims = append(req.Claims, events.Claim{Instance: o.Instance, Attempt: o.Attempt, Offer: o.Offer, Nonce: q.bid.nonce})
	}
	var answers events.ClaimAnswers
	rctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	msg, err := c.nc.RequestWithContext(rctx, testkit.Addresses().RPC(0, events.RPCClaim, claimGroup), req.Encode(nil))
	if err == nil {
		if err := answers.Decode(msg.Data); err != nil {
			c.f.bad("answer to claims: %v: %.200s", err, msg.Data)
		}
	}
	for k, q := range batch {
		if k >= len(answers.Answers) { // no answer, or none for the rest
			c.f.silent.Add(1)
			q.answer <- nil
			continue
		}
		a := &answers.Answers[k]
		if a.Instance != q.bid.offer.Instance || a.Attempt != q.bid.offer.Attempt || a.Offer != q.bid.offer.Offer {
			c.f.bad("answer %d to claims is for %s attempt %d offer %d, asked was %+v", k, a.Instance, a.Attempt, a.Offer, q.bid.offer)
		}
		x := &bidAnswer{term: answers.Term, reason: a.Reason}
		switch {
		case a.Reason == "" && a.Run != nil:
			x.token = a.Run.Token
		case a.Reason == "":
			c.f.bad("go for %s without what to run", a.Instance)
		}
		q.answer <- x
	}
}

// ask asks with the bid's nonce until an answer comes. It is noted whatever
// happens to it then.
func (c *claimant) ask(b *bid) *bidAnswer {
	deadline := time.Now().Add(patience)
	for {
		q := &question{bid: b, answer: make(chan *bidAnswer, 1)}
		c.queue <- q
		a := <-q.answer
		if a != nil {
			b.answers = append(b.answers, *a)
			return a
		}
		if time.Now().After(deadline) {
			c.f.bad("%s has waited %s for an answer to its claim of %+v", c.name, patience, b.offer)
			return nil
		}
		time.Sleep(time.Duration(20+randv2.IntN(80)) * time.Millisecond)
	}
}

func chance(p float64) bool { return randv2.Float64() < p }

// bid claims an offer, runs it if it may, and reports. Answers get lost on the
// way, and are asked for again.
func (c *claimant) bid(o events.Offer) {
	b := &bid{offer: o, nonce: rand.Text()}
	c.mu.Lock()
	c.held[b] = true
	c.bids = append(c.bids, b)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.held, b)
		c.mu.Unlock()
	}()
	a := c.ask(b)
	for a != nil && chance(0.3) {
		c.f.dropped.Add(1)
		a = c.ask(b)
	}
	if a == nil || a.reason != "" {
		if a != nil && chance(0.2) {
			time.Sleep(time.Duration(randv2.IntN(500)) * time.Millisecond)
			c.ask(b)
		}
		return
	}
	c.mu.Lock()
	stopped := b.stopped
	c.mu.Unlock()
	if stopped {
		return // over before it began
	}
	b.ran = true
	c.f.run(attemptKey{o.Instance, o.Attempt}, c.name)
	time.Sleep(time.Duration(randv2.IntN(50)) * time.Millisecond)
	if chance(0.3) {
		c.ask(b)
	}
	c.report(b)
	if chance(0.2) {
		if a := c.ask(b); a != nil && a.reason == "" {
			c.f.bad("%s got go for %+v after its outcome was recorded as %s", c.name, o, b.report)
		}
	}
}

// run notes that an attempt runs.
func (f *claims) run(k attemptKey, by events.WorkerName) {
	f.mu.Lock()
	was, twice := f.ran[k]
	f.ran[k] = by
	f.mu.Unlock()
	if twice {
		f.bad("attempt %d of %s is run by %s, and was by %s", k.attempt, k.instance, by, was)
	}
}

// report reports success until it is answered, and perhaps once more.
func (c *claimant) report(b *bid) {
	req := events.Reports{Worker: c.name, Incarnation: c.inc, Reports: []events.Report{{
		Instance: b.offer.Instance, Attempt: b.offer.Attempt, Offer: b.offer.Offer, Nonce: b.nonce, Outcome: events.OutcomeSucceeded,
	}}}
	body := req.Encode(nil)
	deadline := time.Now().Add(patience)
	for again := chance(0.2); ; {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		msg, err := c.nc.RequestWithContext(ctx, testkit.Addresses().RPC(0, events.RPCReport, claimGroup), body)
		cancel()
		var answers events.ReportAnswers
		if err == nil {
			err = answers.Decode(msg.Data)
		}
		if err == nil && len(answers.Answers) != 1 {
			err = errors.New("no answer in the answer")
		}
		if err != nil {
			if time.Now().After(deadline) {
				c.f.bad("%s has waited %s for an answer to its report of %+v: %v", c.name, patience, b.offer, err)
				return
			}
			time.Sleep(time.Duration(20+randv2.IntN(80)) * time.Millisecond)
			continue
		}
		a := answers.Answers[0]
		if a.Outcome == "" || b.report != "" && b.report != a.Outcome {
			c.f.bad("the report of %+v is answered with %q %q, and was with %q", b.offer, a.Outcome, a.Reason, b.report)
		}
		b.report = a.Outcome
		if !again {
			return
		}
		again = false
	}
}

// offered lets both claimants bid for an offer in the same moment, and some other
// decision about it come in that moment, too.
func (f *claims) offered(o events.Offer) {
	f.offers.Add(1)
	begin := make(chan struct{})
	for _, c := range f.claimants {
		f.bidding.Go(func() {
			<-begin
			c.bid(o)
		})
	}
	switch what := randv2.IntN(6); {
	case what == 0:
		f.cancels.Add(1)
		f.bidding.Go(func() {
			<-begin
			f.cancel(o.Instance)
		})
	case what == 1 && o.Offer == 1:
		// The leader withdraws it ten seconds after it was decided.
		f.late.Add(1)
		time.Sleep(workers.OfferDeadline + time.Duration(randv2.IntN(80)-50)*time.Millisecond)
	}
	close(begin)
}

func (f *claims) cancel(id events.InstanceID) {
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		_, err := client(f.nc).Do(ctx, events.Command{Verb: events.VerbCancel, Name: string(id)}) // refused where it has ended
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.bad("no answer to the cancel of %s for %s", id, patience)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Every offer is claimed by two workers at once, while its instance is cancelled
// or its deadline comes, answers get lost, and the leader is killed. An attempt is
// started once or not at all; who was not told go has not run it; who asks again
// with the same nonce gets the same answer; nobody waits for ever.
func TestTwoWorkersClaimEveryOffer(t *testing.T) {
	t.Parallel()
	f := &claims{pair: newPair(t), ran: map[attemptKey]events.WorkerName{}}
	do(t, f.nc, task(t, "job", events.TaskSpec{
		Executor: workFunc(), Group: claimGroup, MaxLost: 1000, Timeout: events.Duration(10 * time.Minute), Overlap: events.OverlapSpec{Policy: events.OverlapAllow},
	}))
	for k := range f.claimants {
		f.claimants[k] = f.newClaimant(fmt.Sprintf("claimant-%d", k+1))
	}
	sub, err := f.nc.Subscribe(testkit.Addresses().Work(0, claimGroup), func(m *nats.Msg) {
		var o events.Offer
		if err := o.Decode(m.Data); err != nil {
			f.bad("offer: %v: %.200s", err, m.Data)
			return
		}
		f.bidding.Go(func() { f.offered(o) })
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}

	instances := testkit.Rounds(400, 10_000)
	began := time.Now()
	l := startLoad(f.nc, "job", testkit.Rounds(200, 160))
	kills := 0
	for l.asked.Load() < int64(instances) {
		time.Sleep(time.Duration(500+f.rnd.IntN(3000)) * time.Millisecond) // the moment is random
		leads, _ := f.leader()
		before, _ := f.follow.last()
		leads.Kill()
		kills++
		testkit.Until(t, time.Minute, "the other server leads", func() bool {
			now, by := f.follow.last()
			return now > before && by != leads.ServerName
		})
		leads.Run()
	}
	l.end()
	leads, follows := f.leader()
	waitClosed(t, leads, 3*time.Minute)
	took := time.Since(began)
	if err := sub.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	f.bidding.Wait()

	for _, p := range f.problems {
		t.Error(p)
	}
	f.check()
	a := audit(t, f.log, testkit.AuditOptions{Closed: true})
	if a.Stale+a.Strange > 0 {
		t.Errorf("the log has %d frames of dead terms and %d messages that are no frames", a.Stale, a.Strange)
	}
	if a.Kinds[events.KindWithdrawn] == 0 || a.Kinds[events.KindCancelled] == 0 {
		t.Error("nothing was withdrawn or cancelled: nothing is tested")
	}
	leads.Verify()
	follows.Verify()
	t.Logf("%d instances, %d offers, each claimed twice; %d cancelled and %d at their deadline in that moment; %d answers thrown away and asked for again, %d questions without an answer, %d kills of the leader, %s; %s",
		l.asked.Load(), f.offers.Load(), f.cancels.Load(), f.late.Load(), f.dropped.Load(), f.silent.Load(), kills, took.Round(time.Second), machine())
}

// check holds what the claimants were told against the log.
func (f *claims) check() {
	f.t.Helper()
	type start struct {
		worker events.WorkerName
		offer  int64
		token  uint64
	}
	started, over := map[attemptKey]start{}, map[attemptKey]string{}
	for _, r := range records(f.t, f.log) {
		k := attemptKey{r.Instance, r.Attempt}
		switch r.Kind {
		case events.KindStarted:
			started[k] = start{r.Worker, r.Offer, events.FencingToken(r.Position)}
		case events.KindSucceeded, events.KindFailed, events.KindTimedOut, events.KindLost, events.KindCancelled:
			over[k] = r.Kind.String()
		}
	}
	told := map[attemptKey]events.WorkerName{}
	changed := 0
	for _, c := range f.claimants {
		for _, b := range c.bids {
			k := attemptKey{b.offer.Instance, b.offer.Attempt}
			say := func(format string, args ...any) {
				f.t.Helper()
				f.t.Errorf("%s, %s attempt %d offer %d: "+format, append([]any{c.name, b.offer.Instance, b.offer.Attempt, b.offer.Offer}, args...)...)
				f.t.Logf("answers: %+v\n%s", b.answers, testkit.LastEvents(f.log, b.offer.Instance, 12))
			}
			goes, refused := false, ""
			for _, a := range b.answers {
				s, is := started[k]
				switch {
				case a.reason == "" && refused != "":
					say("go after it was refused with %s", refused)
				case a.reason == "" && (!is || s.worker != c.name || s.offer != b.offer.Offer):
					say("go, but the log says %+v", s)
				case a.reason == "" && a.token != s.token:
					say("go with token %d, the log says %d", a.token, s.token)
				case a.reason != "" && goes && over[k] == "":
					say("refused with %s after go, and the attempt is not over", a.reason)
				case a.reason != "" && goes:
					changed++ // over meanwhile, as it has to be
				}
				goes = goes || a.reason == ""
				if a.reason != "" {
					refused = a.reason
				}
			}
			if goes {
				told[k] = c.name
			}
			if b.ran && !goes {
				say("ran without a go")
			}
		}
	}
	lost := 0
	for k, s := range started {
		switch {
		case told[k] == s.worker:
		case over[k] == events.KindLost.String():
			lost++ // its answer was lost for so long that the attempt was
		default:
			f.t.Errorf("%s attempt %d was started by %s, who was never told; the outcome is %q\n%s", k.instance, k.attempt, s.worker, over[k], testkit.LastEvents(f.log, k.instance, 12))
		}
	}
	f.t.Logf("%d attempts started, %d told go, %d run; %d lost before they were told; %d times no after go because it was over", len(started), len(told), len(f.ran), lost, changed)
}
