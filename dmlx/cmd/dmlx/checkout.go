package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// modulePath names this module in its go.mod.
const modulePath = "github.com/gradient-surgery/dml"

// moduleRoot returns the folder of this module's go.mod, at or above the working directory. Whoever can write to a
// folder above can put one there: see [ownCheckout] before you run anything that is in it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	return findModule(dir)
}

// findModule looks for this module's go.mod in dir and the folders above it.
func findModule(dir string) (string, error) {
	for d := dir; ; {
		if isModule(filepath.Join(d, "go.mod")) {
			return d, nil
		}
		up := filepath.Dir(d)
		if up == d {
			return "", fmt.Errorf("%s is not inside a checkout of %s", dir, modulePath)
		}
		d = up
	}
}

func isModule(goMod string) bool {
	f, err := os.Open(goMod)
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) == 2 && fields[0] == "module" {
			return fields[1] == modulePath
		}
	}
	return false
}

// ownCheckout returns the checkout whose code may be compiled and run: the working directory itself, or a folder above
// it that only this user can have made.
func ownCheckout() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil || here == root {
		return root, err
	}
	for _, path := range []string{root, filepath.Join(root, "go.mod")} {
		info, err := os.Lstat(path)
		if err != nil {
			return "", err
		}
		if why := foreign(info, os.Getuid()); why != "" {
			return "", fmt.Errorf("%s, above the working directory, is not used: %s %s; if you trust its code, run the "+
				"command there",
				root, path, why)
		}
	}
	return root, nil
}

// foreign says why somebody other than a user, or root, may have written a file or folder; "" if nobody may.
func foreign(info fs.FileInfo, user int) string {
	owner := -1
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(stat.Uid)
	}
	switch {
	case owner != user && owner != 0:
		return "belongs to another user"
	case info.Mode()&fs.ModeSymlink != 0:
		return "is a symbolic link"
	case info.Mode().Perm()&0o002 != 0:
		return "can be written by everybody"
	}
	return ""
}
