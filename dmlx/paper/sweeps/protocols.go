package sweeps

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
	"github.com/gradient-surgery/dml/figures"
)

// choices returns the selected rates of each row on a data set, by both protocols and by the paper.
func (s *Sweep) choices(set int) []figures.SweepChoice {
	out := make([]figures.SweepChoice, len(s.rows))
	var chosen []*figures.SweepChoice
	for i, r := range s.rows {
		out[i].Paper.Test = r.main[set]
		if theirs := r.Cells[set].Theirs; theirs.Best() >= 0 {
			out[i].Paper = selected(theirs, theirs.Best())
		}
		ours := r.Cells[set].Ours
		if ours.Best() < 0 || ours.BestHeldOut() < 0 {
			out[i].Lack = lack(ours)
			continue
		}
		out[i].ByTest, out[i].ByHeldOut = selected(ours, ours.Best()), selected(ours, ours.BestHeldOut())
		out[i].Optimism = out[i].ByTest.Test.Mean - out[i].ByHeldOut.Test.Mean
		chosen = append(chosen, &out[i])
	}
	rank(chosen, func(c *figures.SweepChoice) *figures.SelectedRate { return &c.Paper })
	rank(chosen, func(c *figures.SweepChoice) *figures.SelectedRate { return &c.ByTest })
	rank(chosen, func(c *figures.SweepChoice) *figures.SelectedRate { return &c.ByHeldOut })
	return out
}

func selected(c scores.Curve, i int) figures.SelectedRate {
	return figures.SelectedRate{AtRate: c[i], AtEdge: c.AtEdge(i)}
}

// rank numbers the choices from 0 by descending test recall. Ties keep the order of the rows, so that each choice has a
// place of its own in the picture. Choices without a recall come last.
func rank(choices []*figures.SweepChoice, of func(*figures.SweepChoice) *figures.SelectedRate) {
	recall := func(c *figures.SweepChoice) float64 {
		if r := of(c).Test.Mean; !math.IsNaN(r) {
			return r
		}
		return math.Inf(-1)
	}
	order := slices.Clone(choices)
	slices.SortStableFunc(order, func(a, b *figures.SweepChoice) int {
		switch x, y := recall(a), recall(b); {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	for i, c := range order {
		of(c).Rank = i
	}
}

// lack says why no rate can be selected on the curve by both protocols.
func lack(c scores.Curve) figures.Markup {
	switch {
	case !c.Complete():
		return fmt.Sprintf("%d of %d rates have been run.", c.Ran(), len(c))
	case c.Best() < 0:
		return "A run diverged at every rate."
	}
	return "The runs hold no classes out."
}

// notes returns the notes on the protocols on a data set: the optimism of the first one, and the rank correlations of
// both orders with each other and with the paper's.
func (s *Sweep) notes(set int, choices []figures.SweepChoice) []figures.Markup {
	choices = slices.DeleteFunc(slices.Clone(choices), func(c figures.SweepChoice) bool { return !c.Chosen() })
	if len(choices) == 0 {
		return nil
	}
	var onTest, onHeldOut, papers []stats.Mean
	same, moved, edges, sum, most := 0, 0, 0, 0.0, 0.0
	for _, c := range choices {
		onTest, onHeldOut = append(onTest, c.ByTest.Test), append(onHeldOut, c.ByHeldOut.Test)
		papers = append(papers, c.Paper.Test)
		sum, most = sum+c.Optimism, max(most, c.Optimism)
		if c.ByTest.LR == c.ByHeldOut.LR {
			same++
		}
		if c.ByTest.Rank != c.ByHeldOut.Rank {
			moved++
		}
		if c.ByTest.AtEdge {
			edges++
		}
	}
	data, n := s.sets[set], len(choices)
	out := []figures.Markup{
		fmt.Sprintf("On %s, %d of %d configurations: both choose the same rate for %d; optimism is %.1f "+
			"points in the mean and %.1f at most; %d change their rank; "+
			"the rate chosen on test is at its grid's edge for %d.", data.Data, n, len(s.rows), same, sum/float64(n), most,
			moved, edges),
		fmt.Sprintf("Order on %s (Spearman): one protocol against the other %s.", data.Data,
			correlation(onTest, onHeldOut, false)),
	}
	if data.Paper != "" {
		out = append(out, fmt.Sprintf("Order on %s against the paper's on %s: chosen on test %s; chosen on held-out "+
			"classes %s.", data.Data, data.Paper, correlation(onTest, papers, true), correlation(onHeldOut, papers, true)))
	}
	return out
}

// correlation formats the rank correlation of two lists of means. Both protocols read the same runs, so that the
// interval and the p-value, which assume independent lists, are left out for these.
func correlation(a, b []stats.Mean, independent bool) string {
	r, err := stats.CompareRanks(a, b)
	switch {
	case err != nil:
		return err.Error()
	case math.IsNaN(r.Rho) || independent:
		return r.String()
	}
	return strings.ReplaceAll(fmt.Sprintf("ρ = %.2f, n = %d", r.Rho, r.N), "-", "−")
}
