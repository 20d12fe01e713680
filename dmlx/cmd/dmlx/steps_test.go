package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// writePixels writes a uint8 array as NumPy does.
func writePixels(t *testing.T, path, shape string, pixels []uint8) {
	t.Helper()
	header := "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }"
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	if err := os.WriteFile(path, slices.Concat([]byte("\x93NUMPY\x01\x00\x76\x00"), []byte(header), pixels),
		0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTrainSteps(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	store := model.NewStore()
	if err := backbone.Init(store, backbone.Small, 5, 1); err != nil {
		t.Fatal(err)
	}
	colors := backbone.Preprocessing{Resize: 8, Crop: 8, Mean: [3]float32{0.5, 0.5, 0.5},
		Std: [3]float32{0.25, 0.25, 0.25}}
	if err := backbone.SaveWeights(in("w"), store, backbone.Small, colors.Metadata()); err != nil {
		t.Fatal(err)
	}
	pixels := make([]uint8, 2*4*8*8*3)
	for i := range pixels {
		pixels[i] = uint8(i * i / 7)
	}
	writePixels(t, in("p.npy"), "(2, 4, 8, 8, 3)", pixels)
	writePixels(t, in("flat.npy"), "(2, 4, 64, 3)", pixels)
	if err := npy.WriteInt64(in("l.npy"), []int64{1, 1, 2, 2, 3, 3, 1, 1}, 2, 4); err != nil {
		t.Fatal(err)
	}
	args := func(out string, more ...string) []string {
		return append([]string{"train", "steps", "--weights", in("w"), "--pixels", in("p.npy"), "--labels", in("l.npy"),
			"--lr", "0.1", "--out", in(out)}, more...)
	}
	v := object(t, args("a")...)
	if v["arch"] != "small" || v["steps"] != 2.0 || v["batch"] != 4.0 || v["size"] != 8.0 || v["dim"] != 5.0 ||
		v["backend"] != "go" {
		t.Errorf("%v", v)
	}
	first, shape, err := npy.ReadFloat32(filepath.Join(in("a"), "embeddings.npy"))
	if err != nil || !slices.Equal(shape, []int{2, 4, 5}) {
		t.Fatal(shape, err)
	}
	end, err := os.ReadFile(filepath.Join(in("a"), "weights.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	// The mean and deviation of colors come from the file or from flags.
	object(t, args("b", "--mean", "0.5,0.5,0.5", "--std", "0.25,0.25,0.25", "--arch", "small", "--rule", "cos/con/con")...)
	if same, err := os.ReadFile(filepath.Join(in("b"), "weights.safetensors")); err != nil || !bytes.Equal(same, end) {
		t.Error("other weights by the same colors", err)
	}
	object(t, args("c", "--mean", "0.1,0.5,0.5", "--rule", "euc/sig-ms/cos")...)
	if other, _, err := npy.ReadFloat32(filepath.Join(in("c"), "embeddings.npy")); err != nil ||
		slices.Equal(other, first) {
		t.Error("the same embeddings by other colors", err)
	}
	for want, bad := range map[string][]string{
		"want three":         args("x", "--mean", "1,2"),
		"deviations above 0": args("x", "--std", "1,0,2"),
		"want [K, B, H, H":   args("x", "--pixels", in("flat.npy")),
		"expected uint8":     args("x", "--pixels", in("l.npy")),
		"and not augmented":  args("x", "--augment", "flip"),
		"has proxies":        args("x", "--loss", "proxy-anchor"),
		"there are sgd":      args("x", "--optimizer", "lion"),
		"not a NumPy array":  args("x", "--labels", in("w")),
		"no triplet weight":  args("x", "--rule", "cos/con/none"),
		"not the weights of": args("x", "--arch", "resnet18"),
		"learning rate":      args("x", "--lr", "-1"),
	} {
		if code, _, stderr := invoke(t, bad...); !failed(code) || !strings.Contains(stderr, want) ||
			strings.Count(stderr, "dmlx: ") != 1 {
			t.Errorf("dmlx %s: code %d, %s; want %s", bad, code, stderr, want)
		}
	}
	// An input is not overwritten.
	start := filepath.Join(in("a"), "weights.safetensors")
	if code, _, stderr := invoke(t, args("a", "--weights", start)...); code != exitUsage ||
		!strings.Contains(stderr, "weights.safetensors is an input: want another file") {
		t.Errorf("over its own start: code %d, %s", code, stderr)
	}
	object(t, args("d", "--weights", start)...)
	if _, err := os.Stat(in("x")); err == nil {
		t.Error("a command that failed has left its folder")
	}
}
