package paper

import (
	"context"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

// table5Rules are the rows of Table 5 that the authors ran themselves, by the paper's names: MS* and DR-MS* are
// multi-similarity loss and its variant with orthogonal directions, by their gradients; Ours is the paper's best rule.
var table5Rules = []struct {
	method, rule string
	factors      []int // Of the batch.
}{
	{"MS*", "cos/sig-ms/con", []int{1}}, {"DR-MS*", "cos-orth/sig-ms/con", []int{1}},
	{"Ours", "cos-orth/lin-ms/cir", []int{1, 2, 3, 4}}, {ScaledRate, "cos-orth/lin-ms/cir", []int{2, 3, 4}},
}

// AtBatches returns the cells of a method of [Table5], a rule, with a batch of 1, 2, … times the preset's, on each data
// set. The learning rate of the method [ScaledRate] grows with the batch. It returns none of that method at the paper
// preset, and at smoke, whose data sets have few classes, none of more than twice the batch.
func AtBatches(p presets.Preset, method, rule string, factors ...int) []Cell {
	return atBatches(p, Cell{Row: method, Method: method, Objective: presets.Named(rule)}, factors...)
}

func atBatches(p presets.Preset, of Cell, factors ...int) []Cell {
	var out []Cell
	scaled := of.Method == ScaledRate
	if scaled && p.Like(paperPreset) {
		return nil
	}
	for _, c := range table5Sets(p, of) {
		for _, factor := range factors {
			if factor > 2 && p.Like("smoke") {
				continue
			}
			c.Column, c.Times = fmt.Sprintf("×%d", factor), factor
			c.Adjust = func(s *runs.Spec) { table5Spec(p, s, factor, scaled) }
			out = append(out, c)
		}
	}
	return out
}

// Table5 returns the runs of Table 5: MS* and DR-MS* at the preset's batch, Ours at one to four times that. A batch
// grows by classes; the images of each class and the images seen in training stay the same, so that there are fewer
// steps. A cell's row is the method, its column the factor, "×1" to "×4".
//
// The paper preset has the paper's setting: four data sets, ResNet-50, 80 epochs, three seeds. The paper does not give
// its rates here; the preset's are kept for all batches ("we keep a constant step size", Limitations). At other presets
// Ours is trained a second time with a rate that grows with the batch, in the rows [ScaledRate]: fewer steps of the
// same size move the weights less, and that effect is not one of the batch.
func Table5() Study {
	return Study{
		Name: "table5", Title: "The state of the art: Recall@K", AtMost: table5Seeds, Present: true,
		Rows: func(presets.Preset) []Cell {
			var out []Cell
			for _, r := range table5Rules {
				out = append(out, Cell{Row: r.method, Method: r.method, Objective: presets.Named(r.rule)})
			}
			return out
		},
		Expand: func(p presets.Preset, row Cell) ([]Cell, error) {
			for _, r := range table5Rules {
				if r.method == row.Method {
					return atBatches(p, row, r.factors...), nil
				}
			}
			return atBatches(p, row, 1), nil
		},
	}
}

// table5Sets returns a cell on each data set.
func table5Sets(p presets.Preset, c Cell) []Cell {
	if !p.Like(paperPreset) {
		return onBoth(p, c)
	}
	var out []Cell
	for _, name := range datasets.Published() {
		c.Data, c.PaperData = name, name
		out = append(out, c)
	}
	return out
}

// ScaledRate is the row of [Table5] whose rate grows with the batch.
const ScaledRate = "Ours, rate scaled"

const paperPreset = "paper"

// table5Seeds is the number of seeds of a cell of Table 5, where the paper's other tables have five.
const table5Seeds = 3

// Table5Seeds returns the seeds of a cell of Table 5.
func Table5Seeds(p presets.Preset) []uint64 { return p.Seeds[:min(table5Seeds, len(p.Seeds))] }

// table5Spec changes a preset's spec to one of Table 5 with a batch that is larger by a factor.
func table5Spec(p presets.Preset, s *runs.Spec, factor int, scaled bool) {
	s.ClassesPerBatch *= factor
	if scaled {
		s.LR *= float64(factor)
	}
	if p.Like(paperPreset) {
		s.Arch, s.WeightsDigest = string(backbone.ResNet50), ""
		if digest, err := s.StartDigest(); err == nil {
			s.WeightsDigest = digest
		}
		s.Epochs = 80
		s.StepsPerEpoch = max(1, s.StepsPerEpoch/factor) // Still one pass over the training images.
		return
	}
	// An epoch of these presets is no pass over the images but a unit of the schedule: as many as divide the steps.
	steps := max(1, s.Steps()/factor)
	s.Epochs = min(s.Epochs, steps)
	for steps%s.Epochs != 0 {
		s.Epochs--
	}
	s.StepsPerEpoch = steps / s.Epochs
}

// MissingSets returns an error for each of the paper's data sets that cells need and that is not on this machine. The
// error says where to get the set and where to put it. No data is opened.
func MissingSets(cells []Cell) []error {
	var out []error
	var seen []string
	for _, c := range cells {
		if !runs.IsPublished(c.Data) || slices.Contains(seen, c.Data) {
			continue
		}
		seen = append(seen, c.Data)
		if _, err := datasets.Find(c.Data, ""); err != nil {
			out = append(out, err)
		}
	}
	return out
}

// Present returns the cells whose data sets are on this machine.
func Present(cells []Cell) []Cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c Cell) bool { return len(MissingSets([]Cell{c})) > 0 })
}

