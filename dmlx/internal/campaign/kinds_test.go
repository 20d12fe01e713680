//go:build unix

package campaign

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/presets"
)

// damageBomb gives a reader one of the bombs of readers_test.go with faults. It must answer in a line, in time, and
// without the memory that the bomb asks for.
func damageBomb(t *try) {
	of := pick(t, slices.Sorted(maps.Keys(bombs)))
	b := pick(t, bombs[of])
	path := filepath.Join(t.dir, "bomb")
	if of == "presets" {
		path += ".toml"
	}
	data := b.data
	if t.IntN(8) > 0 {
		data = t.damaged(data)
	}
	t.must(os.WriteFile(path, data, 0o644))
	if b.size > 0 && os.Truncate(path, b.size) != nil {
		t.Refused++
		return
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from := time.Now()
	err := b.read(path)
	took := time.Since(from)
	runtime.ReadMemStats(&after)
	taken := after.TotalAlloc - before.TotalAlloc
	switch {
	case taken > 600<<20 || took > time.Minute:
		t.fail(&t.Panics, "%s, %s: %d bytes took %d MB and %s", of, b.name, len(data), taken>>20, took)
	case err != nil && len(err.Error()) > 1000:
		t.fail(&t.Panics, "%s, %s: an error of %d bytes: %.200v", of, b.name, len(err.Error()), err)
	default:
		t.wasRead(err == nil)
	}
}

// damageForeign reads files of other programs with faults: a network of ONNX, weights of PyTorch, a preset. What is
// read of weights must be finite in number and lie within the file.
func damageForeign(t *try) {
	switch t.IntN(3) {
	case 0:
		raw, err := os.ReadFile(filepath.Join("..", "..", "onnx", "testdata", pick(t, []string{"vit_tiny", "resnet18",
			"dinov3", "efficientnet_lite0"})+".onnx"))
		t.must(err)
		n, err := onnx.Read(t.damaged(raw))
		if err == nil {
			err = n.Init(model.NewStore(), nil)
		}
		t.wasRead(err == nil)
	case 1:
		program := "\x80\x02}" + key("state_dict") + "}(" + key("module.fc.weight") +
			tensorOf("K\x04K\x04\x86", "K\x04K\x01\x86") + key("module.fc.bias") + tensorOf("K\x04\x85", "K\x01\x85") + "us."
		path := filepath.Join(t.dir, "net.pth")
		t.must(os.WriteFile(path, t.damaged(pickled(program)), 0o644))
		raw, err := durable.ReadFile(path)
		if err == nil {
			_, err = backbone.HeadDim(raw)
		}
		t.wasRead(err == nil)
	case 2:
		path := filepath.Join(t.dir, "own.toml")
		text := "from = \"quick\"\nseeds = [1, 2]\nsteps = 7\n\n[learning_rates.\"minicar\"]\n\"cos/con/con\" = 0.1\n"
		t.must(os.WriteFile(path, t.damaged([]byte(text)), 0o644))
		_, err := presets.Load(path)
		t.wasRead(err == nil)
	}
}

// embedDamaged embeds a folder of which some images have faults. Without --skip-bad it is refused and names each, or
// read; with it, the rows of the others are theirs.
func embedDamaged(t *try) {
	s := t.specs[0]
	weights, err := filepath.Glob(filepath.Join(t.store, s.hash, "checkpoint", "weights-*.safetensors"))
	t.must(err)
	rows := func(dir, out string, more ...string) (map[string][]float32, result) {
		r := t.run(append([]string{"embed", "--weights", weights[0], "--images", dir, "--out", out}, more...)...)
		if r.code != 0 {
			return nil, r
		}
		values, shape, err := npy.ReadFloat32(out)
		t.must(err)
		names, err := os.ReadFile(strings.TrimSuffix(out, ".npy") + ".names.txt")
		t.must(err)
		all := strings.Fields(string(names))
		if len(all) != shape[0] {
			t.fail(&t.Wrong, "%d rows have %d names", shape[0], len(all))
			return nil, r
		}
		of := make(map[string][]float32)
		for i, name := range all {
			of[name] = values[i*shape[1] : (i+1)*shape[1]]
		}
		return of, r
	}
	want, r := rows(t.images, filepath.Join(t.dir, "W.npy"))
	if want == nil {
		t.fail(&t.Wrong, "sound images are not embedded: %s", r.stderr)
		return
	}
	dir := t.fresh("photographs", t.images)
	var bad, changed []string
	for range 1 + t.IntN(4) {
		file := pick(t, t.filesIn(dir))
		raw, err := os.ReadFile(file)
		t.must(err)
		t.must(os.WriteFile(file, t.damaged(raw), 0o644))
		name, err := filepath.Rel(dir, file)
		t.must(err)
		changed = append(changed, filepath.ToSlash(name))
	}
	for _, name := range changed {
		if _, err := datasets.ReadImage(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			bad = append(bad, name)
		}
	}
	have, r := rows(dir, filepath.Join(t.dir, "E.npy"))
	for _, name := range bad {
		if have != nil || !bytes.Contains(r.stderr, []byte(name)) {
			t.fail(&t.Wrong, "%s cannot be read, and is not named: %s", name, r.stderr)
			return
		}
	}
	if have, r = rows(dir, filepath.Join(t.dir, "S.npy"), "--skip-bad"); have == nil {
		t.fail(&t.Lost, "--skip-bad does not go on: %s", r.stderr)
		return
	}
	for name, row := range want {
		switch got, there := have[name]; {
		case there == slices.Contains(bad, name):
			t.fail(&t.Wrong, "%s has a row: %v", name, there)
			return
		case there && !slices.Contains(changed, name) && !slices.Equal(got, row):
			t.fail(&t.Wrong, "%s has another row", name)
			return
		}
	}
	t.wasRead(len(bad) == 0)
}

// plantBeside puts a pipe, a link or a folder where files beside the runs are: commands end, and what is behind a link
// stays.
func plantBeside(t *try) {
	canary, unharmed := t.canary()
	store := t.single("runs", pick(t, t.specs))
	place := filepath.Join(store, pick(t, []string{".slurm", ".slurm/dmlx-0-0123456789ab", ".locks"}))
	t.must(os.RemoveAll(place))
	t.must(os.MkdirAll(filepath.Dir(place), 0o755))
	switch t.IntN(4) {
	case 0:
		t.must(os.Mkdir(place, 0o755))
	case 1:
		t.must(os.Symlink(pick(t, []string{canary, filepath.Join(canary, "secret"), "/dev/zero", place}), place))
	default:
		t.must(mkfifo(place))
	}
	for range 1 + t.IntN(3) {
		args := pick(t, [][]string{{"runs", "list", "--json"}, {"runs", "verify"}})
		r := t.run(t.with(store, args...)...)
		if bytes.Contains(r.stdout, []byte(secret)) || bytes.Contains(r.stderr, []byte(secret)) {
			t.fail(&t.Escapes, "%s: %v tells the secret", place, args)
		}
	}
	unharmed(place)
	t.wasRead(false)
}
