package leader

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// When a checkpoint with a digest is made.
const (
	checkpointFrames = 10_000
	checkpointEvery  = time.Hour
	// checkpointPause keeps checkpoints apart: at the highest rates 10,000 frames
	// are a matter of seconds, and a digest reads all views.
	checkpointPause = time.Minute
	trimFrom        = 256 // rows over their bound before a checkpoint trims
	restateBatch    = 100 // facts restated in one round
)

// upkeep is what a leader owes to the log itself: incidents, checkpoints, old
// rows, facts that have to be stated again. All but the digest runs on the
// shard's goroutine.
type upkeep struct {
	shard *Shard

	back    []string // the log went back: to be recorded
	stepped bool     // the clock stepped: to be recorded

	digesting   bool
	digested    chan digestResult
	pending     *projector.Snapshot // of the digest that is to become a checkpoint
	ready       *events.CheckpointBody
	lastAttempt time.Time
	lastUpload  time.Time
	uploads     sync.WaitGroup

	restating bool
	horizon   uint64 // facts stated before it are restated
	cursor    string // where the round through all facts stands
	covered   uint64 // horizon of the last full round
}

type digestResult struct {
	digest projector.Digest
	err    error
}

// termBegins forgets what an earlier term had begun.
func (u *upkeep) termBegins() {
	if u.digested == nil {
		u.digested = make(chan digestResult, 1)
	}
	u.ready, u.restating, u.cursor, u.covered = nil, false, "", 0
	u.lastAttempt = time.Now()
	u.dropPending()
}

func (u *upkeep) dropPending() {
	if u.pending != nil && !u.digesting {
		_ = u.pending.Close()
		u.pending = nil
	}
}

func (u *upkeep) wentBack(why string, cursor uint64) {
	u.back = append(u.back, fmt.Sprintf("%s; folded was up to %d on %s", why, cursor, u.shard.cfg.Server))
}

func (u *upkeep) clockStepped() { u.stepped = true }

// Foreign is the decider that records messages which are no frames of the leader
// of their time.
func Foreign(s *projector.State, _ events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		if x := s.Meta().Strange; x.Count > 0 {
			yield(&events.Event{
				Kind: events.KindIncident, Reason: events.ReasonForeign, From: int64(x.First), Count: int64(x.Count),
				Error: fmt.Sprintf("%d messages from sequence %d to %d are no frames of the leader of their time; they changed nothing", x.Count, x.First, x.Last),
			})
		}
	}
}

// incidents records what this server saw that must not happen.
func (u *upkeep) incidents(*projector.State, events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		for len(u.back) > 0 {
			if !yield(&events.Event{Kind: events.KindIncident, Reason: events.ReasonLogWentBack, Error: clip(u.back[0], events.MaxErrorText)}) {
				return
			}
			u.back = u.back[1:]
		}
		if u.stepped {
			if yield(&events.Event{Kind: events.KindIncident, Reason: events.ReasonClockStep, Error: "the clock was set, or the machine slept"}) {
				u.stepped = false
			}
		}
	}
}

// Trim is the decider that removes old rows.
func Trim(s *projector.State, _ events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		if owed := s.Meta().TrimOwed; owed >= trimFrom {
			yield(&events.Event{Kind: events.KindCheckpoint, Body: fmt.Sprintf(`{"trim":%d}`, min(owed, projector.MaxTrim))})
		}
	}
}

// checkpoint records digests.
func (u *upkeep) checkpoint(s *projector.State, _ events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		if u.ready == nil {
			return
		}
		body, err := json.Marshal(u.ready)
		if err != nil || yield(&events.Event{Kind: events.KindCheckpoint, Body: string(body)}) {
			u.ready = nil
			u.shard.Count.Checkpoints.Add(1)
		}
	}
}

// wantsFlush reports whether something waits for views that are up to date.
func (u *upkeep) wantsFlush(s *projector.State) bool {
	select {
	case r := <-u.digested:
		u.onDigest(r)
	default:
	}
	return u.wantsCheckpoint(s) || u.pending != nil && !u.digesting && u.ready == nil
}

