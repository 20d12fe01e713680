package claims

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Measures of runs in percent, beside those of package report; most are shares of triplets.
const (
	EdgeLast    = "edge, last"  // S_ap > 0.9, last five epochs of training.
	CornerTrain = "corner"      // S_ap and S_an > 0.9, whole train set; report.Compact is that of the test set.
	SpreadTrain = "spread"      // √(var S_ap + var S_an) times 100, whole train set.
	SpreadTest  = "spread test" // The same, whole test set.
	Positive    = "positive"    // Pairs with S > 0 in training, last five epochs.
)

// Numbers are the numbers on which claims are checked: the paper's, or those of runs.
type Numbers struct {
	measured bool
	rows     scores.Table              // A row for each number, with the mean over seeds.
	means    map[scores.Row]stats.Mean // By [key].
	labels   map[string]string         // The data sets that stand for the paper's.
	pooled   map[string]stats.Noise    // Of measured numbers, by the paper's data set and measure.
}

// NumbersOf returns the numbers of scores: of [scores.Printed], or of runs, each of a Table of the paper and in the
// Role of one of its data sets. The means are over seeds. It returns an error for a score without a role, and for two
// of one seed.
func NumbersOf(of scores.Table) (*Numbers, error) {
	n := &Numbers{measured: len(of.Select(scores.Row{Whose: scores.Paper})) == 0, labels: make(map[string]string),
		means: make(map[scores.Row]stats.Mean), pooled: make(map[string]stats.Noise)}
	seeds := make(map[scores.Row]scores.Table)
	for _, r := range of {
		if r.Role == "" {
			return nil, fmt.Errorf("claims: a score on %q has no role: want one of the paper's data sets", r.Data)
		}
		k := key(r)
		if slices.ContainsFunc(seeds[k], func(other scores.Row) bool { return other.Seed == r.Seed }) {
			return nil, fmt.Errorf("claims: table %d has %s %s of %s %s on %s twice", r.Table, r.Measure,
				scores.LR.Of(k), r.Method, r.Rule, r.Data)
		}
		if seeds[k] == nil {
			n.rows, n.labels[r.Role] = append(n.rows, r), r.Data
		}
		seeds[k] = append(seeds[k], r)
	}
	seen, groups := make(map[scores.Row]bool), make(map[string][]stats.Mean)
	for i := range n.rows {
		r := &n.rows[i]
		r.Value = seeds[key(*r)].Mean()
		n.means[key(*r)] = r.Value
		cell := scores.Row{Role: r.Role, Rule: r.Rule, Measure: r.Measure, Value: r.Value} // Tables share cells.
		if !n.measured || r.Value.N < 2 || r.Table > 5 || seen[cell] {                     // Rates of sweeps are far off.
			continue
		}
		seen[cell] = true
		groups[r.Role+r.Measure] = append(groups[r.Role+r.Measure], r.Value)
	}
	for k, g := range groups {
		n.pooled[k] = stats.PoolNoise(g)
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

// Of returns a number by its table, role, method, rule, times, rate and measure, without which it is Recall@1. Without
// seeds and with a mean of NaN it is not there.
func (n *Numbers) Of(r scores.Row) stats.Mean {
	if m, there := n.means[key(r)]; there {
		return m
	}
	return scores.Missing()
}

// sets returns those of the given data sets of the paper that another stands for.
func (n *Numbers) sets(of ...string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return n.labels[s] == "" })
}

var (
	componentSets = []string{"CAR", "In-shop"}
	allSets       = []string{"CUB", "CAR", "SOP", "In-shop"}
)

// best returns the highest of the available numbers, or with sign −1 the lowest.
func (n *Numbers) best(sign float64, of scores.Table) (at scores.Row, there bool) {
	for _, r := range of {
		if m := n.Of(r); m.N > 0 && (!there || sign*m.Mean > sign*n.Of(at).Mean) {
			at, there = r, true
		}
	}
	return at, there
}

