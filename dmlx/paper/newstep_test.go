package paper

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/renameio/v2"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/paper/ledger"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// TestNewStep checks that newstep.md is what the bundled runs say beside the records of the earlier ones in
// testdata/newstep: Recall@1 of each, and the ledger's verdicts by them. With -regen it is written anew.
func TestNewStep(t *testing.T) {
	t.Parallel()
	bundled, err := runs.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	earlier := make(map[string]float64)
	for _, row := range recorded(t, "recall.csv") {
		if earlier[row[0]], err = strconv.ParseFloat(row[1], 64); err != nil {
			t.Fatal(err)
		}
	}
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	quick, err := presets.Parse("quick")
	if err != nil {
		t.Fatal(err)
	}
	rows, _, err := LedgerOf(t.Context(), Request{Store: store, Preset: quick}, quick)
	if err != nil {
		t.Fatal(err)
	}
	want := newStepHead + compareRuns(bundled, earlier) + compareVerdicts(t, rows, recorded(t, "verdicts.csv"))
	if *cmpimg.GenerateTestData {
		if err := renameio.WriteFile("newstep.md", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile("newstep.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("newstep.md is not what the bundled runs say: go test ./dmlx/paper -run NewStep -regen")
	}
}

const newStepHead = `# What the new training step changed

The training step of the small network computes the same gradients as before, twice as fast, in another order of sums.
So its rounding differs, and training amplifies the difference: a run ends at another network of the same quality, as
with another seed. All runs of the preset ` + "`quick`" + ` were trained again, with the same specs. This page compares
them with the earlier ones, of 2026-11-21 and 22. Of the earlier step are still the bundled runs on photographs, which
no machine with the photographs has trained again.
`

// compareRuns compares Recall@1 of runs with that of the earlier ones, in percent.
func compareRuns(bundled map[string]*runs.Result, earlier map[string]float64) string {
	type setting struct {
		name     string
		old, now []float64
	}
	cells := make(map[string]*setting)
	same, both := 0, 0
	for hash, before := range earlier {
		r := bundled[hash]
		if r == nil || r.Diverged != "" {
			continue
		}
		both++
		if r.Recall[1] == before {
			same++
		}
		s := r.Spec
		s.Seed = 0
		name := fmt.Sprintf("`%s` | %s | %v | %d×%d | %d", cmp.Or(s.Rule, strings.Join(slices.DeleteFunc([]string{
			"loss " + s.Loss, s.Miner, s.Exchange}, func(p string) bool { return p == "" }), ", ")), s.Data, s.LR,
			s.ClassesPerBatch, s.ImagesPerClass, s.Steps())
		at := cells[s.Hash()]
		if at == nil {
			at = &setting{name: name}
			cells[s.Hash()] = at
		}
		at.old, at.now = append(at.old, 100*before), append(at.now, 100*r.Recall[1])
	}
	var of []*setting
	var differences, squares, scores []float64
	outside := 0
	for _, c := range cells {
		if len(c.old) < 2 {
			continue
		}
		slices.Sort(c.old) // The order of a map is random, and sums must not depend on it.
		slices.Sort(c.now)
		of = append(of, c)
	}
	change := func(c *setting) stats.Test { return stats.Welch(stats.MeanOf(c.now), stats.MeanOf(c.old)) }
	slices.SortFunc(of, func(a, b *setting) int {
		return cmp.Or(cmp.Compare(math.Abs(change(b).Difference.Value), math.Abs(change(a).Difference.Value)),
			cmp.Compare(a.name, b.name))
	})
	for _, c := range of {
		test := change(c)
		differences = append(differences, test.Difference.Value)
		squares = append(squares, test.Difference.Value*test.Difference.Value)
		scores = append(scores, test.P)
		if test.P < 0.05 {
			outside++
		}
	}
	threshold := stats.Holm(scores, 0.05)
	corrected := 0
	for _, p := range scores {
		if p <= threshold {
			corrected++
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `
## Recall@1

Of %d earlier runs %d are trained again; the others belong to choices that the earlier results made, such as the best
rules of the grid. %d of the %d have the same Recall@1 as before. Of those with several seeds, %d rules and losses at a
rate and a batch:

- mean difference of their means, new − earlier: %+.2f points; root mean square %.2f;
- %d of %d differ at the level 0.05 by Welch's test (chance alone gives about %.0f), %d after Holm's correction.

The ten that differ most:

| rule or loss | data | rate | batch | steps | earlier | new | difference [95 %%] |
|---|---|---|---|---|---|---|---|
`, len(earlier), both, same, both, len(of), stat.Mean(differences, nil), math.Sqrt(stat.Mean(squares, nil)), outside,
		len(of), 0.05*float64(len(of)), corrected)
	for _, c := range of[:10] {
		old, now, d := stats.MeanOf(c.old), stats.MeanOf(c.now), change(c).Difference
		fmt.Fprintf(&b, "| %s | %.1f ± %.1f | %.1f ± %.1f | %+.1f [%+.1f, %+.1f] |\n", c.name, old.Mean, old.Std, now.Mean,
			now.Std, d.Value, d.Low, d.High)
	}
	return b.String()
}

// compareVerdicts compares the verdicts of the ledger's rows with the earlier ones.
func compareVerdicts(t *testing.T, rows []ledger.Row, earlier [][]string) string {
	t.Helper()
	if len(rows) != len(earlier) {
		t.Fatalf("the ledger has %d rows, and had %d", len(rows), len(earlier))
	}
	var changed strings.Builder
	before := make(map[ledger.Verdict]int)
	n := 0
	for i, r := range rows {
		e := earlier[i]
		if r.Place != e[0] || r.What != e[1] {
			t.Fatalf("row %d of the ledger is %s, %s, and was %s, %s", i+1, r.Place, r.What, e[0], e[1])
		}
		before[ledger.Verdict(e[3])]++
		if string(r.Verdict) != e[3] {
			n++
			fmt.Fprintf(&changed, "| %s | %s | %s | %s | %s → %s |\n", r.Place, cell(r.What), cell(e[2]), cell(r.Ours), e[3],
				r.Verdict)
		}
	}
	var b strings.Builder
	b.WriteString("\n## Verdicts\n\nThe ledger's entries by the runs of `quick` alone:\n\n| verdict | earlier | new |\n" +
		"|---|---|---|\n")
	now := ledger.Count(rows)
	for _, v := range ledger.Verdicts() {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", v, before[v], now[v])
	}
	fmt.Fprintf(&b, "\n%d of %d entries change. A verdict is a test at a level, and values near it fall on either side:"+
		"\n\n"+
		"| place | entry | earlier | new | verdict |\n|---|---|---|---|---|\n%s", n, len(rows), changed.String())
	return b.String()
}

// cell returns text for a cell of a Markdown table.
func cell(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ")
}

// recorded returns the rows of a file of testdata/newstep without its head.
func recorded(t *testing.T, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "newstep", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}
