//go:build unix

package campaign

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gradient-surgery/dml/datasets/fixtures"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func makeFixture(root string) error { return fixtures.Make("cars", root) }

// secret is in a file that no one but its owner is to read or change.
const secret = "a-secret-of-the-owner"

// canary is a folder outside any store, which must stay as it is: it has a secret, a run, and names that a store would
// sweep away.
func (t *try) canary() (dir string, unharmed func(what string)) {
	dir = filepath.Join(t.dir, "canary")
	t.must(os.CopyFS(dir, os.DirFS(filepath.Join(t.store, t.specs[0].hash))))
	for _, name := range []string{"secret", ".bashrc", ".spec.json123", ".result.json77", "metrics.jsonl"} {
		t.must(os.WriteFile(filepath.Join(dir, name), []byte(secret+"\n"), 0o600))
	}
	state := func() string {
		var b strings.Builder
		t.must(filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			fmt.Fprintln(&b, strings.TrimPrefix(path, dir), info.Mode())
			if info.Mode().IsRegular() {
				raw, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "%x\n", sha256.Sum256(raw))
			}
			return nil
		}))
		return b.String()
	}
	before := state()
	return dir, func(what string) {
		if after := state(); after != before {
			t.fail(&t.Escapes, "%s: behind the link there was\n%s\nand is\n%s", what, before, after)
		}
	}
}

// plantLink puts a symbolic link into a store, and has the store used.
func plantLink(t *try) {
	canary, unharmed := t.canary()
	s := pick(t, t.specs)
	var store string
	switch t.IntN(3) {
	case 0:
		store = filepath.Join(t.dir, "runs")
		t.must(os.MkdirAll(store, 0o755))
	case 1:
		store = t.single("runs", s)
	case 2:
		k := t.IntN(len(t.stopped))
		s, store = t.specs[t.of[k]], t.fresh("runs", t.stopped[k])
	}
	name := pick(t, []string{"", "triplets", "checkpoint", "result.json", "spec.json", "metrics.jsonl", "embeddings.npy",
		"labels.npy", "histograms.json", "checkpoint/state.json", "checkpoint/weights-001.safetensors",
		"checkpoint/weights-003.safetensors", "triplets/epoch-001.npy", "triplets/epoch-004.npy", "other", ".spec.json12"})
	place := filepath.Join(store, s.hash, name)
	if t.IntN(4) == 0 {
		place = filepath.Join(store, pick(t, []string{".locks", ".locks/" + s.hash, s.hash + ".removed", "0123456789ab"}))
	}
	to := pick(t, []string{canary, canary, filepath.Join(canary, "secret"), filepath.Join(canary, name),
		filepath.Join(canary, "new"), "/dev/zero", place})
	t.must(os.RemoveAll(place))
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err == nil {
		if t.IntN(8) == 0 {
			t.must(mkfifo(place))
		} else {
			t.must(os.Symlink(to, place))
		}
	}
	what := fmt.Sprintf("a link from %s to %s", strings.TrimPrefix(place, t.dir), strings.TrimPrefix(to, t.dir))
	before := t.bad()
	for range 1 + t.IntN(4) {
		var r result
		switch t.IntN(4) {
		case 0:
			r = t.run(t.with(store, "runs", "verify")...)
		case 1:
			r = t.run(t.with(store, "runs", "remove", s.hash)...)
		default:
			t.look(store, s, what)
		}
		if bytes.Contains(r.stdout, []byte(secret)) || bytes.Contains(r.stderr, []byte(secret)) {
			t.fail(&t.Escapes, "%s: a command tells the secret", what)
		}
	}
	r := t.run(t.with(store, s.args...)...)
	well := t.judge(r, store, s, what)
	if bytes.Contains(r.stderr, []byte(secret)) {
		t.fail(&t.Escapes, "%s: the training tells the secret", what)
	}
	unharmed(what)
	switch {
	case t.bad() > before:
	case well && !asideIn(store):
		t.Identical++
	default:
		t.Refused++
	}
}

