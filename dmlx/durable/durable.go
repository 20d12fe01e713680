// Package durable writes files that appear complete or not at all, reads regular files that are no longer than
// expected, and detects symbolic links in the paths of others.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// WriteFile writes a temporary file beside path, flushes it to the disk and renames it, with the permissions of the
// regular file that it replaces, or else perm less the umask. A killed process leaves a hidden file in the same folder,
// which [Sweep] removes; see [Temporary].
func WriteFile(path string, data []byte, perm os.FileMode) error {
	old, err := os.Lstat(path)
	keep := err == nil && old.Mode().IsRegular()
	if keep {
		perm = old.Mode().Perm()
	}
	f, err := create(path, perm)
	if err != nil {
		return err
	}
	defer func() { _ = f.Cleanup() }()
	if keep {
		_ = f.Chmod(perm) // Whatever the umask; systems without permissions refuse it.
	}
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.CloseAtomicallyReplace()
}

// WriteInFolder is [WriteFile] to a folder that it makes if it is not there: who may read the file may enter it.
func WriteInFolder(path string, data []byte, perm os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), perm|perm>>2&0o111); err != nil {
		return err
	}
	return WriteFile(path, data, perm)
}

// File is a file that is written in parts and appears at its path by CloseAtomicallyReplace.
type File struct {
	*os.File
	path         string
	closed, done bool
	lock         *flock.Flock // nil without one.
}

// create opens a temporary file beside path, under a name that [Temporary] knows.
func create(path string, perm os.FileMode) (*File, error) {
	for {
		name := "." + filepath.Base(path) + strconv.FormatInt(rand.Int64(), 10)
		f, err := os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return &File{File: f, path: path}, err
		}
	}
}

// CloseAtomicallyReplace flushes the file to the disk, closes it and renames it to its path.
func (f *File) CloseAtomicallyReplace() error {
	if err := f.Sync(); err != nil {
		return err
	}
	f.closed = true
	if err := f.Close(); err != nil {
		return err
	}
	err := os.Rename(f.Name(), f.path)
	f.done = err == nil
	return err
}

// Cleanup removes the temporary file unless it has been renamed, and releases its lock.
func (f *File) Cleanup() (err error) {
	if !f.closed {
		f.closed, err = true, f.Close()
	}
	if !f.done {
		f.done, err = true, errors.Join(err, os.Remove(f.Name()))
	}
	if f.lock != nil {
		err = errors.Join(err, f.lock.Unlock())
	}
	return err
}

// Create opens a temporary file beside path for writing. It removes the temporary files that killed processes have
// left of the same file.
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
		if err != nil || time.Since(info.ModTime()) < time.Minute { // Its writer may not have locked it yet.
			continue
		}
		left := filepath.Join(dir, e.Name())
		lock := flock.New(left, flock.SetFlag(os.O_RDWR))
		if free, err := lock.TryLock(); err == nil && free {
			_ = os.Remove(left) // A file that stays does no harm.
			_ = lock.Unlock()
		}
	}
	f, err := create(path, perm)
	if err != nil {
		return nil, err
	}
	f.lock = flock.New(f.Name(), flock.SetFlag(os.O_RDWR))
	_, _ = f.lock.TryLock() // File systems without locks work, too.
	return f, nil
}

var temporary = regexp.MustCompile(`^\.(.*[^0-9])[0-9]{1,19}$`)

// Temporary returns the name of the final file for the hidden name of a temporary file of [WriteFile]: a dot, the
// final name and a random number. ok is false for any other name.
func Temporary(hidden string) (name string, ok bool) {
	m := temporary.FindStringSubmatch(hidden)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// Sweep removes the temporary files of [WriteFile] in a folder whose final names satisfy of. It ignores errors, since
// a file that stays does no harm.
func Sweep(dir string, of func(name string) bool) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if name, ok := Temporary(e.Name()); ok && e.Type().IsRegular() && of(name) {
			_ = os.Remove(filepath.Join(dir, e.Name()))
		}
	}
}

// LinkError says that a path is a symbolic link. Links are not followed in folders that others can write to.
type LinkError struct{ Path string }

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s is a symbolic link, which is not followed", e.Path)
}

// NoLink returns a [LinkError] if a part of name, a path below dir, is a symbolic link. dir itself may be one.
// Missing parts are no error.
func NoLink(dir, name string) error {
	path := dir
	for part := range strings.SplitSeq(filepath.ToSlash(name), "/") {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		if err != nil {
			return nil // Opening it returns the error.
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return &LinkError{path}
		}
	}
	return nil
}
