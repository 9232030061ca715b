package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax"
	"github.com/ax-scheduler/ax/events"
)

// rebuildResult is how long a server takes to its first decision without views.
// Field names are a contract.
type rebuildResult struct {
	Events          uint64  `json:"events"`
	OwnEvents       uint64  `json:"own_events"` // of these, by which the bench made a snapshot come
	Frames          uint64  `json:"frames"`
	AnewS           float64 `json:"anew_s"`
	EventsPerS      float64 `json:"events_per_s"`
	SnapshotS       float64 `json:"snapshot_s"`
	AfterSnapshot   uint64  `json:"frames_after_snapshot"`
	SnapshotSizeMiB float64 `json:"snapshot_mib"`
}

func (r *rebuildResult) table(w io.Writer) {
	fmt.Fprintf(w, "rebuild of %d events in %d frames; of the events %d are pauses and resumes by the bench itself, to make a snapshot come\n", r.Events, r.Frames, r.OwnEvents)
	fmt.Fprintf(w, "anew                 %10.2f s   (%.0f events/s)\n", r.AnewS, r.EventsPerS)
	fmt.Fprintf(w, "from a snapshot      %10.2f s   (%.1f MiB, and %d frames after it)\n", r.SnapshotS, r.SnapshotSizeMiB, r.AfterSnapshot)
}

// benchRebuild fills a log, then starts servers on it whose views are gone.
func benchRebuild(ctx context.Context, o *benchOptions) (_ *rebuildResult, err error) {
	o.keep = true
	l := newLoad(o)
	b, err := startBench(ctx, o, func(*events.Run) { l.onStart() })
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stop(), os.RemoveAll(b.dir)) }()
	if err := l.define(ctx, b); err != nil {
		return nil, err
	}
	if err := l.run(ctx, b); err != nil {
		return nil, err
	}
	if err := b.stop(); err != nil {
		return nil, err
	}
	r := &rebuildResult{}
	// A server keeps a snapshot soon after it starts, if there is no fresh one.
	if err := b.serve(ctx, o, func(s *ax.Server) error { return b.awaitSnapshot(ctx, s, r) }); err != nil {
		return nil, err
	}
	took, err := b.rebuilt(ctx, o, func(s *ax.Server) error {
		r.AfterSnapshot = s.Shard().Status().Cursor - r.AfterSnapshot
		return b.deleteSnapshots(ctx, s)
	})
	if err != nil {
		return nil, err
	}
	r.SnapshotS = took.Seconds()
	took, err = b.rebuilt(ctx, o, func(s *ax.Server) error {
		m, err := s.Views().Meta()
		if err != nil {
			return err
		}
		r.Events, r.Frames = m.Events, m.Cursor
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.AnewS, r.EventsPerS = took.Seconds(), float64(r.Events)/took.Seconds()
	return r, nil
}

// serve runs a server in the bench's folder for as long as do takes.
func (b *bench) serve(ctx context.Context, o *benchOptions, do func(*ax.Server) error) error {
	durability, err := ax.ParseDurability(o.durability)
	if err != nil {
		return err
	}
	s, err := ax.Start(ctx, ax.Options{Dir: b.dir, Name: "bench", Durability: durability})
	if err != nil {
		return err
	}
	if err = s.WaitReady(ctx); err == nil {
		err = do(s)
	}
	return errors.Join(err, s.Stop())
}

// rebuilt measures from the start of a server without views until it leads with
// all of the log folded.
func (b *bench) rebuilt(ctx context.Context, o *benchOptions, do func(*ax.Server) error) (took time.Duration, err error) {
	if err := os.RemoveAll(filepath.Join(b.dir, "views")); err != nil {
		return 0, err
	}
	began := time.Now()
	err = b.serve(ctx, o, func(s *ax.Server) error {
		if err := s.Shard().Sync(ctx, 0); err != nil {
			return err
		}
		took = time.Since(began)
		return do(s)
	})
	return took, err
}

func (b *bench) snapshots(ctx context.Context, s *ax.Server, do func(js jetstream.JetStream, bucket string) error) error {
	nc, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return do(js, s.Address().SnapshotBucket())
}

// awaitSnapshot waits for a snapshot of this server's views. Its checkpoint comes
// when the log has moved far enough, so this moves it.
func (b *bench) awaitSnapshot(ctx context.Context, s *ax.Server, r *rebuildResult) error {
	began := time.Now()
	nc, err := s.Connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	client := ax.NewClient(nc, s.Address(), "bench")
	return b.snapshots(ctx, s, func(js jetstream.JetStream, bucket string) error {
		for {
			obs, err := js.ObjectStore(ctx, bucket)
			if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
				return err
			}
			if err == nil {
				all, err := obs.List(ctx)
				if err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
					return err
				}
				for _, info := range all {
					if info.ModTime.After(began) {
						r.SnapshotSizeMiB = float64(info.Size) / (1 << 20)
						_, err := fmt.Sscanf(info.Name, "shard-0-%d", &r.AfterSnapshot)
						return err
					}
				}
			}
			for range 500 {
				for _, verb := range []string{events.VerbPause, events.VerbResume} {
					answers, err := client.Do(ctx, events.Command{Verb: verb, Object: events.ObjectTask, Name: loadTask})
					if err != nil {
						return err
					}
					if answers[0].Reason == "" && !answers[0].Unchanged {
						r.OwnEvents++
					}
				}
			}
		}
	})
}

func (b *bench) deleteSnapshots(ctx context.Context, s *ax.Server) error {
	return b.snapshots(ctx, s, func(js jetstream.JetStream, bucket string) error {
		return js.DeleteObjectStore(ctx, bucket)
	})
}
