package main

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/onnxpb"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// drawImage writes the i-th of some PNG files, which differ.
func drawImage(t *testing.T, path string, i int) {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, 20+i, 30))
	for k := range img.Pix {
		img.Pix[k] = uint8(k*(i+3)) | 0xf
	}
	img.SetNRGBA(0, 0, color.NRGBA{1, 2, 3, 255})
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(file, img); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func saveWeights(t *testing.T, path string, store *model.Store, meta map[string]string) {
	t.Helper()
	raw, err := backbone.EncodeWeights(store, backbone.Small, meta)
	if err == nil {
		err = os.WriteFile(path, raw, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEmbed(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	images, weights, out := filepath.Join(dir, "images"), filepath.Join(dir, "w.safetensors"), filepath.Join(dir, "f.npy")
	store := model.NewStore()
	if err := backbone.Init(store, backbone.Small, 5, 1); err != nil {
		t.Fatal(err)
	}
	saveWeights(t, weights, store, nil)
	for i, name := range []string{"b/1.png", "a/2.png", "b/0/3.png"} {
		drawImage(t, filepath.Join(images, name), i)
	}
	embed := func(more ...string) ([]float32, []int) {
		t.Helper()
		args := append([]string{"embed", "--arch", "small", "--weights", weights, "--images", images, "--out", out,
			"--resize", "24", "--crop", "16"}, more...)
		if v := object(t, args...); v["images"] != 3.0 {
			t.Errorf("%v", v)
		}
		values, shape, err := npy.ReadFloat32(out)
		if err != nil {
			t.Fatal(err)
		}
		return values, shape
	}
	all, shape := embed()
	if shape[0] != 3 || shape[1] != 5 {
		t.Fatalf("shape %v", shape)
	}
	for i := range 3 {
		sum := 0.0
		for _, v := range all[5*i : 5*i+5] {
			sum += float64(v) * float64(v)
		}
		if math.Abs(sum-1) > 1e-5 {
			t.Errorf("row %d has length² %g", i, sum)
		}
	}
	names, err := os.ReadFile(filepath.Join(dir, "f.names.txt"))
	labels, of, err2 := npy.ReadLabels(filepath.Join(dir, "f.labels.npy"))
	if err := errors.Join(err, err2); err != nil || string(names) != "a/2.png\nb/1.png\nb/0/3.png\n" || of != nil ||
		!slices.Equal(labels[0], []int64{0, 1, 1}) {
		t.Errorf("rows %q, %v, %v, %v", names, labels, of, err)
	}
	if r := object(t, "recall", "--embeddings", out, "--k", "1-2"); r["queries"] != 2.0 || r["lone_queries"] != 1.0 {
		t.Errorf("recall by the labels beside: %v", r)
	}
	if code, _, stderr := invoke(t, "embed", "--images", filepath.Join(dir, "none"), "--weights", "no weights either",
		"--out", out); !failed(code) || !strings.Contains(stderr, "none: no such file or directory: want a folder of JPEG") {
		t.Errorf("without images: %s", stderr)
	}
	// Labels that the rows of this call do not have are not beside them: those of a call before have another name now.
	for i := range 3 {
		drawImage(t, filepath.Join(dir, "flat", strconv.Itoa(i)+".png"), i)
	}
	// Those of two calls do not replace each other.
	for _, old := range []string{"f.labels.npy.old-1", "f.labels.npy.old-2"} {
		_, _, stderr := invoke(t, "embed", "--arch", "small", "--weights", weights, "--images", filepath.Join(dir, "flat"),
			"--out", out, "--crop", "16")
		if _, _, err := npy.ReadLabels(filepath.Join(dir, old)); err != nil ||
			!strings.Contains(stderr, "f.labels.npy was of other rows: it is "+old+" now") {
			t.Errorf("%v, said %q", err, stderr)
		}
		if err := npy.WriteInt64(filepath.Join(dir, "f.labels.npy"), []int64{0, 1, 1}, 3); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "f.labels.npy")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := invoke(t, "recall", "--embeddings", out); !failed(code) ||
		!strings.Contains(stderr, "is not there") {
		t.Errorf("recall without labels: %s", stderr)
	}
	// All damaged images are named at once, and --skip-bad leaves them out, with their names and labels.
	for _, name := range []string{"a/0.png", "b/9.jpg"} {
		if err := os.WriteFile(filepath.Join(images, name), []byte("RIFF0000WEBPVP8 "), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	damaged := []string{"embed", "--weights", weights, "--images", images, "--out", out, "--crop", "16"}
	if code, _, stderr := invoke(t, damaged...); code != 1 ||
		!strings.Contains(stderr, "a/0.png: neither a JPEG nor a PNG image: it is a WebP") ||
		!strings.Contains(stderr, "b/9.jpg") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	classes := filepath.Join(dir, "classes.txt")
	object(t, append(damaged, "--skip-bad", "--labels", classes)...)
	if text, err := os.ReadFile(classes); err != nil || string(text) != "a\nb\nb\n" {
		t.Errorf("%q, %v", text, err)
	}
	for _, name := range []string{"a/0.png", "b/9.jpg"} {
		if err := os.Remove(filepath.Join(images, name)); err != nil {
			t.Fatal(err)
		}
	}
	if _, shape := embed("--features", "gap"); shape[1] != backbone.Small.Width() {
		t.Errorf("features of shape %v", shape)
	}
	// Links to folders are followed, but a link to a folder above is not.
	linked := filepath.Join(dir, "linked")
	if err := errors.Join(os.Mkdir(linked, 0o755), os.Symlink(filepath.Join(images, "a"), filepath.Join(linked, "class")),
		os.Symlink(linked, filepath.Join(linked, "again")), os.Symlink(images, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for folder, want := range map[string]int{"link": 3, "linked": 1} {
		if l, err := datasets.ListImages(filepath.Join(dir, folder)); err != nil || len(l.Paths) != want {
			t.Errorf("%s: %+v, %v", folder, l, err)
		}
	}
	// Without metadata images get the network's own size.
	object(t, "embed", "--arch", "small", "--weights", weights, "--images", images, "--out", out)
	unsaid, _, err := npy.ReadFloat32(out)
	if err != nil {
		t.Fatal(err)
	}
	if said, _ := embed("--resize", "32", "--crop", "32"); !slices.Equal(unsaid, said) {
		t.Error("not prepared for 32 pixels")
	}
	if v := object(t, "embed", "--arch", "small", "--weights", "pretrained", "--images", images, "--out", out,
		"--features", "gap"); v["images"] != 3.0 {
		t.Errorf("with published weights: %v", v)
	}
	// A row does not depend on the other images.
	if err := os.RemoveAll(filepath.Join(images, "b", "0")); err != nil {
		t.Fatal(err)
	}
	v := object(t, "embed", "--arch", "small", "--weights", weights, "--images", images, "--out", out, "--resize", "24",
		"--crop", "16")
	fewer, _, err := npy.ReadFloat32(out)
	if err != nil || v["images"] != 2.0 {
		t.Fatal(v, err)
	}
	for i, x := range fewer {
		if math.Abs(float64(x-all[i])) > 1e-6 {
			t.Errorf("value %d is %g, with another image behind it %g", i, x, all[i])
		}
	}
	// The file's metadata give the preprocessing, and flags override it.
	described := filepath.Join(dir, "described.safetensors")
	p := backbone.Preprocessing{Resize: 24, Crop: 16, Mean: backbone.ImageNetMean, Std: backbone.ImageNetStd}
	saveWeights(t, described, store, p.Metadata())
	alone := []string{"embed", "--weights", described, "--images", images, "--out", out}
	object(t, alone...)
	if same, _, err := npy.ReadFloat32(out); err != nil || !slices.Equal(same, fewer) {
		t.Error("the file's preprocessing is not that of the flags", err)
	}
	object(t, append(alone, "--crop", "12")...)
	if other, _, err := npy.ReadFloat32(out); err != nil || slices.Equal(other, fewer) {
		t.Error("--crop does not go before the file's", err)
	}
	p.Std = [3]float32{0.5, 0.5, 0.5}
	saveWeights(t, described, store, p.Metadata())
	object(t, alone...)
	if other, _, err := npy.ReadFloat32(out); err != nil || slices.Equal(other, fewer) {
		t.Error("the file's colors are not taken", err)
	}
	// A checkpoint of PyTorch tells its network by its tensors.
	state := filepath.Join("..", "..", "backbone", "testdata", "small.pth")
	if v := object(t, "embed", "--weights", state, "--images", images, "--out", out); v["dim"] != 2.0 {
		t.Errorf("with weights of torch.save: %v", v)
	}
	if err := os.WriteFile(filepath.Join(images, "a", "c.png"), []byte("no image"), 0o600); err != nil {
		t.Fatal(err)
	}
	base := []string{"embed", "--arch", "small", "--weights", weights, "--images", images, "--out", out}
	for want, bad := range map[string][]string{
		"c.png":                      base,
		"gap or embedding":           append(base, "--features", "fc"),
		"like small's: --arch small": {"embed", "--arch", "resnet18", "--weights", weights, "--images", images, "--out", out},
		"no JPEG or PNG":             {"embed", "--weights", weights, "--images", t.TempDir(), "--out", out},
		"--crop 50 of --resize 40":   append(base, "--resize", "40", "--crop", "50"),
		"at most 16384":              append(base, "--resize", "100000", "--crop", "99999"),
		"a crop of 1 to 4096":        append(base, "--resize", "16384", "--crop", "16384"),
		"none/F.npy cannot be":       append(base, "--out", filepath.Join(dir, "none", "F.npy")),
		"is a folder":                append(base, "--out", dir),
		"want a folder of JPEG":      append(base, "--images", out),
		"or .txt, for names":         append(base, "--labels", filepath.Join(dir, "l.csv")),
		"huggingface.co/timm":        {"embed", "--weights", "pretrained", "--images", images, "--out", out},
	} {
		if code, _, stderr := invoke(t, bad...); !failed(code) || !strings.Contains(stderr, want) {
			t.Errorf("dmlx %s: code %d, %s; want %s", bad, code, stderr, want)
		}
	}
}

// A network from a file of weights, of torch.save or of a run, is exported to ONNX.
func TestWeightsONNX(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "net.onnx")
	state := filepath.Join("..", "..", "backbone", "testdata", "small.pth")
	if v := object(t, "weights", "onnx", state, "--out", out); v["arch"] != "small" || v["dim"] != 2.0 {
		t.Errorf("%v", v)
	}
	embedding, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if v := object(t, "weights", "onnx", state, "--out", out, "--features", "gap"); v["dim"] != 128.0 {
		t.Errorf("%v", v)
	}
	features, err := os.ReadFile(out)
	if err != nil || !bytes.Contains(embedding, []byte("LpNormalization")) || bytes.Contains(features, []byte("Gemm")) {
		t.Errorf("the files do not differ as they should: %v", err)
	}
	bundled := filepath.Join("..", "..", "backbone", "weights", "small.safetensors")
	for want, args := range map[string][]string{
		"required flag":         {state},
		"gap or embedding":      {state, "--out", out, "--features", "fc"},
		"no linear layer fc":    {bundled, "--out", out},
		"is an input":           {state, "--out", state},
		"like small's: --arch":  {state, "--out", out, "--arch", "resnet50"},
		"is no file, and":       {"nowhere.pth", "--out", out, "--store", dir},
		"not a safetensors":     {"main.go", "--out", out},
		"is not a regular file": {dir, "--out", out},
	} {
		if code, _, stderr := invoke(t, append([]string{"weights", "onnx"}, args...)...); !failed(code) ||
			!strings.Contains(stderr, want) {
			t.Errorf("%q: code %d, %s", want, code, stderr)
		}
	}
}

// Numbers that may not be what they seem are said: equal similarities, packed bits, and a test of what is trained.
func TestOddNumbers(t *testing.T) {
	t.Setenv("DMLX_STORE", t.TempDir())
	dir := t.TempDir()
	write := func(name string, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	labels := []int64{0, 0, 1, 1, 2, 2, 3, 3}
	l := write("l.npy", npy.WriteInt64(filepath.Join(dir, "l.npy"), labels, 8))
	rng := rand.New(rand.NewPCG(1, 2))
	values := make([]float32, 8*3)
	for i := range values {
		values[i] = rng.Float32() + float32(labels[i/3]) - 1
	}
	plain := write("x.npy", npy.WriteFloat32(filepath.Join(dir, "x.npy"), values, 8, 3))
	same := write("y.npy", npy.WriteFloat32(filepath.Join(dir, "y.npy"), values, 8, 3))
	// Of four rows all are the same but one: each of the three is tied with one of another class.
	tied := write("t.npy", npy.WriteFloat32(filepath.Join(dir, "t.npy"), []float32{1, 0, 1, 0, 1, 0, 0, 1}, 4, 2))
	of := write("tl.npy", npy.WriteInt64(filepath.Join(dir, "tl.npy"), []int64{0, 0, 1, 1}, 4))
	header := "{'descr': '|u1', 'fortran_order': False, 'shape': (8, 2), }"
	raw := "\x93NUMPY\x01\x00\x76\x00" + header + strings.Repeat(" ", 117-len(header)) + "\nabcdefghijklmnop"
	octets := write("b.npy", os.WriteFile(filepath.Join(dir, "b.npy"), []byte(raw), 0o600))
	for _, c := range []struct{ args, want, not string }{
		{"recall --embeddings " + plain + " --labels " + l, "", "ties|bytes"},
		{"recall --embeddings " + tied + " --labels " + of, "ties: of 3 of 4 queries", "bytes"},
		{"recall --embeddings " + octets + " --labels " + l, "holds bytes (uint8)", ""},
		{"train --rule cos/con/con --features " + plain + " --labels " + l + " --test-features " + same +
			" --test-labels " + l,
			"8 of the 8 rows of ", ""},
		{"train --rule cos/con/con --features " + octets + " --labels " + l, "holds bytes (uint8)", "rows of"},
	} {
		_, _, stderr := invoke(t, strings.Fields(c.args)...)
		if !strings.Contains(stderr, c.want) || c.not != "" && regexp.MustCompile(c.not).MatchString(stderr) {
			t.Errorf("dmlx %s: %s, want %q", c.args, stderr, c.want)
		}
	}
}

// What is odd about a network is said by each command that computes with it, once: its notes, and that it mixes images.
func TestOddNetwork(t *testing.T) {
	store, dir := atWork(t), t.TempDir()
	net, images := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "images")
	graph := onnxpb.Message([]byte(nil), 1, onnxpb.Node("ReduceMean", "m", []string{"images"}, onnxpb.Ints("axes", 0)))
	graph = onnxpb.Message(graph, 1, onnxpb.Node("Sub", "y", []string{"images", "m"}))
	graph = onnxpb.Message(graph, 1, onnxpb.Node("Flatten", "features", []string{"y"}))
	graph = onnxpb.Message(graph, 11, onnxpb.Value("images", "N", 3, 8, 8))
	graph = onnxpb.Message(graph, 12, onnxpb.Value("features", "N", 192))
	graph = onnxpb.Message(graph, 12, onnxpb.Value("y", "N", 3, 8, 8))
	if err := os.WriteFile(net, onnxpb.Model(graph, nil), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 8 {
		drawImage(t, filepath.Join(images, string(rune('a'+i/2)), fmt.Sprint(i, ".png")), i)
	}
	for _, args := range [][]string{{"embed", "--weights", net, "--images", images, "--out", filepath.Join(dir, "E.npy")},
		{"train", "--store", store, "--preset", "smoke", "--arch", net, "--data", images, "--batch", "2x2", "--epochs", "1",
			"--set", "steps=1", "--dim", "2", "--rule", "cos/con/con", "--lr", "0.1", "--seeds", "1,2", "--set",
			"start=random"}} {
		code, _, stderr := invoke(t, args...)
		for _, want := range []string{"Of 2 outputs the first, \"features\"", "depend on the other images of its batch"} {
			if code != 0 || strings.Count(stderr, want) != 1 {
				t.Errorf("%v: %d %s; want once %s", args, code, stderr, want)
			}
		}
	}
}