func (u *upkeep) wantsCheckpoint(s *projector.State) bool {
	m := s.Meta()
	if u.digesting || u.pending != nil || m.Cursor <= m.Checkpoint+1 {
		return false
	}
	return m.Cursor-m.Checkpoint >= checkpointFrames && time.Since(u.lastAttempt) >= checkpointPause ||
		m.Time-m.CheckpointAt >= int64(checkpointEvery) && time.Since(u.lastAttempt) >= checkpointPause
}

// settled is called when the views show everything that was decided.
func (u *upkeep) settled(s *projector.State) error {
	switch {
	case u.wantsCheckpoint(s):
		snap := u.shard.cfg.Views.Snapshot()
		u.pending, u.digesting, u.lastAttempt = snap, true, time.Now()
		go func() {
			d, err := snap.Dump(nil)
			u.digested <- digestResult{d, err}
		}()
	case u.pending != nil && !u.digesting && u.ready == nil:
		// The checkpoint is in the log: its snapshot may be kept for others.
		u.upload(s.Meta().Checkpoint)
	}
	return nil
}

func (u *upkeep) onDigest(r digestResult) {
	u.digesting = false
	if r.err != nil || u.pending == nil {
		u.shard.log.Warn("no checkpoint", "error", r.err)
		u.dropPending()
		return
	}
	body := &events.CheckpointBody{Position: r.digest.Cursor, Hash: r.digest.Hash, Digest: r.digest.Digest, Rows: r.digest.Rows}
	if u.shard.cfg.Sign != nil {
		body.Signature = u.shard.cfg.Sign(body.Text())
	}
	u.ready = body
}

func (u *upkeep) upload(seq uint64) {
	snap := u.pending
	u.pending = nil
	if time.Since(u.lastUpload) < snapshotPause {
		_ = snap.Close()
		return
	}
	u.lastUpload = time.Now()
	u.uploads.Go(func() {
		defer func() { _ = snap.Close() }()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := u.shard.uploadSnapshot(ctx, snap, seq); err != nil {
			u.shard.log.Warn("a snapshot of the views could not be kept", "error", err)
		}
	})
}

// close waits for what is under way.
func (u *upkeep) close() {
	if u.digesting {
		<-u.digested
		u.digesting = false
	}
	u.dropPending()
	u.uploads.Wait()
}

// restate states live facts again before the log loses the events that stated
// them. It begins a round when the log is three quarters old or full and its
// beginning has come near to what the last round covered.
func (u *upkeep) restate(s *projector.State, _ events.Now) iter.Seq[*events.Event] {
	return func(yield func(*events.Event) bool) {
		if !u.restating {
			info := u.shard.info.Load()
			if info == nil || !nearEnd(info) || info.Last <= info.First {
				return
			}
			span := info.Last - info.First
			if u.covered >= info.First+span/4 {
				return
			}
			u.restating, u.cursor, u.horizon = true, "", info.First+span/2
			u.shard.log.Info("restating live facts", "before", u.horizon, "first", info.First, "last", info.Last)
		}
		facts, next, err := s.Restate(u.horizon, u.cursor, restateBatch)
		if err != nil {
			u.shard.log.Error("live facts could not be restated", "error", err)
			u.restating = false
			return
		}
		for k := range facts {
			if !yield(&facts[k]) {
				return // what was restated is passed over next time
			}
			u.shard.Count.Restated.Add(1)
		}
		if u.cursor = next; next == "" {
			u.restating, u.covered = false, u.horizon
		}
	}
}

// nearEnd reports whether the log is three quarters full or old.
func nearEnd(i *events.Info) bool {
	return i.MaxBytes > 0 && i.Bytes > i.MaxBytes/4*3 || i.MaxAge > 0 && i.Now.Sub(i.FirstTime) > i.MaxAge/4*3
}
