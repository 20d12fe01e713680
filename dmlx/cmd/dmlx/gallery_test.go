package main

import (
	"math"
	"os"
	"path/filepath"
	"slices"
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
		"or --features Q": {"query", in("G")},
		"ends in .svg":    {"query", in("G"), photo, "--out", in("found.txt")},
		"is an input":     {"query", in("G"), photo, "--out", photo},
		"no such file":    {"query", in("G"), "--features", in("none.npy")},
		"nan.npy: row 0, column 1 is NaN": {"query", in("G"), "--features",
			write(t, in("nan.npy"), []float32{1, float32(math.NaN())}, 1, 2)},
		"by the network": {"query", in("G"), "--features", write(t, in("wide.npy"), []float32{1, 2}, 1, 2)},
		"be a folder":    {"index", "--features", write(t, in("X.npy"), []float32{1}, 1, 1), "--out", in("X.npy")},
		"want [N, F]":    {"index", "--features", write(t, in("cube.npy"), []float32{1, 2}, 1, 1, 2), "--out", in("H")},
		"none: no such file or directory: want a folder of JPEG": {"index", "--images", in("none"), "--out", in("H"),
			"--weights", "no weights either"},
		"gap or embedding": {"index", "--images", images, "--out", in("H"), "--weights", "pretrained", "--features", "x"},
	} {
		code, _, stderr := invoke(t, append([]string{"gallery"}, args...)...)
		if !failed(code) || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s; want %s", args, code, stderr, want)
		}
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

// Rows of a file are a gallery, as they are or embedded by a run's head, and are asked by rows.
func TestGalleryOfFeatures(t *testing.T) {
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
	asked := write(t, in("Q.npy"), values[5*9:5*11], 2, 5)
	nearest := func(v map[string]any) (rows []any) {
		for _, answer := range v["answers"].([]any) {
			rows = append(rows, answer.(map[string]any)["found"].([]any)[0].(map[string]any)["row"])
		}
		return rows
	}
	if v := object(t, "gallery", "index", "--features", x, "--out", in("G")); v["rows"] != 24. || v["dim"] != 5. {
		t.Errorf("%v", v)
	}
	v := object(t, "gallery", "query", in("G"), "--features", asked, "--k", "2")
	if got := nearest(v); !slices.Equal(got, []any{9., 10.}) {
		t.Errorf("%v", got)
	}
	// Its files are inputs, whatever the folder's name has of a pattern.
	object(t, "gallery", "index", "--features", x, "--out", in("G[1]"))
	if code, _, stderr := invoke(t, "gallery", "query", in("G[1]"), "--features", asked, "--out",
		in("G[1]/gallery.json")); !failed(code) || !strings.Contains(stderr, "is an input") {
		t.Errorf("a page over the index: %d %s", code, stderr)
	}
	// An index stays whole if the next one fails, and can be indexed itself.
	for _, bad := range []string{in("none.npy"), write(t, in("nan.npy"), []float32{1, float32(math.NaN())}, 1, 2)} {
		if code, _, stderr := invoke(t, "gallery", "index", "--features", bad, "--out", in("G")); !failed(code) {
			t.Errorf("%s: %d %s", bad, code, stderr)
		}
	}
	object(t, "gallery", "index", "--features", filepath.Join(in("G"), "rows.npy"), "--out", in("G"))
	if kept, err := os.ReadFile(filepath.Join(in("G"), "rows.names.txt")); err != nil || string(kept) != names {
		t.Errorf("%v %q", err, kept)
	}
	kept, _, err := npy.ReadInt64(filepath.Join(in("G"), "rows.labels.npy"))
	if err != nil || !slices.Equal(kept, labels) {
		t.Errorf("%v %v", err, kept)
	}
	// Names and labels of an index before are not those of the next one.
	object(t, "gallery", "index", "--features", asked, "--out", in("G"))
	left, err := filepath.Glob(in("G/*"))
	for i, path := range left {
		left[i] = filepath.Base(path)
	}
	if want := []string{"gallery.json", "rows.labels.npy.old-1", "rows.names.txt.old-1", "rows.npy"}; err != nil ||
		!slices.Equal(left, want) {
		t.Errorf("%v %q, want %q", err, left, want)
	}
	run := object(t, "train", "--store", in("store"), "--features", x, "--head", "linear?start=random", "--dim", "3",
		"--batch", "3x2", "--epochs", "1", "--set", "steps=2", "--lr", "0.1")["run"].(string)
	// Rows that a head embeds keep their names and labels.
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
	byHead := []string{"gallery", "index", "--store", in("store"), "--features", x, "--weights", run[:8], "--out", in("H")}
	for _, args := range [][]string{byHead, embed} {
		if code, _, stderr := invoke(t, args...); !failed(code) || !strings.Contains(stderr, "a label for each") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
	if err := os.Remove(in("X.labels.npy")); err != nil {
		t.Fatal(err)
	}
	if v := object(t, byHead...); v["dim"] != 3. {
		t.Errorf("%v", v)
	}
	v = object(t, "gallery", "query", "--store", in("store"), in("H"), "--features", asked)
	if got := nearest(v); !slices.Equal(got, []any{9., 10.}) {
		t.Errorf("%v", got)
	}
	code, _, stderr := invoke(t, "gallery", "query", "--store", in("other"), in("H"), "--features", asked)
	if !failed(code) || !strings.Contains(stderr, "is no file, and") {
		t.Errorf("%d %s", code, stderr)
	}
}
