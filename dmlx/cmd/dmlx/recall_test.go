package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/npy"
)

// Four images at 0°, 60°, 90° and 180°: classes a, b, a, b, all of one superclass; the cameras are 1, 1, 1, 2.
func TestRecallByRelevance(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	write := func(name string, lines ...string) string {
		if err := os.WriteFile(in(name), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	e := in("E.npy")
	check(npy.WriteFloat32(e, []float32{1, 0, 0.5, 0.866, 0, 1, -1, 0}, 4, 2))
	check(npy.WriteFloat32(in("R.npy"), []float32{0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0}, 4, 4))
	check(npy.WriteFloat32(in("minus.npy"), []float32{0, 0, -1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 0}, 4, 4))
	table := write("t.csv", "class,super,camera", "a,s,1", "b,s,1", "a,s,1", "b,s,2")
	blanks := write("t.txt", "class super camera", "a s 1", "b s 1", "a s 1", "b s 2")
	hole := write("hole.csv", "class,super,camera", "a,s,1", "b,s,", "a,s,1", "b,s,2")
	grades := write("r.csv", "query,item,grade", "0,2,3", "1,3,3", "2,0,3", "3,1,3")
	cameras := write("cameras.txt", "one", "one", "one", "two")
	of := func(args ...string) map[string]any {
		t.Helper()
		return object(t, append([]string{"recall", "--k", "1", "--embeddings", e}, args...)...)
	}
	// By class each match is second, with an average precision of 1/2 and a gain of 1/log₂3, but for the image at 60°,
	// whose match is third. With the superclass the best gain is 2 + 1/log₂3 + 1/2, and the image at 60° has
	// 1 + 1/log₂3 + 2/2, the others 1 + 2/log₂3 + 1/2.
	const byClass = "map[1:0] 0.4583 0.5982 0"
	for want, args := range map[string][][]string{
		byClass: {{"--relevance", in("R.npy")}, {"--relevance", grades}},
		"map[1:1] 1.0000 0.8717 0": {{"--labels", table + ":class," + table + ":super"},
			{"--labels", blanks + ":super," + blanks + ":class"}},
		// The images of class a share their camera, and have no other match.
		"map[1:0] 0.4167 0.5655 2": {{"--labels", table + ":class", "--leave-out", table + ":camera"},
			{"--relevance", grades, "--leave-out", cameras}},
	} {
		for _, args := range args {
			r := of(args...)
			if got := fmt.Sprintf("%v %.4f %.4f %v", r["recall"], r["map"], r["ndcg"], r["lone_queries"]); got != want {
				t.Errorf("%v: %s, want %s", args, got, want)
			}
		}
	}
	curve := in("c.svg")
	r := of("--labels", table+":class", "--fmr", "0.5,0", "--curve", curve)["thresholds"].(map[string]any)
	at := r["at_fmr"].([]any)[0].(map[string]any)
	if r["matching_pairs"] != 4. || r["other_pairs"] != 8. || at["fmr"] != 0.5 || at["fnmr"] != 1. {
		t.Errorf("thresholds: %v", r)
	}
	if raw, err := os.ReadFile(curve); err != nil || !strings.Contains(string(raw), "false non-match rate") {
		t.Errorf("the curve: %.80q, %v", raw, err)
	}
	if code, out, _ := invoke(t, "recall", "--embeddings", e, "--labels", cameras, "--fmr", "0.5"); failed(code) ||
		!strings.Contains(out, "one threshold in percent, of 6 pairs that match and 6 that do not, over 1 classes") {
		t.Errorf("in words: %s", out)
	}
	for want, args := range map[string][]string{
		`no column "clas"; did you mean class?`:         {"--labels", table + ":clas"},
		"label 1 is empty":                              {"--labels", table + ":class", "--leave-out", hole + ":camera"},
		"3 labels, want one for each of 4":              {"--labels", cameras + "," + write("three.txt", "1", "2", "3")},
		"3 labels, want [4]":                            {"--labels", in("three.txt")},
		"line 2: 1 values, want 2":                      {"--labels", write("ragged.csv", "a,b", "1") + ":a"},
		"line 3: 3 values, want 2":                      {"--labels", write("ragged.txt", "a b", "1 2", "1 2 3") + ":a"},
		"grade -1 of query 0 and item 2":                {"--relevance", in("minus.npy")},
		"want [4, 4], a grade for each":                 {"--relevance", e},
		`no column "query"; there are class`:            {"--relevance", table},
		`no column "item"; there are`:                   {"--relevance", write("q.csv", "query,grade", "1,1")},
		`item "4", grade "1": want rows 0…3`:            {"--relevance", write("far.csv", "query,item,grade", "0,4,1")},
		`grade "x": want rows 0…3 and 0…3 and a number`: {"--relevance", write("x.csv", "query,item,grade", "0,1,x")},
		"query 0 has two grades for item 1: want one": {"--relevance", write("twice.csv", "query,item,grade", "0,1,1",
			"0,1,2")},
		"2 labels, want one for each of 4":          {"--labels", cameras, "--leave-out", write("two.txt", "x", "y")},
		"want a file of groups, and with a gallery": {"--labels", cameras, "--leave-out", cameras + "," + cameras},
		"--fmr 2: want shares of 0 to 1":            {"--labels", cameras, "--fmr", "2"},
		"want a file that ends in .svg":             {"--labels", cameras, "--curve", "c.gif"},
		"takes one label a row": {"--labels", cameras, "--leave-out-queries", "--relevance", grades,
			"--gallery-embeddings", e, "--gallery-labels", cameras},
		"needs both --gallery-embeddings and":      {"--labels", cameras, "--gallery-labels", cameras},
		"none of the 4 queries has a match in the": {"--relevance", write("none.csv", "query,item,grade", "0,1,0")},
	} {
		if code, _, stderr := invoke(t, append([]string{"recall", "--embeddings", e}, args...)...); !failed(code) ||
			!strings.Contains(stderr, want) {
			t.Errorf("%v: %s, want …%s…", args, stderr, want)
		}
	}
}
