package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

func TestDissect(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	degree := math.Pi / 180
	var values []float32
	for _, d := range []float64{0, 60, 90, 180} {
		values = append(values, float32(math.Cos(d*degree)), float32(math.Sin(d*degree)))
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(npy.WriteFloat32(file("e.npy"), values, 4, 2))
	must(npy.WriteInt64(file("l.npy"), []int64{0, 0, 1, 1}, 4))
	must(npy.WriteFloat32(file("p.npy"), values[2:6], 2, 2))
	must(npy.WriteInt64(file("c.npy"), []int64{0, 5}, 2))
	must(npy.WriteInt64(file("two.npy"), []int64{0, 1}, 2))
	batch := []string{"dissect", "--embeddings", file("e.npy"), "--labels", file("l.npy"), "--loss"}
	v := object(t, append(batch, "info-nce?temperature=1", "--matrix", file("m.npy"), "--pairs", file("p.csv"))...)
	anchors := v["anchors"].([]any)
	if len(anchors) != 4 || v["residual"].(float64) > 1e-6 || v["loss"] != "info-nce?temperature=1" {
		t.Errorf("%v", v)
	}
	// A softmax's rows sum to zero: the pair weights of each side sum to 1.
	first := anchors[0].(map[string]any)
	if p := first["pair_positive"].(float64); math.Abs(p-1) > 1e-5 || first["negatives"] != 2.0 {
		t.Errorf("%v", first)
	}
	// Row 0 has two triplets, with S_ap = ½ and S_an = 0 and −1; its T is their mean.
	share := (1 + math.Exp(-1)) / (1 + math.Exp(-1) + math.Exp(0.5))
	if w := first["triplet_weight"].(float64); math.Abs(w-share/4) > 1e-5 {
		t.Errorf("T is %g, want %g", w, share/4)
	}
	if _, shape, err := npy.ReadFloat32(file("m.npy")); err != nil || len(shape) != 2 || shape[0] != 4 {
		t.Errorf("M: %v, %v", shape, err)
	}
	if text, err := os.ReadFile(file("p.csv")); err != nil || strings.Count(string(text), "\n") != 13 {
		t.Errorf("pairs: %s, %v", text, err)
	}
	if v := object(t, append(batch, "proxy-anchor", "--proxies", file("p.npy"))...); v["proxies"] != 2.0 ||
		len(v["anchors"].([]any)) != 2 {
		t.Errorf("%v", v)
	}
	if code, out, _ := invoke(t, append(batch, "triplet", "--miner", "hard")...); code != 0 ||
		!strings.Contains(out, "residual of the gradient") {
		t.Errorf("%d %s", code, out)
	}
	if code, out, _ := invoke(t, "dissect", "--list"); code != 0 ||
		strings.Count(out, "PyTorch Metric Learning") != len(losses.Names()) {
		t.Errorf("%d %s", code, out)
	}
	if v := object(t, "dissect", "--list"); len(v["losses"].([]any)) != len(losses.Names()) {
		t.Errorf("%v", v)
	}
	for want, args := range map[string][]string{
		"want --loss":              {"dissect"},
		"none of that name":        append(batch, "circel"),
		"miner":                    append(batch, "triplet", "--miner", "hardest"),
		"has 1 proxies per class":  append(batch, "arcface"),
		"has no proxies":           append(batch, "ms", "--proxies", file("p.npy")),
		"class 1 of row 2":         append(batch, "arcface", "--proxies", file("p.npy"), "--classes", file("c.npy")),
		"10 proxies of each class": append(batch, "soft-triple", "--proxies", file("p.npy"), "--classes", file("two.npy")),
		"nowhere.npy":              append(batch, "arcface", "--proxies", file("nowhere.npy")),
	} {
		code, _, stderr := invoke(t, args...)
		last := stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:]
		if !failed(code) || !strings.Contains(last, want) {
			t.Errorf("%q: code %d, %s", want, code, stderr)
		}
	}
}

// A value that is not finite is said with its file and place.
func TestFiniteEmbeddings(t *testing.T) {
	dir := t.TempDir()
	e := write(t, filepath.Join(dir, "e.npy"), []float32{1, 2, 3, float32(math.Inf(1))}, 2, 2)
	l := filepath.Join(dir, "l.npy")
	if err := npy.WriteInt64(l, []int64{0, 1}, 2); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"recall"}, {"dissect", "--loss", "ms"}} {
		code, _, stderr := invoke(t, append(args, "--embeddings", e, "--labels", l)...)
		if code != 1 || !strings.Contains(stderr, e+": row 1, column 1 is +Inf: want finite values") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
}

