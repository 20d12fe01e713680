// Package durable writes files that appear complete or not at all, and refuses to be led elsewhere by symbolic links.
package durable

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/renameio/v2"
)

// WriteFile writes a file beside its place, brings it to the disk and renames it. A killed process leaves a hidden file in
// the same folder, not in the system's folder for temporary files, where no one would look for it; see [Temporary].
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return renameio.WriteFile(path, data, perm, renameio.WithTempDir(filepath.Dir(path)))
}

var temporary = regexp.MustCompile(`^\.(.*[^0-9])[0-9]{1,19}$`)

// Temporary gives the name of the file that [WriteFile] keeps under a hidden name until it is complete: a dot, the file's own
// name and a random number. ok is false for any other name.
func Temporary(hidden string) (name string, ok bool) {
	m := temporary.FindStringSubmatch(hidden)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// LinkError says that a path is a symbolic link, which a stranger may have put there to lead elsewhere.
type LinkError struct{ Path string }

func (e *LinkError) Error() string {
	return fmt.Sprintf("%s is a symbolic link, which is not followed", e.Path)
}

// NoLink fails with a [LinkError] if a part of name, a path below the folder dir, is a symbolic link. dir itself may be one.
// Parts that are not there are no links.
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
