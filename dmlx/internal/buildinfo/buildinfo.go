// Package buildinfo tells which version of this module a program was built from. The Go toolchain stamps a tagged
// version or a commit on a program, but not on one that was built with -buildvcs=false, by "go run", as a test, or in
// another module that replaces this one by a folder. For these it asks git about the folder of the sources.
package buildinfo

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Module is this module's path in its go.mod.
const Module = "github.com/gradient-surgery/dml"

// Info is what is known of this module in the running program.
type Info struct {
	Version string // "v0.2.0", a pseudo-version, "(devel)" for sources in a folder, or "unknown".
	Commit  string // Of git; "" if it is not known.
	Dirty   bool   // Files differed from the commit.

	// Sum is the checksum of a version that comes from Go's module cache, as in go.sum; "" for sources in a folder.
	Sum string

	// Asked is set if git was asked for the commit when the program ran, since nothing is stamped on it.
	Asked bool

	// Source is the folder of the sources if it is still there, "" if not. In the module cache it cannot be written.
	Source string
}

// Get returns the information. It asks git at most once.
var Get = sync.OnceValue(func() Info {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return Info{Version: "unknown"}
	}
	info := stamped(build)
	if info.Source = source(); info.Commit == "" && info.Version == "(devel)" && info.Source != "" {
		info.Commit, info.Dirty = commitOf(info.Source)
		info.Asked = info.Commit != ""
	}
	return info
})

// stamped returns what the toolchain has put into a program, whose main module may be another one.
func stamped(build *debug.BuildInfo) Info {
	if build.Main.Path != Module {
		for _, m := range build.Deps {
			if m.Path != Module {
				continue
			}
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Version == "" { // A folder.
				break
			}
			return Info{Version: m.Version, Sum: m.Sum}
		}
		return Info{Version: "(devel)"}
	}
	info := Info{Version: build.Main.Version, Sum: build.Main.Sum}
	if info.Version == "" { // A test.
		info.Version = "(devel)"
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.modified":
			info.Dirty = s.Value == "true"
		}
	}
	return info
}

// String returns the version as results record it: a tagged version, or a commit, with "+changes" if files differed. It
// begins with "checkout" if the commit is the one that git told when the program ran.
func (i Info) String() string {
	if i.Commit == "" {
		return i.Version
	}
	text := i.Commit[:min(12, len(i.Commit))]
	if i.Dirty {
		text += "+changes"
	}
	if i.Asked {
		text = "checkout " + text
	}
	return text
}

// source returns the folder from which this file was compiled, or "" if it is not there or the path was trimmed.
func source() string {
	_, file, _, ok := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(file), "..", "..", "..")
	if !ok || !filepath.IsAbs(file) || !IsModule(filepath.Join(root, "go.mod")) {
		return ""
	}
	return root
}

// IsModule tells whether a go.mod is this module's.
func IsModule(goMod string) bool {
	f, err := os.Open(goMod)
	if err != nil {
		return false
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) == 2 && fields[0] == "module" {
			return fields[1] == Module
		}
	}
	return false
}

// commitOf returns the commit that is checked out in a folder and whether files differ from it, or "" if the folder is
// not the top of a checkout or git does not tell. Git itself refuses a checkout of another user.
func commitOf(dir string) (commit string, dirty bool) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		return "", false // A copy inside another repository has that one's commits.
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	// No program that the checkout's settings name is run, its index is not written, and a hook's GIT_DIR does not count.
	cmd := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "status", "--porcelain=v2", "--branch",
		"--ignore-submodules")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GIT_OPTIONAL_LOCKS=0"}
	out, err := cmd.Output()
	if oid := branchCommit.FindSubmatch(out); oid != nil && err == nil {
		return string(oid[1]), changedFile.Match(out)
	}
	return "", false // Also where there is no commit yet.
}

// What git status prints of the commit and of each file that differs.
var branchCommit, changedFile = regexp.MustCompile(`(?m)^# branch\.oid ([0-9a-f]+)$`), regexp.MustCompile(`(?m)^[^#]`)
