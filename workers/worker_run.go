package workers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ax-scheduler/ax/events"
)

// Times of requests.
const (
	requestTimeout = 2 * time.Second        // for one answer
	requestAgain   = 200 * time.Millisecond // between two tries
	inboxAfter     = 2 * time.Second        // a report without an answer goes into the inbox too
)

// inFlight bounds the requests of one kind that are under way at once.
const inFlight = 4

// batchItems bounds the items that a worker puts into one request.
const batchItems = 200

// claim takes an offer in hand and lets it be claimed.
func (w *Worker) claim(g events.Group, f *events.Offer) {
	r := &run{key: heldKey{f.Instance, f.Attempt, f.Offer}, group: g, nonce: newNonce()}
	w.mu.Lock()
	if _, known := w.held[r.key]; known || w.stopping.Load() {
		w.mu.Unlock()
		return // delivered twice, or we are going away
	}
	w.held[r.key] = r
	w.taken[g]++
	w.mu.Unlock()
	w.claims[g] <- r
}

// drop lets go of an attempt that is not, or no more, to be run or reported.
func (w *Worker) drop(r *run) {
	w.mu.Lock()
	if w.held[r.key] == r {
		delete(w.held, r.key)
		if r.phase != reporting {
			w.taken[r.group]--
		}
	}
	p := w.pulls[r.group]
	w.mu.Unlock()
	if p != nil {
		p.wakeUp()
	}
}

