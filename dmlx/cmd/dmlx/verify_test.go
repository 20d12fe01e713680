package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/flock"
)

func TestRunsMoveBetweenStores(t *testing.T) {
	store := atWork(t)
	v := object(t, append(smallRun, "--store", store)...)
	hash := v["run"].(string)
	other := filepath.Join(t.TempDir(), "runs")
	if err := os.CopyFS(filepath.Join(other, hash), os.DirFS(filepath.Join(store, hash))); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"runs", "verify"}, {"runs", "verify", hash[:5]}} {
		if code, out, err := invoke(t, append(args, "--store", other)...); code != 0 ||
			!strings.Contains(out, "1 runs are sound, 0 are damaged") {
			t.Error(code, out, err)
		}
	}
	if r := object(t, "runs", "show", hash, "--store", other); r["map_at_r"] != v["map_at_r"] {
		t.Errorf("%v, want %v", r, v)
	}
	t.Setenv("DMLX_STORE", other)
	if r := object(t, "runs", "show", hash); r["run"] != hash {
		t.Errorf("of the store that the environment names: %v", r)
	}
	if err := errors.Join(os.Mkdir(filepath.Join(other, "0123456789ab"), 0o755),
		os.WriteFile(filepath.Join(other, "0123456789ab", "spec.json"), []byte("{"), 0o644)); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"cannot be used: contains a damaged spec.json":   {"show", "0123456789ab"},
		"bundled with the program and cannot be removed": {"remove", hash, "077c9ae1dfc0"},
		"is only a result bundled with the program":      {"verify", "077c9ae1dfc0"},
	} {
		if code, out, err := invoke(t, append([]string{"runs"}, args...)...); code != 1 || out != "" ||
			!strings.Contains(err, want) {
			t.Errorf("%q: %d %s %s", args, code, out, err)
		}
	}
	unknown := regexp.MustCompile(`\n0123456789ab  (\?  +){5}–  +unusable *\n[^$]*\n` +
		`run 0123456789ab cannot be used: contains a damaged spec.json`)
	if _, out, _ := invoke(t, "runs", "list"); !unknown.MatchString(out) {
		t.Errorf("listed as %s", out)
	}
	for _, r := range object(t, "runs", "list")["runs"].([]any) {
		if r := r.(map[string]any); (r["spec"] == nil) != (r["state"] == "unusable") {
			t.Errorf("listed as %v", r)
		}
	}
	// A run without a result is at work while a process has its lock.
	spec, err := os.ReadFile(filepath.Join(other, hash, "spec.json"))
	if err != nil {
		t.Fatal(err)
	}
	begun := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(begun, hash), 0o755), os.Mkdir(filepath.Join(begun, ".locks"), 0o755),
		os.WriteFile(filepath.Join(begun, hash, "spec.json"), spec, 0o644)); err != nil {
		t.Fatal(err)
	}
	lock := flock.New(filepath.Join(begun, ".locks", hash))
	for _, working := range []bool{true, false} {
		if working {
			err = lock.Lock()
		} else {
			err = lock.Unlock()
		}
		for _, args := range [][]string{{"runs", "list"}, {"runs", "show", hash}} {
			if _, out, _ := invoke(t, append(args, "--store", begun)...); err != nil || !strings.Contains(out, "epoch 0/") ||
				strings.Contains(out, "stopped at epoch 0/") == working {
				t.Errorf("%s, working %v: %v, %s", args, working, err, out)
			}
		}
	}
	if r := object(t, "runs", "show", hash); r["run"] != hash {
		t.Errorf("removed beside one that cannot be: %v", r)
	}
	if err := os.Symlink(filepath.Join(other, "none"), filepath.Join(other, "0123456789ac")); err != nil {
		t.Fatal(err)
	}
	code, out, text := invoke(t, "runs", "verify", "--json")
	var verified struct {
		Sound   []string
		Damaged []struct{ Run, Dir, Why string }
	}
	if err := json.Unmarshal([]byte(out), &verified); err != nil {
		t.Fatal(out, err)
	}
	if bad := verified.Damaged; code != 1 || !slices.Equal(verified.Sound, []string{hash}) || len(bad) != 2 ||
		!strings.Contains(bad[0].Why, "damaged spec.json") || !strings.Contains(bad[1].Why, "is a symbolic link") ||
		bad[1].Dir != filepath.Join(other, "0123456789ac") || !strings.Contains(text, "2 of 3 runs") {
		t.Error(code, out, text)
	}
	if code, _, err := invoke(t, "runs", "verify", "zz"); !failed(code) || strings.Count(err, "\n") != 1 {
		t.Errorf("%d %q", code, err)
	}
}
