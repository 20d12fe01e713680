//go:build unix

package campaign

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gradient-surgery/dml/datasets/fixtures"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
)

func makeFixture(root string) error { return fixtures.Make("cars", root, fixtures.Size{}) }

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
		place = filepath.Join(store, pick(t, []string{".locks", ".locks/" + s.hash, ".slurm", ".slurm/20260101-000000-abcd",
			".import-1", s.hash + ".removed", ".put-1", "0123456789ab"}))
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
	out := filepath.Join(t.dir, "out.tar")
	before := t.bad()
	for range 1 + t.IntN(4) {
		var r result
		switch t.IntN(7) {
		case 0:
			r = t.run(t.with(store, "runs", "export", "--checkpoints", "--out", out)...)
		case 1:
			r = t.run(t.with(filepath.Join(t.dir, "merged"), "runs", "merge", store, "--checkpoints")...)
		case 2:
			r = t.run(t.with(store, "runs", "import", t.archive[false])...)
		case 3:
			r = t.run(t.with(store, "runs", "queue", "--json")...)
		case 4:
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
	for _, dir := range []string{"merged", "look", "out.tar", "look.tar"} {
		_ = filepath.WalkDir(filepath.Join(t.dir, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			if raw, err := os.ReadFile(path); err != nil || bytes.Contains(raw, []byte(secret)) {
				t.fail(&t.Escapes, "%s: %s has the secret (%v)", what, path, err)
			}
			return nil
		})
	}
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
		own := filepath.Join(t.dir, "own")
		t.must(os.MkdirAll(own, 0o755))
		t.must(os.Chown(own, stranger, group))
		for _, args := range [][]string{t.with(store, s.args...), t.with(store, "runs", "show", s.hash, "--json"),
			t.with(store, "runs", "list", "--json"), t.with(store, "runs", "export", "--out", filepath.Join(own, "x.tar"))} {
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

// strangersSubmission follows a queue with a submission that is a stranger's, or was tampered with. Slurm, as the
// campaign has it, runs at once what it is sent.
func strangersSubmission(t *try) {
	mark := filepath.Join(t.dir, "mark")
	evil := fmt.Sprintf("#!/bin/bash\ntouch %s\n", mark)
	store := filepath.Join(t.dir, "runs")
	id := "20260101-000000-abcd"
	program := func(sum string) string {
		dir := filepath.Join(store, ".slurm", "bin", sum[:12])
		t.must(os.MkdirAll(dir, 0o755))
		return filepath.Join(dir, "dmlx")
	}
	digest := sha256.Sum256([]byte(evil))
	evilSum := hex.EncodeToString(digest[:])
	kinds := []string{"environment", "value", "program", "script", "identity", "group's manifest", "everyone's folder",
		"link"}
	if os.Geteuid() == 0 {
		kinds = append(kinds, "owner of the folder", "owner of the manifest", "owner of the program", "owner of the bin")
	}
	kind := pick(t, kinds)
	const stranger = 65534
	dir := filepath.Join(store, ".slurm", id)
	manifest := t.submission(store, id, func(m map[string]any) {
		switch kind {
		case "environment":
			m["environment"] = []string{"DMLX_A$(touch " + mark + ")=1", "DMLX_B;touch " + mark + ";=1",
				"a`touch " + mark + "`=1"}
		case "value":
			m["environment"] = []string{"DMLX_A='; touch " + mark + " #", "DMLX_B=$(touch " + mark + ")",
				"DMLX_C=\ntouch " + mark}
		case "identity":
			m["id"] = "x; touch " + mark
		case "group's manifest", "everyone's folder", "link", "owner of the folder", "owner of the manifest":
			m["digest"] = evilSum
			m["sbatch"] = []string{"--wrap=touch " + mark}
		}
	})
	t.must(os.WriteFile(filepath.Join(dir, "job.sh"), []byte(evil), 0o755))
	t.must(os.WriteFile(program(evilSum), []byte(evil), 0o755))
	switch kind {
	case "program":
		t.must(os.WriteFile(program(t.sum), []byte(evil), 0o755))
	case "owner of the program":
		raw, err := os.ReadFile(t.program)
		t.must(err)
		t.must(os.WriteFile(program(t.sum), raw, 0o755))
		t.must(os.Chown(program(t.sum), stranger, -1))
	default:
		t.must(os.Link(t.program, program(t.sum)))
	}
	switch kind {
	case "group's manifest":
		t.must(os.Chmod(manifest, 0o664))
	case "everyone's folder":
		t.must(os.Chmod(dir, 0o777))
	case "link":
		t.must(os.Rename(dir, filepath.Join(t.dir, "elsewhere")))
		t.must(os.Symlink(filepath.Join(t.dir, "elsewhere"), dir))
	case "owner of the folder":
		t.must(os.Chown(dir, stranger, -1))
	case "owner of the manifest":
		t.must(os.Chown(manifest, stranger, -1))
	case "owner of the bin":
		t.must(os.Chown(filepath.Join(store, ".slurm", "bin"), stranger, -1))
	}
	before := t.bad()
	old := os.Getenv("PATH")
	t.must(os.Setenv("PATH", filepath.Join(t.campaign.dir, "bin")+string(os.PathListSeparator)+old))
	t.must(os.Setenv("SLURM_ARRAY_TASK_ID", "0"))
	defer func() {
		_ = os.Setenv("PATH", old)
		_ = os.Unsetenv("SLURM_ARRAY_TASK_ID")
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	opened, err := runs.OpenStore(store)
	t.must(err)
	_ = slurm.Watch(ctx, opened, slurm.Options{Poll: 5 * time.Millisecond, Retries: 1})
	r := t.run("runs", "make", "--manifest", manifest, "--task", "0")
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
	switch {
	case t.bad() > before:
	case r.code != 0:
		t.Refused++
	default:
		t.Identical++
	}
}

// The index of an archive, as the program writes it.
type index struct {
	Format int       `json:"format"`
	Runs   []indexed `json:"runs"`
	Sum    string    `json:"sum"`
}

type indexed struct {
	Hash  string `json:"run"`
	Files []file `json:"files"`
}

type file struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

// entry is one of an archive's files.
type entry struct {
	tar.Header
	content []byte
}

// evilArchive imports an archive whose sums are right and whose files are not as they should be.
func evilArchive(t *try) {
	canary, unharmed := t.canary()
	raw, err := os.ReadFile(t.archive[false])
	t.must(err)
	var x index
	var entries []entry
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		t.must(err)
		content, err := io.ReadAll(r)
		t.must(err)
		if len(entries) == 0 && x.Format == 0 {
			t.must(json.Unmarshal(content, &x))
			continue
		}
		entries = append(entries, entry{*h, content})
	}
	var what []string
	escaped := filepath.Join(t.dir, "escaped")
	bomb, unsummed := false, false
	for range 1 + t.IntN(2) {
		kind := pick(t, []string{"escape", "escape", "link", "link", "duplicate", "huge", "bomb", "count", "run name", "type",
			"swap", "numbers", "spec", "drop", "listed", "sum"})
		what = append(what, kind)
		k := t.IntN(len(entries))
		e := &entries[k]
		run := &x.Runs[t.IntN(len(x.Runs))]
		escape := pick(t, []string{escaped, "./x", "..", run.Hash, ".locks/" + run.Hash, run.Hash + "//result.json",
			".slurm/20260101-000000-abcd/manifest.json", run.Hash + "/.spec.json1", run.Hash + "\\..\\x",
			run.Hash + "/triplets/epoch-001.npy\x00x"})
		if t.IntN(2) == 0 {
			escape = strings.Repeat("../", 1+t.IntN(4)) + pick(t, []string{"canary/secret", "canary/new", "runs/evil", "evil"})
		}
		list := func(name string, content []byte) {
			sum := sha256.Sum256(content)
			f := file{strings.TrimPrefix(name, run.Hash+"/"), int64(len(content)), hex.EncodeToString(sum[:])}
			if t.IntN(3) > 0 {
				run.Files = append(run.Files, f)
			}
		}
		switch kind {
		case "escape":
			within := pick(t, []string{escape, run.Hash + "/" + escape, path.Join(run.Hash, escape)})
			entries = append(entries, entry{tar.Header{Name: within, Size: 4, Mode: 0o644}, []byte("evil")})
			list(escape, []byte("evil"))
		case "link":
			h := tar.Header{Name: pick(t, []string{run.Hash, run.Hash + "/triplets", run.Hash + "/metrics.jsonl", escape}),
				Typeflag: pick(t, []byte{tar.TypeSymlink, tar.TypeLink}), Mode: 0o777,
				Linkname: pick(t, []string{canary, "../../canary/secret", filepath.Join(canary, "secret")})}
			entries = append([]entry{{h, nil}}, entries...)
			list(h.Name, nil)
		case "duplicate":
			entries = append(entries, *e)
			if t.IntN(2) == 0 {
				run.Files = append(run.Files, run.Files[t.IntN(len(run.Files))])
			}
			if t.IntN(2) == 0 {
				x.Runs = append(x.Runs, *run)
			}
		case "huge":
			f := &run.Files[t.IntN(len(run.Files))]
			f.Size = pick(t, []int64{-1, 1 << 40, 1<<63 - 1, 1 << 62, f.Size + 1, 0})
		case "bomb":
			bomb = true
			content := make([]byte, 64<<20)
			name := run.Hash + "/triplets/epoch-777.npy"
			entries = append(entries, entry{tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}, content})
			list(name, content)
		case "count":
			for n := range 60000 {
				run.Files = append(run.Files, file{fmt.Sprintf("triplets/epoch-%06d.npy", n), 0, strings.Repeat("0", 64)})
			}
		case "run name":
			run.Hash = pick(t, []string{"..", "", ".locks", "ABCDEF012345", "0123456789ab", "0123456789abcdef", "../canary"})
		case "type":
			e.Typeflag = pick(t, []byte{tar.TypeDir, tar.TypeFifo, tar.TypeChar, tar.TypeBlock, 'z'})
			if e.Typeflag != 'z' {
				e.Size, e.content = 0, nil
			}
		case "swap":
			other := &entries[t.IntN(len(entries))]
			e.Name, other.Name = other.Name, e.Name
		case "numbers": // Another result, in truth, with a right sum in the index but not in itself.
			if strings.HasSuffix(e.Name, "result.json") || strings.HasSuffix(e.Name, "state.json") || t.IntN(2) == 0 {
				e.content = t.damaged(e.content)
				e.Size = int64(len(e.content))
				x.relist(e)
			}
		case "spec":
			for i := range entries {
				if strings.HasSuffix(entries[i].Name, "/spec.json") {
					entries[i].content = t.jsonFault(entries[i].content)
					entries[i].Size = int64(len(entries[i].content))
					x.relist(&entries[i])
				}
			}
		case "drop":
			entries = append(entries[:k], entries[k+1:]...)
		case "listed":
			run.Files = append(run.Files[:0:0], run.Files[1:]...)
		case "sum":
			unsummed = true
		}
		if len(entries) == 0 {
			break
		}
	}
	x.Sum = ""
	raw, err = json.Marshal(x)
	t.must(err)
	if sum := sha256.Sum256(raw); !unsummed {
		x.Sum = hex.EncodeToString(sum[:])
	}
	raw, err = json.Marshal(x)
	t.must(err)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	var to io.Writer = &b
	if bomb || t.IntN(2) == 0 {
		to = z
	}
	w := tar.NewWriter(to)
	put := func(h *tar.Header, content []byte) {
		h.PAXRecords, h.Format = nil, tar.FormatUnknown
		if w.WriteHeader(h) == nil { // A name that tar cannot write is left out.
			_, _ = w.Write(content)
		}
	}
	if t.IntN(8) > 0 {
		put(&tar.Header{Name: "manifest.json", Size: int64(len(raw)), Mode: 0o644}, raw)
	}
	for _, e := range entries {
		put(&e.Header, e.content)
	}
	_ = w.Flush()
	_ = w.Close()
	if to == z {
		t.must(z.Close())
	}
	if t.IntN(20) == 0 {
		b.Write(make([]byte, 2<<20))
	}
	archive := filepath.Join(t.dir, "evil.tar")
	t.must(os.WriteFile(archive, b.Bytes(), 0o644))
	t.imported(archive, "an evil archive: "+strings.Join(what, ", "))
	unharmed(strings.Join(what, ", "))
	store := filepath.Join(t.dir, "runs")
	for _, place := range []string{escaped, filepath.Join(t.dir, "evil"), filepath.Join(store, "evil")} {
		if exists(place) {
			t.fail(&t.Escapes, "%s: an archive wrote %s", what, place)
		}
	}
	entriesThere, _ := os.ReadDir(store)
	for _, e := range entriesThere {
		if e.Name() != ".locks" && !runName.MatchString(e.Name()) {
			t.fail(&t.Escapes, "%s: an import left %s in the store", what, e.Name())
		}
	}
}

// relist puts a file's size and sum into the index.
func (x *index) relist(e *entry) {
	for _, run := range x.Runs {
		for k, f := range run.Files {
			if run.Hash+"/"+f.Name == e.Name {
				sum := sha256.Sum256(e.content)
				run.Files[k].Size, run.Files[k].Sum = int64(len(e.content)), hex.EncodeToString(sum[:])
			}
		}
	}
}