// otherOwner has another user read a store that is not his, go on with a run of a store that is the group's, or leave
// his files in one.
func otherOwner(t *try) {
	if os.Geteuid() != 0 {
		t.skipped = "only root can be several users"
		return
	}
	const stranger, group = 65534, 100
	s := pick(t, t.specs)
	as := func(uid uint32, cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: group, Groups: []uint32{}}}
	}
	before := t.bad()
	switch t.IntN(3) {
	case 0: // A finished run is read by whom the store is not.
		store := t.single("runs", s)
		for _, args := range [][]string{t.with(store, s.args...), t.with(store, "runs", "show", s.hash, "--json"),
			t.with(store, "runs", "list", "--json"), t.with(store, "runs", "verify", s.hash)} {
			r := t.runAs(func(cmd *exec.Cmd) { as(stranger, cmd) }, args...)
			if r.code != 0 {
				t.fail(&t.Lost, "%v of a store that may only be read: exit code %d\n%s", args, r.code, r.stderr)
			} else if args[0] == "train" {
				t.judge(r, store, s, "read by another user")
			}
		}
		t.Identical++
	case 1: // A group's store: one is killed, another goes on.
		store := filepath.Join(t.dir, "group")
		t.must(os.MkdirAll(store, 0o755))
		t.must(os.Chown(store, 0, group))
		t.must(os.Chmod(store, 0o2775))
		in := func(uid uint32) func(*exec.Cmd) {
			return func(cmd *exec.Cmd) {
				as(uid, cmd)
				cmd.Args = append([]string{"bash", "-c", "umask 002; exec \"$@\"", "bash", cmd.Path}, cmd.Args[1:]...)
				cmd.Path, cmd.Err = "/bin/bash", nil
			}
		}
		child := t.start(in(stranger), t.with(store, s.args...)...)
		child.endIn(time.Duration(t.Int64N(int64(s.took))))
		child.kill()
		t.check(child.wait(), s.args...)
		r := t.runAs(in(stranger-1), t.with(store, s.args...)...)
		if !t.judge(r, store, s, "gone on with by another of the group") && r.code != 0 {
			t.fail(&t.Lost, "run %s of a group's store: exit code %d\n%s", s.hash, r.code, r.stderr)
		}
		if t.bad() == before {
			t.Identical++
		}
	case 2: // Another's files, some of them damaged.
		store := t.single("runs", s)
		if t.IntN(2) == 0 {
			t.spoil(pick(t, t.filesIn(store)))
		}
		t.must(filepath.WalkDir(filepath.Join(store, s.hash), func(path string, _ fs.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, stranger, group))
		}))
		t.look(store, s, "another's run")
		t.train(store, s, "another's run")
	}
}

// strangersSubmission submits a run to a Slurm that keeps the script, as the campaign has one. Then a stranger changes
// what the store has of it, or it is damaged, and the script is started.
func strangersSubmission(t *try) {
	mark := filepath.Join(t.dir, "mark")
	evil := []byte("#!/bin/bash\ntouch " + mark + "\n")
	store := filepath.Join(t.dir, "runs")
	script := filepath.Join(t.dir, "script")
	s := pick(t, t.specs)
	r := t.runAs(func(cmd *exec.Cmd) { cmd.Env = append(cmd.Env, "SCRIPT="+script) },
		t.with(store, append(slices.Clone(s.args), "--on", "slurm")...)...)
	if r.code != 0 {
		t.fail(&t.Lost, "a submission: exit code %d\n%s", r.code, r.stderr)
		return
	}
	programs, err := filepath.Glob(filepath.Join(store, ".slurm", "dmlx-*"))
	t.must(err)
	lists, err := filepath.Glob(filepath.Join(store, ".slurm", "*", "jobs.jsonl"))
	t.must(err)
	program, list := programs[0], lists[0]
	kinds := []string{"program", "damaged program", "list", "damaged list", "other's list", "script", "link", "nothing"}
	if os.Geteuid() == 0 {
		kinds = append(kinds, "owner of the program")
	}
	kind := pick(t, kinds)
	switch kind {
	case "program":
		t.must(os.WriteFile(program, evil, 0o755))
	case "damaged program":
		t.spoil(program)
	case "list":
		t.must(os.WriteFile(list, append([]byte(`{"spec":{"data":"$(touch `+mark+`)"}}`), '\n'), 0o644))
	case "damaged list":
		t.spoil(list)
	case "other's list":
		raw, err := os.ReadFile(filepath.Join(t.store, t.specs[0].hash, "spec.json"))
		t.must(err)
		t.must(os.WriteFile(list, raw, 0o644))
	case "script":
		t.must(os.WriteFile(filepath.Join(filepath.Dir(list), "job.sh"), evil, 0o755))
	case "link":
		dir := filepath.Dir(list)
		t.must(os.RemoveAll(dir))
		t.must(os.Symlink(t.dir, dir))
		t.must(os.WriteFile(filepath.Join(t.dir, "jobs.jsonl"), []byte("{}\n"), 0o644))
	case "owner of the program":
		t.must(os.Chown(program, 65534, -1))
	}
	before := t.bad()
	task := exec.Command("bash", script)
	task.Env, task.Dir = t.env, t.dir
	out, failed := task.CombinedOutput()
	if exists(mark) {
		t.fail(&t.ForeignRun, "%s: a stranger's code ran", kind)
	}
	for _, hash := range runsIn(store) {
		if exists(filepath.Join(store, hash, "result.json")) {
			if err := t.sound(store, hash); err != nil {
				t.fail(&t.Wrong, "%s: run %s: %v", kind, hash, err)
			}
		}
	}
	if failed != nil && (kind == "nothing" || kind == "script") {
		t.fail(&t.Lost, "%s: %v\n%s", kind, failed, out)
	}
	switch {
	case t.bad() > before:
	case failed != nil:
		t.Refused++
	default:
		t.Identical++
	}
}

