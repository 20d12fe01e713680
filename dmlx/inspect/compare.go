package inspect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// Comparison holds finished runs side by side. Its methods show what differs.
type Comparison struct {
	Groups     [][]*runs.Result // Of runs that differ in the seed alone.
	Names      []figures.Markup // Of the groups: their rules, and what else differs.
	Provenance string
	// References are rows above the groups that are no runs: features without a head. Tests are held against them, too.
	References []train.Reference

	store *runs.Store
}

// Compare puts finished runs, given by their hashes, side by side. Runs that differ in the seed alone are one group.
func Compare(store *runs.Store, hashes ...string) (*Comparison, error) {
	var results []*runs.Result
	for _, hash := range hashes {
		run, err := store.Get(hash)
		if err != nil {
			return nil, err
		}
		results = append(results, run)
	}
	if len(results) == 0 {
		return nil, fmt.Errorf("no runs to compare: want at least one hash")
	}
	return CompareResults(store, results), nil
}

// CompareResults is [Compare] for runs by their results, at least one.
func CompareResults(store *runs.Store, results []*runs.Result) *Comparison {
	groups := runs.SameButSeed(results)
	return &Comparison{Groups: groups, Names: groupNames(groups), Provenance: groupsLine(groups), store: store}
}

// Report returns the parts of a comparison: "metrics", final measures with their deviations over seeds; "curves", their
// training; and for two groups or more "tests", whether they differ from the first group by more than seeds do. A part
// without its data, as for bundled results, fails when it is shown and says why.
func (c *Comparison) Report() (*report.Report, error) {
	r := &report.Report{Name: "compare", Title: "Runs side by side", Results: slices.Concat(c.Groups...),
		Provenance: c.Provenance}
	r.Runs = len(r.Results)
	add := func(name string, out figures.Output) { r.Parts = append(r.Parts, report.Part{Name: name, Of: out}) }
	metrics, err := c.Metrics()
	if err != nil {
		return nil, err
	}
	add("metrics", metrics)
	if len(c.Groups) > 1 || len(c.References) > 0 {
		tests, err := c.Tests()
		if err != nil {
			return nil, err
		}
		add("tests", tests)
	}
	if curves, err := c.Curves(); err != nil {
		add("curves", figures.Failed(err))
	} else {
		add("curves", curves)
	}
	return r, nil
}

// runMeasures are the final measures of runs that are shown.
var runMeasures = []string{"R@1", "R@2", "R@4", "R@8", report.MAPAtR, report.Overlap, report.Compact}

// measured returns a measure of a run in percent, NaN for a run without it.
func measured(measure string) func(*runs.Result) float64 {
	return func(r *runs.Result) float64 {
		return report.Scores(r).Select(scores.Row{Measure: measure}).Mean().Mean
	}
}

// referred returns a row that is no run in the form of one.
func (c *Comparison) referred(r train.Reference) *runs.Result {
	return &runs.Result{Spec: c.Groups[0][0].Spec, Measures: r.Measures}
}

// Metrics returns the final measures of each group, with their deviations over seeds.
func (c *Comparison) Metrics() (*figures.Table, error) {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Runs", Left: true}}, Provenance: c.Provenance,
		Caption: "Final measures: mean and sample standard deviation over seeds.",
		Notes: []figures.Markup{"Overlap: of the histograms of nearest-positive and nearest-negative " +
			"similarities. Compact: share of anchors with both above 0.9."},
	}
	for _, r := range c.References {
		t.Rows = append(t.Rows, figures.Row(r.Name))
	}
	for _, name := range c.Names {
		t.Rows = append(t.Rows, figures.Row(name))
	}
	for _, m := range runMeasures {
		var means []stats.Mean
		there := false
		for _, r := range c.References {
			means = append(means, runs.MeanOf([]*runs.Result{c.referred(r)}, measured(m)))
		}
		for _, g := range c.Groups {
			s := runs.MeanOf(g, measured(m))
			there = there || s.N > 0
			means = append(means, s)
		}
		if there || m == "R@1" { // Of runs that all diverged there is that alone.
			t.Columns = append(t.Columns, figures.Column{Title: m})
			for i, s := range means {
				t.Rows[i] = append(t.Rows[i], figures.Scored(s))
			}
		}
	}
	return t, nil
}

// Tests returns whether each group differs from the first by more than seeds do.
func (c *Comparison) Tests() (*figures.Table, error) {
	first := c.Names[0]
	if len(c.References) > 0 {
		first = "the features or " + first
	}
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Runs", Left: true, Merged: true}, {Title: "less " + first, Left: true},
			{Title: "difference"}, {Title: "95 % interval"}, {Title: "p"}, {Title: "test", Left: true}},
		Caption:    "Differences between groups, tested over seeds.",
		Notes:      []figures.Markup{"Two-sided t tests. With few seeds, real differences may not be significant."},
		Provenance: c.Provenance, Rows: c.againstReferences(),
	}
	for i, g := range c.Groups[1:] {
		for _, m := range runMeasures {
			if m != "R@1" && m != "MAP@R" {
				continue // One measure of the first hit and one of all: more tests find more by chance.
			}
			s, err := runs.CompareSeeds(g, c.Groups[0], measured(m))
			method, failed := s.Method(), ""
			switch {
			case c.Groups[0][0].DataDigest != g[0].DataDigest:
				failed = "other images"
			case err != nil:
				failed = err.Error()
			case math.IsNaN(s.P):
				failed = "no two seeds differ"
			}
			if failed != "" {
				s.Difference = stats.Point(runs.MeanOf(g, measured(m)).Mean - runs.MeanOf(c.Groups[0], measured(m)).Mean)
			}
			t.Rows = append(t.Rows, testRow(c.Names[i+1], m, s.Test, method, failed))
		}
	}
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("tests of runs: no tests; want at least two groups")
	}
	t.RuleBlocks(1)
	t.MarkSignificant()
	return t, nil
}

