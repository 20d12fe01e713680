package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// verifiable returns a store with a finished run of tiny and an unfinished one of seed 2.
func verifiable(t *testing.T) (s *Store, finished, unfinished string) {
	t.Helper()
	s, _ = testStore(t)
	finished = mustRun(t, goBackend(), s, tiny()).Hash
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
	return s, finished, second.Hash()
}

// Copied folders are sound, and an unfinished one goes on to the same end as where it was begun.
func TestCopiedRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	from, finished, unfinished := verifiable(t)
	to, warnings := testStore(t)
	for _, hash := range []string{finished, unfinished} {
		if err := os.CopyFS(to.Path(hash), os.DirFS(from.Path(hash))); err != nil {
			t.Fatal(err)
		}
		if err := to.Verify(hash); err != nil {
			t.Error(err)
		}
	}
	sameAsReference(t, to, tiny())
	spec := to.Entry(unfinished).Spec
	if a, b := mustRun(t, goBackend(), from, spec), mustRun(t, goBackend(), to, spec); a.Files[train.EmbeddingsFile] !=
		b.Files[train.EmbeddingsFile] || a.Recall[1] != b.Recall[1] {
		t.Errorf("here %+v, there %+v", a, b)
	}
	// Without its weights a run is sound, and so is one that was stopped in its first epoch.
	for _, gone := range []string{filepath.Join(finished, train.CheckpointDir), filepath.Join(unfinished, resultFile),
		filepath.Join(unfinished, train.CheckpointDir)} {
		if err := os.RemoveAll(filepath.Join(to.Dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := to.lock(t.Context(), unfinished)
	if err != nil {
		t.Fatal(err)
	}
	if err := to.Verify(unfinished); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	unlock()
	for _, hash := range []string{finished, unfinished} {
		if err := to.Verify(hash); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(filepath.Join(to.Dir, locksDir)); err != nil { // As in a store that may not be written.
		t.Fatal(err)
	}
	if err := to.Verify(finished); err != nil || len(*warnings) > 0 {
		t.Error(err, *warnings)
	}
}

// A folder that is not a run as it was trained is named with what is wrong, whatever checksums a stranger computed.
func TestVerify(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	from, finished, unfinished := verifiable(t)
	file := func(name string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600) }
	}
	gone := func(name string) func(dir string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	flip := func(name string) func(dir string) error {
		return func(dir string) error {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			raw[len(raw)-2] ^= 1
			return os.WriteFile(filepath.Join(dir, name), raw, 0o600)
		}
	}
	link := func(name string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			return errors.Join(os.RemoveAll(path), os.Symlink("/dev/zero", path))
		}
	}
	reseal := func(change func(r *Result, dir string) error) func(dir string) error {
		return func(dir string) error {
			var r Result
			path := filepath.Join(dir, resultFile)
			return errors.Join(readJSON(path, &r), change(&r, dir), r.seal(), durable.WriteJSON(path, &r))
		}
	}
	for name, c := range map[string]struct {
		run    string
		change func(dir string) error
		want   string
	}{
		"damaged embeddings": {finished, flip(train.EmbeddingsFile), "wrong checksum of embeddings.npy"},
		"damaged result":     {finished, flip(resultFile), "result.json is damaged"},
		"damaged weights": {finished, flip("checkpoint/weights-003.safetensors"),
			"weights-003.safetensors is missing or has"},
		"damaged state":    {unfinished, flip("checkpoint/state.json"), "is damaged: "},
		"damaged triplets": {unfinished, flip("triplets/epoch-001.npy"), "checksum of triplets/epoch-001.npy"},
		"a file less":      {finished, gone("labels.npy"), "lacks the file"},
		"no spec":          {finished, gone(specFile), "no spec.json"},
		"no folder":        {"0123456789ab", func(dir string) error { return os.RemoveAll(dir) }, "no such file"},
		"another's name":   {"0123456789ab", func(string) error { return nil }, "its spec has the hash " + finished},
		"another's result": {unfinished, func(dir string) error {
			raw, err := os.ReadFile(filepath.Join(from.Path(finished), resultFile))
			return errors.Join(err, os.WriteFile(filepath.Join(dir, resultFile), raw, 0o600))
		}, "belongs to another run"},
		"another file":     {finished, file("run.sh"), `"run.sh", which is not a file of a run`},
		"a hidden file":    {finished, file("checkpoint/.evil"), `"checkpoint/.evil", which is not`},
		"what a kill left": {finished, file(".spec.json123"), ""},
		"a link":           {finished, link(train.EmbeddingsFile), "links are not followed"},
		"a linked folder":  {finished, link(train.CheckpointDir), "links are not followed"},
		"a linked run":     {finished, link(""), "links are not followed"},
		"a pipe": {finished, func(dir string) error {
			path := filepath.Join(dir, train.MetricsFile)
			return errors.Join(os.Remove(path), exec.Command("mkfifo", path).Run())
		}, "neither a file nor a folder"},
		"a terabyte": {finished, func(dir string) error {
			return os.Truncate(filepath.Join(dir, train.EmbeddingsFile), 1<<40)
		}, "more than 68719476736 bytes"},
		"histograms": {finished, file(histogramsFile), "histograms.json is damaged"},
		"a path": {finished, reseal(func(r *Result, _ string) error {
			r.Files["../../../dev/zero"] = "00"
			return nil
		}), "which is not an output file of a run"},
		"no fraction": {finished, reseal(func(r *Result, _ string) error {
			r.Recall[1] = 1.5
			return nil
		}), "Recall@1 of 1.5: want a fraction"},
		"no embeddings": {finished, reseal(func(r *Result, _ string) error {
			r.Files = nil
			return nil
		}), "has no embeddings"},
		"not a number": {finished, reseal(func(r *Result, dir string) error {
			path := filepath.Join(dir, train.EmbeddingsFile)
			raw, err := os.ReadFile(path)
			copy(raw[len(raw)-4:], "\x00\x00\xc0\x7f")
			r.Files[train.EmbeddingsFile] = durable.Sum(raw)
			return errors.Join(err, os.WriteFile(path, raw, 0o600))
		}), "NaN: want finite values"},
		"another recipe": {finished, func(dir string) error {
			var r Result
			path := filepath.Join(dir, resultFile)
			err := readJSON(path, &r)
			r.Spec.Recipe, r.Spec.Seed = 0, 9
			return errors.Join(err, r.seal(), durable.WriteJSON(path, &r))
		}, "result.json whose spec has the hash"},
	} {
		t.Run(name, func(t *testing.T) {
			s, warnings := testStore(t)
			of := c.run
			if of == "0123456789ab" {
				of = finished
			}
			if err := os.CopyFS(s.Path(c.run), os.DirFS(from.Path(of))); err != nil {
				t.Fatal(err)
			}
			if err := c.change(s.Path(c.run)); err != nil {
				t.Fatal(err)
			}
			err := s.Verify(c.run)
			if (err != nil) != (c.want != "") || err != nil && (!strings.Contains(err.Error(), c.want) ||
				strings.Contains(err.Error(), "\n")) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if len(*warnings) > 0 {
				t.Error(*warnings)
			}
		})
	}
}

// Whatever a stranger writes as a spec or result, the folder is refused or is a run's.
func FuzzVerify(f *testing.F) {
	spec, err := json.Marshal(tiny())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(spec, []byte(nil))
	f.Add(spec, []byte(`{"run":"0123456789ab","files":{"../../x":"00"}}`))
	f.Add(bytes.Replace(spec, []byte(`"recipe":1`), []byte(`"recipe":2`), 1), []byte("{}"))
	f.Fuzz(func(t *testing.T, spec, result []byte) {
		s, err := OpenStore(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		hash := tiny().Hash()
		if err := os.Mkdir(s.Path(hash), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, raw := range map[string][]byte{specFile: spec, resultFile: result} {
			if len(raw) > 0 && os.WriteFile(filepath.Join(s.Path(hash), name), raw, 0o600) != nil {
				t.Fatal(name)
			}
		}
		if s.Verify(hash) != nil {
			return
		}
		if r, err := s.Get(hash); err == nil && r.Spec.Hash() != hash || err != nil && errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// readJSON reads a file of JSON.
func readJSON(path string, v any) error {
	raw, err := os.ReadFile(path)
	return errors.Join(err, json.Unmarshal(raw, v))
}
