package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/datasets/fixtures"
)

func dataFixture(t *testing.T, form string) string {
	t.Helper()
	dir := t.TempDir()
	if err := fixtures.Make(form, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDataSplits(t *testing.T) {
	t.Setenv(datasets.DataEnv, filepath.Join(t.TempDir(), "none"))
	two := `{"test":{"classes":2,"images":8},"train":{"classes":3,"images":12}}`
	three := `{"gallery":{"classes":2,"images":4},"query":{"classes":2,"images":4},"train":{"classes":3,"images":12}}`
	for form, want := range map[string]string{"cub": two, "cars": two, "cars-devkit": two,
		"sop": two, "inshop": three} {
		dir := dataFixture(t, form)
		name, _, _ := strings.Cut(form, "-")
		code, stdout, stderr := invoke(t, "data", "verify", name, "--root", dir, "--json")
		var b bytes.Buffer
		var v struct {
			Name, Root string
			OK         *bool
			Splits     json.RawMessage
		}
		if err := errors.Join(json.Unmarshal([]byte(stdout), &v), json.Compact(&b, v.Splits)); err != nil ||
			b.String() != want || code != exitFailed {
			t.Errorf("%s: code %d, %s, %s", form, code, b.String(), stderr)
		}
		if official, _ := datasets.PublishedName(name); v.Name != official || !strings.HasPrefix(v.Root, dir) ||
			v.OK == nil || *v.OK {
			t.Errorf("%s: %s", form, stdout)
		}
		if !strings.Contains(stderr, "not as published") {
			t.Errorf("%s: said %q", form, stderr)
		}
		t.Setenv(datasets.DataEnv, dir)
		code, stdout, _ = invoke(t, "data", "verify", strings.ToUpper(name))
		if code != exitFailed || !strings.Contains(stdout, "train") || !strings.Contains(stdout, dir) {
			t.Errorf("%s: code %d, %s", form, code, stdout)
		}
	}
	for _, args := range [][]string{{"verify"}, {"verify", "mnist"},
		{"verify", "cub", "--root", filepath.Join(t.TempDir(), "none")}, {"verify", "cub", "--root", t.TempDir()}} {
		code, stdout, stderr := invoke(t, append([]string{"data"}, args...)...)
		if !failed(code) || stdout != "" || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s: code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestDataVerify(t *testing.T) {
	dir := dataFixture(t, "cub")
	root := filepath.Join(dir, "CUB_200_2011", "images")
	verify := func() (code int, v map[string]any, stderr string) {
		code, stdout, stderr := invoke(t, "data", "verify", "cub", "--root", dir, "--json")
		if err := json.Unmarshal([]byte(stdout), &v); err != nil {
			t.Fatalf("%v: %s %s", err, stdout, stderr)
		}
		return code, v, stderr
	}
	code, v, stderr := verify()
	if code != 1 || v["ok"] != false || len(v["damaged"].([]any)) != 0 || len(v["differs"].([]any)) != 2 ||
		!strings.Contains(stderr, "published are 100 and 5864") {
		t.Errorf("a fixture: code %d, %v, %s", code, v, stderr)
	}
	images, err := filepath.Glob(filepath.Join(root, "*", "Bird*.jpg"))
	if err != nil || len(images) != 20 {
		t.Fatal(images, err)
	}
	content, err := os.ReadFile(images[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(images[0], content[:len(content)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(images[1]); err != nil {
		t.Fatal(err)
	}
	code, v, stderr = verify()
	if code != 1 || len(v["damaged"].([]any)) != 1 || len(v["missing"].([]any)) != 1 {
		t.Errorf("damaged: code %d, %v", code, v)
	}
	for _, path := range images[:2] {
		if name := filepath.Base(path); !strings.Contains(stderr, name) {
			t.Errorf("%s is not named: %s", name, stderr)
		}
	}
	if _, errors, _ := strings.Cut(stderr, "dmlx: "); strings.Count(errors, "\n") != 1 ||
		!strings.Contains(errors, "elsewhere; 1 of the images") {
		t.Errorf("not one line: %s", stderr)
	}
	code, stdout, _ := invoke(t, "data", "verify", "cub", "--root", dir)
	if code != 1 || !strings.Contains(stdout, "ends early") {
		t.Errorf("code %d: %s", code, stdout)
	}

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errs bytes.Buffer
	if code := run(ctx, []string{"data", "verify", "cub", "--root", dir}, &out, &errs); code != 130 || out.Len() > 0 ||
		errs.String() != "dmlx: stopped: CUB\n" {
		t.Errorf("interrupted: code %d, %s, %s", code, out.String(), errs.String())
	}
}

func TestDataList(t *testing.T) {
	dir := dataFixture(t, "sop")
	v := object(t, "data", "list", "--root", dir)
	sets := v["sets"].([]any)
	if len(sets) != 4 {
		t.Fatalf("%v", v)
	}
	for _, s := range sets {
		s := s.(map[string]any)
		if (s["root"] != nil) != (s["name"] == "SOP") || s["complete"] != false || s["why"] == "" || s["page"] == "" {
			t.Errorf("%v", s)
		}
	}
	code, stdout, stderr := invoke(t, "data", "list", "--root", dir)
	if code != 0 || !strings.Contains(stdout, "differs") || !strings.Contains(stdout, "curl -C - -O https://") ||
		!strings.Contains(stdout, "InShopRetrieval") {
		t.Errorf("code %d: %s %s", code, stdout, stderr)
	}
}

// A damaged data set is listed as damaged, not as one to download.
func TestDataListDamaged(t *testing.T) {
	dir := dataFixture(t, "cub")
	root := filepath.Join(dir, "CUB_200_2011")
	if err := os.Remove(filepath.Join(root, "classes.txt")); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := invoke(t, "data", "list", "--root", dir)
	if code != 0 || !strings.Contains(stdout, "damaged") || !strings.Contains(stdout, "no file classes.txt") ||
		strings.Contains(stdout, "CUB_200_2011.tgz") {
		t.Errorf("code %d: %s %s", code, stdout, stderr)
	}
	for _, s := range object(t, "data", "list", "--root", dir)["sets"].([]any) {
		if s := s.(map[string]any); s["name"] == "CUB" &&
			(s["root"] != root || s["complete"] != false || !strings.Contains(s["why"].(string), "classes.txt")) {
			t.Errorf("%v", s)
		}
	}
}
