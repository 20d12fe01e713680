//go:build unix

package slurm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// withoutQueue puts commands of a Slurm that knows of no job on the PATH. calls is what sbatch was called with, and
// handed.
func withoutQueue(t *testing.T) (calls func() string) {
	t.Helper()
	bin := t.TempDir()
	log := filepath.Join(bin, "calls")
	for name, text := range map[string]string{
		"sbatch":   fmt.Sprintf("{ echo \"sbatch $*\"; cat; } >> %s; echo 7", quote(log)),
		"squeue":   "",
		"scancel":  "",
		"scontrol": "echo 'MaxArraySize = 1001'",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() string {
		raw, _ := os.ReadFile(log) // It is not there before the first call.
		return string(raw)
	}
}

// A submission that another user could have written is listed, and nothing of it is sent or made; one's own is.
func TestWhatIsSentIsOnesOwn(t *testing.T) {
	const stranger = 65534
	for name, c := range map[string]struct {
		disturb func(s *Submission) error
		sent    bool
	}{
		"own": {func(s *Submission) error {
			return os.WriteFile(s.path("job.sh"), []byte("#!/bin/bash\necho evil\n"), 0o755) // Which is not looked at.
		}, true},
		"another's folder":     {func(s *Submission) error { return os.Chown(s.dir(), stranger, -1) }, false},
		"another's manifest":   {func(s *Submission) error { return os.Chown(s.path(manifestFile), stranger, -1) }, false},
		"the group's manifest": {func(s *Submission) error { return os.Chmod(s.path(manifestFile), 0o664) }, false},
		"everyone's folder":    {func(s *Submission) error { return os.Chmod(s.dir(), 0o777) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "another's") && os.Geteuid() != 0 {
				t.Skip("only root can give a file away")
			}
			store := openStore(t, filepath.Join(t.TempDir(), "runs"))
			calls := withoutQueue(t)
			s, err := Plan(t.Context(), store, jobs(2), Options{Sbatch: []string{"--comment=kept"}})
			if err == nil {
				err = errors.Join(s.write(), c.disturb(s))
			}
			if err != nil {
				t.Fatal(err)
			}
			var failed *FailedError
			// They are in no queue, and no one makes them.
			err = Watch(t.Context(), store, Options{Poll: 5 * time.Millisecond, Retries: 1})
			if !errors.As(err, &failed) || len(failed.Failures) != 2 || !strings.Contains(err.Error(), "vanished") {
				t.Error(err)
			}
			text := calls()
			if sent := strings.Contains(text, "--comment=kept"); sent != c.sent || strings.Contains(text, "evil") {
				t.Errorf("sent %v, want %v:\n%s", sent, c.sent, text)
			}
			if c.sent && (!strings.Contains(text, s.Script()) || strings.Contains(text, "job.sh")) {
				t.Errorf("its script was not handed to sbatch:\n%s", text)
			}
			if err := (Worker{Open: openGo}).Run(t.Context(), s.path(manifestFile), 0); (err == nil) != c.sent || err != nil &&
				!strings.Contains(err.Error(), "is not yours to submit") {
				t.Errorf("made: %v", err)
			}
			if c.sent {
				return
			}
			open, err := Unfinished(store)
			if err != nil || len(open) != 1 || !open[0].foreign() {
				t.Errorf("listed: %v, %v", open, err)
			}
			// Who wants the same runs sends them himself.
			o := Options{NoProbe: true, Sbatch: []string{"--comment=mine"}}
			if _, err := Submit(t.Context(), store, jobs(2), o); err != nil || !strings.Contains(calls(), "--comment=mine") {
				t.Errorf("%v:\n%s", err, calls())
			}
		})
	}
}

// What is relied on in another user's submission, and vanishes, is sent in one's own.
func TestVanishedRunsOfOthersAreTakenOver(t *testing.T) {
	store := openStore(t, filepath.Join(t.TempDir(), "runs"))
	calls := withoutQueue(t)
	other, err := Plan(t.Context(), store, jobs(1), Options{Sbatch: []string{"--comment=theirs"}})
	if err == nil {
		err = errors.Join(other.write(), os.Chmod(other.path(manifestFile), 0o666))
	}
	if err != nil {
		t.Fatal(err)
	}
	own, err := Plan(t.Context(), store, jobs(1), Options{Sbatch: []string{"--comment=mine"}})
	if err != nil {
		t.Fatal(err)
	}
	own.ID += "-own"
	own.Tasks[0].QueuedIn = other.ID
	if err := own.Follow(t.Context(), Options{Poll: 5 * time.Millisecond, Retries: 1}); err == nil {
		t.Error("no one made it")
	}
	if text := calls(); !strings.Contains(text, "--comment=mine") || strings.Contains(text, "theirs") {
		t.Errorf("sent:\n%s", text)
	}
}