// testRow returns the cells of a test of a group against another by a method, or of a difference alone and the reason
// why there is no test.
func testRow(group, measure figures.Markup, t stats.Test, method, failed string) []figures.Cell {
	d := t.Difference
	if failed != "" {
		return figures.Row(group, measure, signed(d.Value), "–", "–", failed)
	}
	p := fmt.Sprintf("%.3f", t.P)
	if t.P < 0.001 {
		p = "< 0.001"
	}
	return figures.Row(group, measure, figures.Tested(t, signed(d.Value)),
		fmt.Sprintf("%s to\u00a0%s", signed(d.Low), signed(d.High)), p, method)
}

// signed writes a difference in points with its sign, or – for NaN.
func signed(v float64) string {
	switch s := fmt.Sprintf("%.2f", math.Abs(v)); {
	case math.IsNaN(v):
		return "–"
	case s == "0.00":
		return s
	case v < 0:
		return "−" + s
	default:
		return "+" + s
	}
}

// againstReferences tests each group against each reference, which does not vary over seeds.
func (c *Comparison) againstReferences() (rows [][]figures.Cell) {
	for i, g := range c.Groups {
		for _, r := range c.References {
			of, differences := measured("R@1"), []float64(nil)
			for _, run := range g {
				if v := of(run); run.Diverged == "" && !math.IsNaN(v) {
					differences = append(differences, v-of(c.referred(r)))
				}
			}
			s, failed := stats.Paired(differences), ""
			if math.IsNaN(s.P) {
				failed = "no two seeds differ"
			}
			rows = append(rows, testRow(c.Names[i], "R@1 of "+r.Name, s, fmt.Sprintf("one sample, %d seeds",
				len(differences)), failed))
		}
	}
	return rows
}

// Curves draws how the runs trained. It is an error if no run has its epochs in the store.
func (c *Comparison) Curves() (*figures.Figure, error) {
	var curves []figures.RunGroup
	there := false
	for i, g := range c.Groups {
		s := runs.MeanOf(g, measured("R@1"))
		group, drawn := figures.RunGroup{Name: c.Names[i], Recall: s}, false
		for _, run := range g {
			epochs, err := c.store.Metrics(run.Hash)
			if err != nil {
				return nil, err
			}
			var curve []figures.TrainingEpoch
			for _, e := range epochs {
				curve = append(curve, figures.TrainingEpoch{Epoch: e.Epoch, ViolationRate: e.ViolationRate, Sap: e.Sap, San: e.San,
					GradientNorm: e.GradientNorm})
			}
			drawn = drawn || len(curve) > 0
			group.Curves = append(group.Curves, curve)
		}
		if there = there || drawn; !drawn {
			group.Name += " (no epochs here)"
		}
		curves = append(curves, group)
	}
	if !there {
		return nil, fmt.Errorf("none of the runs has its epochs in %s: results that come with the program have none; "+
			"trained here, with bundled results ignored, they have", c.store.Dir)
	}
	return figures.RunCurves(c.Provenance, curves...)
}

// groupNames returns names that tell groups of runs apart: their rules, and what else differs.
func groupNames(groups [][]*runs.Result) []figures.Markup {
	names := slice.Map(groups, func(g []*runs.Result) figures.Markup { return g[0].Spec.Objective.String() })
	for _, f := range []func(runs.Spec) string{
		func(s runs.Spec) string { return "on " + s.DataName() },
		func(s runs.Spec) string {
			if s.HeadStart != "" {
				return "lr chosen"
			}
			return fmt.Sprintf("lr %g", s.LR)
		},
		func(s runs.Spec) string { return "schedule " + s.ScheduleText() },
		func(s runs.Spec) string {
			if s.Head != "" { // Its text has its start.
				return s.Network()
			}
			return s.Network() + " " + s.Weights
		},
		func(s runs.Spec) string { return fmt.Sprintf("%d dimensions", s.Dim) },
		func(s runs.Spec) string {
			return fmt.Sprintf("%d×%d a batch", s.ClassesPerBatch, s.ImagesPerClass)
		},
		func(s runs.Spec) string { return fmt.Sprintf("%d epochs", s.Epochs) },
		func(s runs.Spec) string {
			s.Schedule = "" // Named above.
			return cmp.Or(s.Options.Text(), "no other options")
		},
		func(s runs.Spec) string { return fmt.Sprintf("every %d-th class held out", s.HeldOut) },
	} {
		if slices.ContainsFunc(groups, func(g []*runs.Result) bool { return f(g[0].Spec) != f(groups[0][0].Spec) }) {
			for i, g := range groups {
				names[i] += ", " + f(g[0].Spec)
			}
		}
	}
	for i := range names { // Only the hash tells the rest apart.
		if slices.Index(names, names[i]) != i || slices.Contains(names[i+1:], names[i]) {
			names[i] += ", " + groups[i][0].Hash
		}
	}
	return names
}

// groupsLine returns the provenance of groups of runs.
func groupsLine(groups [][]*runs.Result) string {
	var all report.Provenance
	var names []string
	for _, g := range groups {
		all.Data, all.Results = append(all.Data, g[0].Spec.DataName()), append(all.Results, g...)
		names = slice.AddNew(names, presets.Of(g[0].Spec))
	}
	all.Preset, all.Runs = strings.Join(names, ", "), len(all.Results)
	return all.String()
}
