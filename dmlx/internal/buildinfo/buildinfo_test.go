package buildinfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestStamped(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}}
	for want, build := range map[string]debug.BuildInfo{
		"v0.2.0":               {Main: debug.Module{Path: Module, Version: "v0.2.0"}},
		"(devel)":              {Main: debug.Module{Path: Module}},
		"0123456789ab+changes": {Main: debug.Module{Path: Module, Version: "(devel)"}, Settings: vcs},
		// The commit of another main module is not ours.
		"v0.3.0": {Main: debug.Module{Path: "example.com/mine", Version: "v9.0.0"}, Settings: vcs,
			Deps: []*debug.Module{{Path: "gonum.org/v1/plot", Version: "v0.17.0"}, {Path: Module, Version: "v0.3.0"}}},
		"v0.4.0": {Main: debug.Module{Path: "example.com/mine"}, Deps: []*debug.Module{
			{Path: Module, Version: "v0.2.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v0.4.0"}}}},
	} {
		if got := stamped(&build).String(); got != want {
			t.Errorf("%+v: %q, want %q", build, got, want)
		}
	}
	replaced := debug.BuildInfo{Main: debug.Module{Path: "example.com/mine", Version: "v9.0.0"}, Settings: vcs,
		Deps: []*debug.Module{{Path: Module, Version: "v0.2.0", Replace: &debug.Module{Path: "../dml"}}}}
	if got := stamped(&replaced).String(); got != "(devel)" {
		t.Errorf("a folder in place of the module: %q", got)
	}
	asked := Info{Version: "(devel)", Commit: "0123456789abcdef", Asked: true, Dirty: true}
	if got := asked.String(); got != "checkout 0123456789ab+changes" {
		t.Error(got)
	}
}

// Git is asked about the sources' own checkout, and no program that its settings name is run.
func TestCommitOf(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	dir := t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what, commit string, dirty bool) {
		t.Helper()
		if got, changed := commitOf(dir); got != commit || changed != dirty {
			t.Errorf("%s: %q, %v, want %q, %v", what, got, changed, commit, dirty)
		}
	}
	check("a folder without git", "", false)
	git("init", "-q")
	check("no commit", "", false)
	write("go.mod", "module "+Module+"\n")
	git("add", ".")
	git("commit", "-q", "-m", "First")
	head := git("rev-parse", "HEAD")
	check("a clean checkout", head, false)
	// Not below .git, so that it would show as a change.
	ran := filepath.Join(t.TempDir(), "ran")
	hook := filepath.Join(t.TempDir(), "hook")
	if err := os.WriteFile(hook, []byte("#!/bin/sh\ntouch "+ran+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	git("config", "core.fsmonitor", hook)
	t.Setenv("GIT_DIR", "/nowhere")
	check("with a hook", head, false)
	if _, err := os.Stat(ran); err == nil {
		t.Error("a program that the checkout names was run")
	}
	write("new.go", "package dml\n")
	check("a new file", head, true)
	sub := filepath.Join(dir, "copy")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, _ := commitOf(sub); got != "" {
		t.Errorf("a copy inside another checkout has its commit %s", got)
	}
}

// This test's program has no stamp, so git is asked, if this is a checkout.
func TestGet(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	info := Get()
	if info.Version != "(devel)" && info.Commit == "" {
		t.Skip("built from the module cache")
	}
	if want, _ := filepath.EvalSymlinks(root); info.Source != "" {
		if got, _ := filepath.EvalSymlinks(info.Source); got != want {
			t.Errorf("sources in %s, want %s", got, want)
		}
	}
	commit, _ := commitOf(root)
	if commit != "" && info.Source != "" && info.Commit != commit {
		t.Errorf("commit %q, want %q", info.Commit, commit)
	}
}
