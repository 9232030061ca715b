package leader

import (
	"errors"
	"testing"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// TestACheckIsOfTheMomentItWasAsked: frames that came into the log while the
// question was under way are no sign that the log went back, and what it had when
// it was asked must be there.
func TestACheckIsOfTheMomentItWasAsked(t *testing.T) {
	views, err := projector.OpenViews(projector.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer views.Close()
	state, err := projector.NewState(views)
	if err != nil {
		t.Fatal(err)
	}
	s := &Shard{state: state}
	for seq := range uint64(10) {
		if err := s.state.Fold(&events.Message{Kind: events.MessageLog, Seq: seq + 1, Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	id := events.NewTerm()
	for _, c := range []struct {
		name         string
		folded, last uint64
		want         error
	}{
		{"the log is as it was folded", 10, 10, nil},
		{"a frame is on its way to the fold", 10, 11, nil},
		{"frames were folded since", 7, 8, nil},
		{"frames were folded since it was answered", 7, 7, nil},
		{"the log went back", 10, 9, errAgain},
		{"the log went back and frames were folded since", 7, 6, errAgain},
	} {
		x := &term{s: s, id: id, fence: 1}
		r := checkResult{folded: c.folded, led: &events.Message{Seq: 1, Term: id}, info: events.Info{First: 1, Last: c.last}}
		if err := x.onCheck(r); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}
