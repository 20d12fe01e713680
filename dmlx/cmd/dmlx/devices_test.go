package main

import (
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// The commands that take --devices give on several devices what they give on one, and say on how many.
func TestCommandsOnDevices(t *testing.T) {
	if backendtest.OnDevices(t, 4, "--xla_backend_optimization_level=0") == nil {
		return
	}
	store := atWork(t)
	t.Setenv("GOMLX_BACKEND", "xla:cpu")
	dir := t.TempDir()
	weights, images := filepath.Join(dir, "w.safetensors"), filepath.Join(dir, "images")
	network := model.NewStore()
	if err := backbone.Init(network, backbone.Small, 5, 1); err != nil {
		t.Fatal(err)
	}
	saveWeights(t, weights, network, nil)
	if err := os.Mkdir(images, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		img := image.NewGray(image.Rect(0, 0, 20+i, 30))
		for k := range img.Pix {
			img.Pix[k] = uint8(k * (i + 3))
		}
		file, err := os.Create(filepath.Join(images, fmt.Sprint(i, ".png")))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(png.Encode(file, img), file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	embed := func(devices string) []float32 {
		t.Helper()
		out := filepath.Join(dir, "f"+devices+".npy")
		object(t, "embed", "--arch", "small", "--weights", weights, "--images", images, "--out", out, "--resize", "24",
			"--crop", "16", "--devices", devices)
		values, _, err := npy.ReadFloat32(out)
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	one, many := embed("1"), embed("all")
	for i := range one {
		if math.Abs(float64(one[i]-many[i])) > 1e-5 || len(one) != 5*5 || len(many) != len(one) {
			t.Fatalf("embeddings on one device %v, on all %v", one, many)
		}
	}
	labels := filepath.Join(dir, "l.npy")
	if err := npy.WriteInt64(labels, []int64{1, 2, 1, 2, 1}, 5); err != nil {
		t.Fatal(err)
	}
	recall := func(devices string) any {
		return object(t, "recall", "--embeddings", filepath.Join(dir, "f1.npy"), "--labels", labels, "--devices", devices)
	}
	if one, three := recall("1"), recall("3"); !reflect.DeepEqual(one, three) {
		t.Errorf("recall on one device %v, on three %v", one, three)
	}
	train := []string{"train", "--preset", "smoke", "--store", store, "--epochs", "1", "--set", "steps=1", "--devices"}
	if v := object(t, append(train, "2")...); !slices.Equal(v["devices"].([]any), []any{2.0}) {
		t.Errorf("the result has devices %v", v["devices"])
	}
	if code, out, _ := invoke(t, append(train, "2")...); code != 0 || !strings.Contains(out, "xla:cpu on 2 devices") {
		t.Errorf("%d %q", code, out)
	}
	for devices, want := range map[string]string{
		"8": "8 devices: the backend xla:cpu has 4; use at most 4, or all", "3": "use 1 or 2 devices",
		"0": "from 1 on, or all", "-1": "from 1 on, or all", "x": "from 1 on, or all",
	} {
		if code, _, err := invoke(t, append(train, devices, "--seeds", "2")...); code != 2 || !strings.Contains(err, want) {
			t.Errorf("--devices %s: %d %q, want %q", devices, code, err, want)
		}
	}
	t.Setenv("GOMLX_BACKEND", "go")
	if code, _, err := invoke(t, append(train, "2", "--seeds", "2")...); code != 2 ||
		!strings.Contains(err, "the backend go has one") {
		t.Errorf("%d %q", code, err)
	}
}
