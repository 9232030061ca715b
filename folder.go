package ax

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/ax-scheduler/ax/events"
	"github.com/ax-scheduler/ax/projector"
)

// Folder is a data folder that no server uses, opened to read its log and views.
type Folder struct {
	addr  events.Address
	data  *Data
	nats  *embeddedNATS
	nc    *nats.Conn
	views *projector.Views
}

// ErrNoViews is returned where views hold nothing yet.
var ErrNoViews = errors.New("the views hold nothing yet")

// OpenFolder opens a data folder. ErrDataInUse: a server runs on it.
func OpenFolder(dir string, ns events.Namespace) (_ *Folder, err error) {
	if _, err := os.Stat(filepath.Join(dir, "mode")); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	f := &Folder{}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.addr, err = events.NewAddress(ns); err != nil {
		return nil, err
	}
	if f.data, err = OpenData(dir); err != nil {
		return nil, err
	}
	token, err := f.data.Token()
	if err != nil {
		return nil, err
	}
	n := &embeddedNATS{
		name: "ax-reader", dir: f.data.Path("nats"), token: token,
		durability: Durability{Sync: true}, maxStore: 1 << 40, log: slog.New(slog.DiscardHandler),
	}
	if err := n.start(); err != nil {
		return nil, err
	}
	f.nats = n
	if f.nc, err = f.nats.connect(context.Background(), nats.NoReconnect()); err != nil {
		return nil, err
	}
	if f.views, err = projector.OpenViews(projector.Options{Dir: f.data.Path("views")}); err != nil {
		return nil, err
	}
	return f, nil
}

// Log gives the folder's log.
func (f *Folder) Log(ctx context.Context) (events.Log, error) {
	return events.OpenJetStreamLog(ctx, f.nc, f.addr, 0)
}

// Dump gives the dump of the folder's views. ErrNoViews: they hold nothing, as
// after a crash before they were first written to disk. The next start folds
// them from the log.
func (f *Folder) Dump() (io.ReadCloser, error) {
	snap := f.views.Snapshot()
	m, err := snap.Meta()
	if err == nil && m.Cursor == 0 {
		err = ErrNoViews
	}
	if err != nil {
		return nil, errors.Join(err, snap.Close())
	}
	r, w := io.Pipe()
	go func() {
		_, err := snap.Dump(w)
		w.CloseWithError(errors.Join(err, snap.Close()))
	}()
	return r, nil
}

// Close closes the folder.
func (f *Folder) Close() error {
	var errs []error
	if f.nc != nil {
		f.nc.Close()
	}
	if f.nats != nil {
		f.nats.stop()
	}
	if f.views != nil {
		errs = append(errs, f.views.Close())
	}
	if f.data != nil {
		errs = append(errs, f.data.Close())
	}
	return errors.Join(errs...)
}
