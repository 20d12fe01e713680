package runs

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
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// archived is an archive of a store, unpacked.
type archived struct {
	headers []tar.Header
	bodies  [][]byte
}

func readArchive(t *testing.T, raw []byte) *archived {
	t.Helper()
	var a archived
	r := tar.NewReader(bytes.NewReader(raw))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return &a
		} else if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		a.headers, a.bodies = append(a.headers, *h), append(a.bodies, body)
	}
}

func (a *archived) bytes(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i, h := range a.headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(a.bodies[i]))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(a.bodies[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// reindex changes the manifest and seals it again, as one does who means harm.
func (a *archived) reindex(t *testing.T, change func(*archiveIndex)) {
	t.Helper()
	var x archiveIndex
	if err := json.Unmarshal(a.bodies[0], &x); err != nil {
		t.Fatal(err)
	}
	change(&x)
	x.Sum = x.sum()
	var err error
	if a.bodies[0], err = json.Marshal(x); err != nil {
		t.Fatal(err)
	}
}

// exported is the archive of a store with a finished run of tiny and, of seed 2, an unfinished one.
func exported(t *testing.T) (s *Store, raw []byte) {
	t.Helper()
	s, _ = testStore(t)
	mustRun(t, goBackend(), s, tiny())
	second := tiny()
	second.Seed = 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Run(ctx, goBackend(), s, second, func(p Progress) {
		if p.Epoch == 2 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	var b bytes.Buffer
	moved, err := s.Export(&b, nil, true)
	if err != nil || len(moved.Taken) != 2 {
		t.Fatalf("%+v, %v", moved, err)
	}
	return s, b.Bytes()
}

func TestExportAndImport(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	from, raw := exported(t)
	finished, second := tiny(), tiny()
	second.Seed = 2
	var again bytes.Buffer
	if _, err := from.Export(&again, nil, true); err != nil || !bytes.Equal(again.Bytes(), raw) {
		t.Errorf("the same store gives another archive, %v", err)
	}

	again.Reset()
	if moved, err := from.Export(&again, []string{finished.Hash(), finished.Hash()}, false); err != nil ||
		len(moved.Taken) != 1 {
		t.Errorf("a run named twice: %+v, %v", moved, err)
	}
	if index, err := readIndex(t.Context(), tar.NewReader(&again)); err != nil || len(index.Runs) != 1 {
		t.Errorf("a run named twice: %+v, %v", index, err)
	}

	to, warnings := testStore(t)
	old := time.Now().Add(-25 * time.Hour)
	// Of killed processes, and one at work.
	for name, when := range map[string]time.Time{".import-old": old, ".put-old": old, ".put-new": time.Now()} {
		dir := filepath.Join(to.Dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "full"), 0o755), os.Chtimes(dir, when, when)); err != nil {
			t.Fatal(err)
		}
	}
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	moved, err := to.Import(t.Context(), &z, ImportOptions{})
	if err != nil || len(moved.Taken) != 2 {
		t.Fatalf("%+v, %v", moved, err)
	}
	sameAsReference(t, to, finished)
	if e := to.Entry(second.Hash()); e.Epoch != 1 || e.Bad != "" {
		t.Errorf("the unfinished run: %+v", e)
	}
	mustRun(t, goBackend(), to, second) // It goes on, to the same end.
	mustRun(t, goBackend(), from, second)
	if !reflect.DeepEqual(outcome(t, to, second.Hash()), outcome(t, from, second.Hash())) {
		t.Error("a run that was moved ends elsewhere")
	}
	if moved, err = to.Import(t.Context(), bytes.NewReader(raw), ImportOptions{}); err != nil || len(moved.Present) != 2 ||
		len(moved.Taken) != 0 {
		t.Errorf("again: %+v, %v", moved, err)
	}
	if len(*warnings) > 0 {
		t.Error(*warnings)
	}
	if left, _ := filepath.Glob(filepath.Join(to.Dir, ".[ip]*-*")); len(left) != 1 ||
		filepath.Base(left[0]) != ".put-new" {
		t.Errorf("left over: %v, want .put-new alone", left)
	}

	// Results alone: no checkpoint, no unfinished run.
	third, _ := testStore(t)
	if moved, err = third.Merge(t.Context(), from, false); err != nil || len(moved.Taken) != 2 {
		t.Errorf("merged: %+v, %v", moved, err)
	}
	sameAsReference(t, third, finished)
	if _, err := os.Stat(filepath.Join(third.Path(finished.Hash()), train.CheckpointDir)); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a checkpoint was taken: %v", err)
	}
	if _, err := third.Merge(t.Context(), third, false); err == nil {
		t.Error("merged into itself")
	}
	if _, err := from.Export(io.Discard, []string{"0123456789ab"}, false); err == nil ||
		!strings.Contains(err.Error(), "not finished") {
		t.Error(err)
	}
}

func TestConflicts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	from, _ := exported(t)
	hash := tiny().Hash()
	alter := func(s *Store, backend string) {
		r, err := s.Get(hash)
		if err != nil {
			t.Fatal(err)
		}
		r.MAPAtR, r.Backend = r.MAPAtR/2, backend
		if err := r.seal(); err != nil {
			t.Fatal(err)
		}
		if err := durable.WriteJSON(filepath.Join(s.Path(hash), resultFile), r); err != nil {
			t.Fatal(err)
		}
	}
	for backend, where := range map[string]func(*Transfer) []string{
		"go":     func(m *Transfer) []string { return m.Conflicts },
		"abacus": func(m *Transfer) []string { return m.Differ },
	} {
		to, _ := testStore(t)
		if _, err := to.Merge(t.Context(), from, false); err != nil {
			t.Fatal(err)
		}
		alter(to, backend)
		before := outcome(t, to, hash)
		moved, err := to.Merge(t.Context(), from, false)
		if err != nil || !slices.Equal(where(moved), []string{hash}) || !strings.Contains(moved.String(), hash) {
			t.Errorf("%s: %+v, %v", backend, moved, err)
		}
		if !reflect.DeepEqual(outcome(t, to, hash), before) {
			t.Errorf("%s: a run was overwritten", backend)
		}
	}

	// A finished run takes the place of an unfinished one, which is kept; what is at work is left alone.
	to, _ := testStore(t)
	halfway(t, goBackend(), to)
	unlock, err := to.lock(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	if moved, err := to.Merge(t.Context(), from, false); err != nil || !slices.Equal(moved.Busy, []string{hash}) {
		t.Errorf("%+v, %v", moved, err)
	}
	unlock()
	if moved, err := to.Merge(t.Context(), from, false); err != nil || !slices.Equal(moved.Taken, []string{hash}) {
		t.Errorf("%+v, %v", moved, err)
	}
	sameAsReference(t, to, tiny())
	if _, err := train.ReadCheckpoint(to.Path(hash) + ".unfinished-1"); err != nil {
		t.Error(err)
	}
	if err := os.Truncate(filepath.Join(from.Path(hash), train.EmbeddingsFile), 10); err != nil {
		t.Fatal(err)
	}
	if moved, err := to.Merge(t.Context(), from, false); err != nil || len(moved.Unusable) != 1 ||
		!strings.Contains(moved.Unusable[0], "checksum") {
		t.Errorf("%+v, %v", moved, err)
	}
}

// An unfinished run that got further takes the place of one that is behind, which is kept.
func TestUnfinishedRunsThatGotFurther(t *testing.T) {
	from, _ := testStore(t)
	hash := tiny().Hash()
	halfway(t, goBackend(), from) // Two epochs.
	to, _ := testStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := Run(ctx, goBackend(), to, tiny(), func(p Progress) {
		if p.Epoch == 2 {
			cancel()
		}
	}); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	behind := filepath.Base(to.Path(hash)) + ".unfinished-1"
	if moved, err := from.Merge(t.Context(), to, true); err != nil || !slices.Equal(moved.Present, []string{hash}) ||
		epochsDone(from.Path(hash)) != 2 {
		t.Errorf("what is behind: %+v, %v", moved, err)
	}
	for _, want := range []func(*Transfer) []string{func(m *Transfer) []string { return m.Taken },
		func(m *Transfer) []string { return m.Present }} {
		moved, err := to.Merge(t.Context(), from, true)
		if err != nil || !slices.Equal(want(moved), []string{hash}) || epochsDone(to.Path(hash)) != 2 ||
			epochsDone(filepath.Join(to.Dir, behind)) != 1 {
			t.Errorf("%+v, %v", moved, err)
		}
	}
	if left, _ := filepath.Glob(to.Path(hash) + ".*"); len(left) != 1 {
		t.Errorf("%v, want %s alone", left, behind)
	}
	mustRun(t, goBackend(), to, tiny())
	sameAsReference(t, to, tiny())
}

// To a finished run comes what it lacks.
func TestMovedCheckpointsAndHistograms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	from, _ := exported(t)
	hash := tiny().Hash()
	to, _ := testStore(t)
	if _, err := to.Merge(t.Context(), from, false); err != nil {
		t.Fatal(err)
	}
	result, err := from.Get(hash)
	if err != nil {
		t.Fatal(err)
	}
	for _, backend := range []string{"first", "second"} { // What is there stays.
		p := &Histograms{Recipe: HistogramsRecipe, Result: result, Backend: backend}
		if err := p.seal(); err != nil {
			t.Fatal(err)
		}
		if err := durable.WriteJSON(filepath.Join(from.Path(hash), histogramsFile), p); err != nil {
			t.Fatal(err)
		}
		moved, err := to.Merge(t.Context(), from, true)
		if err != nil || !slices.Contains(moved.Present, hash) || to.verifyCheckpoint(hash) != nil {
			t.Errorf("%+v, %v; %v", moved, err, to.verifyCheckpoint(hash))
		}
		if p, _, err := to.histograms(tiny().Hash(), tiny()); err != nil || p == nil || p.Backend != "first" {
			t.Errorf("histograms %+v, %v", p, err)
		}
	}
	sameAsReference(t, to, tiny())
}

