// Package checkout finds the checkout of this module around the working directory.
package checkout

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

// Module is this module's path in its go.mod.
const Module = buildinfo.Module

// ErrOutside is the error where no folder above the working directory is a checkout.
var ErrOutside = errors.New("is not inside a checkout")

// Root returns the folder of this module's go.mod, at or above the working directory. Anybody who can write to a folder
// above can put a go.mod there: use [Trusted] before you run any code from the folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return find(dir)
}

// find looks for this module's go.mod in dir and the folders above it.
func find(dir string) (string, error) {
	for d := dir; ; {
		if buildinfo.IsModule(filepath.Join(d, "go.mod")) {
			return d, nil
		}
		up := filepath.Dir(d)
		if up == d {
			return "", fmt.Errorf("%s %w of %s", dir, ErrOutside, Module)
		}
		d = up
	}
}

// Trusted returns the checkout whose code may be compiled and run: the working directory itself, or a folder above it
// that only this user or root can write.
func Trusted() (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil || here == root {
		return root, err
	}
	if why, err := Foreign(root); err != nil {
		return "", err
	} else if why != "" {
		return "", fmt.Errorf("%s, above the working directory, is not used: %s; if you trust its code, run the command "+
			"there", root, why)
	}
	return root, nil
}

// Foreign says why somebody other than this user or root may have written a checkout's folder or its go.mod, or
// returns "".
func Foreign(root string) (why string, err error) {
	for _, path := range []string{root, filepath.Join(root, "go.mod")} {
		info, err := os.Lstat(path)
		if err != nil {
			return "", err
		}
		if why := foreign(info, os.Getuid()); why != "" {
			return path + " " + why, nil
		}
	}
	return "", nil
}

// foreign says why somebody other than the user or root may have written a file or folder, or returns "".
func foreign(info fs.FileInfo, user int) string {
	switch owner := durable.Owner(info); {
	case owner != user && owner != 0:
		return "belongs to another user"
	case info.Mode()&fs.ModeSymlink != 0:
		return "is a symbolic link"
	case info.Mode().Perm()&0o002 != 0:
		return "can be written by everybody"
	}
	return ""
}
