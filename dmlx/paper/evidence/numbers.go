package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Numbers are the numbers on which entries are judged: the paper's, or those of runs.
type Numbers struct {
	measured bool
	short    bool                        // They are of short runs.
	rows     scores.Table                // A row for each number, with the mean over seeds.
	of       map[scores.Row]scores.Table // By [key], a row for each seed.
	means    map[scores.Row]stats.Mean
	labels   map[string]string // The data sets that stand for the paper's.
	noise    map[scores.Row]stats.Noise
}

// NumbersOf returns the numbers of scores: of [scores.Printed], or of runs, each of a Table of the paper and in the
// Role of one of its data sets. The means are over seeds. It returns an error for a score without a role, and for two
// of one seed.
func NumbersOf(of scores.Table) (*Numbers, error) {
	n := &Numbers{measured: len(of.Select(scores.Row{Whose: scores.Paper})) == 0, labels: make(map[string]string),
		of: make(map[scores.Row]scores.Table), means: make(map[scores.Row]stats.Mean),
		noise: make(map[scores.Row]stats.Noise)}
	for _, r := range of {
		if r.Role == "" {
			return nil, fmt.Errorf("evidence: a score on %q has no role: want one of the paper's data sets", r.Data)
		}
		k := key(r)
		if slices.ContainsFunc(n.of[k], func(other scores.Row) bool { return other.Seed == r.Seed }) {
			return nil, fmt.Errorf("evidence: table %d has %s %s of %s %s on %s twice", r.Table, r.Measure, scores.LR.Of(k),
				r.Method, r.Rule, r.Data)
		}
		if n.of[k] == nil {
			n.rows, n.labels[r.Role] = append(n.rows, r), r.Data
		}
		n.of[k] = append(n.of[k], r)
	}
	seen, groups := make(map[scores.Row]bool), make(map[scores.Row][]stats.Mean)
	for i := range n.rows {
		r := &n.rows[i]
		r.Value = n.of[key(*r)].Mean()
		n.means[key(*r)] = r.Value
		cell := scores.Row{Role: r.Role, Rule: r.Rule, Measure: r.Measure, Value: r.Value} // Tables share cells.
		// Rates of sweeps are far off, a rate that grows with the batch is none of the paper's, and other recalls than the
		// first are in Table 5 alone.
		shown := r.Table < 5 && (r.Measure == report.Recall(1) || !strings.HasPrefix(r.Measure, "R@")) ||
			r.Table == 5 && r.Method != paper.ScaledRate
		if n.measured && r.Value.N > 1 && shown && !seen[cell] {
			seen[cell] = true
			groups[noiseKey(*r)] = append(groups[noiseKey(*r)], r.Value)
		}
	}
	for k, g := range groups {
		n.noise[k] = stats.PoolNoise(g)
	}
	return n, nil
}

// key returns what a number is known by. One without a measure is Recall@1, and a rate is that of a sweep.
func key(r scores.Row) scores.Row {
	k := scores.Row{Table: r.Table, Role: r.Role, Method: r.Method, Rule: r.Rule, Times: r.Times,
		Measure: cmp.Or(r.Measure, report.Recall(1))}
	if r.Table > 5 {
		k.LR = r.LR
	}
	return k
}

// noiseKey returns what numbers of one noise have in common: the data set and the measure.
func noiseKey(r scores.Row) scores.Row {
	return scores.Row{Role: r.Role, Measure: cmp.Or(r.Measure, report.Recall(1))}
}

// Of returns a number by its table, role, method, rule, times, rate and measure, without which it is Recall@1. Without
// seeds and with a mean of NaN it is not there.
func (n *Numbers) Of(r scores.Row) stats.Mean {
	if m, there := n.means[key(r)]; there {
		return m
	}
	return scores.Missing()
}

// best returns the highest of the available numbers, or with sign −1 the lowest.
func (n *Numbers) best(sign float64, of scores.Table) (at scores.Row, there bool) {
	for _, r := range of {
		if m := n.Of(r); m.N > 0 && (!there || sign*m.Mean > sign*n.Of(at).Mean) {
			at, there = r, true
		}
	}
	return at, there
}

// bestHeldOut returns a rule's number in a sweep at the rate that has the highest recall on held-out classes.
func (n *Numbers) bestHeldOut(swept scores.Table) (scores.Row, bool) {
	of := slices.Clone(swept)
	for i := range of {
		of[i].Measure = report.HeldOut
	}
	best, there := n.best(1, of)
	best.Measure = report.Recall(1)
	return best, there
}

// swept returns a rule's numbers by rising learning rate. Without any it returns one that is not there, so that a
// comparison counts as missing.
func (n *Numbers) swept(key scores.Row) scores.Table {
	out := n.rows.Select(key)
	if out == nil {
		return scores.Table{key}
	}
	slices.SortFunc(out, func(a, b scores.Row) int { return cmp.Compare(a.LR, b.LR) })
	return out
}
