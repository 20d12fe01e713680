package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
)

// tinyPreset writes a preset of the user's own whose runs take a tenth of a second.
func tinyPreset(t *testing.T, more string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tiny.toml")
	text := "from = \"smoke\"\nweights = \"random\"\nsize = 16\nbatch = \"2x2\"\ndim = 8\nepochs = 1\nsteps = 1\n" +
		"seeds = [1, 2]\n" + more
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// One command trains a rule and a loss on both data sets and puts them beside the rows of a table, which says on itself
// what was changed.
func TestOwnRowsInOneCommand(t *testing.T) {
	store, out := atWork(t), t.TempDir()
	args := []string{"reproduce", "table2", "--preset", tinyPreset(t, ""), "--store", store, "--jobs", "1", "--add-rule",
		"A & B_<i> = cos/lin/cir?tau=2", "--add-loss", "ms, miner ms", "--seeds", "3", "--out", out}
	table := object(t, args...)["tables"].([]any)[0].(map[string]any)
	if table["runs"] != 12. || table["ran"] != 12. || table["preset"] != "tiny" ||
		!slices.Equal(table["changes"].([]any), []any{"seed 3"}) {
		t.Errorf("%v", table)
	}
	own := 0
	for _, c := range table["cells"].([]any) {
		c := c.(map[string]any)
		if c["own"] == true && c["recall_at_1"] != nil && (c["rule"] == "cos/lin/cir?tau=2" && c["label"] == "A & B_<i>" ||
			c["loss"] == "ms" && c["label"] == nil) {
			own++
		}
	}
	if own != 4 {
		t.Errorf("%d cells of our own, want 4: %v", own, table["cells"])
	}
	for ending, wants := range map[string][]string{
		".csv": {"loss ms, miner ms", "A & B_<i>"}, ".tex": {"loss ms, miner ms & ", `A \& B\_`},
		".md": {"Setting: preset tiny (smoke with", "A & B_&lt;i>"}, "-picture.svg": {"<svg"},
	} {
		raw, err := os.ReadFile(filepath.Join(out, "table2-tiny-seed-3"+ending))
		for _, want := range wants {
			if err != nil || !strings.Contains(string(raw), want) {
				t.Errorf("%s: %v, want …%s… in %s", ending, err, want, raw)
			}
		}
	}
	if again := object(t, args...)["tables"].([]any)[0].(map[string]any); again["ran"] != 0. {
		t.Errorf("again: %v", again)
	}
}

// What is wrong with rows, settings and presets is told before anything is trained, and what would be right.
func TestReproduceRefuses(t *testing.T) {
	store := atWork(t)
	tiny := tinyPreset(t, "")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "no triplet weight", []string{"table2", "--add-rule", "cos/lin/circ"}},
		{exitUsage, `want --loss "ms"`, []string{"table2", "--add-rule", "loss ms"}},
		{exitUsage, "want a label of printable characters", []string{"table2", "--add-rule", " = cos/lin/cir"}},
		{exitUsage, "want a label of printable characters", []string{"table2", "--add-loss", "a\nb = ms"}},
		{exitUsage, "none of that name", []string{"table2", "--add-loss", "mss"}},
		{exitUsage, "a space on both sides of its =", []string{"table2", "--add-loss", "X=ms"}},
		{exitUsage, "a space on both sides of its =", []string{"table2", "--add-rule", "Ours=cos/lin/cir?tau=2"}},
		{exitUsage, "given twice", []string{"table2", "--add-loss", "ms", "--add-loss", "ms"}},
		{exitUsage, "grid takes no rows of your own: the tables and", []string{"grid", "--add-loss", "ms"}},
		{exitUsage, "tau changes no rule of table3", []string{"table3", "--set", "options=tau=2"}},
		{exitUsage, "no option", []string{"table3", "--set", "options=tao=2"}},
		{exitUsage, "sweeps table6, table7 and table8", []string{"table3", "--lr", "0.1,0.2"}},
		{exitUsage, "learning rate is -1", []string{"table3", "--lr", "-1"}},
		{exitUsage, "as in 8x8", []string{"table3", "--batch", "8x"}},
		{exitUsage, "epochs: 0: want a positive", []string{"table3", "--epochs", "0"}},
		{exitUsage, "as in 1-5", []string{"table3", "--seeds", "5-1"}},
		{exitUsage, "each once", []string{"table3", "--seeds", "1,1"}},
		{exitUsage, "adam", []string{"table3", "--set", "optimizer=adamm"}},
		{exitUsage, "two data sets", []string{"table3", "--set", "fine_grained=minishop"}},
		{exitUsage, "did you mean epochs", []string{"table3", "--preset", tinyPreset(t, "epoch = 3")}},
		{exitUsage, "no such file", []string{"table3", "--preset", "none.toml"}},
		{exitUsage, "smoke, quick, full, paper", []string{"table3", "--preset", "none"}},
		// The second data set has too few classes: the runs on the first one are not trained either.
		{exitFailed, "there are 16", []string{"table2", "--preset", tinyPreset(t, "[sets.minishop]\nbatch = \"17x2\"")}},
		{exitUsage, "has no triplets", []string{"table2", "--preset", tiny, "--batch", "1x4"}},
	} {
		args := append([]string{"reproduce", "--store", store, "--no-bundled"}, c.args...)
		code, stdout, stderr := invoke(t, args...)
		last := stderr[strings.LastIndex(strings.TrimSuffix(stderr, "\n"), "\n")+1:]
		if code != c.code || stdout != "" || !strings.Contains(last, c.want) {
			t.Errorf("dmlx %s: code %d, want %d; %q, want …%s…", args, code, c.code, stderr, c.want)
		}
	}
	if v := object(t, "runs", "list", "--store", store); len(v["runs"].([]any)) != 0 {
		t.Errorf("trained: %v", v)
	}
}

