// Package durable writes files that appear complete or not at all, and refuses to be led elsewhere by symbolic links.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/renameio/v2"
)

// WriteFile writes a file beside its place, brings it to the disk and renames it. A killed process leaves a hidden
// file in the same folder, not in the system's folder for temporary files, where no one would look for it; see
// [Temporary].
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return renameio.WriteFile(path, data, perm, renameio.WithTempDir(filepath.Dir(path)))
}

// File is a file that is written piece by piece, and appears at its place by CloseAtomicallyReplace.
type File struct {
	*renameio.PendingFile
	lock *flock.Flock
}

// Create begins to write a file beside its place, after it has removed what killed processes have left of earlier
// attempts at the same file.
func Create(path string, perm os.FileMode) (*File, error) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if name, ok := Temporary(e.Name()); !ok || name != filepath.Base(path) || !e.Type().IsRegular() {
			continue
		}
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < time.Minute { // It may not be locked yet.
			continue
		}
		left := filepath.Join(dir, e.Name())
		lock := flock.New(left, flock.SetFlag(os.O_RDWR))
		if free, err := lock.TryLock(); err == nil && free {
			_ = os.Remove(left) // What stays does no harm.
			_ = lock.Unlock()
		}
	}
	pending, err := renameio.NewPendingFile(path, renameio.WithPermissions(perm), renameio.WithTempDir(dir))
	if err != nil {
		return nil, err
	}
	f := &File{pending, flock.New(pending.Name(), flock.SetFlag(os.O_RDWR))}
	_, _ = f.lock.TryLock() // Where there are no locks it is written all the same.
	return f, nil
}

// Cleanup removes the file if it has not got to its place, and ends the work on it.
func (f *File) Cleanup() error { return errors.Join(f.PendingFile.Cleanup(), f.lock.Unlock()) }

var temporary = regexp.MustCompile(`^\.(.*[^0-9])[0-9]{1,19}$`)

// Temporary gives the name of the file that [WriteFile] keeps under a hidden name until it is complete: a dot, the
// file's own name and a random number. ok is false for any other name.
func Temporary(hidden string) (name string, ok bool) {
	m := temporary.FindStringSubmatch(hidden)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// Sweep removes from a folder what killed processes have left of files that [WriteFile] was to write, if of says so of their
// names. What cannot be removed stays and does no harm.
func Sweep(dir string, of func(name string) bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name, ok := Temporary(e.Name()); ok && e.Type().IsRegular() && of(name) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// LinkError says that a path is a symbolic link, which a stranger may have put there to lead elsewhere.
type LinkError struct{ Path string }

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s is a symbolic link, which is not followed", e.Path)
}

// NoLink fails with a [LinkError] if a part of name, a path below the folder dir, is a symbolic link. dir itself may
// be one. Parts that are not there are no links.
func NoLink(dir, name string) error {
	path := dir
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if err != nil {
			return nil // Whoever opens it finds out why.
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return &LinkError{path}
		}
	}
	return nil
}
