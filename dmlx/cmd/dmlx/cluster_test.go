package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withoutSlurm hides the Slurm of this machine.
func withoutSlurm(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
}

func TestReproduceOnSlurmDryRun(t *testing.T) {
	store := atWork(t)
	withoutSlurm(t)
	args := []string{"reproduce", "table2", "table3", "--preset", "smoke", "--store", store, "--on", "slurm"}
	v := object(t, append(args, "--dry-run", "--partition", "gpu", "--gres", "gpu:1", "--time", "1:00:00",
		"--max-parallel", "3", "--sbatch=--qos=low", "--sbatch=--mem=8G")...)
	commands := v["commands"].([]any)
	runs := v["runs"].([]any)
	// Two data sets × two seeds × (Table 2's directions + Table 3's pair weights, each with two directions, less the two
	// rules that the tables share).
	want := (4 + 2*6 - 2) * 4
	if len(runs) != want || len(commands) != 1 {
		t.Fatalf("%d runs, want %d; %v", len(runs), want, commands)
	}
	for _, want := range []string{fmt.Sprintf("--array=0-%d%%3 ", want-1), "--partition=gpu --gres=gpu:1 " +
		"--time=1:00:00 --qos=low --mem=8G ", "--requeue", "--open-mode=append", "--signal=B:TERM@60"} {
		if !strings.Contains(commands[0].(string), want) {
			t.Errorf("%q is not in %s", want, commands[0])
		}
	}
	if script := v["script"].(string); !strings.Contains(script, "export GOMLX_BACKEND=go\n") ||
		!strings.Contains(script, store) {
		t.Error(script)
	}
	if left, _ := filepath.Glob(filepath.Join(store, ".slurm", "*")); len(left) > 0 {
		t.Errorf("a dry run wrote %v", left)
	}
	if code, _, err := invoke(t, args...); code != 1 ||
		!strings.Contains(err, "sbatch, a command of Slurm, is not on the PATH of this machine") {
		t.Errorf("%d %q", code, err)
	}
}

// A task on several devices asks for as many GPUs, and its job says so.
func TestDevicesOnSlurm(t *testing.T) {
	store := atWork(t)
	withoutSlurm(t)
	args := []string{"reproduce", "table2", "--preset", "smoke", "--store", store, "--on", "slurm", "--dry-run",
		"--devices", "4"}
	for gres, want := range map[string]string{"": "--gres=gpu:4 ", "gpu:h100:8": "--gres=gpu:h100:8 "} {
		v := object(t, append(args, "--gres", gres)...)
		if command := v["commands"].([]any)[0].(string); !strings.Contains(command, want) {
			t.Errorf("%q is not in %s", want, command)
		}
	}
	for _, gres := range []string{"gpu", "gpu:2", "gpu:h100:2", "license:9,gpu:h100"} {
		if code, _, err := invoke(t, append(args, "--gres", gres)...); !failed(code) || !strings.Contains(err, "want gpu:4") {
			t.Errorf("--gres %s: %d %q", gres, code, err)
		}
	}
	args[len(args)-1] = "3"
	if code, _, err := invoke(t, args...); !failed(code) || !strings.Contains(err, "use 1 or 2 devices") {
		t.Errorf("%d %q", code, err)
	}
}

func TestClusterFlags(t *testing.T) {
	store := atWork(t)
	for want, args := range map[string][]string{
		"add --on slurm":       {"--partition", "gpu"},
		"want slurm":           {"--on", "lsf"},
		"--cached-only trains": {"--on", "slurm", "--cached-only"},
		"--jobs is for":        {"--on", "slurm", "--jobs", "2"},
		"out --out":            {"--on", "slurm", "--dry-run", "--out", "x"},
		"out --write-bundled":  {"--on", "slurm", "--dry-run", "--write-bundled", "x.json"},
	} {
		if code, _, err := invoke(t, append([]string{"reproduce", "table2", "--store", store}, args...)...); !failed(code) ||
			!strings.Contains(err, want) {
			t.Errorf("%v: %d %q", args, code, err)
		}
	}
	if code, out, err := invoke(t, "runs", "queue", "--store", store); code != 0 ||
		!strings.Contains(out, "nothing is queued") {
		t.Errorf("%d %q %q", code, out, err)
	}
	if code, out, err := invoke(t, "runs", "cancel", "--store", store); code != 0 ||
		!strings.Contains(out, "canceled 0") {
		t.Errorf("%d %q %q", code, out, err)
	}
	if code, _, err := invoke(t, "runs", "cancel", "x", "--store", store); code != 1 ||
		!strings.Contains(err, `no submission "x"`) {
		t.Errorf("%d %q", code, err)
	}
	dir := filepath.Join(store, ".slurm", "x")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"runs", "queue"},
		{"runs", "make", "--manifest", filepath.Join(dir, "manifest.json")}} {
		if code, _, err := invoke(t, append(args, "--store", store)...); code != 1 || !strings.Contains(err, "is damaged") {
			t.Errorf("%v: %d %q", args, code, err)
		}
	}
}
