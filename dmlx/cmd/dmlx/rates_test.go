package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := atWork(t)
	file := filepath.Join(t.TempDir(), "rates.toml")
	args := []string{"rates", "--preset", "smoke", "--store", store, "--rule", "cos/con/con", "--loss", "ms",
		"--lr", "0.2,0.1", "--seeds", "2", "--wider", "0", "--write", file}
	v := object(t, args...)
	choices := v["choices"].([]any)
	if len(choices) != 2 || len(choices[0].(map[string]any)["trials"].([]any)) != 2 {
		t.Fatalf("choices: %v", choices)
	}
	chosen := choices[0].(map[string]any)
	rate := chosen["trials"].([]any)[int(chosen["best"].(float64))].(map[string]any)["rate"].(float64)
	spec := object(t, "train", "--preset", file, "--store", store, "--rule", "cos/con/con")["spec"].(map[string]any)
	if spec["lr"] != rate || spec["held_out"] != nil {
		t.Errorf("rate %g: %v", rate, spec)
	}
	// The same run by train: a search by other programs takes what it measures.
	run := object(t, "train", "--preset", "smoke", "--store", store, "--rule", "cos/con/con", "--lr", "0.2", "--seeds",
		"2", "--held-out", "4")
	held := chosen["trials"].([]any)[1].(map[string]any)["held_out"].(map[string]any)["Mean"]
	if at := run["held_out_recall"].(map[string]any)["1"]; at != held || run["spec"].(map[string]any)["held_out"] != 4.0 {
		t.Errorf("train has %v, rates has %v", at, held)
	}
	own := tinyPreset(t, "")
	for want, args := range map[string][]string{
		"is an input":        {"--rule", "ours", "--lr", "0.1,0.2", "--preset", own, "--write", own},
		"want at least two":  {"--rule", "ours", "--lr", "0.1"},
		"no --rule":          {"--lr", "0.1,0.2"},
		"ends in .toml":      {"--rule", "ours", "--lr", "0.1,0.2", "--write", "rates.txt"},
		"want at least 1 an": {"--rule", "ours", "--lr", "0.1,0.2", "--held-out", "0"},
	} {
		code, _, stderr := invoke(t, append([]string{"rates", "--store", store}, args...)...)
		if code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%s: code %d, %s", args, code, stderr)
		}
	}
	args[len(args)-1] = filepath.Join(store, "none", "rates.toml")
	if code, _, stderr := invoke(t, args...); code != exitFailed || !strings.HasPrefix(stderr, "dmlx: "+args[len(args)-1]+
		" cannot be written") {
		t.Errorf("code %d, %s", code, stderr)
	}
}