// Rows too short to be normalized as in training are counted by commands that do; recall takes their
// directions.
func TestRowsWithoutDirection(t *testing.T) {
	dir := t.TempDir()
	e := write(t, filepath.Join(dir, "e.npy"), []float32{1e-13, 0, 0, 1e-11, 2, 0, 0, 3, 0, 0}, 5, 2)
	l := filepath.Join(dir, "l.npy")
	if err := npy.WriteInt64(l, []int64{0, 0, 1, 1, 1}, 5); err != nil {
		t.Fatal(err)
	}
	const short = "2 of 5 rows of %s are zero or shorter than 1e-12 and have no direction"
	for want, args := range map[string][]string{"1 of 5 rows of %s are zero and": {"recall"}, short: {"dissect", "--loss",
		"ms"}} {
		code, _, stderr := invoke(t, append(args, "--embeddings", e, "--labels", l)...)
		if code != 0 || !strings.Contains(stderr, fmt.Sprintf(want, e)) {
			t.Errorf("%v: %d %s; want %s", args, code, stderr, want)
		}
	}
}

// TestCourt compares all losses on drawn batches, and on one of files whose rows are in no order.
func TestCourt(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	v := object(t, "dissect", "--court")
	gradients := v["gradients"].([]any)
	if len(gradients) != len(v["batches"].([]any)) || len(gradients[0].([]any)) != len(losses.Names()) ||
		len(v["cosines"].([]any)) != len(losses.Names()) {
		t.Errorf("%v of %v", v["batches"], v["losses"])
	}
	dir := t.TempDir()
	picture := filepath.Join(dir, "court.svg")
	code, out, stderr := invoke(t, "dissect", "--court", "--map", picture)
	if code != 0 {
		t.Fatal(stderr)
	}
	if raw, err := os.ReadFile(picture); err != nil || !strings.Contains(string(raw), "lifted-general") {
		t.Errorf("the map: %.80q, %v", raw, err)
	}
	for _, want := range []string{"sincere has the gradient of info-nce under another name, 1 to 1 times",
		"half-trained", "After 40 steps of equal length from untrained, the variance within classes is",
		"On trained, sup-con pushes positives"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(out, "sincere pushes") || strings.Contains(out, "NaN") {
		t.Error(out)
	}
	e, l := filepath.Join(dir, "e.npy"), filepath.Join(dir, "l.npy")
	if err := npy.WriteFloat32(e, []float32{1, 0, 0, 1, 1, 1, -1, 2, 2, 0.5, 0.5, 3}, 6, 2); err != nil {
		t.Fatal(err)
	}
	if err := npy.WriteInt64(l, []int64{7, 2, 7, 2, 7, 2}, 6); err != nil {
		t.Fatal(err)
	}
	mined := object(t, "dissect", "--court", "--embeddings", e, "--labels", l, "--miner", "easy-positive")
	for _, row := range mined["gradients"].([]any)[0].([]any) {
		r := row.(map[string]any)
		if share := r["share_of_mined_triplet"].(float64); r["loss"] == "triplet" && math.Abs(share-1) > 1e-4 {
			t.Errorf("a loss on the triplets of rules: %v", r)
		}
	}
	long := filepath.Join(dir, "long.npy") // The same directions, 64 times as long.
	if err := npy.WriteFloat32(long, []float32{64, 0, 0, 64, 64, 64, -64, 128, 128, 32, 32, 192}, 6, 2); err != nil {
		t.Fatal(err)
	}
	of := object(t, "dissect", "--court", "--embeddings", long, "--labels", l, "--miner", "easy-positive")
	if !reflect.DeepEqual(of["gradients"], mined["gradients"]) {
		t.Errorf("other gradients for longer embeddings: %v, want %v", of["gradients"], mined["gradients"])
	}
	for want, args := range map[string][]string{
		"leave out --loss":        {"--loss", "ms"},
		"leave out --matrix":      {"--matrix", "m.npy"},
		"--labels L.npy together": {"--embeddings", e},
		"nowhere.npy":             {"--embeddings", e, "--labels", "nowhere.npy"},
		"did you mean":            {"--miner", "easy-positiv"},
		"that ends in .svg":       {"--map", "m.gif"},
	} {
		if code, _, stderr := invoke(t, append([]string{"dissect", "--court"}, args...)...); code == 0 ||
			!strings.Contains(stderr, want) {
			t.Errorf("%v: %d, %s; want %s", args, code, stderr, want)
		}
	}
}