// Links in the folder of submissions, and manifests that do not keep to their form, are refused.
func TestStrangeSubmissions(t *testing.T) {
	withoutQueue(t)
	store := openStore(t, filepath.Join(t.TempDir(), "runs"))
	s, err := Plan(t.Context(), store, jobs(1), Options{})
	if err == nil {
		err = s.write()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(s.ID, filepath.Join(store.Dir, folder, "linked")); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]string{"linked": "symbolic link", "../x": "not a valid name",
		"a,b": "not a valid name"} {
		if _, err := Open(store, id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
	}
	digest := s.Digest
	for want, change := range map[string]func(){
		"in place of a hash": func() { s.Tasks[0].Hash = "../../.." },
		"damaged":            func() { s.Digest = "../../../../../../x" },
	} {
		change()
		if err := s.writeManifest(); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(store, s.ID); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		s.Digest, s.Tasks[0].Hash = digest, s.Tasks[0].Spec.Hash()
	}
}

// The script starts the program that was submitted, and no other; the program is its user's to write, whatever the
// umask is.
func TestTheKeptProgram(t *testing.T) {
	for _, umask := range []int{0, 0o002, 0o077} {
		t.Run(fmt.Sprintf("umask %03o", umask), func(t *testing.T) {
			withoutQueue(t)
			old := syscall.Umask(umask)
			defer syscall.Umask(old)
			source := filepath.Join(t.TempDir(), "dmlx")
			if err := os.WriteFile(source, []byte("#!/bin/bash\necho \"the program: $*\"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			store := openStore(t, filepath.Join(t.TempDir(), "runs"))
			o := Options{Program: source}
			s, err := Plan(t.Context(), store, jobs(1), o)
			if err == nil {
				err = errors.Join(s.install(o), s.write())
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := s.checkOwner(); err != nil {
				t.Error(err)
			}
			for _, path := range []string{s.program(), filepath.Dir(s.program()), filepath.Join(store.Dir, folder, "bin"),
				s.path(logDir)} {
				if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o755 {
					t.Errorf("%s: mode %v, %v, want 0755", path, info.Mode(), err)
				}
			}
			start := func() (string, error) {
				cmd := exec.Command("bash", "-s", "0")
				cmd.Stdin, cmd.Env = strings.NewReader(s.Script()), append(os.Environ(), "SLURM_ARRAY_TASK_ID=3")
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			if out, err := start(); err != nil || !strings.Contains(out, "the program: runs make --manifest ") ||
				!strings.HasSuffix(out, "--task 3\n") {
				t.Errorf("%v: %s", err, out)
			}
			if err := os.WriteFile(s.program(), []byte("#!/bin/bash\necho evil\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			var exit *exec.ExitError
			if out, err := start(); !errors.As(err, &exit) || exit.ExitCode() != exitNotSame || strings.Contains(out, "evil") {
				t.Errorf("a program that was replaced: %v: %s", err, out)
			}
			// The next submission puts it right.
			if err := s.install(o); err != nil {
				t.Fatal(err)
			}
			if out, err := start(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if os.Geteuid() != 0 {
				return
			}
			if err := os.Chown(s.program(), 65534, -1); err != nil {
				t.Fatal(err)
			}
			if out, err := start(); !errors.As(err, &exit) || exit.ExitCode() != exitNotSame {
				t.Errorf("another's program: %v: %s", err, out)
			}
			before := s.program()
			if err := os.Chown(s.bin(), 65534, -1); err != nil { // Another user was the first.
				t.Fatal(err)
			}
			if err := s.install(o); err != nil || s.program() == before {
				t.Errorf("put to %s, %v", s.program(), err)
			}
			if out, err := start(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// A name that is more than a name to a shell is not passed on, of this process's environment or of a manifest's.
func TestNamesInTheEnvironment(t *testing.T) {
	withoutQueue(t)
	t.Setenv("DMLX_A$(echo evil >&2)", "1")
	t.Setenv("DMLX_B", "$(echo evil >&2)\n#SBATCH --evil")
	if got := environment(); !slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, "DMLX_B=") }) ||
		slices.ContainsFunc(got, func(v string) bool { return strings.HasPrefix(v, "DMLX_A") }) {
		t.Errorf("%q", got)
	}
	s, err := Plan(t.Context(), openStore(t, t.TempDir()), jobs(1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Environment = append(s.Environment, "DMLX_C;echo evil >&2;=1")
	cmd := exec.Command("bash", "-s", "0") // It does not find the program.
	cmd.Stdin = strings.NewReader(s.Script())
	if out, _ := cmd.CombinedOutput(); strings.Contains(string(out), "evil") ||
		!strings.Contains(string(out), "does not see") {
		t.Errorf("%s", out)
	}
}

// A store's path is no pattern, here or to Slurm.
func TestPathsThatLookLikePatterns(t *testing.T) {
	withSlurm(t)
	dir := t.TempDir()
	for _, name := range []string{"r1", "r[1] %a%%j*?"} {
		store := openStore(t, filepath.Join(dir, name))
		s, err := Submit(t.Context(), store, jobs(1), options(nil))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Follow(t.Context(), options(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(s.log(0)); err != nil {
			t.Error(err)
		}
		old := time.Now().AddDate(0, 0, -8)
		if err := errors.Join(os.Chtimes(s.program(), old, old), prune(store, nil)); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.program()); err == nil {
			t.Error("the old program is there still")
		}
	}
	if _, err := Plan(t.Context(), openStore(t, filepath.Join(dir, `a\b`)), jobs(1), options(nil)); err == nil ||
		!strings.Contains(err.Error(), "backslash") {
		t.Error(err)
	}
}
