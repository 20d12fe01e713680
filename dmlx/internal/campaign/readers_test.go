//go:build unix

package campaign

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// tame is how a file of sources is safe whose reader no bomb below attacks.
const (
	ours     = "reads what this program, or one that it started, has written for itself"
	embedded = "reads what is compiled into the program"
	system   = "reads files of the system or of Go"
	piece    = "reads a piece of a file that another reader has bounded"
)

// readers says for each file of the sources that reads what bomb below attacks it, or why none has to. A new file that
// reads fails the test until it is in the list.
var readers = map[string]string{
	"datasets/cache.go":                             ours,
	"datasets/cub.go":                               "lists",
	"datasets/decode.go":                            "images",
	"datasets/internal/mat5/mat5.go":                "TestReadIsBounded of its package",
	"dmlx/backbone/lowrank.go":                      piece,
	"dmlx/backbone/metadata.go":                     piece,
	"dmlx/backbone/pytorch.go":                      "weights",
	"dmlx/backbone/weights.go":                      "weights",
	"dmlx/cmd/dmlx/internal/cli/hugepages_linux.go": system,
	"dmlx/cmd/dmlx/internal/doctor/doctor.go":       system,
	"dmlx/cmd/dmlx/internal/files/files.go":         "arrays",
	"dmlx/cmd/dmlx/internal/host/host.go":           system,
	"dmlx/cmd/dmlx/internal/jobs/jobs.go":           ours,
	"dmlx/cmd/dmlx/internal/lab/copies.go":          "TestRecordOfAStranger of its package",
	"dmlx/cmd/dmlx/internal/lab/execute.go":         "TestRecordOfAStranger of its package",
	"dmlx/cmd/dmlx/internal/lab/kernel.go":          ours,
	"dmlx/cmd/dmlx/internal/lab/lab.go":             ours,
	"dmlx/cmd/dmlx/internal/lab/module.go":          system,
	"dmlx/cmd/dmlx/internal/lab/serve.go":           ours,
	"dmlx/cmd/dmlx/internal/lab/status.go":          ours,
	"dmlx/embed/embedder.go":                        "images",
	"dmlx/embed/network.go":                         "weights",
	"dmlx/embed/server/main.go":                     "TestServerUnderLoad of its package",
	"dmlx/heads/file.go":                            "weights",
	"dmlx/internal/buildinfo/buildinfo.go":          system,
	"dmlx/durable/durable.go":                       ours,
	"dmlx/durable/files.go":                         "all of them",
	"dmlx/losses/peer/peer.go":                      embedded,
	"dmlx/npy/files.go":                             "arrays",
	"dmlx/npy/labels.go":                            "arrays",
	"dmlx/onnx/metadata.go":                         "onnx",
	"dmlx/onnx/network.go":                          "onnx",
	"dmlx/paper/evidence/claim.go":                  embedded,
	"dmlx/page/frame/frame.go":                      ours,
	"dmlx/page/internal/engine/engine.go":           piece,
	"dmlx/page/internal/engine/learn.go":            ours,
	"dmlx/page/page.go":                             system,
	"dmlx/presets/file.go":                          "presets",
	"dmlx/runs/density.go":                          "runs",
	"dmlx/runs/histograms.go":                       "runs",
	"dmlx/runs/verify.go":                           "runs",
	"dmlx/runs/job.go":                              ours,
	"dmlx/runs/outputs.go":                          "runs",
	"dmlx/runs/result.go":                           "runs",
	"dmlx/runs/run.go":                              "runs",
	"dmlx/runs/slurm/slurm.go":                      ours,
	"dmlx/runs/slurm/task.go":                       ours,
	"dmlx/runs/store.go":                            "runs",
	"dmlx/scores/csv.go":                            embedded,
	"dmlx/train/checkpoint.go":                      "runs",
	"dmlx/train/kept.go":                            ours,
	"dmlx/weights/weights.go":                       "onnx",
	"notebooks/nb/captions.go":                      embedded,
	"notebooks/nb/nb.go":                            ours,
	"notebooks/playground/check.go":                 ours,
	"notebooks/playground/front.go":                 ours,
}

