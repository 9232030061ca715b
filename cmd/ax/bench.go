package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/cobra"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/workers"
)

// benchResult is what a benchmark measured. Field names are a contract.
type benchResult struct {
	Scenario       string      `json:"scenario"`
	Durability     string      `json:"durability"`
	Instances      int64       `json:"instances"`
	Slots          int         `json:"slots"`
	Seconds        float64     `json:"seconds"`
	InstancesPerS  float64     `json:"instances_per_s"`
	EventsPerS     float64     `json:"events_per_s"`
	RawPerS        float64     `json:"raw_jetstream_per_s"`
	RawSyncMs      *benchDelay `json:"raw_publish_ms,omitempty"` // one synchronous publish, at the rate of the latency scenario
	LatencyMs      benchDelay  `json:"latency_ms"`               // from due to handler start
	CPUPer1000     float64     `json:"cpu_s_per_1000"`
	RSSMiB         float64     `json:"rss_mib"` // highest of the process so far
	BytesPerInst   float64     `json:"bytes_per_instance"`
	EventsPerFrame float64     `json:"events_per_frame"`
	Terms          uint64      `json:"terms"` // leaderships: more than one is a fault
}

type benchDelay struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func delays(d []time.Duration) benchDelay {
	if len(d) == 0 {
		return benchDelay{}
	}
	slices.Sort(d)
	at := func(p float64) float64 { return float64(d[int(p*float64(len(d)-1))].Microseconds()) / 1000 }
	return benchDelay{at(0.50), at(0.99), at(1)}
}

// benchTable is a result that people can read.
type benchTable interface{ table(w io.Writer) }

// benchOptions say what to measure.
type benchOptions struct {
	instances  int64
	slots      int
	durability string
	rate       int
	seconds    int
	dir        string
	profile    string
	keep       bool // the folder, when the bench stops
}

func (c *cli) benchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine: everything in one process, in a folder that is deleted afterwards",
	}
	var o benchOptions
	add := func(sub *cobra.Command, run func(context.Context, *benchOptions) (benchTable, error)) {
		sub.Args = cobra.NoArgs
		sub.Flags().IntVar(&o.slots, "slots", 500, "slots of the worker")
		sub.Flags().StringVar(&o.durability, "durability", "fsync", "fsync, or interval=1s")
		sub.Flags().StringVar(&o.dir, "dir", "", "folder to work in, made if it is not there (default: a new one in the system's temporary folder)")
		sub.Flags().StringVar(&o.profile, "cpu-profile", "", "write a CPU profile of the run to this file")
		sub.RunE = func(cmd *cobra.Command, _ []string) error {
			if err := positive(cmd); err != nil {
				return err
			}
			if _, err := ax.ParseDurability(o.durability); err != nil {
				return failWith(exitUsage, "--durability: %w", err)
			}
			if o.dir != "" {
				if err := os.MkdirAll(o.dir, 0o700); err != nil {
					return failWith(exitUsage, "--dir: %w; give a folder that can be made and written", err)
				}
			}
			if o.profile != "" {
				f, err := os.Create(o.profile)
				if err != nil {
					return failWith(exitUsage, "--cpu-profile: %w", err)
				}
				defer f.Close()
				if err := pprof.StartCPUProfile(f); err != nil {
					return err
				}
				defer pprof.StopCPUProfile()
			}
			r, err := run(cmd.Context(), &o)
			if err != nil {
				return err
			}
			return c.print(r, r.table)
		}
		cmd.AddCommand(sub)
	}
	throughput := &cobra.Command{Use: "throughput", Short: "Whole lives of instances a second: fired, dispatched, started, succeeded"}
	throughput.Flags().Int64Var(&o.instances, "instances", 100_000, "instances to run")
	add(throughput, func(ctx context.Context, o *benchOptions) (benchTable, error) { return benchThroughput(ctx, o) })
	latency := &cobra.Command{Use: "latency", Short: "From due time to handler start at a steady rate"}
	latency.Flags().IntVar(&o.rate, "rate", 500, "due times a second")
	latency.Flags().IntVar(&o.seconds, "seconds", 20, "how long")
	add(latency, func(ctx context.Context, o *benchOptions) (benchTable, error) { return benchLatency(ctx, o) })
	rebuild := &cobra.Command{Use: "rebuild", Short: "Views from an existing log: anew, and from a snapshot"}
	rebuild.Flags().Int64Var(&o.instances, "instances", 100_000, "instances in the log, four events each")
	add(rebuild, func(ctx context.Context, o *benchOptions) (benchTable, error) { return benchRebuild(ctx, o) })
	return cmd
}

