package leader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Snapshots of views that are kept beside the log.
const (
	snapshotPause = 10 * time.Minute // at least between two
	snapshotsKept = 2
)

func snapshotBucket(ctx context.Context, js jetstream.JetStream, addr events.Address, replicas int) (jetstream.ObjectStore, error) {
	obs, err := js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{
		Bucket:      addr.SnapshotBucket(),
		Description: "AX views at checkpoints: a node may start from one",
		Storage:     jetstream.FileStorage,
		Replicas:    max(replicas, 1),
	})
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", addr.SnapshotBucket(), err)
	}
	return obs, nil
}

// snapshotName tells the shard and the checkpoint whose digest the snapshot has.
func snapshotName(shard events.Shard, checkpoint uint64) string {
	return fmt.Sprintf("shard-%d-%d", shard, checkpoint)
}

// uploadSnapshot keeps a dump whose digest the checkpoint at a sequence holds.
func (s *Shard) uploadSnapshot(ctx context.Context, snap *projector.Snapshot, checkpoint uint64) error {
	nc, err := s.cfg.Connect(ctx) // its own connection: the session's may end any time
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	obs, err := snapshotBucket(ctx, js, s.cfg.Address, s.cfg.Stream.Replicas)
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err == nil {
			_, err = snap.Dump(z)
			err = errors.Join(err, z.Close())
		}
		w.CloseWithError(err)
	}()
	defer r.Close()
	if _, err := obs.Put(ctx, jetstream.ObjectMeta{Name: snapshotName(s.cfg.Shard, checkpoint)}, r); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	names, err := s.snapshots(ctx, obs)
	if err != nil {
		return err
	}
	for _, seq := range names[min(snapshotsKept, len(names)):] {
		_ = obs.Delete(ctx, snapshotName(s.cfg.Shard, seq))
	}
	return nil
}

// snapshots lists the checkpoints of the shard's snapshots, the newest first.
func (s *Shard) snapshots(ctx context.Context, obs jetstream.ObjectStore) ([]uint64, error) {
	list, err := obs.List(ctx)
	if err != nil {
		if errors.Is(err, jetstream.ErrNoObjectsFound) {
			return nil, nil
		}
		return nil, fmt.Errorf("snapshots: %w", err)
	}
	var all []uint64
	prefix := fmt.Sprintf("shard-%d-", s.cfg.Shard)
	for _, o := range list {
		if rest, ok := strings.CutPrefix(o.Name, prefix); ok {
			if seq, err := strconv.ParseUint(rest, 10, 64); err == nil {
				all = append(all, seq)
			}
		}
	}
	slices.Sort(all)
	slices.Reverse(all)
	return all, nil
}

// restoreViews fills views that have nothing, or too little to go on, from the
// newest snapshot whose digest stands in the log. Without one the log is folded
// from its beginning; a gap is then found by the reader.
func (s *Shard) restoreViews(ctx context.Context, js jetstream.JetStream, log events.Log) error {
	cursor := s.state.Meta().Cursor
	info := s.info.Load()
	if cursor != 0 && cursor+1 >= info.First || cursor == 0 && info.Last < checkpointFrames && info.First == 1 {
		return nil
	}
	obs, err := snapshotBucket(ctx, js, s.cfg.Address, s.cfg.Stream.Replicas)
	if err != nil {
		return err
	}
	all, err := s.snapshots(ctx, obs)
	if err != nil {
		return err
	}
	for _, seq := range all {
		body, err := checkpointAt(ctx, log, seq)
		if err != nil {
			s.log.Warn("a snapshot is passed over", "checkpoint", seq, "error", err)
			continue
		}
		if err := s.restoreFrom(ctx, obs, seq, body); err != nil {
			s.log.Warn("a snapshot is passed over", "checkpoint", seq, "error", err)
			continue
		}
		s.log.Info("views restored from a snapshot", "position", body.Position, "rows", body.Rows)
		return s.state.Load()
	}
	return s.state.Load()
}

func (s *Shard) restoreFrom(ctx context.Context, obs jetstream.ObjectStore, seq uint64, body *events.CheckpointBody) error {
	o, err := obs.Get(ctx, snapshotName(s.cfg.Shard, seq))
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer o.Close()
	z, err := zstd.NewReader(o, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer z.Close()
	if err := s.cfg.Views.Empty(); err != nil {
		return err
	}
	return s.cfg.Views.Restore(z, body.Digest)
}

// checkpointAt reads the checkpoint with a digest that stands at a sequence.
func checkpointAt(ctx context.Context, log events.Log, seq uint64) (*events.CheckpointBody, error) {
	m, err := log.Get(ctx, seq)
	if err != nil {
		return nil, err
	}
	var d events.Decoded
	if err := d.Decode(m); err != nil {
		return nil, err
	}
	for k := range d.Events {
		if e := &d.Events[k]; e.Kind == events.KindCheckpoint {
			var body events.CheckpointBody
			if err := json.Unmarshal([]byte(e.Body), &body); err == nil && !body.Digest.IsZero() {
				return &body, nil
			}
		}
	}
	return nil, fmt.Errorf("sequence %d holds no checkpoint with a digest", seq)
}