// reading are the functions by which bytes come in.
var reading = []string{"os.ReadFile", "os.Open", "os.OpenFile", "io.ReadAll", "json.Unmarshal", "json.NewDecoder",
	"toml.Decode", "gzip.NewReader", "zlib.NewReader", "tar.NewReader", "zip.NewReader", "zip.OpenReader", "csv.NewReader",
	"png.Decode", "image.Decode", "jpeg.Decode", "gob.NewDecoder", "xml.NewDecoder", "durable.Open", "durable.ReadFile",
	"durable.ReadAtMost", "durable.ReadBelow", "durable.ParseJSON", "durable.ParseLines"}

func TestReadersAreListed(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "..")
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata" ||
			d.Name() == "fixtures") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok && slices.Contains(reading, of.Name+"."+s.Sel.Name) {
					found[name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range found {
		if readers[name] == "" {
			t.Errorf("%s reads: bound what it takes, add a bomb to TestReadersAreBounded, and the file to the list", name)
		}
	}
	for name, bomb := range readers {
		if !found[name] {
			t.Errorf("%s does not read any more: take it off the list", name)
		}
		if test, there := strings.CutSuffix(bomb, " of its package"); there {
			tests, _ := filepath.Glob(filepath.Join(root, filepath.Dir(name), "*_test.go"))
			if !slices.ContainsFunc(tests, func(path string) bool {
				raw, _ := os.ReadFile(path)
				return bytes.Contains(raw, []byte("func "+test+"("))
			}) {
				t.Errorf("%s: no %s", name, test)
			}
		} else if bombs[bomb] == nil && !strings.Contains(bomb, " ") {
			t.Errorf("%s: no bomb %q", name, bomb)
		}
	}
}

// bomb is a small file, or a sparse one, and what reads it.
type bomb struct {
	name string
	data []byte
	size int64 // Of a sparse file that begins with the data.
	read func(path string) error
}

const terabyte = 1 << 40

func array(header string) []byte {
	return append(binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header))), header...)
}

func shaped(descr, shape string) []byte {
	return array("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + "}")
}

func tensorFile(header string) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
}

// pickled is a file of torch.save with this program.
func pickled(program string) []byte {
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, m := range [][2]string{{"a/data.pkl", program}, {"a/data/0", strings.Repeat("v", 64)}} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m[0], Method: zip.Store})
		if err == nil {
			_, err = io.WriteString(f, m[1])
		}
		if err != nil {
			panic(err)
		}
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// tensorOf is the program of a tensor of 16 values with this shape and these strides.
func tensorOf(shape, strides string) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000" +
		"X\x03\x00\x00\x00cpuK\x10tQK\x00" + shape + strides + "\x89)tR"
}

func key(name string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(name)))) + name
}

func number(n uint64) string { return "\x8a\x08" + string(binary.LittleEndian.AppendUint64(nil, n)) }

func weights(path string) error {
	data, err := durable.ReadFile(path)
	if err != nil {
		return err
	}
	_, _ = backbone.Metadata(data)
	_, _ = backbone.ArchOf(data)
	dim, err := backbone.HeadDim(data)
	if err != nil {
		return err
	}
	_, err = backbone.DecodeWeights(data, model.NewStore(), backbone.LoadOptions{Arch: backbone.ResNet18, Dim: dim})
	return err
}

func floats(path string) error {
	_, _, err := npy.ReadFloat32(path)
	return err
}

func labels(path string) error {
	_, _, err := npy.ReadLabels(path)
	return err
}

func picture(path string) error {
	_, err := datasets.ReadImage(path)
	return err
}

func network(path string) error {
	data, err := os.ReadFile(path)
	if err == nil {
		_, err = onnx.Read(data)
	}
	return err
}

func preset(path string) error {
	_, err := presets.Load(path)
	return err
}

const someRun = "0123456789ab"

// inStore reads a run's files, of which the bomb becomes one.
func inStore(file string, read func(*runs.Store) error) func(path string) error {
	return func(path string) error {
		store, err := runs.OpenStore(filepath.Join(filepath.Dir(path), "store"))
		if err != nil {
			return err
		}
		to := filepath.Join(store.Dir, filepath.FromSlash(file))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(path, to); err != nil {
			return err
		}
		return read(store)
	}
}

func entryOf(s *runs.Store) error { return fmt.Errorf("%q", s.Entry(someRun).Bad) }