// positive refuses numbers of a benchmark that measure nothing.
func positive(cmd *cobra.Command) error {
	for _, name := range []string{"instances", "slots", "rate", "seconds"} {
		f := cmd.Flags().Lookup(name)
		if f == nil {
			continue // of another benchmark
		}
		if n, err := strconv.ParseInt(f.Value.String(), 10, 64); err != nil || n <= 0 {
			return failWith(exitUsage, "--%s %s: want a number over 0", name, f.Value)
		}
	}
	return nil
}

func (r *benchResult) table(w io.Writer) {
	fmt.Fprintf(w, "%s, %s, %d slots: %d instances in %.2f s\n", r.Scenario, r.Durability, r.Slots, r.Instances, r.Seconds)
	fmt.Fprintf(w, "instances/s          %10.0f\n", r.InstancesPerS)
	fmt.Fprintf(w, "events/s             %10.0f\n", r.EventsPerS)
	fmt.Fprintf(w, "raw JetStream msgs/s %10.0f   (events/raw %.2f)\n", r.RawPerS, r.EventsPerS/max(r.RawPerS, 1))
	fmt.Fprintf(w, "due to start         p50 %.3f ms, p99 %.3f ms, max %.3f ms\n", r.LatencyMs.P50, r.LatencyMs.P99, r.LatencyMs.Max)
	if r.RawSyncMs != nil {
		fmt.Fprintf(w, "raw publish          p50 %.3f ms, p99 %.3f ms, max %.3f ms\n", r.RawSyncMs.P50, r.RawSyncMs.P99, r.RawSyncMs.Max)
	}
	fmt.Fprintf(w, "CPU s per 1,000      %10.3f\n", r.CPUPer1000)
	fmt.Fprintf(w, "highest RSS          %10.0f MiB\n", r.RSSMiB)
	fmt.Fprintf(w, "stored per instance  %10.0f B\n", r.BytesPerInst)
	fmt.Fprintf(w, "events per frame     %10.1f\n", r.EventsPerFrame)
	fmt.Fprintf(w, "leaderships          %10d\n", r.Terms)
}

// bench is a server with a worker in one process.
type bench struct {
	dir    string
	server *ax.Server
	client *ax.Client
	funcs  *workers.Funcs
	stop   func() error
	raw    float64
}

func startBench(ctx context.Context, o *benchOptions, started func(*events.Run)) (_ *bench, err error) {
	durability, err := ax.ParseDurability(o.durability)
	if err != nil {
		return nil, &codedError{exitUsage, err}
	}
	dir, err := os.MkdirTemp(o.dir, "ax-bench-")
	if err != nil {
		return nil, err
	}
	var closers []func() error
	stop := func() error {
		var errs []error
		for _, f := range slices.Backward(closers) {
			errs = append(errs, f())
		}
		closers = nil
		if o.keep {
			return errors.Join(errs...)
		}
		return errors.Join(append(errs, os.RemoveAll(dir))...)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	s, err := ax.Start(ctx, ax.Options{Dir: dir, Name: "bench", Durability: durability})
	if err != nil {
		return nil, err
	}
	closers = append(closers, s.Stop)
	nc, err := s.Connect(ctx)
	if err != nil {
		return nil, err
	}
	closers = append(closers, func() error { nc.Close(); return nil })
	b := &bench{dir: dir, server: s, client: ax.NewClient(nc, s.Address(), "bench"), funcs: &workers.Funcs{}, stop: stop}
	if err := s.WaitReady(ctx); err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	if b.raw, err = rawPublishRate(ctx, js, durability.Sync); err != nil {
		return nil, err
	}
	b.funcs.Register("noop", func(context.Context, *workers.Attempt) (json.RawMessage, error) { return nil, nil })
	w, err := workers.New(workers.Config{
		Address: s.Address(), Name: "bench", Groups: map[events.Group]int{"default": o.slots},
		Executors: workers.Registry{"func": b.funcs.Factory}, Connect: s.Connect, Started: started,
	})
	if err != nil {
		return nil, err
	}
	wctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(wctx) }()
	closers = append(closers, func() error { cancel(); return <-worked })
	return b, nil
}

