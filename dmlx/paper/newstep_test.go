package paper

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// TestNewStep checks that newstep.md is what the bundled runs say beside the records of the earlier ones in
// testdata/newstep: Recall@1 of each. With -regen it is written anew.
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
	q, all := request(t, "quick"), new(Table)
	for _, study := range append(studies(), lengthened(), exchanged()) {
		o := q.Options
		if o.CachedOnly = true; study.Sweep { // Some of their cells have the seeds of a table.
			o.Seeds = q.Preset.Seeds
		}
		table, err := Reproduce(t.Context(), q.Open, q.Store, study, q.Preset, o)
		if err != nil {
			t.Fatal(err)
		}
		all.join(table)
	}
	all.Runs, all.Missing = len(all.Results()), 0
	all.Cells = []Cell{{Data: q.Preset.FineGrained}, {Data: q.Preset.CoarseGrained, Runs: all.Results()}}
	want := newStepHead + compareRuns(t, bundled, earlier, all.Provenance())
	if *cmpimg.GenerateTestData {
		if err := durable.WriteFile("newstep.md", []byte(want), 0o644); err != nil {
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
with another seed. All runs of the preset ` + "`quick`" + ` were trained again, with the same specs and on another host,
whose rounding differs too. Each table below says where the new runs come from; the earlier ones are of 2026-11-21 and
22, on xla:cpu and AMD EPYC, 2 cores, linux.
` + "`dmlx reproduce all --preset quick --no-bundled`" + ` trains them again.

The bundled runs on photographs are still of the earlier step: no machine with the photographs has trained them again.
`

// compareRuns compares Recall@1 of runs with that of the earlier ones, in percent.
func compareRuns(t *testing.T, bundled map[string]*runs.Result, earlier map[string]float64, provenance string) string {
	t.Helper()
	type setting struct {
		spec     runs.Spec // Without a seed.
		old, now []float64
	}
	settings := make(map[string]*setting)
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
		at := settings[s.Hash()]
		if at == nil {
			at = &setting{spec: s}
			settings[s.Hash()] = at
		}
		at.old, at.now = append(at.old, 100*before), append(at.now, 100*r.Recall[1])
	}
	table := &figures.Table{Provenance: provenance,
		Caption: "Recall@1 in percent, mean ± standard deviation over seeds: the ten that differ most.",
		Notes:   []figures.Markup{"In brackets: 95 % by Welch's t over seeds."}}
	for _, title := range []figures.Markup{"rule or loss", "data", "rate", "batch", "steps", "earlier", "new",
		"new − earlier"} {
		table.Columns = append(table.Columns, figures.Column{Title: title, Left: title == "rule or loss"})
	}
	var differences, squares []float64
	outside := 0
	for _, hash := range slices.Sorted(maps.Keys(settings)) {
		at := settings[hash]
		if len(at.old) < 2 {
			continue
		}
		slices.Sort(at.old) // The order of a map is random, and sums must not depend on it.
		slices.Sort(at.now)
		s, old, now := at.spec, stats.MeanOf(at.old), stats.MeanOf(at.now)
		test := stats.Welch(now, old)
		differences = append(differences, test.Difference.Value)
		squares = append(squares, test.Difference.Value*test.Difference.Value)
		if test.P < 0.05 {
			outside++
		}
		var row []figures.Cell
		for _, text := range []any{s.Objective.String(), s.Data, s.LR,
			fmt.Sprintf("%d×%d", s.ClassesPerBatch, s.ImagesPerClass), s.Steps(), old, now} {
			row = append(row, figures.Text(fmt.Sprint(text)))
		}
		table.Rows = append(table.Rows, append(row, figures.Tested(test, test.Difference.String())))
	}
	table.MarkSignificant() // Of all, before those that differ less are left out.
	last := len(table.Columns) - 1
	corrected := 0
	for _, row := range table.Rows {
		if row[last].Bold {
			corrected++
		}
	}
	of := len(table.Rows)
	slices.SortStableFunc(table.Rows, func(a, b []figures.Cell) int {
		return cmp.Compare(math.Abs(b[last].Test.Difference.Value), math.Abs(a[last].Test.Difference.Value))
	})
	table.Rows = table.Rows[:10]
	return fmt.Sprintf(`
## Recall@1

Of %d earlier runs %d are trained again; the others belong to choices that the earlier results made, such as the best
rules of the grid. %d of the %d have the same Recall@1 as before. Of those with several seeds, %d rules and losses at a
rate and a batch:

- mean difference of their means, new − earlier: %.2f points; root mean square %.2f;
- %d of %d differ at the level 0.05 by Welch's test (chance alone gives about %.0f), %d after Holm's correction.

%s`, len(earlier), both, same, both, of, stat.Mean(differences, nil), math.Sqrt(stat.Mean(squares, nil)),
		outside, of, 0.05*float64(of), corrected, markdown(t, table))
}

func markdown(t *testing.T, table *figures.Table) string {
	t.Helper()
	text, err := figures.Bytes(table, "md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
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