// table5 reproduces the comparison with the state of the art: the paper's table as printed, and its own rows run on the
// preset's data sets. It leaves out data sets that are not on this machine; notes say where to get them.
func table5(ctx context.Context, q report.Request) (*Report, error) {
	papers, err := PrintedTable5()
	if err != nil {
		return nil, err
	}
	s, err := Table5().With(q.Preset, q.Rows)
	if err != nil {
		return nil, err
	}
	all, err := s.Cells(q.Preset)
	if err != nil {
		return nil, err
	}
	for _, m := range MissingSets(all) {
		papers.Notes = append(papers.Notes, "Not run: "+m.Error()+".")
	}
	if len(Present(all)) == 0 {
		papers.Provenance = "the paper's own numbers; nothing was run"
		return &Report{Report: report.Report{Title: s.Title, Provenance: papers.Provenance,
			Parts: []report.Part{{Of: papers}}}}, nil
	}
	q.Rows = nil // They are in the study.
	return study(ctx, s, q, func(t *Table, provenance string) ([]report.Part, error) {
		b, err := figures.CompareBatches(t.Scores(), scores.Printed().Select(scores.Row{Table: 5}), provenance)
		if err != nil {
			return nil, err
		}
		ours, err := b.Table()
		if err != nil {
			return nil, err
		}
		return []report.Part{{Of: ours}, {Name: "picture", Of: b.Plot()}, {Name: "gains", Of: b.Gains()},
			{Name: "paper", Of: papers}}, nil
	})
}

// PrintedTable5 returns the paper's Table 5 as it is printed. Footnotes mark numbers that are bold and should not be,
// or the reverse.
func PrintedTable5() (*figures.Table, error) {
	printed := scores.Printed().Select(scores.Row{Table: 5})
	notes := make(map[scores.Row]figures.Markup)
	for _, e := range BoldErrors(printed) {
		notes[e.Cell] = e.String()
	}
	return figures.Table5(printed, notes)
}

// BoldError is a number that the paper prints bold although another of its column is better, or that is the best of its
// column and not bold.
type BoldError struct{ Cell, Best scores.Row }

// String says what is wrong.
func (e BoldError) String() string {
	if e.Cell.Bold {
		return fmt.Sprintf("Printed bold, but %s has %.1f.", e.Best.Method, e.Best.Value.Mean)
	}
	return "The best of its column, but not printed bold."
}

// BoldErrors returns the numbers with the wrong type, in the order of the results. A column is a data set and a metric,
// and its best number should be bold.
func BoldErrors(results scores.Table) []BoldError {
	type column struct{ data, metric string }
	best := make(map[column]scores.Row)
	for _, r := range results {
		if b, known := best[column{r.Data, r.Measure}]; !known || r.Value.Mean > b.Value.Mean {
			best[column{r.Data, r.Measure}] = r
		}
	}
	var out []BoldError
	for _, r := range results {
		if b := best[column{r.Data, r.Measure}]; r.Bold != (r.Value.Mean == b.Value.Mean) {
			out = append(out, BoldError{r, b})
		}
	}
	return out
}
