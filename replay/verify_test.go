package replay_test

import (
	"bytes"
	stdcontext "context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/replay"
	"github.com/ax-scheduler/ax/testkit"
)

func context() stdcontext.Context { return stdcontext.Background() }

func open() (*projector.Views, error) { return projector.OpenViews(projector.Options{}) }

func memoryViews(t *testing.T) *projector.Views {
	t.Helper()
	v, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

func all(t *testing.T, log events.Log) (msgs []*events.Message) {
	t.Helper()
	info, err := log.Info(context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := info.First; seq <= info.Last; seq++ {
		m, err := log.Get(context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		msgs = append(msgs, m)
	}
	return msgs
}

func load(t *testing.T, file string) *events.MemoryLog {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	msgs, err := testkit.ReadHistory(f)
	if err != nil {
		t.Fatal(err)
	}
	return events.MemoryLogOf(msgs)
}

func dump(t *testing.T, v *projector.Views) io.Reader {
	t.Helper()
	snap := v.Snapshot()
	defer snap.Close()
	var b bytes.Buffer
	if _, err := snap.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestVerifyFindsEveryTampering: a log that was changed in any of these ways does
// not verify, and the complaint names the place.
func TestVerifyFindsEveryTampering(t *testing.T) {
	log := load(t, "testdata/leaders-change.jsonl")
	views := memoryViews(t)
	if _, err := replay.Fold(context(), log, views, replay.Until{}, nil); err != nil {
		t.Fatal(err)
	}
	good := all(t, log)
	const at = 20 // in the middle of the history
	if good[at].Kind != events.MessageLog || good[at+1].Kind != events.MessageLog {
		t.Fatal("the history has changed; choose another place")
	}
	renumber := func(msgs []*events.Message) []*events.Message {
		for k, m := range msgs {
			c := *m
			c.Seq = uint64(k + 1)
			msgs[k] = &c
		}
		return msgs
	}
	change := func(f func(m *events.Message)) []*events.Message {
		msgs := slices.Clone(good)
		m := *msgs[at]
		m.Body = bytes.Clone(m.Body)
		f(&m)
		msgs[at] = &m
		return msgs
	}
	swapped := slices.Clone(good)
	swapped[at], swapped[at+1] = swapped[at+1], swapped[at]
	for name, c := range map[string]struct {
		msgs []*events.Message
		seq  uint64 // where it has to show
	}{
		"a byte of a body changed": {change(func(m *events.Message) {
			m.Body = bytes.Replace(m.Body, []byte(`"attempt":1`), []byte(`"attempt":2`), 1)
		}), at + 2},
		"the time of a frame":        {change(func(m *events.Message) { m.Time++ }), at + 2},
		"a frame removed":            {renumber(slices.Delete(slices.Clone(good), at, at+1)), at + 1},
		"a frame doubled":            {renumber(slices.Insert(slices.Clone(good), at, good[at])), at + 2},
		"two frames swapped":         {renumber(swapped), at + 1},
		"the hash in a frame":        {change(func(m *events.Message) { m.Prev[0] ^= 1 }), at + 1},
		"a frame of a newer version": {change(func(m *events.Message) { m.Version = events.FrameVersion + 1 }), at + 1},
	} {
		t.Run(name, func(t *testing.T) {
			rep, err := replay.Verify(context(), events.MemoryLogOf(c.msgs), dump(t, views), open)
			if err == nil && rep.Clean {
				t.Fatal("it verified")
			}
			if err != nil && !strings.Contains(err.Error(), fmt.Sprintf("sequence %d", c.seq)) {
				t.Errorf("the place is not named (want sequence %d): %v", c.seq, err)
			}
			if err != nil && !errors.Is(err, projector.ErrChain) && !errors.Is(err, events.ErrNewerVersion) {
				t.Errorf("untyped: %v", err)
			}
		})
	}
	t.Run("a term rewritten", func(t *testing.T) {
		rep, err := replay.Verify(context(), events.MemoryLogOf(change(func(m *events.Message) { m.Term[0] ^= 1 })), dump(t, views), open)
		if err == nil && rep.Clean {
			t.Fatal("it verified")
		}
	})
	t.Run("views changed", func(t *testing.T) {
		b, err := io.ReadAll(dump(t, views))
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Replace(b, []byte("w1"), []byte("w9"), 1)
		rep, err := replay.Verify(context(), log, bytes.NewReader(changed), open)
		if err != nil || rep.Clean || len(rep.Differences) != 1 {
			t.Errorf("%+v, %v", rep, err)
		}
	})
}

// TestVerifyComparesCheckpoints: hash, digest and signature.
func TestVerifyComparesCheckpoints(t *testing.T) {
	s := testkit.NewSim(t)
	s.Worker("w1", 1)
	s.Define("job", events.TaskSpec{Triggers: []events.TriggerSpec{{Cron: "* * * * *"}}})
	s.Advance(2 * time.Minute)
	views := memoryViews(t)
	state, err := replay.Fold(context(), s.Log, views, replay.Until{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	snap := views.Snapshot()
	d, err := snap.Dump(nil)
	_ = snap.Close()
	if err != nil {
		t.Fatal(err)
	}
	right := events.CheckpointBody{Position: state.Meta().Cursor, Hash: d.Hash, Digest: d.Digest, Rows: d.Rows}
	wrongDigest, wrongHash, signed := right, right, right
	wrongDigest.Digest[3] ^= 1
	wrongHash.Hash[3] ^= 1
	signed.Signature = "AAAA"
	for name, c := range map[string]struct {
		body  events.CheckpointBody
		clean bool
	}{"right": {right, true}, "another digest": {wrongDigest, false}, "another hash": {wrongHash, false}, "signed by nobody": {signed, false}} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(&c.body)
			if err != nil {
				t.Fatal(err)
			}
			msgs := all(t, s.Log)
			var b events.FrameBuilder
			last := msgs[len(msgs)-1]
			b.Begin(last.Time+1e9, "server/s1")
			if _, _, err := b.Add(&events.Event{Kind: events.KindCheckpoint, Body: string(text)}, b.Time()); err != nil {
				t.Fatal(err)
			}
			m := b.Seal(state.Meta().Term)
			m.Seq, m.Prev = last.Seq+1, state.Meta().Hash
			rep, err := replay.Verify(context(), events.MemoryLogOf(append(msgs, m)), nil, open)
			if err != nil || rep.Clean != c.clean || rep.Checkpoints != 1 {
				t.Errorf("%+v, %v", rep, err)
			}
		})
	}
}

func TestEventsAreTheNewestThatMatch(t *testing.T) {
	log := load(t, "testdata/leaders-change.jsonl")
	found, truncated, err := replay.Events(context(), log, replay.Filter{Kind: events.KindFired}, 3)
	if err != nil || truncated || len(found) != 3 {
		t.Fatalf("%v, %v, %v", found, truncated, err)
	}
	every, _, err := replay.Events(context(), log, replay.Filter{Kind: events.KindFired}, 1000)
	if err != nil || len(every) < 8 {
		t.Fatalf("%d, %v", len(every), err)
	}
	for k := range found {
		if found[k].Position != every[len(every)-3+k].Position {
			t.Errorf("%d: %s, want %s", k, found[k].Position, every[len(every)-3+k].Position)
		}
	}
	since, _, err := replay.Events(context(), log, replay.Filter{Since: every[4].Time}, 1000)
	if err != nil || len(since) == 0 || since[0].Time.Before(every[4].Time) {
		t.Errorf("since %s: %v, %v", every[4].Time, since, err)
	}
}

// TestWhyNamesEveryLink from the state back to the definition.
func TestWhyNamesEveryLink(t *testing.T) {
	log := load(t, "testdata/retries-then-dead.jsonl")
	views := memoryViews(t)
	if _, err := replay.Fold(context(), log, views, replay.Until{}, nil); err != nil {
		t.Fatal(err)
	}
	var row *projector.Instance
	if err := views.Instances(events.Position{}, func(i *projector.Instance) bool { row = i; return false }); err != nil {
		t.Fatal(err)
	}
	chain, err := replay.Why(context(), log, row, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, r := range chain {
		lines = append(lines, r.Text)
	}
	text := strings.Join(lines, "\n")
	for _, want := range []string{
		"is DEAD: no attempt is left (attempts)", "it became a dead letter: attempts", "attempt 4 failed: no", "attempt 4 started on worker w1",
		"attempt 1 was offered (offer 1)", "task job was triggered by test", "version 1 of task job was defined by test",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("why does not say %q:\n%s", want, text)
		}
	}
	history, err := replay.History(context(), log, row, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	searched, err := replay.History(context(), log, nil, row.ID)
	if err != nil || len(searched) != len(history) {
		t.Errorf("found by search: %d events, by the row: %d, %v", len(searched), len(history), err)
	}
}
