package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/npy"
)

// featureFiles writes features [classes · 5, 7] with labels, and returns the paths of both.
func featureFiles(t *testing.T, name string, classes, first int) (features, labels string) {
	t.Helper()
	dir := t.TempDir()
	features, labels = filepath.Join(dir, name+".npy"), filepath.Join(dir, name+"-labels.npy")
	var values []float32
	var of []int64
	for c := range classes {
		for i := range 5 {
			for j := range 7 {
				values = append(values, float32((first+c)>>j&1)+0.1*float32((i*j+c)%4))
			}
			of = append(of, int64(first+c))
		}
	}
	if err := npy.WriteFloat32(features, values, 5*classes, 7); err != nil {
		t.Fatal(err)
	}
	if err := npy.WriteInt64(labels, of, 5*classes); err != nil {
		t.Fatal(err)
	}
	return features, labels
}

// Frozen features, a head, several seeds, rules and losses: from the shell to the comparison.
func TestTrainHeads(t *testing.T) {
	store := atWork(t)
	x, l := featureFiles(t, "x", 8, 1)
	tx, tl := featureFiles(t, "tx", 6, 40)
	small := []string{"train", "--store", store, "--features", x, "--labels", l, "--batch", "4x3", "--epochs", "2",
		"--set", "steps=3", "--dim", "4"}
	args := func(more ...string) []string { return append(append([]string(nil), small...), more...) }

	const mlp = "mlp?hidden=6&start=random"
	one := object(t, args("--test-features", tx, "--test-labels", tl, "--head", mlp, "--seeds", "2")...)
	spec := one["spec"].(map[string]any)
	if spec["head"] != "mlp?hidden=6" || spec["data"] != x || spec["labels"] != l || spec["test_features"] != tx ||
		one["queries"] != 30. || one["recall"].(map[string]any)["1"] == nil {
		t.Errorf("one seed: %v", one)
	}
	all := object(t, args("--test-features", tx, "--test-labels", tl, "--head", mlp, "--seeds", "1-3",
		"--rule", "cos/con/con", "--loss", "proxy-anchor", "--set", "optimizer=adam")...)
	if all["trained"] != 6. {
		t.Errorf("trained %v, want 6", all["trained"])
	}
	// A seed trained beside others is the same run as one alone, and a copy of the files is the same data set.
	cx, cl := filepath.Join(t.TempDir(), "x.npy"), filepath.Join(t.TempDir(), "anything.npy")
	for from, to := range map[string]string{x: cx, l: cl} {
		values, shape, err := npy.ReadFloat32(from)
		if err != nil {
			t.Fatal(err)
		}
		if from == x {
			err = npy.WriteFloat32(to, values, shape...)
		} else {
			labels := make([]int64, len(values))
			for i, v := range values {
				labels[i] = int64(v)
			}
			err = npy.WriteInt64(to, labels, shape...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copied := small
	copied = append([]string(nil), copied...)
	copied[4], copied[6] = cx, cl
	again := object(t, append(copied, "--test-features", tx, "--test-labels", tl, "--head", mlp, "--seeds", "2")...)
	if again["run"] != one["run"] {
		t.Errorf("run %v for a copy of the files, was %v", again["run"], one["run"])
	}
	// Half of the classes are the test set without test files.
	half := object(t, args("--rule", "cos-orth/lin-ms/cir")...)
	if half["queries"] != 20. || half["run"] == one["run"] {
		t.Errorf("half of the classes: %v", half)
	}
	code, stdout, stderr := invoke(t, "runs", "compare", one["run"].(string), half["run"].(string), "--store", store)
	if code != 0 || !strings.Contains(stdout, "R@1") || !strings.Contains(stdout, "linear") {
		t.Errorf("compare: %d %s %s", code, stdout, stderr)
	}
	if code, stdout, stderr := invoke(t, "runs", "--store", store); code != 0 || !strings.Contains(stdout, "x.npy") {
		t.Errorf("runs: %d %s %s", code, stdout, stderr)
	}
	// The features themselves and their whitening are rows of every table, and each head is tested against them.
	for range 2 { // Trained, and cached.
		code, stdout, stderr := invoke(t, args("--rule", "cos/con/con", "--seeds", "1-2")...)
		for _, want := range []string{"\n features ", "\n whitened features ", "R@1 of whitened features", "start: "} {
			if code != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%d, want %q: %s %s", code, want, stdout, stderr)
			}
		}
		v := object(t, args("--rule", "cos/con/con", "--seeds", "1")...)
		if references := v["references"].([]any); len(references) != 2 || v["head"] == nil {
			t.Errorf("%v", v)
		}
		if code, stdout, stderr := invoke(t, "runs", "show", v["run"].(string), "--store", store); code != 0 ||
			!strings.Contains(stdout, "\nstart: ") {
			t.Errorf("show: %d %s %s", code, stdout, stderr)
		}
	}
	// The run's line promises neither the rate nor the steps of the preset, of which the head may use none.
	code, _, stderr = invoke(t, args("--rule", "cos/con/con", "--seeds", "1")...)
	if code != 0 || !strings.Contains(stderr, "steps chosen on held-out classes, at most 6 steps of 12 images") {
		t.Errorf("a chosen head: %d %s", code, stderr)
	}
	code, _, stderr = invoke(t, args("--lr", "0.1")...)
	if code != exitUsage || !strings.Contains(stderr, "start=random") {
		t.Errorf("a rate for a head that chooses one: %d %s", code, stderr)
	}
	random := object(t, args("--rule", "cos-orth/lin-ms/cir", "--head", "linear?start=random", "--lr", "0.1")...)
	if random["run"] == half["run"] || random["spec"].(map[string]any)["head"] != "linear" {
		t.Errorf("a random start: %v", random["spec"])
	}
}

// The default batch fits ten classes, of which five are tested on, with and without a choice and with classes held out.
func TestTrainHeadsOfFewClasses(t *testing.T) {
	store := atWork(t)
	x, l := featureFiles(t, "x", 10, 1)
	run := []string{"train", "--store", store, "--features", x, "--labels", l, "--rule", "cos/con/con", "--seeds", "1",
		"--epochs", "1"}
	for want, more := range map[string][]string{
		"2 5": nil, "5 5": {"--head", "linear?start=random"}, "3 5": {"--head", "linear?start=random", "--held-out", "2"},
	} {
		spec := object(t, append(slices.Clone(run), more...)...)["spec"].(map[string]any)
		if got := fmt.Sprint(spec["classes_per_batch"], " ", spec["images_per_class"]); got != want {
			t.Errorf("%v: a batch of %s, want %s", more, got, want)
		}
	}
}

// A head leaves: its embeddings of the test features are those of the run, here, in ONNX Runtime and in PyTorch.
func TestHeadsLeave(t *testing.T) {
	store := atWork(t)
	x, l := featureFiles(t, "x", 8, 1)
	tx, tl := featureFiles(t, "tx", 6, 40)
	smallWeights := filepath.Join("..", "..", "backbone", "testdata", "small.pth")
	in := func(name string) string { return filepath.Join(t.TempDir(), name) }
	for _, head := range []string{"linear", "mlp?hidden=6", "mlp?hidden=6&start=random"} {
		run := object(t, "train", "--store", store, "--features", x, "--labels", l, "--test-features", tx,
			"--test-labels", tl, "--batch", "4x3", "--epochs", "2", "--set", "steps=3", "--dim", "4", "--head", head, "--seeds",
			"1")["run"].(string)
		out, net := in("E.npy"), in("net.onnx")
		if v := object(t, "embed", "--store", store, "--features", tx, "--weights", run, "--out", out); v["rows"] != 30. {
			t.Errorf("%s: %v", head, v)
		}
		if v := object(t, "weights", "onnx", run, "--store", store, "--out", net); v["features"] != 7. || v["dim"] != 4. {
			t.Errorf("%s: %v", head, v)
		}
		embeddings := filepath.Join(store, run, "embeddings.npy")
		want, _, err := npy.ReadFloat32(embeddings)
		if err != nil {
			t.Fatal(err)
		}
		got, shape, err := npy.ReadFloat32(out)
		if err != nil || len(got) != len(want) || shape[1] != 4 {
			t.Fatal(shape, err)
		}
		for i := range got {
			if math.Abs(float64(got[i]-want[i])) > 1e-6 {
				t.Fatalf("%s: value %d is %g, the run's %g", head, i, got[i], want[i])
			}
		}
		if python := os.Getenv("DMLX_PYTHON"); python != "" {
			weights, err := filepath.Glob(filepath.Join(store, run, "checkpoint", "weights-*.safetensors"))
			if err != nil || len(weights) != 1 {
				t.Fatal(weights, err)
			}
			said, err := exec.Command(python, "testdata/head.py", tx, net, weights[0], embeddings).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", head, err, said)
			}
		}
		// Labels that are names stay names, beside the embeddings, too.
		header := "{'descr': '|S1', 'fortran_order': False, 'shape': (1,), }\n"
		text := fmt.Sprintf("\x93NUMPY\x01\x00%c\x00%sa", len(header), header)
		one := write(t, in("one.npy"), make([]float32, 7), 1, 7)
		if err := os.WriteFile(strings.Replace(one, ".npy", ".labels.npy", 1), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		object(t, "embed", "--store", store, "--features", one, "--weights", run, "--out", out)
		if raw, err := os.ReadFile(strings.Replace(out, ".npy", ".labels.npy", 1)); err != nil || string(raw) != text {
			t.Errorf("labels %q, %v", raw, err)
		}
		far := write(t, in("far.npy"), append(make([]float32, 6), 1e25), 1, 7)
		for want, args := range map[string][]string{
			"row 0, column 6 is 1e+25, and the standard deviation": {"embed", "--features", far, "--weights", run, "--out",
				in("F.npy")},
			"want [N, 7]":            {"embed", "--features", out, "--weights", run, "--out", in("F.npy")},
			"belongs to images":      {"embed", "--features", tx, "--weights", run, "--out", in("F.npy"), "--arch", "small"},
			"leave out --arch":       {"weights", "onnx", run, "--features", "gap", "--out", in("F.onnx")},
			"is no file, and":        {"embed", "--features", tx, "--weights", "none", "--out", in("F.npy")},
			"of a network on images": {"embed", "--features", tx, "--weights", smallWeights, "--out", in("F.npy")},
			"--images is missing":    {"embed", "--weights", smallWeights, "--out", in("F.npy")},
		} {
			code, _, stderr := invoke(t, append(args, "--store", store)...)
			if !failed(code) || !strings.Contains(stderr, want) {
				t.Errorf("%v: %d %s; want %s", args, code, stderr, want)
			}
		}
	}
}

// What features cannot be trained on is refused before work starts.
func TestTrainHeadsRefuses(t *testing.T) {
	store := atWork(t)
	x, l := featureFiles(t, "x", 8, 1)
	bad := func(values []float32, shape ...int) string {
		path := filepath.Join(t.TempDir(), "bad.npy")
		if err := npy.WriteFloat32(path, values, shape...); err != nil {
			t.Fatal(err)
		}
		return path
	}
	labels := func(values ...int64) string {
		path := filepath.Join(t.TempDir(), "labels.npy")
		if err := npy.WriteInt64(path, values, len(values)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	nan := float32(math.NaN())
	for _, c := range []struct {
		want string
		args []string
	}{
		{"needs --labels", []string{"--features", x}},
		{"none.npy: no such file", []string{"--features", "none.npy"}},
		{"none.npy: no such file", []string{"--features", x, "--labels", l, "--test-features", "none.npy"}},
		{"belongs to --features X.npy", []string{"--labels", l}},
		{"belongs to --features", []string{"--head", "mlp"}},
		{"belong together", []string{"--features", x, "--labels", l, "--test-features", x}},
		{"belongs to images", []string{"--features", x, "--labels", l, "--data", "minicar"}},
		{"belongs to images", []string{"--features", x, "--labels", l, "--arch", "small"}},
		{"belongs to images", []string{"--features", x, "--labels", l, "--set", "augment=none"}},
		{"there are linear and mlp", []string{"--features", x, "--labels", l, "--head", "tree"}},
		{"whole number", []string{"--features", x, "--labels", l, "--head", "mlp?hidden=-2"}},
		{"a label for each row", []string{"--features", x, "--labels", labels(1, 2, 3)}},
		{"expected int64", []string{"--features", x, "--labels", x}},
		{"no such file", []string{"--features", filepath.Join(store, "none.npy"), "--labels", l}},
		{"row 1, column 0 is NaN", []string{"--features", bad([]float32{1, 2, nan, 4}, 2, 2), "--labels", labels(1, 2)}},
		{"want [N, F]", []string{"--features", bad(nil, 0, 3), "--labels", labels()}},
		{"want [N, F]", []string{"--features", bad([]float32{1, 2}, 2), "--labels", labels(1, 2)}},
		{"there are 1 classes", []string{"--features", bad([]float32{1, 2}, 2, 1), "--labels", labels(1, 1)}},
		{"of one class", []string{"--features", bad([]float32{1, 2}, 2, 1), "--labels", labels(1, 1), "--test-features",
			bad([]float32{1, 2}, 2, 1), "--test-labels", labels(1, 1)}},
		{"no test sample has another", []string{"--features", bad([]float32{1, 2, 3, 4}, 4, 1),
			"--labels", labels(1, 1, 2, 2), "--test-features", bad([]float32{1, 2}, 2, 1), "--test-labels", labels(1, 2)}},
		{"features that differ", []string{"--features", bad(make([]float32, 8), 8, 1), "--labels",
			labels(1, 1, 2, 2, 3, 3, 4, 4)}},
		{"as many training classes, there are 4", []string{"--features", x, "--labels", l, "--batch", "8x4"}},
	} {
		code, stdout, stderr := invoke(t, append([]string{"train", "--store", store}, c.args...)...)
		if !failed(code) || stdout != "" || !strings.Contains(stderr, c.want) || strings.Contains(stderr, "backend") {
			t.Errorf("%v: code %d, %q, %q; want …%s…", c.args, code, stdout, stderr, c.want)
		}
	}
	if code, stdout, _ := invoke(t, "runs", "--store", store); code != 0 || strings.Contains(stdout, "x.npy") {
		t.Errorf("a run was begun: %d %s", code, fmt.Sprint(stdout))
	}
}
