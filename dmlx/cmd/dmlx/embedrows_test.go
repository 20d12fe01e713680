package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/npy"
)

func write(t *testing.T, path string, values []float32, shape ...int) string {
	t.Helper()
	if err := npy.WriteFloat32(path, values, shape...); err != nil {
		t.Fatal(err)
	}
	return path
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
	if code, _, stderr := invoke(t, embed...); !failed(code) || !strings.Contains(stderr, "want [24] for the 24 rows") {
		t.Errorf("%d %s", code, stderr)
	}
}