// A parameter with several values is a rule for each, in one table, also of runs that are there.
func TestTrainOverParameter(t *testing.T) {
	store, out := atWork(t), t.TempDir()
	of := func(values string, more ...string) []string {
		return append([]string{"train", "--preset", tinyPreset(t, ""), "--store", store, "--jobs", "1", "--out", out,
			"--rule", "cos/con/cos?tau=" + values}, more...)
	}
	if code, _, stderr := invoke(t, of("1,2", "--cached-only")...); !failed(code) ||
		!strings.Contains(stderr, "none of the 2 runs is there") {
		t.Errorf("%d %s", code, stderr)
	}
	if v := object(t, of("1,4,0.5")...); v["trained"] != 3. {
		t.Errorf("%v", v["trained"])
	}
	v := object(t, of("0.5,1,2,4", "--cached-only")...)
	table, err := os.ReadFile(filepath.Join(out, "compare-metrics.csv"))
	if err != nil || v["trained"] != 0. || len(v["runs"].([]any)) != 3 ||
		!strings.Contains(string(table), "cos/con/cos?tau=4") {
		t.Errorf("%v %v %.500s", err, v, table)
	}
}

// Rules, a loss and seeds are trained and compared by one command, and again by what they are.
func TestTrainSeveral(t *testing.T) {
	store, out := atWork(t), t.TempDir()
	tiny := tinyPreset(t, "")
	args := []string{"train", "--preset", tiny, "--store", store, "--jobs", "1", "--rule", "cos/con/con", "--rule",
		"euc/lin/con", "--loss", "contrastive", "--seeds", "1-2", "--out", out}
	v := object(t, args...)
	parts := v["parts"].(map[string]any)
	if v["trained"] != 6. || len(v["runs"].([]any)) != 6 ||
		!strings.Contains(parts["metrics"].(string), "loss contrastive") ||
		!strings.Contains(parts["tests"].(string), "paired by seed, 2 pairs") {
		t.Errorf("%v", v)
	}
	for _, name := range []string{"compare-metrics.tex", "compare-tests.csv", "compare-curves.svg"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	args[len(args)-3] = "1-3"
	if v := object(t, args...); v["trained"] != 3. || len(v["runs"].([]any)) != 9 {
		t.Errorf("one seed more: %v", v)
	}
	hashes := func(args ...string) (out []string) {
		for _, r := range object(t, append([]string{"runs", "compare", "--store", store}, args...)...)["runs"].([]any) {
			out = append(out, r.(map[string]any)["run"].(string))
		}
		return out
	}
	var all []string
	for _, r := range object(t, "runs", "list", "--store", store)["runs"].([]any) {
		all = append(all, r.(map[string]any)["run"].(string))
	}
	if two := hashes(all[0], all[1][:9]); !slices.Equal(two, all[:2]) {
		t.Errorf("by name: %q, want %q", two, all[:2])
	}
	for want, args := range map[string][]string{
		"dmlx train --rule … --loss … --cached-only compares": {"cos/con/con", "euc/lin/con"},
		"requires at least 2": {all[0]},
	} {
		code, stdout, stderr := invoke(t, append([]string{"runs", "compare", "--store", store}, args...)...)
		if !failed(code) || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("compare %s: code %d, %q, want …%s…", args, code, stderr, want)
		}
	}
	if len(all) != 9 {
		t.Errorf("%d runs are listed", len(all))
	}
	if list := object(t, "runs", "list", "--bundled", "--store", store)["runs"].([]any); len(list) < 100 {
		t.Errorf("%d runs are listed with the bundled ones", len(list))
	}
	if code, stdout, stderr := invoke(t, "runs", "list", "--csv", "--store", store); code != 0 {
		t.Errorf("runs list --csv: code %d, %s", code, stderr)
	} else if all, err := scores.Read(strings.NewReader(stdout)); err != nil ||
		len(all.Values(scores.Run.Of)) != 9 || len(all.Select(scores.Row{Measure: "R@1"})) != 9 {
		t.Errorf("runs list --csv: %d rows, %v\n%s", len(all), err, stdout)
	}
	if code, _, stderr := invoke(t, "runs", "list", "--csv", "--json", "--store", store); code != 2 ||
		!strings.Contains(stderr, "want one of them") {
		t.Errorf("runs list --csv --json: code %d, %s", code, stderr)
	}
	// A first digit that bundled runs have too means the run of the store.
	for _, hash := range all {
		alone := !slices.ContainsFunc(all, func(other string) bool { return other != hash && other[0] == hash[0] })
		if alone && object(t, "runs", "show", hash[:1], "--store", store)["run"] != hash {
			t.Errorf("%s is not found by %s", hash, hash[:1])
		}
	}
}
