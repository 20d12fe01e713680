package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Low-rank matrices are counted before a training, and merged into what is exported after it.
func TestLowRankMatrices(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	net := filepath.Join("..", "..", "onnx", "testdata", "vit_tiny.onnx")
	if v := object(t, "weights", "info", net, "--lora", `qkv\.weight@q,v:2`); v["trained"] != 384. || v["tensors"] != 38. {
		t.Errorf("%v", v)
	}
	run := object(t, "train", "--store", in("store"), "--preset", "smoke", "--arch", net, "--data", "minishop",
		"--set", `lora=qkv\.weight@q,v:2`, "--lr", "0.01", "--set", "steps=2", "--epochs", "1")["run"].(string)
	out := in("merged.onnx")
	object(t, "weights", "onnx", run, "--store", in("store"), "--out", out)
	if v := object(t, "weights", "info", out); v["tensors"] != 30. {
		t.Errorf("the export has other weights than the network: %v", v)
	}
	convolutions := strings.Replace(net, "vit_tiny", "efficientnet_lite0", 1)
	for want, args := range map[string][]string{
		"did you mean that of blocks.0.attn.qkv.w": {"info", net, "--lora", `attn\.qvk\.weight:2`},
		"no weights of two axes":                   {"info", convolutions, "--lora", "conv:2"},
		"want a rank from 1 to 24":                 {"info", net, "--lora", "qkv:25"},
	} {
		code, _, stderr := invoke(t, append([]string{"weights"}, args...)...)
		if !failed(code) || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s; want %s", args, code, stderr, want)
		}
	}
}

// What a network of a file has learned is exported and embedded by the run's name while its file is there.
func TestTrainedNetwork(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	net, store := filepath.Join(dir, "net.onnx"), filepath.Join(dir, "store")
	raw, err := os.ReadFile(filepath.Join("..", "..", "onnx", "testdata", "vit_tiny.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(net, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	run := object(t, "train", "--store", store, "--preset", "smoke", "--arch", net, "--data", "minishop", "--set",
		"train_only=^norm", "--lr", "0.01", "--set", "steps=2", "--epochs", "1")["run"].(string)
	out := filepath.Join(dir, "trained.onnx")
	v := object(t, "weights", "onnx", run, "--store", store, "--out", out)
	if v["arch"] != "net.onnx" || v["crop"] != 32. {
		t.Errorf("%v", v)
	}
	images := filepath.Join(dir, "images")
	for i := range 3 {
		drawImage(t, filepath.Join(images, fmt.Sprintf("%d.png", i)), i)
	}
	for name, weights := range map[string]string{"run.npy": run, "file.npy": out} {
		object(t, "embed", "--store", store, "--weights", weights, "--images", images, "--out", filepath.Join(dir, name))
	}
	a, err := os.ReadFile(filepath.Join(dir, "run.npy"))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "file.npy")); err != nil || !bytes.Equal(a, b) {
		t.Errorf("embed of the run and of its file differ: %v", err)
	}
	moved := filepath.Join(dir, "moved.onnx")
	if err := os.Rename(net, moved); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"weights", "onnx", run}, {"embed", "--images", images, "--weights", run}} {
		args = append(args, "--store", store, "--out", filepath.Join(dir, "again"))
		code, _, stderr := invoke(t, args...)
		if !failed(code) || !strings.Contains(stderr, "trained from the network net.onnx") ||
			!strings.Contains(stderr, "(--arch)") {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
		object(t, append(args, "--arch", moved)...)
	}
}

// What a preset's file says of a pretrained network stands; without one its start is chosen, and its batch
// normalization stays as it is.
func TestStartOfPresets(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.toml")
	if err := os.WriteFile(file, []byte("from = \"smoke\"\ndim = 8\nsteps = 2\nepochs = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		preset, net string
		more        []string
		want        [3]any
	}{
		{file, "vit_tiny", nil, [3]any{8., nil, nil}},
		{"smoke", "vit_tiny", nil, [3]any{24., "chosen-training-1", nil}},
		{"smoke", "resnet18", nil, [3]any{12., "chosen-training-1", "all"}},
		{"smoke", "resnet18", []string{"--set", "freeze_bn="}, [3]any{12., "chosen-training-1", nil}},
	} {
		net := filepath.Join("..", "..", "onnx", "testdata", c.net+".onnx")
		spec := object(t, append([]string{"train", "--store", filepath.Join(dir, "store"), "--data", "minishop",
			"--preset", c.preset, "--arch", net}, c.more...)...)["spec"].(map[string]any)
		if got := [3]any{spec["dim"], spec["start"], spec["freeze_bn"]}; got != c.want {
			t.Errorf("%s, %s, %v: %v dimensions, start %v, frozen batch normalization %v; want %v", c.preset, c.net, c.more,
				got[0], got[1], got[2], c.want)
		}
	}
}
