package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/npy"
)

// atWork gives a command an empty store and cache and the Go backend.
func atWork(t *testing.T) (store string) {
	t.Setenv("GOMLX_BACKEND", "go")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return t.TempDir()
}

// object reads the one JSON object of a command's standard output.
func object(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, stdout, stderr := invoke(t, append(args, "--json")...)
	if code != 0 {
		t.Fatalf("dmlx %s: code %d, %s", args, code, stderr)
	}
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(stdout))
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("dmlx %s: not one object: %v\n%s", args, err, stdout)
	}
	return v
}

var smallRun = []string{"train", "--preset", "smoke", "--set", "size=16", "--weights", "random", "--batch", "2x2",
	"--set", "steps=2", "--dim", "8"}

// Training for less time than XLA compiles is left to the Go backend.
func TestTrainLight(t *testing.T) {
	train := append(smallRun, "--store", atWork(t))
	t.Setenv("GOMLX_BACKEND", "")
	if _, err := os.Stat("/proc/driver/nvidia"); err == nil {
		t.Skip("a machine with a GPU uses it")
	}
	code, out, stderr := invoke(t, train...)
	if code != 0 || !strings.Contains(out, "backend go") || strings.Count(stderr, "backend") != 1 {
		t.Errorf("%d %q %q", code, out, stderr)
	}
}

func TestTrainRunsAndRecall(t *testing.T) {
	store := atWork(t)
	train := append(smallRun, "--store", store)
	v := object(t, append(train, "--rule", "cos-orth/lin-ms/cir")...)
	dir := v["dir"].(string)
	recall := v["recall"].(map[string]any)
	if filepath.Base(dir) != v["run"] || filepath.Dir(dir) != store || recall["1"] == nil || recall["8"] == nil {
		t.Errorf("train: %v", v)
	}
	for _, name := range []string{"spec.json", "metrics.jsonl", "result.json", "embeddings.npy", "labels.npy"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	code, stdout, stderr := invoke(t, append(train, "--rule", "ours")...) // The same rule.
	if code != 0 || !strings.Contains(stdout, "Recall@1 ") || !strings.Contains(stdout, "MAP@R") ||
		!strings.Contains(stdout, dir) {
		t.Errorf("again: %d %q %q", code, stdout, stderr)
	}
	other := object(t, append(train, "--rule", "euc/con/con", "--lr", "0.01")...)

	// The files of a run give the run's recall.
	r := object(t, "recall", "--embeddings", filepath.Join(dir, "embeddings.npy"), "--labels",
		filepath.Join(dir, "labels.npy"), "--k", "1,8")
	if got := r["recall"].(map[string]any); got["1"] != recall["1"] || got["8"] != recall["8"] ||
		r["map_at_r"] != v["map_at_r"] || r["lone_queries"] != 0. {
		t.Errorf("recall: %v, train: %v", r, v)
	}

	hash, second := v["run"].(string), other["run"].(string)
	if runs := object(t, "runs", "--store", store)["runs"].([]any); len(runs) != 2 {
		t.Errorf("runs: %v", runs)
	}
	if show := object(t, "runs", "show", hash[:6], "--store", store); show["run"] != hash ||
		len(show["epochs"].([]any)) != 2 {
		t.Errorf("show: %v", show)
	}
	code, stdout, stderr = invoke(t, "runs", "compare", hash, second, "--store", store)
	if code != 0 || !strings.Contains(stdout, "euc/con/con") || !strings.Contains(stdout, "R@1") ||
		strings.Contains(stdout, "padding") {
		t.Errorf("compare: %d %s %s", code, stdout, stderr)
	}
	object(t, "runs", "remove", second, "--store", store)
	code, stdout, _ = invoke(t, "runs", "list", "--store", store)
	if code != 0 || strings.Contains(stdout, second) || !strings.Contains(stdout, hash) {
		t.Errorf("list: %s", stdout)
	}
}

// interrupter stops the command when it writes a certain text.
type interrupter struct {
	bytes.Buffer
	at   string
	stop func()
}

func (i *interrupter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(i.at)) {
		i.stop()
	}
	return i.Buffer.Write(p)
}

