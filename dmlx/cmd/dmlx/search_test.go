package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// searchEnv is the environment variable with the arguments of TestSearchProcess.
const searchEnv = "DMLX_TEST_SEARCH"

var smallSearch = []string{"search", "--preset", "smoke", "--trials", "2", "--bracket", "2", "--param", "direction",
	"--param", "lr=0.05..0.5", "--reference", "none"}

// trialsOf returns a search's history without the seconds.
func trialsOf(t *testing.T, store string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(store, "searches", "smoke-minicar", "trials.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`,"seconds":[0-9.e+-]*`).ReplaceAllString(string(raw), "")
}

func TestSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := atWork(t)
	v := object(t, append(smallSearch, "--store", store)...)
	parts := v["parts"].(map[string]any)
	if text := parts["outcome"].(string); !strings.Contains(text, "searched") || !strings.Contains(text, "±") {
		t.Errorf("outcome: %s", text)
	}
	if runs := v["runs"].([]any); len(runs) != 2+3 { // One finalist with two new seeds, and three tests.
		t.Errorf("%d runs", len(runs))
	}
	want := trialsOf(t, store)
	if strings.Count(want, "\n") != 3 {
		t.Errorf("history: %s", want)
	}
	out := t.TempDir()
	show := object(t, "search", "show", "smoke-minicar", "--store", store, "--out", out)
	if show["parts"].(map[string]any)["outcome"] != parts["outcome"] {
		t.Errorf("shown: %v, made: %v", show["parts"], parts)
	}
	if _, err := os.Stat(filepath.Join(out, "search-history.svg")); err != nil {
		t.Error(err)
	}
	if list := fmt.Sprint(object(t, "search", "show", "--store", store)["searches"]); !strings.Contains(list,
		"name:smoke-minicar runs:3 trials:2") {
		t.Errorf("searches: %s", list)
	}
	for want, args := range map[string][]string{
		"was started with other settings: its space has lr=0.05..0.5, not lr=0.05..0.6": {"--param", "direction", "--param",
			"lr=0.05..0.6"},
		`no parameter "speed"; there are direction`: {"--param", "speed"},
		"parameter lr: range 0.2 to 0.1 is empty":   {"--param", "lr=0.2..0.1"},
		"--trials or --hours above 0":               {"--trials", "0"},
		"--bracket 0, --held-out 4":                 {"--bracket", "0"},
		"--held-out 0":                              {"--held-out", "0"},
		`no data set "nothing"`:                     {"--data", "nothing"},
		`no sampler "grid"`:                         {"--sampler", "grid", "--name", "b"},
	} {
		args = append([]string{"search", "--preset", "smoke", "--bracket", "2", "--reference", "none", "--store", store},
			args...)
		code, stdout, stderr := invoke(t, args...)
		if !failed(code) || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%v: code %d, %q, want …%s…", args, code, stderr, want)
		}
	}
	code, _, stderr := invoke(t, "search", "show", "smoke-minicar", "--store", store, "--write-bundled", out)
	if code != exitUsage ||
		!strings.Contains(stderr, out+" is a folder") {
		t.Error(stderr)
	}
	if code, _, stderr := invoke(t, "search", "show", "b", "--store", store); code != 1 ||
		!strings.Contains(stderr, "there are quick-minicar, ") || !strings.Contains(stderr, ", smoke-minicar") {
		t.Error(stderr)
	}

	t.Run("killed", func(t *testing.T) { // Killed at any moment and started again, it has the same trials.
		store := filepath.Join(t.TempDir(), "runs")
		raw, err := json.Marshal(append(smallSearch, "--store", store))
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
		for kills := range 50 {
			cmd := exec.Command(os.Args[0], "-test.run", "^TestSearchProcess$")
			cmd.Env = append(os.Environ(), searchEnv+"="+string(raw))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			after := time.AfterFunc(time.Duration(500+rng.IntN(4000)<<min(kills/4, 6))*time.Millisecond,
				func() { _ = cmd.Process.Kill() })
			err := cmd.Wait()
			after.Stop()
			if err == nil {
				t.Logf("finished after %d kills", kills)
				if got := trialsOf(t, store); got != want {
					t.Errorf("killed %d times:\n%s\nundisturbed:\n%s", kills, got, want)
				}
				return
			}
			if cmd.ProcessState.ExitCode() != -1 {
				t.Fatal(err)
			}
		}
		t.Error("the search does not finish")
	})
}

// TestSearchProcess runs the command in a process that TestSearch kills.
func TestSearchProcess(t *testing.T) {
	raw := os.Getenv(searchEnv)
	if raw == "" {
		t.Skip("is a process of TestSearch")
	}
	var args []string
	if err := json.Unmarshal([]byte(raw), &args); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := invoke(t, args...); code != 0 {
		t.Fatal(stderr)
	}
}

func TestSearchRates(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	store := atWork(t)
	file := filepath.Join(t.TempDir(), "rates.toml")
	args := []string{"search", "rates", "--preset", "smoke", "--store", store, "--rule", "cos/con/con", "--loss", "ms",
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
	own := tinyPreset(t, "")
	for want, args := range map[string][]string{
		"is an input":        {"--rule", "ours", "--lr", "0.1,0.2", "--preset", own, "--write", own},
		"want at least two":  {"--rule", "ours", "--lr", "0.1"},
		"no --rule":          {"--lr", "0.1,0.2"},
		"ends in .toml":      {"--rule", "ours", "--lr", "0.1,0.2", "--write", "rates.txt"},
		"want at least 1 an": {"--rule", "ours", "--lr", "0.1,0.2", "--held-out", "0"},
	} {
		code, _, stderr := invoke(t, append([]string{"search", "rates", "--store", store}, args...)...)
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
