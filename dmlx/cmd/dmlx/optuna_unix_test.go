//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Two processes share a search. Killed and started again they finish it, and no trial is trained beyond what was asked
// for but those that each of them had begun.
func TestOptuna(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	python := os.Getenv("DMLX_PYTHON")
	if python == "" || exec.Command(python, "-c", "import optuna").Run() != nil {
		t.Skip("set DMLX_PYTHON to a Python with optuna")
	}
	code, script, stderr := invoke(t, "help", "optuna")
	if code != 0 || strings.Count(script, "\n") > 60 {
		t.Fatalf("code %d, %d lines: %s", code, strings.Count(script, "\n"), stderr)
	}
	dir := t.TempDir()
	script = strings.Replace(script, "EPOCHS = [8, 24]", "EPOCHS = [1, 2]", 1)
	if err := os.WriteFile(filepath.Join(dir, "tune.py"), []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "dmlx")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	start := func(out io.Writer) *exec.Cmd {
		cmd := exec.Command(python, "tune.py", "8", "--preset", "smoke", "--data", "minicar")
		cmd.Dir, cmd.Stdout, cmd.Stderr = dir, out, out
		cmd.Env = append(os.Environ(), "DMLX="+binary, "DMLX_STORE="+filepath.Join(dir, "runs"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // The training is killed with it.
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	first, second := start(nil), start(nil)
	for range 600 { // Until both have trained something.
		if runs, _ := filepath.Glob(filepath.Join(dir, "runs", "*", "result.json")); len(runs) >= 3 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, cmd := range []*exec.Cmd{first, second} {
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
	}
	var outs [2]bytes.Buffer
	first, second = start(&outs[0]), start(&outs[1])
	for i, cmd := range []*exec.Cmd{first, second} {
		if err := cmd.Wait(); err != nil || !strings.Contains(outs[i].String(), "held-out Recall@1 ") {
			t.Errorf("%v\n%s", err, outs[i].String())
		}
	}
	count, err := exec.Command(python, "-c", `
import optuna
trials = optuna.load_study(study_name=None, storage="sqlite:///`+filepath.Join(dir, "tune.db")+`").trials
ended = [t for t in trials if t.state.name in ("COMPLETE", "PRUNED")]
print(8 <= len(ended) <= 9 and all(t.user_attrs["train"] for t in ended))`).Output()
	if err != nil || !strings.HasSuffix(string(count), "True\n") {
		t.Errorf("%v: %s", err, count)
	}
}
