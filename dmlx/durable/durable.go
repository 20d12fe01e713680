// Package durable gives the packages beside dmlx (datasets, figures, notebooks) the file functions that those below it
// have: writes that appear complete or not at all, and reads of regular files that are no longer than expected.
package durable

import (
	"os"

	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

// MaxText is the largest file of text in bytes, such as JSON or a list, that is read at once.
const MaxText = durable.MaxText

// File is a file that is written in parts and appears at its path by CloseAtomicallyReplace.
type File = durable.File

// Create opens a temporary file beside path for writing; see [File]. The error is the system's.
func Create(path string, perm os.FileMode) (*File, error) { return durable.Create(path, perm) }

// WriteFile replaces a file in one move. The error is the system's.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return durable.WriteFile(path, data, perm)
}

// Open opens a regular file to read it. A pipe, a device or a folder is an error, and never waits.
func Open(path string) (*os.File, error) { return durable.Open(path) }

// ReadFile reads a regular file of at most limit bytes. A larger one is an error before memory is taken for it.
func ReadFile(path string, limit int64) ([]byte, error) { return durable.ReadAtMost(path, limit) }

// ReadBelow reads a file of text below a folder that others can write to: regular, at most [MaxText] bytes, and no part
// of its path below dir a symbolic link.
func ReadBelow(dir, name string) ([]byte, error) { return durable.ReadBelow(dir, name) }

// Update changes such a file, under a lock that other processes wait for: change gets its content, nil if there is
// none, and returns the new one.
func Update(dir, name string, change func(old []byte) ([]byte, error)) error {
	return durable.Update(dir, name, change)
}

// ParseJSON reads JSON that strangers have written: one of too many elements is an error before memory is taken for it.
func ParseJSON(raw []byte, v any) error { return durable.ParseJSON(raw, v) }

// Looks says what a file is by its beginning, for an error about one of another kind: a Git LFS pointer, a page, an
// image, an archive, a text, an empty file; or "".
func Looks(data []byte) string { return durable.Looks(data) }

// MoveAside renames a file or folder to an unused name, the path with the word why and a number, and returns that name.
func MoveAside(path, why string) (to string, err error) { return durable.MoveAside(path, why) }