// rawPublishRate is what JetStream itself takes: asynchronous publishes of 250
// bytes to a stream of files on the same server.
func rawPublishRate(ctx context.Context, js jetstream.JetStream, sync bool) (float64, error) {
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw"}, MaxBytes: 256 << 20}); err != nil {
		return 0, err
	}
	n := 100_000
	if sync {
		n = 3_000
	}
	body := make([]byte, 250)
	began := time.Now()
	for range n {
		for {
			_, err := js.PublishAsync("raw", body)
			if err == nil {
				break
			}
			if !errors.Is(err, jetstream.ErrTooManyStalledMsgs) {
				return 0, err
			}
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	rate := float64(n) / time.Since(began).Seconds()
	return rate, js.DeleteStream(ctx, "RAW")
}

// usage is what the process has used so far.
type processUsage struct {
	cpu time.Duration
	rss float64 // MiB, highest
}

func readUsage() processUsage {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		return processUsage{}
	}
	return processUsage{time.Duration(ru.Utime.Nano() + ru.Stime.Nano()), float64(ru.Maxrss) / 1024}
}

func benchThroughput(ctx context.Context, o *benchOptions) (*benchResult, error) {
	var mu sync.Mutex
	var late []time.Duration
	l := newLoad(o)
	b, err := startBench(ctx, o, func(r *events.Run) {
		d := time.Since(time.UnixMilli(r.Due))
		mu.Lock()
		late = append(late, d)
		mu.Unlock()
		l.onStart()
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.stop() }()
	if err := l.define(ctx, b); err != nil {
		return nil, err
	}
	before, bytesBefore, framesBefore, eventsBefore := readUsage(), b.bytes(ctx), b.server.Shard().Count.Frames.Load(), b.server.Shard().Count.Events.Load()
	began := time.Now()
	if err := l.run(ctx, b); err != nil {
		return nil, err
	}
	elapsed := time.Since(began)
	after := readUsage()
	frames, evs := b.server.Shard().Count.Frames.Load()-framesBefore, b.server.Shard().Count.Events.Load()-eventsBefore
	mu.Lock()
	defer mu.Unlock()
	return &benchResult{
		Scenario: "throughput", Durability: o.durability, Instances: o.instances, Slots: o.slots, Seconds: elapsed.Seconds(),
		InstancesPerS: float64(o.instances) / elapsed.Seconds(), EventsPerS: 4 * float64(o.instances) / elapsed.Seconds(), RawPerS: b.raw,
		LatencyMs: delays(late), CPUPer1000: (after.cpu - before.cpu).Seconds() / float64(o.instances) * 1000, RSSMiB: after.rss,
		BytesPerInst: float64(b.bytes(ctx)-bytesBefore) / float64(o.instances), EventsPerFrame: float64(evs) / float64(max(frames, 1)),
		Terms: b.server.Shard().Count.Terms.Load(),
	}, nil
}

func benchLatency(ctx context.Context, o *benchOptions) (*benchResult, error) {
	var mu sync.Mutex
	var late []time.Duration
	var from atomic.Int64 // only due times from here on count
	from.Store(1 << 62)
	b, err := startBench(ctx, o, func(r *events.Run) {
		d := time.Since(time.UnixMilli(r.Due))
		if r.Due >= from.Load() {
			mu.Lock()
			late = append(late, d)
			mu.Unlock()
		}
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = b.stop() }()
	// One task for each due time within a second.
	commands := make([]events.Command, o.rate)
	for i := range commands {
		d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: fmt.Sprintf("bench-%d", i)}, Task: &events.TaskSpec{
			Triggers: []events.TriggerSpec{{Interval: &events.IntervalSpec{Every: events.Duration(time.Second), Offset: events.Duration(time.Second / time.Duration(o.rate) * time.Duration(i))}}},
			Executor: events.ExecutorSpec{Kind: "func", Config: json.RawMessage(`{"name":"noop"}`)},
			Params:   json.RawMessage(`{"payload":"` + strings.Repeat("x", 86) + `"}`),
		}}
		body, err := d.Encode()
		if err != nil {
			return nil, err
		}
		commands[i] = events.Command{Verb: events.VerbDefine, Definition: body}
	}
	if err := b.do(ctx, commands...); err != nil {
		return nil, err
	}
	warm := time.Now().Add(3 * time.Second)
	from.Store(warm.UnixMilli())
	until := warm.Add(time.Duration(o.seconds) * time.Second)
	select {
	case <-time.After(time.Until(warm)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	before, bytesBefore, framesBefore, eventsBefore := readUsage(), b.bytes(ctx), b.server.Shard().Count.Frames.Load(), b.server.Shard().Count.Events.Load()
	select {
	case <-time.After(time.Until(until)):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	after := readUsage()
	frames, evs := b.server.Shard().Count.Frames.Load()-framesBefore, b.server.Shard().Count.Events.Load()-eventsBefore
	bytes := b.bytes(ctx) - bytesBefore
	mu.Lock()
	n := int64(len(late))
	lateness := delays(late)
	mu.Unlock()
	if n == 0 {
		return nil, errors.New("nothing fired")
	}
	raw, err := b.rawPublish(ctx, o.rate)
	if err != nil {
		return nil, err
	}
	secs := float64(o.seconds)
	return &benchResult{
		Scenario: fmt.Sprintf("latency at %d/s", o.rate), Durability: o.durability, Instances: n, Slots: o.slots, Seconds: secs,
		InstancesPerS: float64(n) / secs, EventsPerS: float64(evs) / secs, RawPerS: b.raw, RawSyncMs: &raw, LatencyMs: lateness,
		CPUPer1000: (after.cpu - before.cpu).Seconds() / float64(n) * 1000, RSSMiB: after.rss,
		BytesPerInst: float64(bytes) / float64(n), EventsPerFrame: float64(evs) / float64(max(frames, 1)),
		Terms: b.server.Shard().Count.Terms.Load(),
	}, nil
}

// rawPublish measures one synchronous publish of 250 bytes at a rate, for five
// seconds, beside the running server's own load.
func (b *bench) rawPublish(ctx context.Context, rate int) (benchDelay, error) {
	nc, err := b.server.Connect(ctx)
	if err != nil {
		return benchDelay{}, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return benchDelay{}, err
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "RAW", Subjects: []string{"raw"}, MaxBytes: 64 << 20}); err != nil {
		return benchDelay{}, err
	}
	body := make([]byte, 250)
	var took []time.Duration
	next := time.Now()
	for range 5 * rate {
		next = next.Add(time.Second / time.Duration(rate))
		time.Sleep(time.Until(next))
		began := time.Now()
		if _, err := js.Publish(ctx, "raw", body); err != nil {
			return benchDelay{}, err
		}
		took = append(took, time.Since(began))
	}
	return delays(took), js.DeleteStream(ctx, "RAW")
}

func (b *bench) define(ctx context.Context, name string, spec *events.TaskSpec) error {
	d := events.Definition{APIVersion: events.APIVersion, Kind: events.ObjectTask, Metadata: events.Metadata{Name: name}, Task: spec}
	body, err := d.Encode()
	if err != nil {
		return err
	}
	return b.do(ctx, events.Command{Verb: events.VerbDefine, Definition: body})
}

func (b *bench) do(ctx context.Context, commands ...events.Command) error {
	answers, err := b.client.Do(ctx, commands...)
	if err != nil {
		return err
	}
	for _, a := range answers {
		if a.Reason != "" {
			return fmt.Errorf("%s: %s", a.Reason, a.Error)
		}
	}
	return nil
}

// finished waits until n instances of a task are in the views as final.
func (b *bench) finished(ctx context.Context, task events.TaskName, n int64) error {
	for {
		if err := b.server.Shard().Sync(ctx, 0); err != nil {
			return err
		}
		t, err := b.server.Views().Task(task)
		if err == nil && t.Fired >= n && t.Open == 0 {
			return nil
		}
		if err != nil && !errors.Is(err, events.ErrNotFound) {
			return err
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// bytes is what the log holds.
func (b *bench) bytes(ctx context.Context) int64 {
	nc, err := b.server.Connect(ctx)
	if err != nil {
		return 0
	}
	defer nc.Close()
	log, err := events.OpenJetStreamLog(ctx, nc, b.server.Address(), 0)
	if err != nil {
		return 0
	}
	info, err := log.Info(ctx)
	if err != nil {
		return 0
	}
	return int64(info.Bytes)
}
