package runs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

const locksDir = ".locks" // Outside the runs, so that a run can be set aside while it is locked.

// lockFile is the lock of a name. Its file is never removed, since the lock of a removed file holds no one off. It is opened
// for writing, without which NFS gives no exclusive lock, and may be written by all that the umask lets.
func (s *Store) lockFile(name string) *flock.Flock {
	return flock.New(filepath.Join(s.Dir, locksDir, name), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o666))
}

// tryLock takes a lock that is free.
func (s *Store) tryLock(name string) (unlock func(), free bool, err error) {
	if err := durable.NoLink(s.Dir, filepath.Join(locksDir, name)); err != nil {
		return nil, false, err
	}
	l := s.lockFile(name)
	if free, err = l.TryLock(); err != nil {
		return nil, false, fmt.Errorf("the run store cannot be written: %w", err)
	}
	return func() { _ = l.Unlock() }, free, nil
}

// lock waits until no other process works on the run.
func (s *Store) lock(ctx context.Context, hash string) (unlock func(), err error) {
	return s.waitForLock(ctx, hash, "works on run "+hash)
}

// Lock waits until no other process, here or on a machine that shares the store, has the lock of a name. The system frees a
// lock when its process ends, however it does; the server of a network file system that of a machine it no longer hears
// of, after its lease.
func (s *Store) Lock(ctx context.Context, name string) (unlock func(), err error) {
	if name == "" || runName.MatchString(name) || filepath.Base(name) != name {
		return nil, fmt.Errorf("lock %q: want a name that is no path and no run's", name)
	}
	return s.waitForLock(ctx, name, "has the lock "+name)
}

// Locked tells whether another process has the lock of a name.
func (s *Store) Locked(name string) (bool, error) {
	unlock, free, err := s.tryLock(name)
	if err == nil && free {
		unlock()
	}
	return !free, err
}

func (s *Store) waitForLock(ctx context.Context, name, does string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, locksDir), 0o777); err != nil {
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	unlock, free, err := s.tryLock(name)
	if err != nil || free {
		return unlock, err
	}
	s.warn("waiting for another process that %s", does)
	l := s.lockFile(name)
	if _, err := l.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped while waiting for another process that %s: %w", does, ctx.Err())
		}
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	return func() { _ = l.Unlock() }, nil
}
