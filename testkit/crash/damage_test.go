package crash

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
	"github.com/ax-scheduler/ax/testkit"
)

// The file of the log is cut, while what NATS keeps beside it says how long it was.
// Such a log cannot be folded: the server says so and stands still, and the views,
// which may be all that is left, are as they were.
func TestALogWithAHoleStopsTheServerAndNothingIsThrownAway(t *testing.T) {
	t.Parallel()
	ps := testkit.NewProcesses(t)
	s := ps.Dev("dev")
	s.Run()
	nc := s.Connect()
	do(t, nc, task(t, "tick", events.TaskSpec{Triggers: []events.TriggerSpec{every(200*time.Millisecond, 0)}, Executor: shell(":")}))
	log := openLog(t, nc)
	testkit.Until(t, time.Minute, "work is done", func() bool { return len(records(t, log)) > 60 })
	s.End()
	cursor := func() uint64 {
		v, err := projector.OpenViews(projector.Options{Dir: filepath.Join(s.Dir, "views")})
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		m, err := v.Meta()
		if err != nil {
			t.Fatal(err)
		}
		return m.Cursor
	}
	before := cursor()
	blocks, err := filepath.Glob(filepath.Join(s.Dir, "nats/jetstream/*/streams", testkit.Addresses().LogStream(0), "msgs/*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("files of the log: %v, %v", blocks, err)
	}
	info, err := os.Stat(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(blocks[0], info.Size()-1200); err != nil {
		t.Fatal(err)
	}
	s.Start()
	s.WaitOutput("the log has lost", time.Minute)
	s.Kill()
	if after := cursor(); after != before || before == 0 {
		t.Errorf("the views were at sequence %d and are at %d", before, after)
	}
}
