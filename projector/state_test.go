package projector_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/testkit"
)

func openViews(t *testing.T, dir string) *projector.Views {
	t.Helper()
	v, err := projector.OpenViews(projector.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func newState(t *testing.T, v *projector.Views) *projector.State {
	t.Helper()
	s, err := projector.NewState(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// life is a history of one instance.
func life(t *testing.T) []*events.Message {
	t.Helper()
	h := testkit.NewHistory()
	h.Add(t, taskDefined(t))
	for _, e := range paths()[events.StateSuccess] {
		h.Add(t, e)
	}
	return h.Messages(t)
}

func TestAFoldTakesTheNextMessageAndNothingElse(t *testing.T) {
	v := openViews(t, "")
	defer v.Close()
	s := newState(t, v)
	msgs := life(t)
	for _, m := range msgs[:3] {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	before := *s.Meta()
	for _, wrong := range []*events.Message{msgs[2], msgs[1], msgs[4], msgs[5]} {
		if err := s.Fold(wrong); !errors.Is(err, projector.ErrOutOfOrder) {
			t.Errorf("sequence %d after 3: %v", wrong.Seq, err)
		}
	}
	changed := *msgs[3]
	changed.Prev = events.Hash{1}
	if err := s.Fold(&changed); !errors.Is(err, projector.ErrChain) {
		t.Errorf("with another chain: %v", err)
	}
	newer := *msgs[3]
	newer.Version = events.FrameVersion + 1
	if err := s.Fold(&newer); !errors.Is(err, events.ErrNewerVersion) {
		t.Errorf("of a newer version: %v", err)
	}
	if *s.Meta() != before {
		t.Errorf("a refused message changed the state:\n%+v\n%+v", before, *s.Meta())
	}
	for _, m := range msgs[3:] {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWhatIsNoFrameOfItsTermChangesNothing: it is passed, counted, and part of
// the chain.
func TestWhatIsNoFrameOfItsTermChangesNothing(t *testing.T) {
	h := testkit.NewHistory()
	h.Add(t, taskDefined(t))
	good := h.Messages(t)
	stale := *good[1]
	stale.Term = events.Term{9}
	for name, odd := range map[string]*events.Message{
		"no header":        {Kind: events.MessageLog, Body: []byte("hello")},
		"garbage in frame": {Kind: events.MessageLog, Version: 1, Term: good[1].Term, Time: 1, Body: []byte("{}\n{\"kind\":\"fired\"}\n")},
		"not zstd":         {Kind: events.MessageLog, Version: 1, Term: good[1].Term, Time: 1, Compressed: true, Body: []byte("plain")},
		"another term":     &stale,
	} {
		t.Run(name, func(t *testing.T) {
			v := openViews(t, "")
			defer v.Close()
			s := newState(t, v)
			for _, m := range good {
				if err := s.Fold(m); err != nil {
					t.Fatal(err)
				}
			}
			m := *odd
			m.Seq = 3
			hash := s.Meta().Hash
			if err := s.Fold(&m); err != nil {
				t.Fatal(err)
			}
			x := s.Meta().Strange
			if x.First != 3 || x.Last != 3 || x.Count != 1 || s.Meta().Cursor != 3 || s.Meta().Hash == hash {
				t.Errorf("%+v", s.Meta())
			}
			if s.Meta().Events != 2 {
				t.Errorf("%d events had an effect, want 2", s.Meta().Events)
			}
		})
	}
}

// TestAnExpiredLogMayBeginWithAnything: the first frame is believed, not what
// stands before it.
func TestAnExpiredLogMayBeginWithAnything(t *testing.T) {
	msgs := life(t)
	foreign := &events.Message{Kind: events.MessageLog, Body: []byte("hello"), Seq: msgs[2].Seq}
	v := openViews(t, "")
	defer v.Close()
	s := newState(t, v)
	for _, m := range append([]*events.Message{foreign}, msgs[3:]...) {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	m := s.Meta()
	if m.Term != msgs[3].Term || m.Strange.Count != 1 || m.Unchained || m.Passed != 3 {
		t.Errorf("%+v", m)
	}
}

func TestViewsSurviveAndAreLocked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "views")
	v := openViews(t, dir)
	s := newState(t, v)
	for _, m := range life(t) {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	want := *s.Meta()
	if _, err := projector.OpenViews(projector.Options{Dir: dir}); !errors.Is(err, projector.ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	v = openViews(t, dir)
	defer v.Close()
	if got := *newState(t, v).Meta(); got != want {
		t.Errorf("after a restart:\n%+v\n%+v", got, want)
	}
}

// TestNothingIsWrittenAheadOfItsCommit: a leader applies what it decides before
// it is in the log; until then it cannot be flushed, and Load forgets it.
func TestNothingIsWrittenAheadOfItsCommit(t *testing.T) {
	v := openViews(t, "")
	defer v.Close()
	s := newState(t, v)
	msgs := life(t)
	for _, m := range msgs[:2] {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	e := of(events.KindFired, 1, 0)
	if why := s.Apply(&e, events.Position{Seq: 3}, msgs[2].Time, "server/s1"); why != "" {
		t.Fatal(why)
	}
	if s.Instance(walked) == nil || !s.Ahead() {
		t.Error("the decision does not show")
	}
	if err := s.Flush(); err == nil {
		t.Error("a decision was written before its commit")
	}
	if err := s.Load(); err != nil {
		t.Fatal(err)
	}
	if s.Instance(walked) != nil || s.Ahead() {
		t.Error("Load did not forget the decision")
	}
	for _, m := range msgs[2:] { // it is in the log after all: folded once
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAdvanceEqualsFold: applying events and advancing gives what folding their
// message gives.
func TestAdvanceEqualsFold(t *testing.T) {
	msgs := life(t)
	a, b := openViews(t, ""), openViews(t, "")
	defer a.Close()
	defer b.Close()
	folded, applied := newState(t, a), newState(t, b)
	var d events.Decoded
	for _, m := range msgs {
		if err := folded.Fold(m); err != nil {
			t.Fatal(err)
		}
		if m.Kind == events.MessageLed {
			if err := applied.Fold(m); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := d.Decode(m); err != nil {
			t.Fatal(err)
		}
		for k := range d.Events {
			applied.Apply(&d.Events[k], events.Position{Seq: m.Seq, Index: uint32(k)}, d.Times[k], d.Actor)
		}
		if err := applied.Advance(m, len(d.Events)); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range []*projector.State{folded, applied} {
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if x, y := dumpOf(t, a), dumpOf(t, b); !bytes.Equal(x, y) {
		t.Error("the dumps differ")
	}
}

func dumpOf(t *testing.T, v *projector.Views) []byte {
	t.Helper()
	snap := v.Snapshot()
	defer snap.Close()
	var b bytes.Buffer
	if _, err := snap.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestARestoreIsWholeOrNothing(t *testing.T) {
	v := openViews(t, "")
	defer v.Close()
	s := newState(t, v)
	for _, m := range life(t) {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	snap := v.Snapshot()
	defer snap.Close()
	var b bytes.Buffer
	d, err := snap.Dump(&b)
	if err != nil {
		t.Fatal(err)
	}
	dump := b.Bytes()
	flipped := bytes.Clone(dump)
	flipped[len(flipped)/2] ^= 1
	for name, bad := range map[string][]byte{"cut short": dump[:len(dump)-3], "changed": flipped, "longer": append(bytes.Clone(dump), 0), "empty": nil} {
		other := openViews(t, "")
		if err := other.Restore(bytes.NewReader(bad), d.Digest); err == nil {
			t.Errorf("a dump that is %s was restored", name)
		}
		if m, err := other.Meta(); err != nil || m.Cursor != 0 {
			t.Errorf("%s: something was left: %+v, %v", name, m, err)
		}
		_ = other.Close()
	}
	other := openViews(t, "")
	defer other.Close()
	if err := other.Restore(bytes.NewReader(dump), d.Digest); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(dump, dumpOf(t, other)) {
		t.Error("the restored views differ")
	}
}

// TestTheQueueIsInItsOrder: priority and whole minutes waited, then due, then id,
// against a sort of everything.
func TestTheQueueIsInItsOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	v := openViews(t, "")
	defer v.Close()
	s := newState(t, v)
	h := testkit.NewHistory()
	now := int64(1_800_000_600_000) // ten minutes after the earliest due time
	type waiting struct {
		id       events.InstanceID
		due      int64
		priority int64
	}
	var all []waiting
	for p := range int64(10) {
		d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: fmt.Sprintf("p%d", p)}, Task: &events.TaskSpec{
			Executor: events.ExecutorSpec{Kind: "func", Config: []byte(`{}`)}, Priority: &p,
		}}
		if err := d.Complete(); err != nil {
			t.Fatal(err)
		}
		body, err := d.Encode()
		if err != nil {
			t.Fatal(err)
		}
		h.Add(t, events.Event{Kind: events.KindDefined, Object: events.ObjectTask, Name: d.Metadata.Name, Version: 1, Body: body})
	}
	for k := range 400 {
		p := int64(rng.IntN(10))
		due := 1_800_000_000_000 + int64(rng.IntN(20))*30_000 + int64(k%3)
		task := events.TaskName(fmt.Sprintf("p%d", p))
		id := events.NewInstanceID(task, due, "s1", int64(k+1))
		all = append(all, waiting{id, due, p})
		h.Add(t, events.Event{Kind: events.KindFired, Task: task, Trigger: events.ManualTrigger, Instance: id, Due: due, Version: 1})
	}
	msgs := h.Messages(t)
	for _, m := range msgs {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	rank := func(w waiting) int64 { return w.priority + min((now-w.due)/60_000, 9) }
	slices.SortFunc(all, func(a, b waiting) int {
		switch {
		case rank(a) != rank(b):
			return int(rank(b) - rank(a))
		case a.due != b.due:
			return int(a.due - b.due)
		case a.id < b.id:
			return -1
		}
		return 1
	})
	g := s.Group("default")
	for n, want := range all {
		got := s.Best(g, now)
		if got == nil || got.ID != want.id {
			t.Fatalf("place %d: %v, want %+v", n, got, want)
		}
		e := events.Event{Kind: events.KindDispatched, Instance: got.ID, Attempt: 1, Offer: 1, At: now}
		if why := s.Apply(&e, events.Position{Seq: uint64(len(msgs) + 1), Index: uint32(n)}, now*1e6, "server/s1"); why != "" {
			t.Fatal(why)
		}
	}
	if s.Best(g, now) != nil || g.Queued() != 0 || g.Active() != int64(len(all)) {
		t.Errorf("left: %d queued, %d active", g.Queued(), g.Active())
	}
}