// foreignRun copies the folder of a run that a stranger has changed into a store, with checksums that fit where he can
// compute them. The run is refused, and nothing outside the store is read or changed.
func foreignRun(t *try) {
	canary, unharmed := t.canary()
	s, other := pick(t, t.specs), t.specs[0]
	if s.hash == other.hash {
		other = t.specs[1]
	}
	store := t.single("runs", s)
	dir := filepath.Join(store, s.hash)
	file := pick(t, t.filesIn(dir))
	// resealed changes the result, and a file if it has a name, and computes the checksums again.
	resealed := func(name string, change func(r *runs.Result, raw []byte)) {
		var r runs.Result
		result, err := os.ReadFile(filepath.Join(dir, "result.json"))
		t.must(err)
		t.must(json.Unmarshal(result, &r))
		var raw []byte
		if name != "" {
			var err error
			raw, err = os.ReadFile(filepath.Join(dir, name))
			t.must(err)
		}
		if change(&r, raw); name != "" {
			r.Files[name] = durable.Sum(raw)
			t.must(os.WriteFile(filepath.Join(dir, name), raw, 0o644))
		}
		r.Sum = ""
		sum, err := durable.SumOf(r)
		t.must(err)
		r.Sum = sum
		t.must(durable.WriteJSON(filepath.Join(dir, "result.json"), r))
	}
	kind := pick(t, []string{"link", "folder's link", "pipe", "sparse", "name", "other spec", "other result",
		"other checkpoint", "other file", "not a number", "no fraction", "no embeddings", "path", "histograms"})
	switch kind {
	case "link":
		t.must(os.Remove(file))
		t.must(os.Symlink(pick(t, []string{filepath.Join(canary, "secret"), "/dev/zero", file}), file))
	case "folder's link":
		t.must(os.RemoveAll(dir))
		t.must(os.Symlink(pick(t, []string{canary, filepath.Join(canary, "none"), dir}), dir))
	case "pipe":
		t.must(os.Remove(file))
		t.must(mkfifo(file))
	case "sparse":
		if os.Truncate(file, terabyte) != nil {
			t.skipped = "no sparse files"
			return
		}
	case "name":
		t.must(os.Rename(dir, filepath.Join(store, "0123456789ab")))
	case "other spec", "other result", "other checkpoint":
		name := map[string]string{"other spec": "spec.json", "other result": "result.json",
			"other checkpoint": "checkpoint"}[kind]
		t.must(os.RemoveAll(filepath.Join(dir, name)))
		t.must(os.Rename(filepath.Join(t.fresh("other", t.store), other.hash, name), filepath.Join(dir, name)))
	case "other file":
		name := pick(t, []string{"evil.sh", "checkpoint/evil", "triplets/epoch-001.npy.exe", "Spec.json"})
		t.must(os.WriteFile(filepath.Join(dir, name), []byte("evil"), 0o755))
	case "not a number":
		resealed("embeddings.npy", func(_ *runs.Result, raw []byte) { copy(raw[len(raw)-4:], "\x00\x00\xc0\x7f") })
	case "no fraction":
		resealed("", func(r *runs.Result, _ []byte) { r.Recall[1] = pick(t, []float64{-1, 1.5, 1e300}) })
	case "no embeddings":
		resealed("", func(r *runs.Result, _ []byte) { r.Files = nil })
	case "path":
		resealed("", func(r *runs.Result, _ []byte) { r.Files["../../canary/secret"] = "00" })
	case "histograms":
		t.must(os.WriteFile(filepath.Join(dir, "histograms.json"), []byte(pick(t, []string{"{}", "[", `{"sum":""}`})), 0o644))
	}
	r := t.run(t.with(store, "runs", "verify", "--json")...)
	if bytes.Contains(r.stdout, []byte(secret)) || bytes.Contains(r.stderr, []byte(secret)) {
		t.fail(&t.Escapes, "%s: a command tells the secret", kind)
	}
	if unharmed(kind); r.code == 0 {
		t.fail(&t.Wrong, "%s: a stranger's run is said to be sound", kind)
		return
	}
	t.Refused++
}