func TestInterruptedTrainingGoesOn(t *testing.T) {
	store := atWork(t)
	args := append(smallRun, "--store", store)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout bytes.Buffer
	stderr := &interrupter{at: "epoch ", stop: cancel}
	if code := run(ctx, args, &stdout, stderr); code != 130 || stdout.Len() > 0 ||
		!strings.HasSuffix(stderr.String(), "resumes from there\n") {
		t.Errorf("interrupted: code %d, %q, %q", code, stdout.String(), stderr.String())
	}
	if v := object(t, args...); v["recall"] == nil {
		t.Errorf("gone on: %v", v)
	}
}

func TestRecallOfAGallery(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		npy.WriteFloat32(file("q.npy"), []float32{1, 0, 0, 2, 1, 1}, 3, 2), npy.WriteInt64(file("ql.npy"), []int64{1, 2, 9},
			3),
		npy.WriteFloat32(file("g.npy"), []float32{1, 0.1, 0.1, 1}, 2, 2), npy.WriteInt64(file("gl.npy"), []int64{1, 1}, 2),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"recall", "--embeddings", file("q.npy"), "--labels", file("ql.npy")}
	r := object(t, append(args, "--k", "1,2", "--gallery-embeddings", file("g.npy"), "--gallery-labels",
		file("gl.npy"))...)
	if fmt.Sprint(r["recall"], r["map_at_r"], r["r_precision"], r["lone_queries"]) != "map[1:1 2:1] 1 1 2" {
		t.Errorf("%v", r)
	}
	if r := object(t, append(args, "--gallery-embeddings", file("g.npy"), "--gallery-labels",
		file("gl.npy"))...); fmt.Sprint(r["recall"]) != "map[1:1 2:1]" {
		t.Errorf("of fewer than eight, by default: %v", r)
	}
	if code, _, stderr := invoke(t, "train", "--epochs=-3", "--store", dir); code != exitUsage ||
		strings.Count(stderr, "\n") != 1 {
		t.Errorf("no epochs: %d %q", code, stderr)
	}
	for want, bad := range map[string][]string{
		"needs both":                   append(args, "--gallery-labels", file("gl.npy")),
		"want [3]":                     {"recall", "--embeddings", file("q.npy"), "--labels", file("gl.npy")},
		"want [N, D]":                  {"recall", "--embeddings", file("ql.npy"), "--labels", file("ql.npy")},
		"no such file":                 {"recall", "--embeddings", file("none.npy"), "--labels", file("ql.npy")},
		"must lie in 1…2":              append(args, "--k", "3"),
		"required flag":                {"recall", "--labels", file("ql.npy")},
		"no run":                       {"runs", "show", "000000000000", "--store", dir},
		"minicar, minishop":            {"train", "--data", "birds"},
		"cos-orth":                     {"train", "--rule", "sine/con/con"},
		"smoke, quick, full":           {"train", "--preset", "huge"},
		"small, resnet18":              {"train", "--arch", "vgg"},
		"as in 8x8":                    {"train", "--batch", "8x"},
		"learning rate":                {"train", "--lr", "-1"},
		"table2, table3":               {"reproduce", "table99"},
		"no class has the 99":          {"train", "--preset", "smoke", "--batch", "2x99", "--store", dir},
		"no such file; use pretrained": {"train", "--weights", file("none")},
		"figure2.ipynb":                {"reproduce", "figure2"},
		"epochs: 0":                    {"train", "--data", file("none"), "--epochs", "0"}, // Checked before the folder.
		"M.npy cannot be": {"dissect", "--loss", "ms", "--embeddings", file("q.npy"), "--labels", file("ql.npy"),
			"--matrix", file("none/M.npy")},
		"P.csv cannot be": {"dissect", "--loss", "ms", "--embeddings", file("q.npy"), "--labels", file("ql.npy"),
			"--pairs", file("none/P.csv")},
		"run store cannot": {"train", "--preset", "smoke", "--store", file("q.npy")},
	} {
		code, stdout, stderr := invoke(t, bad...)
		last := stderr[strings.LastIndex(strings.TrimSuffix(stderr, "\n"), "\n")+1:]
		if !failed(code) || stdout != "" || !strings.Contains(last, want) || !strings.HasPrefix(last, "dmlx: ") {
			t.Errorf("dmlx %s: code %d, stdout %q, stderr %q; want …%s…", bad, code, stdout, stderr, want)
		}
	}
}

