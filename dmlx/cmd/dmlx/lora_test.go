package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Low-rank matrices are counted before a training, and exported after it.
func TestLowRankMatrices(t *testing.T) {
	atWork(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	net := filepath.Join("..", "..", "onnx", "testdata", "vit_tiny.onnx")
	if v := object(t, "weights", "info", net, "--lora", `qkv\.weight@q,v:2`); v["trained"] != 384. || v["tensors"] != 38. {
		t.Errorf("%v", v)
	}
	run := object(t, "train", "--store", in("store"), "--preset", "smoke", "--arch", net, "--data", "minishop",
		"--lora", `qkv\.weight@q,v:2`, "--lr", "0.01", "--steps", "2", "--epochs", "1")["run"].(string)
	object(t, "weights", "peft", "--store", in("store"), run, "--out", in("adapter"))
	config, err := os.ReadFile(in("adapter/adapter_config.json"))
	if err != nil || !strings.Contains(string(config), `"r": 4`) ||
		!strings.Contains(string(config), "blocks.1.attn.qkv") {
		t.Errorf("%v %s", err, config)
	}
	adapter := in("adapter/adapter_model.safetensors")
	small := filepath.Join("..", "..", "backbone", "testdata", "small.pth")
	for want, args := range map[string][]string{
		"did you mean that of blocks.0.attn.qkv.w": {"info", net, "--lora", `attn\.qvk\.weight:2`},
		"want a rank from 1 to 24":                 {"info", net, "--lora", "qkv:25"},
		"is no file, and":                          {"peft", in("none"), "--out", in("A")},
		"no low-rank matrices":                     {"peft", adapter, "--out", in("A")},
		"not a safetensors file":                   {"peft", small, "--out", in("A")},
		"--out is empty":                           {"peft", adapter, "--out", ""},
		"not a directory":                          {"peft", "--store", in("store"), run, "--out", adapter},
	} {
		code, _, stderr := invoke(t, append([]string{"weights"}, args...)...)
		if !failed(code) || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s; want %s", args, code, stderr, want)
		}
	}
	if _, err := os.Stat(in("A")); err == nil {
		t.Error("an export that fails leaves a folder")
	}
}
