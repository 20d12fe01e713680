package main

import (
	"fmt"
	"os"
	"os/exec"
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
	// Two data sets × two seeds × (Table 2's directions + Table 3's pair weights, each with two directions, less the two
	// rules that the tables share).
	want := (4 + 2*6 - 2) * 4
	if runs := v["runs"].([]any); len(runs) != want {
		t.Fatalf("%d runs, want %d", len(runs), want)
	}
	script := v["script"].(string)
	for _, want := range []string{fmt.Sprintf("--array=0-%d%%3\"", want-1),
		"\"--partition=gpu\"\n#SBATCH \"--gres=gpu:1\"\n" +
			"#SBATCH \"--time=1:00:00\"\n#SBATCH \"--qos=low\"\n#SBATCH \"--mem=8G\"\n", "--requeue", store} {
		if !strings.Contains(script, want) {
			t.Errorf("%q is not in %s", want, script)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(store, ".slurm", "*")); len(left) > 0 {
		t.Errorf("a dry run wrote %v", left)
	}
	if code, _, err := invoke(t, args...); code != 1 ||
		!strings.Contains(err, "sbatch, a command of Slurm, is not on the PATH of this machine") {
		t.Errorf("%d %q", code, err)
	}
}

// With a Slurm the runs are submitted, and the command ends; with --wait it prints what came of it. The next submits
// nothing.
func TestTrainOnSlurm(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, in which job scripts are written")
	}
	store := atWork(t)
	bin := t.TempDir()
	sbatch := filepath.Join(bin, "sbatch") // It trains at once what it is sent, as task 0, if it is to wait for it.
	if err := os.WriteFile(sbatch, []byte("#!/bin/bash\necho Welcome\necho 4711\n"+
		"if [ \"$2\" = --wait ]; then SLURM_ARRAY_TASK_ID=0 bash >&2; fi\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	args := append(smallRun, "--store", store, "--on", "slurm")
	code, out, err := invoke(t, args...)
	if code != 0 || !strings.Contains(out, "submitted 1 runs as job 4711") || !strings.Contains(out, "squeue --job 4711") {
		t.Fatal(code, out, err)
	}
	if v := object(t, args...); v["job"] != "4711" || len(v["runs"].([]any)) != 1 || v["busy"] != 0.0 {
		t.Error(v)
	}
	if v := object(t, append(args, "--wait")...); len(v["runs"].([]any)) != 1 || v["job"] != nil {
		t.Error(v)
	}
	if err := os.Remove(sbatch); err != nil {
		t.Fatal(err)
	}
	if code, out, err := invoke(t, args...); code != 0 || !strings.Contains(out, "@1") {
		t.Error(code, out, err)
	}
}

// A task on several devices asks for as many GPUs.
func TestDevicesOnSlurm(t *testing.T) {
	store := atWork(t)
	withoutSlurm(t)
	args := []string{"reproduce", "table2", "--preset", "smoke", "--store", store, "--on", "slurm", "--dry-run",
		"--devices", "4"}
	if script := object(t, args...)["script"].(string); !strings.Contains(script, "--gres=gpu:4\"") {
		t.Error(script)
	}
	args[len(args)-1] = "3"
	if code, _, err := invoke(t, args...); !failed(code) || !strings.Contains(err, "use 1 or 2 devices") {
		t.Errorf("%d %q", code, err)
	}
}

func TestClusterFlags(t *testing.T) {
	store := atWork(t)
	for want, args := range map[string][]string{
		"add --on slurm":               {"--partition", "gpu"},
		"want slurm":                   {"--on", "lsf"},
		"--cached-only trains":         {"--on", "slurm", "--cached-only"},
		"--jobs is for":                {"--on", "slurm", "--jobs", "2"},
		"or leave out --out":           {"--on", "slurm", "--out", "x"},
		"or leave out --write-bundled": {"--on", "slurm", "--dry-run", "--write-bundled", "x.json"},
	} {
		if code, _, err := invoke(t, append([]string{"reproduce", "table2", "--store", store}, args...)...); !failed(code) ||
			!strings.Contains(err, want) {
			t.Errorf("%v: %d %q", args, code, err)
		}
	}
}