func TestTrainByLoss(t *testing.T) {
	store := atWork(t)
	train := append(smallRun, "--store", store)
	v := object(t, append(train, "--loss", "proxy-anchor?alpha=32&delta=0.2, pair=lin-ms", "--set",
		"proxy_lr=0.25")...)
	spec := v["spec"].(map[string]any)
	if spec["loss"] != "proxy-anchor?delta=0.2" || spec["exchange"] != "pair=lin-ms" || spec["proxy_lr"] != 0.25 ||
		spec["rule"] != "" {
		t.Errorf("spec: %v", spec)
	}
	object(t, append(train, "--loss", "ms, miner ms")...)
	code, stdout, stderr := invoke(t, "runs", "--store", store)
	if code != 0 || !strings.Contains(stdout, "loss proxy-anchor?delta=0.2, pair=lin-ms") ||
		!strings.Contains(stdout, "loss ms, miner ms") {
		t.Errorf("runs: %d %s %s", code, stdout, stderr)
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"there is none of that name", []string{"--loss", "nonsense"}},
		{"there is none of that name", []string{"--loss", "ms, miner nonsense"}},
		{"no pair weight", []string{"--loss", "ms, pair=nonsense"}},
		{"has no proxies", []string{"--loss", "ms", "--set", "proxy_lr=1"}},
		{"want a positive number", []string{"--loss", "proxy-nca", "--set", "proxy_lr=-1"}},
	} {
		if code, _, stderr := invoke(t, append(train, c.args...)...); code == 0 || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: code %d, %s, want %s", c.args, code, stderr, c.want)
		}
	}
}

// The images of a folder are decoded before the run has a name. The decoding shows its progress and can be interrupted;
// a warning about images that are left out is printed once. None is decoded for a store that cannot be one.
func TestTrainOnFolder(t *testing.T) {
	store, dir := atWork(t), t.TempDir()
	t.Setenv("DMLX_CACHE", t.TempDir())
	for class := range 4 {
		for i := range 3 {
			im := image.NewGray(image.Rect(0, 0, 24, 20))
			for k := range im.Pix {
				im.Pix[k] = uint8(50*class + (k*(i+3))%31)
			}
			path := filepath.Join(dir, fmt.Sprint("class-", class), fmt.Sprint(i, ".png"))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), writePNG(path, im)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "nothing"), 0o755); err != nil {
		t.Fatal(err)
	}
	args := append(smallRun, "--store", store, "--data", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &interrupter{at: "images decoded", stop: cancel}
	if code := run(ctx, args, &bytes.Buffer{}, stderr); code != 130 ||
		!strings.HasSuffix(stderr.String(), "the next call decodes all of them again\n") ||
		!strings.Contains(stderr.String(), "of 12 images decoded") {
		t.Errorf("interrupted: code %d, %q", code, stderr.String())
	}
	code, _, said := invoke(t, append(args, "--store", filepath.Join(dir, "class-0", "0.png"))...)
	if !failed(code) || !strings.Contains(said, "store cannot be created") || strings.Contains(said, "left out") {
		t.Errorf("a file as store: code %d, %s", code, said)
	}
	code, stdout, said := invoke(t, args...)
	if code != 0 || !strings.Contains(stdout, "Recall@1") ||
		strings.Count(said, "left out, without images: nothing") != 1 {
		t.Errorf("code %d, %s, %s", code, stdout, said)
	}
}

func writePNG(path string, im image.Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(png.Encode(f, im), f.Close())
}