// A store without the folder of locks, as one that may not be written can be, is merged from all the same.
func TestMergeFromWhereNothingCanBeLocked(t *testing.T) {
	from, _ := exported(t)
	if err := os.RemoveAll(filepath.Join(from.Dir, locksDir)); err != nil {
		t.Fatal(err)
	}
	to, _ := testStore(t)
	if moved, err := to.Merge(t.Context(), from, true); err != nil || len(moved.Taken) != 2 {
		t.Errorf("%+v, %v", moved, err)
	}
	if _, err := os.Stat(filepath.Join(from.Dir, locksDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it was written to: %v", err)
	}
}

// An archive of a few bytes that lists a great deal is refused before it costs anything.
func TestArchivesThatListTooMuch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	listing := func(files ...archivedFile) []byte {
		x := archiveIndex{Format: archiveFormat, Runs: []archivedRun{{tiny().Hash(), files}}}
		x.Sum = x.sum()
		raw, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return (&archived{[]tar.Header{{Name: archiveManifest, Typeflag: tar.TypeReg}}, [][]byte{raw}}).bytes(t)
	}
	nothingImported(t, listing(archivedFile{Name: specFile, Size: 1 << 50}), "want at most 67108864 of a JSON file")
	nothingImported(t, listing(archivedFile{Name: "embeddings.npy", Size: 1<<63 - 1}), "8589934592 of others")
	large := make([]archivedFile, 40)
	for i := range large {
		large[i] = archivedFile{Name: fmt.Sprintf("triplets/epoch-%d.npy", i), Size: 8 << 30}
	}
	nothingImported(t, listing(large...), "take more than the allowed 274877906944 bytes")
	many := make([]archivedFile, 150_000)
	for i := range many {
		many[i] = archivedFile{Name: fmt.Sprintf("triplets/epoch-%d.npy", i)}
	}
	began := time.Now() // Each is compared with all before it: that takes minutes.
	nothingImported(t, listing(many...), "lacks 150000 files")
	nothingImported(t, listing(append(many, many[7])...), "triplets/epoch-7.npy\" for run")
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}

	_, raw := exported(t)
	to, _ := testStore(t)
	for limit, want := range map[int64]bool{4096: false, 1 << 30: true} {
		if _, err := to.Import(t.Context(), bytes.NewReader(raw), ImportOptions{MaxBytes: limit}); (err == nil) != want {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
	nothingImported(t, append(slices.Clone(raw), make([]byte, 2*maxTrailer)...), "follow its end")
}

// cancelling is a reader without an end that cancels once it has been read from.
type cancelling struct {
	start  io.Reader
	cancel func()
	read   int
}

func (c *cancelling) Read(p []byte) (int, error) {
	if n, _ := c.start.Read(p); n > 0 {
		return n, nil
	}
	c.cancel()
	c.read += len(p)
	clear(p)
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// An import ends when it is told to, wherever it is.
func TestInterruptedImport(t *testing.T) {
	_, raw := exported(t)
	var manifest bytes.Buffer
	if err := tar.NewWriter(&manifest).WriteHeader(&tar.Header{Name: archiveManifest, Size: durable.MaxText,
		Mode: 0o644}); err != nil {
		t.Fatal(err)
	}
	for name, start := range map[string][]byte{"in the manifest": manifest.Bytes(), "in a file": raw[:len(raw)/2],
		"behind the end": raw} {
		t.Run(name, func(t *testing.T) {
			to, _ := testStore(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := &cancelling{start: bytes.NewReader(start), cancel: cancel}
			if _, err := to.Import(ctx, r, ImportOptions{}); !errors.Is(err, context.Canceled) ||
				strings.Contains(err.Error(), "damaged") {
				t.Error(err)
			}
			if r.read > 1<<20 {
				t.Errorf("it read on for %d bytes", r.read)
			}
			if left, err := os.ReadDir(to.Dir); err != nil || len(left) != 1 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

// An unfinished run whose triplets are damaged is left out, here and on the other side.
func TestMovedTriplets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	from, raw := exported(t)
	second := tiny()
	second.Seed = 2
	damaged := second.Hash() + "/triplets/epoch-001.npy"
	a := readArchive(t, raw)
	i := slices.IndexFunc(a.headers, func(h tar.Header) bool { return h.Name == damaged })
	a.bodies[i][len(a.bodies[i])-1] ^= 1
	h := sha256.Sum256(a.bodies[i])
	a.reindex(t, func(x *archiveIndex) {
		for r := range x.Runs {
			for f, file := range x.Runs[r].Files {
				if x.Runs[r].Hash+"/"+file.Name == damaged {
					x.Runs[r].Files[f].Sum = hex.EncodeToString(h[:])
				}
			}
		}
	})
	nothingImported(t, a.bytes(t), "checksum of triplets/epoch-001.npy")
	if err := os.WriteFile(filepath.Join(from.Dir, filepath.FromSlash(damaged)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	to, _ := testStore(t)
	if moved, err := to.Merge(t.Context(), from, true); err != nil || len(moved.Taken) != 1 || len(moved.Unusable) != 1 {
		t.Errorf("%+v, %v", moved, err)
	}
}

func TestDamagedArchives(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	_, raw := exported(t)
	at := func(a *archived, name string) int {
		return slices.IndexFunc(a.headers, func(h tar.Header) bool { return strings.HasSuffix(h.Name, name) })
	}
	link := func(a *archived) {
		i := at(a, "labels.npy")
		a.headers[i] = tar.Header{Name: a.headers[i].Name, Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"}
		a.bodies[i] = nil
	}
	reseal := func(a *archived, change func(result []byte) []byte) { // The archive's own sums fit.
		i := at(a, tiny().Hash()+"/result.json")
		a.bodies[i] = change(a.bodies[i])
		h := sha256.Sum256(a.bodies[i])
		sum := hex.EncodeToString(h[:])
		a.reindex(t, func(x *archiveIndex) {
			for r := range x.Runs {
				for f := range x.Runs[r].Files {
					if x.Runs[r].Hash == tiny().Hash() && x.Runs[r].Files[f].Name == resultFile {
						x.Runs[r].Files[f].Sum, x.Runs[r].Files[f].Size = sum, int64(len(a.bodies[i]))
					}
				}
			}
		})
	}
	for name, c := range map[string]struct {
		damage func(a *archived)
		want   string
	}{
		"a bit": {func(a *archived) { a.bodies[at(a, "embeddings.npy")][200] ^= 1 }, "checksum of " +
			tiny().Hash() + "/embeddings.npy"},
		"a bit of manifest": {func(a *archived) {
			a.bodies[0] = bytes.Replace(a.bodies[0], []byte(`"size":`), []byte(`"size":1`), 1)
		}, "checksum of manifest.json"},
		"a file less": {func(a *archived) {
			a.headers, a.bodies = a.headers[:len(a.headers)-1], a.bodies[:len(a.bodies)-1]
		}, "lacks 1 files"},
		"a file more": {func(a *archived) {
			a.headers = append(a.headers, tar.Header{Name: "x", Typeflag: tar.TypeReg})
			a.bodies = append(a.bodies, nil)
		}, `"x" does not agree with the manifest`},
		"a file twice": {func(a *archived) {
			a.headers = append(a.headers, a.headers[1])
			a.bodies = append(a.bodies, a.bodies[1])
		}, "does not agree with the manifest"},
		"a path outside": {func(a *archived) { a.headers[1].Name = "../../x" },
			`"../../x" does not agree with the manifest`},
		"a link": {func(a *archived) { link(a) }, "does not agree with the manifest"},
		"no manifest": {func(a *archived) { a.headers, a.bodies = a.headers[1:], a.bodies[1:] },
			"its first file is not manifest.json"},
		"another format": {func(a *archived) { a.reindex(t, func(x *archiveIndex) { x.Format = 9 }) }, "format 9"},
		"a manifest outside": {func(a *archived) {
			a.reindex(t, func(x *archiveIndex) {
				x.Runs[0].Files[0].Name = "../../x"
			})
		}, "it is not an output file"},
		"no run": {func(a *archived) { a.reindex(t, func(x *archiveIndex) { x.Runs[0].Hash = "../.." }) },
			"it is not a hash"},
		"another run": {func(a *archived) { // All sums fit, but the spec is another's.
			a.reindex(t, func(x *archiveIndex) {
				i := slices.IndexFunc(x.Runs, func(r archivedRun) bool { return r.Hash == tiny().Hash() })
				x.Runs[i].Hash = "0123456789ab"
			})
			for i, h := range a.headers[1:] {
				a.headers[i+1].Name = strings.Replace(h.Name, tiny().Hash(), "0123456789ab", 1)
			}
		}, "does not belong here"},
		"a result that is no one's": {func(a *archived) {
			reseal(a, func(result []byte) []byte {
				return bytes.Replace(result, []byte(`"map_at_r": 0.`), []byte(`"map_at_r": 0.9`), 1)
			})
		}, "wrong checksum"},
		"a result that rests on what is outside": {func(a *archived) {
			reseal(a, func(result []byte) []byte {
				r, err := parseResult(result, "")
				if err != nil {
					t.Fatal(err)
				}
				r.Files["../../../../dev/zero"] = "00"
				if err := r.seal(); err != nil {
					t.Fatal(err)
				}
				out, err := json.Marshal(r)
				if err != nil {
					t.Fatal(err)
				}
				return out
			})
		}, "which is not an output file of a run"},
	} {
		t.Run(name, func(t *testing.T) {
			a := readArchive(t, raw)
			c.damage(a)
			nothingImported(t, a.bytes(t), c.want)
		})
	}
	for name, bad := range map[string][]byte{
		"cut":     raw[:len(raw)/2],
		"empty":   nil,
		"text":    []byte(strings.Repeat("no archive ", 100)),
		"bad zip": {0x1f, 0x8b, 1, 2, 3},
	} {
		t.Run(name, func(t *testing.T) { nothingImported(t, bad, "") })
	}
	t.Run("cut zip", func(t *testing.T) {
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		nothingImported(t, z.Bytes()[:z.Len()-6], "damaged")
	})
}

// nothingImported wants an archive to be refused with a word why, and the store to be as it was.
func nothingImported(t *testing.T, raw []byte, want string) {
	t.Helper()
	to, _ := testStore(t)
	moved, err := to.Import(t.Context(), bytes.NewReader(raw), ImportOptions{})
	if err == nil || !strings.Contains(err.Error(), "nothing was imported") || !strings.Contains(err.Error(), want) ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("%+v, %v, want %q", moved, err, want)
	}
	left, err := os.ReadDir(to.Dir)
	if err != nil || len(left) != 1 || left[0].Name() != locksDir {
		t.Errorf("left in the store: %v, %v", left, err)
	}
}

// What leaves the machine names no folder of it; a merge of one's own stores keeps them.
func TestArchivesNameNoFolders(t *testing.T) {
	t.Parallel()
	const folder = "/home/alice/secret"
	from, err := OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []Spec{
		{Recipe: Recipe, Data: folder + "/photos", DataDigest: "d1"},
		{Recipe: Recipe, Data: folder + "/X.npy", DataDigest: "d2", Labels: folder + "/L.npy",
			TestFeatures: folder + "/TX.npy", TestLabels: folder + "/TL.npy"},
		{Recipe: Recipe, Data: "minicar", Config: train.Config{NetworkFile: folder + "/net.onnx"}},
	} {
		r := &Result{Spec: spec, Backend: "go"}
		if err := from.Put(r, map[string][]byte{"metrics.jsonl": []byte("{}\n")}); err != nil {
			t.Fatal(err)
		}
		p := &Histograms{Recipe: HistogramsRecipe, Result: r, Backend: "go"}
		if err := p.seal(); err != nil {
			t.Fatal(err)
		}
		if err := durable.WriteJSON(filepath.Join(from.Path(r.Hash), histogramsFile), p); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if moved, err := from.Export(&b, nil, false); err != nil || len(moved.Taken) != 3 {
		t.Fatalf("%+v, %v", moved, err)
	}
	for i, body := range readArchive(t, b.Bytes()).bodies {
		if bytes.Contains(body, []byte("alice")) {
			t.Errorf("file %d of the archive: %s", i, body)
		}
	}
	for _, merged := range []bool{false, true} {
		to, err := OpenStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		copied := func() (*Transfer, error) {
			if merged {
				return to.Merge(t.Context(), from, false)
			}
			return to.Import(t.Context(), bytes.NewReader(b.Bytes()), ImportOptions{})
		}
		if moved, err := copied(); err != nil || len(moved.Taken) != 3 {
			t.Fatalf("%+v, %v", moved, err)
		}
		entries, err := to.List()
		if err != nil || len(entries) != 3 {
			t.Fatal(len(entries), err)
		}
		for _, e := range entries {
			original, err := from.Get(e.Hash)
			if err != nil || e.Result == nil || !e.Result.is(original) {
				t.Fatal(e.Bad, err)
			}
			if kept := reflect.DeepEqual(e.Spec, original.Spec); kept != merged {
				t.Errorf("merged %v: %+v", merged, e.Spec)
			}
			if p, _, err := to.histograms(e.Hash, e.Spec); err != nil || p == nil {
				t.Errorf("no histograms, %v", err)
			}
			if err := os.Remove(filepath.Join(to.Path(e.Hash), histogramsFile)); err != nil {
				t.Fatal(err)
			}
		}
		// The histograms of the other form are of the same result.
		if moved, err := to.Import(t.Context(), bytes.NewReader(b.Bytes()), ImportOptions{}); err != nil ||
			len(moved.Present) != 3 {
			t.Fatalf("%+v, %v", moved, err)
		}
		for _, e := range entries {
			if p, _, err := to.histograms(e.Hash, e.Spec); err != nil || p == nil {
				t.Errorf("no histograms from the other form, %v", err)
			}
		}
	}
}
