package replay

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Report is what a verification found.
type Report struct {
	Clean       bool                   `json:"clean"`
	First       uint64                 `json:"first"`  // sequences folded
	Cursor      uint64                 `json:"cursor"` //
	Events      uint64                 `json:"events"` // with an effect
	Void        uint64                 `json:"void"`   // without
	Terms       int                    `json:"terms"`
	Hash        events.Hash            `json:"hash"`        // chain at the cursor
	Digest      events.Hash            `json:"digest"`      // of the refolded views
	Rows        int64                  `json:"rows"`        // compared
	Checkpoints int                    `json:"checkpoints"` // compared
	Problems    []string               `json:"problems,omitempty"`
	Differences []projector.Difference `json:"differences,omitempty"`
}

// maxProblems bounds what a report lists.
const maxProblems = 100

// Verify folds the log anew up to the cursor of a dump of views and compares:
// the hash chain at every frame, the dump key by key, and every checkpoint's
// hash, digest and signature with what was folded there. open gives views to
// fold into, empty ones, as often as it is called. A nil dump compares no views.
func Verify(ctx context.Context, log events.Log, dump io.Reader, open func() (*projector.Views, error)) (*Report, error) {
	rep := &Report{}
	problem := func(format string, args ...any) {
		if len(rep.Problems) < maxProblems {
			rep.Problems = append(rep.Problems, fmt.Sprintf(format, args...))
		}
	}
	// The dump is read in full first: it may come from a running server.
	var rows bytes.Buffer
	var until Until
	if dump != nil {
		var meta projector.Meta
		_, err := projector.ReadDump(io.TeeReader(dump, &rows), func(key, value []byte) error {
			if m, ok, err := projector.MetaRow(key, value); err != nil {
				return err
			} else if ok {
				meta = m
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		until.Seq = meta.Cursor
		if meta.Cursor == 0 {
			return nil, fmt.Errorf("the views hold nothing yet")
		}
	}
	info, err := log.Info(ctx)
	if err != nil {
		return nil, err
	}
	if until.Seq > info.Last {
		problem("the log ends at sequence %d, the views are as of %d", info.Last, until.Seq)
		until.Seq = info.Last
	}
	marks, err := checkpoints(ctx, log, until.Seq)
	if broken(err) {
		problem("%v", err)
		return rep, nil
	}
	if err != nil {
		return nil, err
	}
	views, err := open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = views.Close() }()
	var keys = map[string]bool{}
	state, err := Fold(ctx, log, views, until, func(m *events.Message, s *projector.State) error {
		if m.Kind == events.MessageLed {
			rep.Terms++
			if k := publicKey(m); k != "" {
				keys[k] = true
			}
		}
		mark := marks[m.Seq]
		if mark == nil {
			return nil
		}
		rep.Checkpoints++
		if h := s.Meta().Hash; h != mark.Hash {
			problem("checkpoint of sequence %d: chain is %s, the checkpoint says %s", m.Seq, h, mark.Hash)
		}
		if err := s.Flush(); err != nil {
			return err
		}
		snap := views.Snapshot()
		d, err := snap.Dump(nil)
		_ = snap.Close()
		if err != nil {
			return err
		}
		if d.Digest != mark.Digest {
			problem("checkpoint of sequence %d: digest of the refolded views is %s, the checkpoint says %s", m.Seq, d.Digest, mark.Digest)
		}
		if !signed(mark, keys) {
			problem("checkpoint of sequence %d: its signature is of no server that has led", m.Seq)
		}
		return nil
	})
	if broken(err) {
		problem("%v", err)
		return rep, nil
	}
	if err != nil {
		return nil, err
	}
	meta := state.Meta()
	rep.First, rep.Cursor, rep.Events, rep.Void, rep.Hash = meta.First, meta.Cursor, meta.Events, meta.Passed, meta.Hash
	if meta.Strange.Count > 0 {
		problem("%d messages from sequence %d to %d are no frames of the leader of their time and are in no incident", meta.Strange.Count, meta.Strange.First, meta.Strange.Last)
	}
	snap := views.Snapshot()
	defer func() { _ = snap.Close() }()
	d, err := snap.Dump(nil)
	if err != nil {
		return nil, err
	}
	rep.Digest = d.Digest
	if dump != nil {
		rep.Differences, rep.Rows, err = snap.Compare(&rows, maxProblems)
		if err != nil {
			return nil, err
		}
	}
	rep.Clean = len(rep.Problems) == 0 && len(rep.Differences) == 0
	return rep, nil
}

// broken reports whether an error is what Verify looks for: a log that was changed
// or has lost something.
func broken(err error) bool {
	var gap *events.GapError
	var hole *events.HoleError
	return errors.As(err, &gap) || errors.As(err, &hole) || errors.Is(err, projector.ErrChain) || errors.Is(err, projector.ErrOutOfOrder)
}

// checkpoints finds the checkpoints with a digest, by the sequence they are of.
func checkpoints(ctx context.Context, log events.Log, last uint64) (map[uint64]*events.CheckpointBody, error) {
	info, err := log.Info(ctx)
	if err != nil {
		return nil, err
	}
	marks := map[uint64]*events.CheckpointBody{}
	err = Messages(ctx, log, info.First, info.Last, func(_ *events.Message, d *events.Decoded) error {
		for k := range d.Events {
			if e := &d.Events[k]; e.Kind == events.KindCheckpoint {
				var body events.CheckpointBody
				if json.Unmarshal([]byte(e.Body), &body) == nil && !body.Digest.IsZero() && (last == 0 || body.Position <= last) {
					marks[body.Position] = &body
				}
			}
		}
		return nil
	})
	return marks, err
}

// publicKey gives the key that a led names.
func publicKey(m *events.Message) string {
	var d events.Decoded
	if d.Decode(m) != nil {
		return ""
	}
	var body events.LedBody
	if json.Unmarshal([]byte(d.Events[0].Body), &body) != nil {
		return ""
	}
	return body.PublicKey
}

// signed reports whether one of the keys has signed the checkpoint. One without
// a signature counts where no server has a key.
func signed(b *events.CheckpointBody, keys map[string]bool) bool {
	if b.Signature == "" {
		return len(keys) == 0
	}
	sig, err := base64.RawURLEncoding.DecodeString(b.Signature)
	if err != nil {
		return false
	}
	for k := range keys {
		key, err := base64.RawURLEncoding.DecodeString(k)
		if err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, []byte(b.Text()), sig) {
			return true
		}
	}
	return false
}