// claimer sends claims of a group, several in one request, until each is
// answered.
func (w *Worker) claimer(ctx context.Context, g events.Group) {
	slots := make(chan struct{}, inFlight)
	queue := w.claims[g]
	for {
		batch := gather(ctx, queue)
		if batch == nil {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		go func() {
			defer func() { <-slots }()
			again := w.askClaims(ctx, g, batch)
			if len(again) == 0 {
				return
			}
			select {
			case <-time.After(requestAgain):
			case <-ctx.Done():
				return
			}
			for _, r := range again {
				select {
				case queue <- r:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
}

// gather takes what is queued, at least one and at most batchItems; nil at the
// end of ctx.
func gather(ctx context.Context, queue chan *run) []*run {
	var batch []*run
	select {
	case r := <-queue:
		batch = append(batch, r)
	case <-ctx.Done():
		return nil
	}
	for len(batch) < batchItems {
		select {
		case r := <-queue:
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

// askClaims sends claims and starts what got `go`. It returns those without an
// answer.
func (w *Worker) askClaims(ctx context.Context, g events.Group, batch []*run) (again []*run) {
	req := events.Claims{
		Worker: w.cfg.Name, Incarnation: w.incarnation, Beat: w.beatNumber.Load(), RunLease: w.cfg.RunLease.Milliseconds(),
		Claims: make([]events.Claim, 0, len(batch)),
	}
	waiting := make(map[heldKey]*run, len(batch))
	for _, r := range batch {
		if w.stopped(r) {
			w.drop(r) // an answer to a beat said that it is over: it is never started
			continue
		}
		waiting[r.key] = r
		req.Claims = append(req.Claims, events.Claim{Instance: r.key.instance, Attempt: r.key.attempt, Offer: r.key.offer, Nonce: r.nonce})
	}
	if len(req.Claims) == 0 {
		return nil
	}
	var answers events.ClaimAnswers
	if err := w.request(ctx, events.RPCClaim, g, req.Encode(nil), answers.Decode); err != nil {
		w.log.Debug("claims were not answered", "group", g, "claims", len(req.Claims), "error", err)
	}
	for k := range answers.Answers {
		a := &answers.Answers[k]
		r := waiting[heldKey{a.Instance, a.Attempt, a.Offer}]
		if r == nil {
			continue
		}
		delete(waiting, r.key)
		if a.Run == nil {
			w.Count.Refused.Add(1)
			w.drop(r)
			continue
		}
		w.Count.Claimed.Add(1)
		w.start(r, a.Run)
	}
	for _, r := range waiting {
		again = append(again, r)
	}
	return again
}

func (w *Worker) stopped(r *run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.stop
}

// request asks a shard's leader and reads its answer. It gives up when another
// leader begins.
func (w *Worker) request(ctx context.Context, verb string, g events.Group, body []byte, decode func([]byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	w.mu.Lock()
	newLeader := w.newLeader
	w.mu.Unlock()
	defer context.AfterFunc(newLeader, cancel)()
	msg, err := w.nc.RequestWithContext(ctx, w.cfg.Address.RPC(w.shard, verb, g), body)
	if err != nil {
		return err
	}
	return decode(msg.Data)
}

// askAgain ends the requests that are under way; each is made again.
func (w *Worker) askAgain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaderBegins()
	w.newLeader, w.leaderBegins = context.WithCancel(context.Background())
}

// start runs an attempt that got `go`, unless the run lease is over or it was
// stopped meanwhile: then it is let go, and the leader finds that beats omit it.
func (w *Worker) start(r *run, work *events.Run) {
	w.mu.Lock()
	if r.stop || !w.isFresh() {
		w.mu.Unlock()
		w.Count.Dropped.Add(1)
		w.drop(r)
		return
	}
	r.phase, r.work, r.kill = runs, work, &killSwitch{c: make(chan struct{})}
	actx, cancel := context.WithCancelCause(context.WithValue(w.detached, killKey{}, r.kill))
	r.cancel = cancel
	w.mu.Unlock()
	w.Count.Started.Add(1)
	w.running.Add(1)
	go w.execute(actx, r)
}

// execute runs the attempt and hands its outcome to the reporter.
func (w *Worker) execute(ctx context.Context, r *run) {
	defer w.running.Done()
	timeout := time.Duration(r.work.Timeout) * time.Millisecond
	limit := time.AfterFunc(timeout, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.end(r, ErrTimeout, Grace)
	})
	if w.cfg.Started != nil {
		w.cfg.Started(r.work)
	}
	result, err := w.runExecutor(ctx, r, timeout)
	limit.Stop()
	if err != nil && errors.Is(context.Cause(ctx), ErrShutdown) {
		// It did not fail: it has ended, is let go, and runs again elsewhere.
		w.mu.Lock()
		r.cancel(nil)
		r.kill.kill()
		w.mu.Unlock()
		w.Count.Dropped.Add(1)
		w.released.Store(true)
		w.drop(r)
		return
	}
	report := outcomeOf(ctx, result, err)
	report.Instance, report.Attempt, report.Offer, report.Nonce = r.key.instance, r.key.attempt, r.key.offer, r.nonce
	w.mu.Lock()
	r.cancel(nil)
	r.kill.kill()
	r.report, r.ended = report, time.Now()
	r.phase = reporting
	w.taken[r.group]--
	p := w.pulls[r.group]
	w.mu.Unlock()
	if p != nil {
		p.wakeUp()
	}
	w.reports <- r
}

func (w *Worker) runExecutor(ctx context.Context, r *run, timeout time.Duration) (result json.RawMessage, err error) {
	x, err := w.executor(r.work)
	if err != nil {
		return nil, err
	}
	a := &Attempt{
		Instance: r.key.instance, Number: r.key.attempt, Task: r.work.Task, Trigger: r.work.Trigger, Due: time.UnixMilli(r.work.Due).UTC(),
		Key: r.work.Key, Token: r.work.Token, Timeout: timeout, Params: json.RawMessage(r.work.Params),
	}
	return x.Run(ctx, a)
}

// executorKey names the executor of a version of a task.
type executorKey struct {
	task    events.TaskName
	version int64
}

// maxExecutors bounds the executors that are kept made.
const maxExecutors = 10_000

// executor gives the executor of a task's version, made once.
func (w *Worker) executor(work *events.Run) (Executor, error) {
	key := executorKey{work.Task, work.Version}
	w.mu.Lock()
	x := w.executors[key]
	w.mu.Unlock()
	if x != nil {
		return x, nil
	}
	factory, ok := w.cfg.Executors[work.Executor]
	if !ok {
		return nil, fmt.Errorf("this worker has no executor %q, it has %v; let the task's group be served by workers that have it", work.Executor, w.cfg.Executors.Kinds())
	}
	x, err := factory(json.RawMessage(work.Config))
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.executors) >= maxExecutors {
		clear(w.executors)
	}
	w.executors[key] = x
	return x, nil
}

// reporter reports outcomes, several in one request, until each is answered.
func (w *Worker) reporter(ctx context.Context) {
	slots := make(chan struct{}, inFlight)
	for {
		batch := gather(ctx, w.reports)
		if batch == nil {
			return
		}
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		go func() {
			defer func() { <-slots }()
			again := w.askReports(ctx, batch)
			if len(again) == 0 {
				return
			}
			select {
			case <-time.After(requestAgain):
			case <-ctx.Done():
				return
			}
			for _, r := range again {
				w.toInbox(r)
				w.reports <- r
			}
		}()
	}
}

// askReports sends reports, each group's in its own requests of bounded size,
// and returns those without an answer.
func (w *Worker) askReports(ctx context.Context, batch []*run) (again []*run) {
	for len(batch) > 0 {
		g := batch[0].group
		req := events.Reports{Worker: w.cfg.Name, Incarnation: w.incarnation}
		waiting := map[heldKey]*run{}
		var rest []*run
		size := 0
		for _, r := range batch {
			size += len(r.report.Result) + len(r.report.Error) + 300
			if r.group != g || size > maxAnswer && len(req.Reports) > 0 {
				rest = append(rest, r)
				continue
			}
			req.Reports = append(req.Reports, r.report)
			waiting[r.key] = r
		}
		batch = rest
		var answers events.ReportAnswers
		if err := w.request(ctx, events.RPCReport, g, req.Encode(nil), answers.Decode); err != nil {
			w.log.Debug("reports were not answered", "group", g, "reports", len(req.Reports), "error", err)
		}
		// Answers are in the order of the reports; an answer that is shorter covers
		// the first of them.
		for k := range answers.Answers {
			if k >= len(req.Reports) {
				break
			}
			rep := &req.Reports[k]
			r := waiting[heldKey{rep.Instance, rep.Attempt, rep.Offer}]
			if r == nil || answers.Answers[k].Instance != rep.Instance {
				continue
			}
			delete(waiting, r.key)
			w.Count.Reported.Add(1)
			if answers.Answers[k].Outcome == events.KindLate.String() {
				w.Count.Late.Add(1)
			}
			w.drop(r)
		}
		for _, r := range waiting {
			again = append(again, r)
		}
	}
	return again
}

// toInbox puts a report that waits for its answer for long into the inbox too,
// where a leader finds it later.
func (w *Worker) toInbox(r *run) {
	if r.inbox || time.Since(r.ended) < inboxAfter {
		return
	}
	req := events.Reports{Worker: w.cfg.Name, Incarnation: w.incarnation, Reports: []events.Report{r.report}}
	subject := w.cfg.Address.Inbox(string(w.cfg.Name), events.VerbReport, string(r.key.instance))
	if w.nc.Publish(subject, req.Encode(nil)) == nil {
		r.inbox = true
	}
}