func metrics(s *runs.Store) error {
	_, err := s.Metrics(someRun)
	return err
}

func checkpoint(s *runs.Store) error {
	_, err := train.ReadCheckpoint(s.Path(someRun))
	return err
}

func many(s string, n int) string { return strings.Repeat(s, n) }

// bombs are small files that ask for much, by the readers of the list.
var bombs = map[string][]bomb{
	"arrays": {
		{name: "rows", data: shaped("<f4", "(1099511627776,)"), read: floats},
		{name: "product", data: shaped("<f4", "(4294967296, 4294967296, 0)"), read: floats},
		{name: "sparse", data: shaped("<f4", "(274877906944,)"), size: terabyte, read: floats},
		{name: "empty names", data: shaped("<U0", "(1099511627776,)"), read: labels},
		{name: "long names", data: shaped("<U1099511627776", "(1,)"), read: labels},
		{name: "lines", data: []byte(many("\n", 1<<20)), read: func(path string) error {
			to := path + ".txt"
			if err := os.Rename(path, to); err != nil {
				return err
			}
			return labels(to)
		}},
	},
	"weights": {
		{name: "nested tuples",
			data: pickled("\x80\x02}" + key("conv1.weight") + tensorOf(")"+many("2\x86", 60), ")") + "s."),
			read: weights},
		{name: "a dictionary in itself",
			data: pickled("\x80\x02}q\x00" + key("a") + "h\x00s" + key("b") + tensorOf("h\x00", ")") +
				"s."), read: weights},
		{name: "dictionaries in each other",
			data: pickled("\x80\x02}q\x00" + many(key("a")+"h\x00s", 1) + "}q\x01(" + func() string {
				var b strings.Builder
				for i := range 4000 {
					b.WriteString(key(fmt.Sprint(i)) + "h\x01")
				}
				return b.String()
			}() + "u."), read: weights},
		{name: "stride 0",
			data: pickled("\x80\x02}" + key("fc.weight") + tensorOf(number(1<<31)+"K\x02\x86", "K\x00K\x00\x86") +
				"s" + key("fc.bias") + tensorOf(number(1<<40)+"\x85", "K\x00\x85") + "s."), read: weights},
		{name: "a list in itself", data: pickled("\x80\x02]q\x00(" + many("h\x00", 1<<16) + "e."), read: weights},
		{name: "memoized", data: pickled("\x80\x02}" + many("\x94", 6<<20) + "."), read: weights},
		{name: "dictionaries", data: pickled("\x80\x02" + many("}", 6<<20) + "."), read: weights},
		{name: "classes", data: pickled("\x80\x02" + many("c\n\n0", 1<<18) + "."), read: weights},
		{name: "legacy", data: []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19." + many("}", 6<<20)), read: weights},
		{name: "a header", data: binary.LittleEndian.AppendUint64(nil, 1<<40), read: weights},
		{name: "a shape",
			data: tensorFile(`{"fc.bias":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,0]}}`), read: weights},
		{name: "dimensions",
			data: tensorFile(`{"fc.bias":{"dtype":"F32","shape":[` + many("0,", 1<<20) + `0],"data_offsets":[0,0]}}`),
			read: weights},
		{name: "tensors", data: tensorFile(`{"__metadata__":{` + many(`"a":"b",`, 1<<19) + `"c":"d"}}`), read: weights},
		{name: "sparse", data: tensorFile(`{}`), size: terabyte, read: weights},
	},
	"onnx": {
		{name: "a length", data: []byte("\x3a\xff\xff\xff\xff\x7f"), read: network},
		{name: "graphs", data: []byte("\x3a\x80\x80\x80\x02" + many("\x0a\x00", 1<<21)), read: network},
	},
	"images": {
		{name: "png",
			data: []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x2c\x00\x00\x00\x2c\x00\x08\x02\x00\x00\x00" +
				many("\x00", 64)),
			read: picture},
		{name: "jpeg",
			data: []byte("\xff\xd8\xff\xc2\x00\x0b\x08\x2c\x00\x2c\x00\x01\x01\x11\x00" + many("\x00", 64)), read: picture},
		{name: "sparse", data: []byte("\xff\xd8\xff\xe0"), size: terabyte, read: picture},
	},
	"lists": {
		{name: "sparse", data: []byte("1 a\n"), size: terabyte, read: func(path string) error {
			dir := filepath.Join(filepath.Dir(path), "CUB_200_2011")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			if err := os.Rename(path, filepath.Join(dir, "images.txt")); err != nil {
				return err
			}
			_, err := datasets.List("cub", filepath.Dir(dir))
			return err
		}},
	},
	"presets": {
		{name: "dots", data: []byte(many("a.", 10000) + "a=1"), read: preset},
		{name: "headers", data: []byte(many("["+many("a.", 2000)+"a]\n", 20)), read: preset},
		{name: "inline tables", data: []byte(many("a={", 20000) + many("}", 20000)), read: preset},
		{name: "lists", data: []byte("seeds=" + many("[", 20000) + many("]", 20000)), read: preset},
		{name: "long", data: []byte(many("#", 1<<20)), read: preset},
		{name: "sparse", data: []byte("lr=1\n"), size: terabyte, read: preset},
	},
	"runs": {
		{name: "result",
			data: []byte(`{"epochs":[` + many("{},", 1<<22) + `{}]}`), read: inStore(someRun+"/result.json", entryOf)},
		{name: "sparse result", data: []byte("{"), size: terabyte, read: inStore(someRun+"/result.json", entryOf)},
		{name: "spec", data: []byte(`{"rates":[` + many("1,", 1<<22) + `1]}`), read: inStore(someRun+"/spec.json", entryOf)},
		{name: "epochs", data: []byte(many("{}\n", 1<<22)), read: inStore(someRun+"/metrics.jsonl", metrics)},
		{name: "epochs below the bound", data: []byte(many("{}\n", 1<<18) + "[]"),
			read: inStore(someRun+"/metrics.jsonl", metrics)},
		{name: "an epoch", data: []byte(many("[", 1<<22)), read: inStore(someRun+"/metrics.jsonl", metrics)},
		{name: "checkpoint", data: []byte(`{"epochs":[` + many("{},", 1<<22) + `{}]}`),
			read: inStore(someRun+"/checkpoint/state.json", checkpoint)},
		{name: "checkpoint below the bound", data: []byte(`{"epochs":[` + many("{},", 466_000) + `{}]}`),
			read: inStore(someRun+"/checkpoint/state.json", checkpoint)},
		{name: "result below the bound", data: []byte(`{"epochs":[` + many("{},", 466_000) + `{}]}`),
			read: inStore(someRun+"/result.json", entryOf)},
	},
}

