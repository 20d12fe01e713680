// Package durable writes files that appear complete or not at all.
package durable

import (
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile writes a file beside its place, brings it to the disk and renames it. What a killed process leaves of it is
// a hidden file in the same folder: not in the system's folder for temporary files, where no one would look for it.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	return renameio.WriteFile(path, data, perm, renameio.WithTempDir(filepath.Dir(path)))
}
