package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// summary is the one line that a finished instance gets in the log of the
// process. What happened in between is in the log that counts.
type summary struct {
	id       events.InstanceID
	state    events.State
	attempts int64
	worker   events.WorkerName
	due      int64 // Unix milliseconds
	started  int64 // Unix microseconds
	ended    int64
	reason   string
	err      string
}

// summarised are the kinds after which an instance may have finished.
var summarised = [events.NumKinds]bool{
	events.KindSucceeded: true, events.KindCancelled: true, events.KindSkipped: true, events.KindDiscarded: true, events.KindDead: true,
}

func summaryOf(i *projector.Instance) summary {
	return summary{i.ID, i.State, i.Attempt, i.Worker, i.Due, i.StartedAt, i.EndedAt, i.Reason, i.Error}
}

// maxSummaries bounds the lines a second; the rest is counted in one line.
const maxSummaries = 100

// summariser writes summaries. One goroutine owns it.
type summariser struct {
	log     *slog.Logger
	second  int64
	lines   int
	omitted int
}

func (s *summariser) write(all []summary) {
	if len(all) == 0 {
		return
	}
	if now := time.Now().Unix(); now != s.second {
		if s.omitted > 0 {
			s.log.Info("more instances finished", "count", s.omitted)
		}
		s.second, s.lines, s.omitted = now, 0, 0
	}
	for i := range all {
		if s.lines++; s.lines > maxSummaries {
			s.omitted += len(all) - i
			return
		}
		x := &all[i]
		level, attrs := slog.LevelInfo, []slog.Attr{
			slog.String("instance", string(x.id)), slog.String("state", x.state.String()), slog.Int64("attempts", x.attempts),
		}
		if x.started > 0 {
			attrs = append(attrs, slog.String("worker", string(x.worker)), slog.Duration("took", time.Duration(x.ended-x.started)*time.Microsecond))
		}
		if x.reason != "" {
			attrs = append(attrs, slog.String("reason", x.reason))
		}
		if x.err != "" {
			attrs = append(attrs, slog.String("error", clip(x.err, 200)))
		}
		if x.state == events.StateDead {
			level = slog.LevelWarn
		}
		s.log.LogAttrs(context.Background(), level, "instance finished", attrs...)
	}
}
