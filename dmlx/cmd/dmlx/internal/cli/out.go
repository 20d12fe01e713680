package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// CheckOut checks, before any work, that a file can be written at each path, and that no path is written twice or is
// one of those that are read. What is there is replaced, so that it must be a regular file: not a pipe or a device, and
// not a link, whose target would stay. An empty path is skipped.
func CheckOut(read []string, paths ...string) error {
	for i, path := range paths {
		if path == "" {
			continue
		}
		if slices.Contains(paths[:i], path) {
			return Usagef("two outputs have the path %s: want a file for each", path)
		}
		if info, err := os.Lstat(path); err == nil {
			behind, gone := os.Stat(path)
			switch target, _ := filepath.EvalSymlinks(path); {
			case gone == nil && behind.IsDir():
				return Usagef("%s is a folder: want the name of a file to write", path)
			case gone == nil && !behind.Mode().IsRegular():
				return Usagef("%s is a pipe or a device: want a regular file, or a new one", path)
			case info.Mode()&fs.ModeSymlink != 0:
				return Usagef("%s is a link to %s: name the file itself, or a new one", path, cmp.Or(target, "nothing"))
			}
			for _, source := range read {
				if of, err := os.Stat(source); err == nil && os.SameFile(of, info) {
					return Usagef("%s is an input: want another file to write", path)
				}
			}
		}
		if err := tryIn(filepath.Dir(path)); err != nil { // A file is written there and then renamed.
			return fmt.Errorf("%s cannot be written: %w", path, err)
		}
	}
	return nil
}

// CheckOutDir checks, before any work, that files can be written in a folder, which need not exist yet. It skips an
// empty path.
func CheckOutDir(dir string) error {
	if dir == "" {
		return nil
	}
	at := dir
	for {
		switch info, err := os.Stat(at); {
		case err == nil && !info.IsDir():
			return fmt.Errorf("%s cannot be a folder: %s is a file", dir, at)
		case err == nil:
			if err := tryIn(at); err != nil {
				return fmt.Errorf("%s cannot be written to: %w", dir, err)
			}
			return nil
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			return err
		}
		at = filepath.Dir(at)
	}
}

// tryIn creates a file in a folder and removes it.
func tryIn(dir string) error {
	file, err := os.CreateTemp(dir, ".dmlx-")
	var why *fs.PathError // Its path is the temporary file's.
	if errors.As(err, &why) {
		return why.Err
	} else if err != nil {
		return err
	}
	return errors.Join(file.Close(), os.Remove(file.Name()))
}
