package ax

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrDataInUse is returned where another process uses the data folder.
var ErrDataInUse = errors.New("the data folder is in use")

// Data is a server's data folder:
//
//	lock    held while a process uses the folder
//	mode    what kind of store it is; a store of another kind is refused
//	token   who may talk to this server, mode 0600
//	key     Ed25519 seed that signs checkpoints, mode 0600
//	nats/   JetStream: the log
//	views/  Pebble: folded from the log, may be deleted
type Data struct {
	dir  string
	lock *os.File
}

// OpenData makes the folder if need be and takes its lock.
func OpenData(dir string) (*Data, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder: %w; choose another with --data", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("data folder %s: %w; choose one that can be written with --data", dir, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%w: %s: another AX process uses it; stop that, or choose another folder with --data", ErrDataInUse, dir)
	}
	d := &Data{dir, f}
	if err := d.checkMode("standalone"); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// Close gives the folder up.
func (d *Data) Close() error { return d.lock.Close() }

// Path gives a path inside the folder.
func (d *Data) Path(name string) string { return filepath.Join(d.dir, name) }

// checkMode refuses a store of another kind: a standalone store that is started
// as a member of a cluster loses its streams after half a minute.
func (d *Data) checkMode(want string) error {
	have, err := os.ReadFile(d.Path("mode"))
	if errors.Is(err, os.ErrNotExist) {
		if err := writeWhole(d.Path("mode"), want); err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if m := strings.TrimSpace(string(have)); m != want {
		return fmt.Errorf("data folder %s holds a store of kind %q, and not %q (file %s); choose another folder with --data", d.dir, m, want, d.Path("mode"))
	}
	return nil
}

// Token gives the token that everybody needs who talks to this server, made when
// the folder is used first.
func (d *Data) Token() (string, error) {
	token, err := ReadToken(d.dir)
	if !errors.Is(err, os.ErrNotExist) {
		return token, err
	}
	token = rand.Text() + rand.Text()
	if err := writeWhole(d.Path("token"), token); err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	return token, nil
}

// ReadToken reads the token of a data folder.
func ReadToken(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", fmt.Errorf("token: %s is empty; delete it to get a new one", filepath.Join(dir, "token"))
	}
	return token, nil
}

// Key gives the key that signs checkpoints, made when the folder is used first.
func (d *Data) Key() (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(d.Path("key"))
	if errors.Is(err, os.ErrNotExist) {
		seed := make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(seed) // never fails since Go 1.24
		b = []byte(hex.EncodeToString(seed))
		if err := writeWhole(d.Path("key"), string(b)); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("key: %w", err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, fmt.Errorf("key: %s is no seed of %d bytes in hexadecimal; put it back from a backup, or delete it to sign with a new key from now on", d.Path("key"), ed25519.SeedSize)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// writeWhole writes a line into a file that is there with all of it, or not at all.
func writeWhole(path, line string) error {
	tmp := path + ".new"
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	return err
}
