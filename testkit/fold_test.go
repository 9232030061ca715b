package testkit_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/testkit"
)

// seed is printed by a failing test; run it again with -seed.
var seed = flag.Uint64("seed", 0, "seed of the random histories; 0: a fixed set")

func memoryViews(t testing.TB) *projector.Views {
	t.Helper()
	v, err := projector.OpenViews(projector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = v.Close() })
	return v
}

func dump(t testing.TB, v *projector.Views) []byte {
	t.Helper()
	s := v.Snapshot()
	defer s.Close()
	var b bytes.Buffer
	if _, err := s.Dump(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func foldAll(t testing.TB, s *projector.State, msgs []*events.Message) {
	t.Helper()
	for _, m := range msgs {
		if err := s.Fold(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
}

func newState(t testing.TB, v *projector.Views) *projector.State {
	t.Helper()
	s, err := projector.NewState(v)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSameLogSameViews folds random histories of 100,000 events in all: in one
// go, in batches of random size, with crashes in between that lose what was not
// flushed, and from a snapshot taken half-way. The views are equal byte for
// byte.
func TestSameLogSameViews(t *testing.T) {
	histories, size := 20, 5000
	if testing.Short() {
		histories = 4
	}
	seeds := make([]uint64, histories)
	for i := range seeds {
		seeds[i] = uint64(i + 1)
	}
	if *seed != 0 {
		seeds = []uint64{*seed}
	}
	total := 0
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			// Every fifth history is long and of one task, so that finished instances
			// are over their bound and old rows are removed.
			tasks, size := 5, size
			if seed%5 == 0 {
				tasks, size = 1, 4*size
			}
			g, err := testkit.NewGenerator(seed, tasks, memoryViews(t))
			if err != nil {
				t.Fatal(err)
			}
			msgs, err := g.Messages(size)
			if err != nil {
				t.Fatal(err)
			}
			total += g.Events
			oneGo := memoryViews(t)
			foldAll(t, newState(t, oneGo), msgs)
			want := dump(t, oneGo)
			rng := rand.New(rand.NewPCG(seed, 2))

			t.Run("in small batches", func(t *testing.T) {
				v := memoryViews(t)
				s := newState(t, v)
				for _, m := range msgs {
					if err := s.Fold(m); err != nil {
						t.Fatal(err)
					}
					if rng.IntN(10) == 0 {
						if err := s.Flush(); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
				equalDumps(t, want, v)
			})

			t.Run("with crashes", func(t *testing.T) {
				v := memoryViews(t)
				s := newState(t, v)
				for k := 0; k < len(msgs); k++ {
					if err := s.Fold(msgs[k]); err != nil {
						t.Fatal(err)
					}
					switch rng.IntN(40) {
					case 0, 1:
						if err := s.Flush(); err != nil {
							t.Fatal(err)
						}
					case 2: // the memory is gone, the views are as of the last flush
						if err := s.Load(); err != nil {
							t.Fatal(err)
						}
						k = int(s.Meta().Cursor) - 1
					}
				}
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
				equalDumps(t, want, v)
			})

			t.Run("from a snapshot", func(t *testing.T) {
				half := len(msgs) / 2
				first := memoryViews(t)
				foldAll(t, newState(t, first), msgs[:half])
				snap := first.Snapshot()
				defer snap.Close()
				var b bytes.Buffer
				d, err := snap.Dump(&b)
				if err != nil {
					t.Fatal(err)
				}
				v := memoryViews(t)
				if err := v.Restore(bytes.NewReader(b.Bytes()), d.Digest); err != nil {
					t.Fatal(err)
				}
				foldAll(t, newState(t, v), msgs[half:])
				equalDumps(t, want, v)
			})

			t.Run("with a schedule", func(t *testing.T) {
				// A leader's schedule is an accelerator: it leaves no trace.
				v := memoryViews(t)
				s := newState(t, v)
				s.SetSchedule(nullSchedule{})
				foldAll(t, s, msgs)
				equalDumps(t, want, v)
			})

			t.Run("as the reference says", func(t *testing.T) {
				ref := testkit.NewReference()
				for _, m := range msgs {
					ref.Take(m)
				}
				compareWithReference(t, ref, oneGo)
			})
		})
	}
	if want := histories * size; *seed == 0 && total < want {
		t.Errorf("only %d events, want %d", total, want)
	}
}

type nullSchedule struct{}

func (nullSchedule) Add(projector.Clock, int64, uint64) (uint64, bool)               { return 1, true }
func (nullSchedule) Cancel(projector.Clock, uint64)                                  {}
func (nullSchedule) Expire(projector.Clock, int64, func(due int64, ref uint64) bool) {}
func (nullSchedule) Clear()                                                          {}

func equalDumps(t *testing.T, want []byte, v *projector.Views) {
	t.Helper()
	if bytes.Equal(want, dump(t, v)) {
		return
	}
	s := v.Snapshot()
	defer s.Close()
	diffs, _, err := s.Compare(bytes.NewReader(want), 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range diffs {
		t.Errorf("%s:\n here %s\n want %s", d.Key, d.A, d.B)
	}
	t.Fatal("the views are not equal")
}

func compareWithReference(t *testing.T, ref *testkit.Reference, v *projector.Views) {
	t.Helper()
	seen := 0
	err := v.Instances(events.Position{}, func(i *projector.Instance) bool {
		seen++
		r := ref.Instances()[i.ID]
		if r == nil {
			t.Errorf("%s is in the views only", i.ID)
			return true
		}
		held := int64(0)
		if i.Held {
			held = i.HeldAttempt
		}
		if r.State != i.State || r.Attempt != i.Attempt || r.Offer != i.Offer || r.Held != held || r.Asked != i.CancelAsked {
			t.Errorf("%s: views %s attempt %d offer %d held %d asked %v, reference %+v\n%v", i.ID, i.State, i.Attempt, i.Offer, held, i.CancelAsked, r, i.Transitions)
			return false
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	// Rows of finished instances are trimmed; none else may be missing.
	for id, r := range ref.Instances() {
		if _, err := v.Instance(id); err != nil && !r.State.Final() {
			t.Errorf("%s is in the reference only: %+v", id, r)
		}
		for attempt, n := range r.Starts {
			if n > 1 {
				t.Errorf("%s: attempt %d was started %d times", id, attempt, n)
			}
		}
		for attempt, n := range r.Ends {
			if n > 1 {
				t.Errorf("%s: attempt %d has %d outcomes", id, attempt, n)
			}
		}
	}
	if seen == 0 {
		t.Error("no instance was made")
	}
}
