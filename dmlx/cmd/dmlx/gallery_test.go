package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

func write(t *testing.T, path string, values []float32, shape ...int) string {
	t.Helper()
	if err := npy.WriteFloat32(path, values, shape...); err != nil {
		t.Fatal(err)
	}
	return path
}

// From a folder of images to the nearest of a photograph: two commands, and a page.
func TestGallery(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	images := in("photos")
	drawn := []string{"a/0.png", "a/1.png", "b/0.png", "b/1.png"}
	for i, name := range drawn {
		drawImage(t, filepath.Join(images, name), i)
	}
	if err := os.WriteFile(filepath.Join(images, "a", "bad.png"), []byte("no image"), 0o644); err != nil {
		t.Fatal(err)
	}
	network := []string{"--arch", "small", "--weights", "pretrained", "--features", "gap"}
	index := append([]string{"gallery", "index", "--images", images, "--out", in("G")}, network...)
	if v := object(t, index...); v["images"] != 4. || v["skipped"] != 1. {
		t.Errorf("%v", v)
	}
	photo := filepath.Join(images, "b", "0.png")
	v := object(t, "gallery", "query", in("G"), photo, "--k", "3", "--out", in("found.png"))
	found := v["answers"].([]any)[0].(map[string]any)["found"].([]any)
	first := found[0].(map[string]any)
	if len(found) != 3 || first["path"] != photo || first["similarity"].(float64) < 0.99999 {
		t.Errorf("%v", found)
	}
	if drawn, err := datasets.ReadImage(in("found.png")); err != nil || drawn.Width < 4*96 || drawn.Height < 96 {
		t.Errorf("%v %v", err, drawn)
	}
	// A gallery and its images can be moved together, and hold no path of the machine.
	raw, err := os.ReadFile(filepath.Join(in("G"), "gallery.json"))
	if err != nil || strings.Contains(string(raw), dir) || !strings.Contains(string(raw), `"../photos"`) {
		t.Errorf("%v %s", err, raw)
	}
	if err := os.Mkdir(in("moved"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"G", "photos"} {
		if err := os.Rename(in(name), filepath.Join(in("moved"), name)); err != nil {
			t.Fatal(err)
		}
	}
	dir = in("moved")
	images, photo = in("photos"), in("photos/b/0.png")
	v = object(t, "gallery", "query", in("G"), photo, "--k", "1")
	if v["answers"].([]any)[0].(map[string]any)["found"].([]any)[0].(map[string]any)["path"] != photo {
		t.Errorf("moved: %v", v)
	}
	text := filepath.Join(images, "a", "bad.png")
	for want, args := range map[string][]string{
		"want the folder": {"query", in("none"), photo},
		"at least 1":      {"query", in("G"), photo, "--k", "0"},
		"neither a JPEG":  {"query", in("G"), text},
		"at least 2 arg":  {"query", in("G")},
		"ends in .svg":    {"query", in("G"), photo, "--out", in("found.txt")},
		"is an input":     {"query", in("G"), photo, "--out", photo},
		"be a folder": {"index", "--images", images, "--weights", "pretrained", "--out",
			write(t, in("X.npy"), []float32{1}, 1, 1)},
		"FAISS": {"index", "--images", images, "--weights", "pretrained", "--features", in("X.npy"),
			"--out", in("H")},
		"none: no such file or directory: want a folder of JPEG": {"index", "--images", in("none"), "--out", in("H"),
			"--weights", "no weights either"},
		"gap or embedding": {"index", "--images", images, "--out", in("H"), "--weights", "pretrained", "--features", "x"},
	} {
		code, _, stderr := invoke(t, append([]string{"gallery"}, args...)...)
		if !failed(code) || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s; want %s", args, code, stderr, want)
		}
	}
	// An index stays whole if the next one fails.
	before, err := os.ReadFile(filepath.Join(in("G"), "rows.names.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(in("empty"), 0o755); err != nil {
		t.Fatal(err)
	}
	invoke(t, "gallery", "index", "--images", in("empty"), "--weights", "pretrained", "--out", in("G"))
	if kept, err := os.ReadFile(filepath.Join(in("G"), "rows.names.txt")); err != nil || string(kept) != string(before) {
		t.Errorf("%v %q", err, kept)
	}
	// An index may come from somebody else.
	for what, text := range map[string]string{"cut off": "{", "long": "[" + strings.Repeat("{},", 1<<19) + "{}]"} {
		if err := os.WriteFile(filepath.Join(in("G"), "gallery.json"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := invoke(t, "gallery", "query", in("G"), photo); !failed(code) || len(stderr) > 1000 {
			t.Errorf("%s: %d %s", what, code, stderr)
		}
	}
}

// Rows that a head embeds keep their names and labels.
func TestEmbedRowsByAHead(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	values, labels := make([]float32, 24*5), make([]int64, 24)
	for i := range 24 {
		labels[i] = int64(i / 4)
		for j := range 5 {
			values[5*i+j] = float32(math.Sin(float64(7*(i/4)+3*j))) + 0.1*float32(math.Sin(float64(5*i+j)))
		}
	}
	x := write(t, in("X.npy"), values, 24, 5)
	if err := npy.WriteInt64(in("X.labels.npy"), labels, 24); err != nil {
		t.Fatal(err)
	}
	names := strings.Repeat("a row\n", 23) + "the last\n"
	if err := os.WriteFile(in("X.names.txt"), []byte(names), 0o644); err != nil {
		t.Fatal(err)
	}
	run := object(t, "train", "--store", in("store"), "--features", x, "--head", "linear?start=random", "--dim", "3",
		"--batch", "3x2", "--epochs", "1", "--set", "steps=2", "--lr", "0.1")["run"].(string)
	embed := []string{"embed", "--store", in("store"), "--features", x, "--weights", run, "--out", in("E.npy")}
	object(t, embed...)
	if kept, err := os.ReadFile(in("E.names.txt")); err != nil || string(kept) != names {
		t.Errorf("%v %q", err, kept)
	}
	if v := object(t, "recall", "--embeddings", in("E.npy")); v["queries"] != 24. || v["lone_queries"] != 0. {
		t.Errorf("%v", v)
	}
	if err := npy.WriteInt64(in("X.labels.npy"), labels[1:], 23); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := invoke(t, embed...); !failed(code) || !strings.Contains(stderr, "a label for each") {
		t.Errorf("%d %s", code, stderr)
	}
}