// spread returns the terms of highest minus lowest of some numbers, times a weight. If one is missing it returns that
// alone, so that the comparison counts as missing.
func (n *Numbers) spread(weight float64, of scores.Table) []term {
	for _, r := range of {
		if n.Of(r).N == 0 {
			return []term{{weight, r}}
		}
	}
	high, _ := n.best(1, of)
	low, _ := n.best(-1, of)
	return []term{{weight, high}, {-weight, low}}
}

// bestHeldOut returns a rule's number in a sweep at the rate that has the highest recall on held-out classes.
func (n *Numbers) bestHeldOut(table int, data, rule string) (scores.Row, bool) {
	of := n.swept(table, data, rule)
	for i := range of {
		of[i].Measure = report.HeldOut
	}
	best, there := n.best(1, of)
	best.Measure = report.Recall(1)
	return best, there
}

// cells iterates over all pairs of an available data set and a component.
func (n *Numbers) cells(components []string, sets ...string) iter.Seq2[string, string] {
	return func(yield func(data, component string) bool) {
		for _, data := range n.sets(sets...) {
			for _, component := range components {
				if !yield(data, component) {
					return
				}
			}
		}
	}
}

// swept returns a rule's numbers by rising learning rate. Without any it returns one that is not there, so that a
// comparison counts as missing.
func (n *Numbers) swept(table int, data, rule string) scores.Table {
	key := scores.Row{Table: table, Role: data, Rule: rule, Measure: report.Recall(1)}
	out := n.rows.Select(key)
	if out == nil {
		return scores.Table{key}
	}
	slices.SortFunc(out, func(a, b scores.Row) int { return cmp.Compare(a.LR, b.LR) })
	return out
}

// oursMethod is the name of the paper's best rule in Table 5.
const oursMethod = "Ours"

// metrics5 returns the recalls that the paper prints for a data set in Table 5.
func metrics5(data string) []string {
	return scores.Printed().Select(scores.Row{Table: 5, Role: data}).Values(scores.Measure.Of)
}

// literature returns the rows of Table 5 that the paper copied, for a data set and measure.
func (n *Numbers) literature(data, measure string) scores.Table {
	return n.rows.Select(scores.Row{Table: 5, Role: data, Measure: measure}).Where(func(r scores.Row) bool {
		return r.Rule == ""
	})
}

// own returns the authors' rows of a method, by rising batch.
func (n *Numbers) own(method, data, measure string) scores.Table {
	out := n.rows.Select(scores.Row{Table: 5, Role: data, Measure: measure, Method: method}).Where(
		func(r scores.Row) bool { return r.Rule != "" })
	slices.SortFunc(out, func(a, b scores.Row) int { return a.Times - b.Times })
	return out
}

// Names of the components, in the paper's order.
var (
	claimDirections = []string{"euc", "cos", "euc-orth", "cos-orth"}
	claimPairs      = []string{"con", "euc", "lin", "lin-ms", "sig", "sig-ms"}
	claimMasked     = []struct{ masked, bare string }{{"cos+sc1", "cos"}, {"cos+sc2", "cos"}, {"cir+sc1", "cir"},
		{"cir+sc2", "cir"}}
	claimTriplets = []string{"con", "cos", "cos+sc1", "cos+sc2", "cir", "cir+sc1", "cir+sc2"}
)

// The columns of Tables 3 and 7, and of 4 and 8.
var (
	columns3 = []string{"euc", "cos"}
	columns4 = []string{"con", "lin"}
)

func t2(data, direction string) scores.Row {
	return scores.Row{Table: 2, Role: data, Rule: direction + "/con/con"}
}

// shape is a measure of similarities, of a run of Table 2.
func shape(data, direction, measure string) scores.Row {
	r := t2(data, direction)
	r.Measure = measure
	return r
}

func t3(data, direction, pair string) scores.Row {
	return scores.Row{Table: 3, Role: data, Rule: direction + "/" + pair + "/con"}
}
func t4(data, pair, triplet string) scores.Row {
	return scores.Row{Table: 4, Role: data, Rule: "cos/" + pair + "/" + triplet}
}
