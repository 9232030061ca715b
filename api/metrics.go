package api

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ax-scheduler/ax/events"
)

// collector gives a server's counters and state to Prometheus.
type collector struct {
	cfg     *Config
	entries []entry
}

type entry struct {
	desc *prometheus.Desc
	typ  prometheus.ValueType
	read func() float64
}

func newCollector(cfg *Config) *collector {
	c := &collector{cfg: cfg}
	add := func(name, help string, typ prometheus.ValueType, read func() float64) {
		c.entries = append(c.entries, entry{prometheus.NewDesc("ax_"+name, help, nil, nil), typ, read})
	}
	n := &cfg.Shard.Count
	counter := func(name, help string, load func() uint64) {
		add(name, help, prometheus.CounterValue, func() float64 { return float64(load()) })
	}
	counter("terms_total", "Leaderships that this process began.", n.Terms.Load)
	counter("frames_total", "Frames committed by this process.", n.Frames.Load)
	counter("events_total", "Events committed by this process.", n.Events.Load)
	counter("frame_bytes_total", "Bytes of the bodies of these frames, as stored.", n.Bytes.Load)
	counter("folded_messages_total", "Messages of other leaders folded.", n.Folded.Load)
	counter("appends_refused_total", "Appends that the log refused: a newer leadership, or another message at the place.", n.Refused.Load)
	counter("appends_unknown_total", "Appends whose outcome was not known; each ended a term.", n.Unknown.Load)
	counter("appends_busy_total", "Appends that were sent again because the log was busy.", n.Busy.Load)
	counter("rounds_total", "Rounds of the leader's loop.", n.Rounds.Load)
	counter("parked_total", "Decisions that could not be made, in this term.", n.Parked.Load)
	counter("requests_total", "Requests taken by the leader.", n.Requests.Load)
	counter("requests_bad_total", "Requests that could not be read.", n.Bad.Load)
	counter("inbox_messages_total", "Messages of the inbox taken.", n.Inbox.Load)
	counter("views_rebuilt_total", "Times the views were rebuilt because the log went back.", n.Rebuilds.Load)
	counter("facts_restated_total", "Live facts stated again before their events expire.", n.Restated.Load)
	counter("checkpoints_total", "Checkpoints with a digest.", n.Checkpoints.Load)
	counter("answers_stale_total", "Times answers to beats were held back because the term was not proven.", n.StaleAnswers.Load)
	seconds := func(name, help string, load func() uint64) {
		add(name, help, prometheus.CounterValue, func() float64 { return float64(load()) / 1e9 })
	}
	seconds("commit_seconds_total", "Time from sending frames to their acknowledgement.", n.CommitNanos.Load)
	counter("commits_total", "Acknowledged frames; commit_seconds_total over it is the mean.", n.CommitCount.Load)
	seconds("flush_seconds_total", "Time spent writing views.", n.FlushNanos.Load)
	gauge := func(name, help string, read func() float64) { add(name, help, prometheus.GaugeValue, read) }
	flag := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge("leading", "1 while this server leads.", func() float64 { return flag(cfg.Shard.Status().Leading) })
	gauge("ready", "1 while this server leads or follows closely.", func() float64 { return flag(cfg.Shard.Status().Ready) })
	gauge("cursor", "Sequence of the last message folded.", func() float64 { return float64(cfg.Shard.Status().Cursor) })
	gauge("log_last", "Sequence of the log's last message.", func() float64 { return float64(cfg.Shard.Status().LogLast) })
	gauge("log_bytes", "Bytes of the log.", func() float64 { return float64(cfg.Shard.Status().LogBytes) })
	gauge("log_max_bytes", "Bound of the log's bytes.", func() float64 { return float64(cfg.Shard.Status().LogMax) })
	gauge("refuses_work", "1 while new work is refused because the disk is nearly full.", func() float64 {
		return flag(cfg.RefusesWork != nil && cfg.RefusesWork() != "")
	})
	gauge("workers", "Workers present.", func() float64 {
		present := 0
		for _, w := range cfg.Liveness.Workers(cfg.Shard.Monotonic()) {
			if w.Present {
				present++
			}
		}
		return float64(present)
	})
	return c
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, e := range c.entries {
		ch <- e.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for _, e := range c.entries {
		ch <- prometheus.MustNewConstMetric(e.desc, e.typ, e.read())
	}
}

func sorted(names []events.Group) []events.Group {
	slices.Sort(names)
	return names
}
