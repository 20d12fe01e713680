package runs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

const locksDir = ".locks" // Outside the directories of runs, so that a run can be set aside while it is locked.

// lockFile returns the lock of a name. Its file is never removed, because a lock on a removed file excludes no one. It
// is opened for writing, because NFS gives exclusive locks only then.
func (s *Store) lockFile(name string) *flock.Flock {
	return flock.New(filepath.Join(s.Dir, locksDir, name), flock.SetFlag(os.O_CREATE|os.O_RDWR),
		flock.SetPermissions(0o666))
}

// tryLock takes a lock if it is free, and creates the folder of the locks.
func (s *Store) tryLock(name string) (unlock func(), free bool, err error) {
	if err := durable.NoLink(s.Dir, filepath.Join(locksDir, name)); err != nil {
		return nil, false, err
	}
	l := s.lockFile(name)
	if err = os.MkdirAll(filepath.Dir(l.Path()), 0o777); err == nil {
		free, err = l.TryLock()
	}
	if err != nil {
		return nil, false, fmt.Errorf("the run store cannot be written: %w", err)
	}
	return func() { _ = l.Unlock() }, free, nil
}

// lock waits until no other process, on this machine or on one that shares the store, works on a run, and takes its
// lock. The system releases it when the process ends. If a machine dies, the server of a network file system releases
// its locks once their lease ends.
func (s *Store) lock(ctx context.Context, hash string) (unlock func(), err error) {
	unlock, free, err := s.tryLock(hash)
	if err != nil || free {
		return unlock, err
	}
	s.warn("waiting for another process, which works on run %s", hash)
	l := s.lockFile(hash)
	if _, err := l.TryLockContext(ctx, 100*time.Millisecond); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("stopped while waiting for another process, which works on run %s: %w", hash, ctx.Err())
		}
		return nil, fmt.Errorf("the run store cannot be written: %w", err)
	}
	return func() { _ = l.Unlock() }, nil
}

// Locked reports whether another process has the lock of a name.
func (s *Store) Locked(name string) (bool, error) {
	unlock, free, err := s.tryLock(name)
	if err == nil && free {
		unlock()
	}
	return !free, err
}