// Readers take memory in proportion to what they read, and refuse in a line what asks for more.
func TestReadersAreBounded(t *testing.T) {
	const limit = 400 << 20 // Of all that is taken in turn, most of it never at once.
	for of, list := range bombs {
		for _, b := range list {
			path := filepath.Join(t.TempDir(), "bomb")
			if of == "presets" {
				path += ".toml"
			}
			if err := os.WriteFile(path, b.data, 0o644); err != nil {
				t.Fatal(err)
			}
			if b.size > 0 {
				if err := os.Truncate(path, b.size); err != nil {
					t.Skip("no sparse files here") // A limit of the file system.
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := func() (err error) {
				defer func() {
					if r := recover(); r != nil {
						t.Errorf("%s, %s: %v\n%s", of, b.name, r, debug.Stack())
					}
				}()
				return b.read(path)
			}()
			runtime.ReadMemStats(&after)
			taken := after.TotalAlloc - before.TotalAlloc
			if err == nil || len(err.Error()) > 1000 {
				t.Errorf("%s, %s: want an error in a line, got %.200v", of, b.name, err)
			}
			if taken > limit {
				t.Errorf("%s, %s: took %d MB for a file of %d bytes", of, b.name, taken>>20, len(b.data))
			}
			t.Logf("%s, %s: %d kB: %.150v", of, b.name, taken>>10, err)
		}
	}
	// A batch's matrices grow with the square of its rows.
	rows := dissect.Embeddings{Values: make([]float32, 60000), Labels: make([]int64, 60000), N: 60000, Dim: 1}
	_, err := dissect.Loss(nil, rows, dissect.Proxies{}, nil)
	if err == nil || !strings.Contains(err.Error(), "want at most") {
		t.Errorf("60,000 rows: %v", err)
	}
}
