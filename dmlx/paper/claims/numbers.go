package claims

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Fact is a number on which claims are checked.
type Fact struct {
	Table  int     // Of the paper, 2 to 8; 0 for what is in none.
	Data   string  // The paper's data set, whichever set stands for it.
	Method string  // Table 5 only.
	Rule   string  // direction/pair/triplet; empty for the literature.
	Times  int     // Table 5: the batch as a multiple of the smallest.
	LR     float64 // Tables 6 to 8.
	Metric string  // R@1, …; or one of the shares below.
	Score  stats.Mean
}

// Metrics of a [Fact] in percent other than recall on the test classes; most are shares of triplets.
const (
	Overlapping = "overlap"     // Of the distributions of nearest-positive and nearest-negative similarities, test set.
	EdgeLast    = "edge, last"  // S_ap > 0.9, last five epochs of training.
	CornerTrain = "corner"      // S_ap and S_an > 0.9, whole train set.
	CornerTest  = "corner test" // The same, whole test set.
	SpreadTrain = "spread"      // √(var S_ap + var S_an) times 100, whole train set.
	SpreadTest  = "spread test" // The same, whole test set.
	Positive    = "positive"    // Pairs with S > 0 in training, last five epochs.
	HeldOut     = "held out"    // Recall@1 on held-out training classes, of Tables 6 to 8.
)

// Numbers are the numbers on which claims are checked: the paper's, or those of runs.
type Numbers struct {
	measured bool
	labels   map[string]string      // The data sets that stand for the paper's.
	facts    map[Fact]stats.Mean    // By the fact without its score.
	order    []Fact                 // As given.
	pooled   map[string]stats.Noise // Of measured numbers, by data set and metric.
	printed  scores.Table           // The paper's own only.
}

// PaperNumbers returns all numbers that the paper prints.
func PaperNumbers() (*Numbers, error) {
	return paperNumbers(scores.Printed())
}

func paperNumbers(results scores.Table) (*Numbers, error) {
	var facts []Fact
	labels := make(map[string]string)
	for _, r := range results {
		facts = append(facts, Fact{Table: r.Table, Data: r.Data, Method: r.Method, Rule: r.Rule, Times: r.Times, LR: r.LR,
			Metric: r.Measure, Score: r.Value})
		labels[r.Data] = r.Data
	}
	n, err := newNumbers(facts, labels)
	if err != nil {
		return nil, err
	}
	n.printed = results
	return n, nil
}

// RunNumbers returns the numbers of runs. labels names the data set that stands for each of the paper's. A fact that
// occurs twice or has an unknown data set is an error.
func RunNumbers(facts []Fact, labels map[string]string) (*Numbers, error) {
	n, err := newNumbers(facts, labels)
	if err != nil {
		return nil, err
	}
	n.measured, n.pooled = true, make(map[string]stats.Noise)
	seen, groups := make(map[Fact]bool), make(map[string][]stats.Mean)
	for _, f := range n.order {
		s := n.facts[f]
		cell := Fact{Data: f.Data, Rule: f.Rule, Metric: f.Metric, Score: s} // Tables share cells.
		if s.N < 2 || f.Table > 5 || seen[cell] {                            // Sweeps hold runs of rates that are far off.
			continue
		}
		seen[cell] = true
		groups[f.Data+" "+f.Metric] = append(groups[f.Data+" "+f.Metric], s)
	}
	for k, g := range groups {
		n.pooled[k] = stats.PoolNoise(g)
	}
	return n, nil
}

func newNumbers(facts []Fact, labels map[string]string) (*Numbers, error) {
	n := &Numbers{labels: labels, facts: make(map[Fact]stats.Mean)}
	for _, f := range facts {
		s := f.Score
		f = f.key()
		if labels[f.Data] == "" {
			return nil, fmt.Errorf("claims: a number on %q, but no label says which data set stands for it", f.Data)
		}
		if _, there := n.facts[f]; there {
			return nil, fmt.Errorf("claims: the number of table %d for %s %s %s %s lr %g occurs twice", f.Table, f.Data,
				f.Method, f.Rule, f.Metric, f.LR)
		}
		n.facts[f] = s
		n.order = append(n.order, f)
	}
	return n, nil
}

// key returns what identifies the fact. One without a metric is Recall@1.
func (f Fact) key() Fact {
	f.Metric, f.Score = cmp.Or(f.Metric, "R@1"), stats.Mean{}
	return f
}

// Of returns a number, with no seeds and a mean of NaN if it is not there. A fact without a metric is Recall@1.
func (n *Numbers) Of(f Fact) stats.Mean {
	if s, there := n.facts[f.key()]; there {
		return s
	}
	return scores.Missing()
}

// where returns the facts, without their scores, for which keep is true.
func (n *Numbers) where(keep func(Fact) bool) []Fact {
	return slices.DeleteFunc(slices.Clone(n.order), func(f Fact) bool { return !keep(f) })
}

// sets returns those of the given data sets of the paper that another stands for.
func (n *Numbers) sets(of ...string) []string {
	return slices.DeleteFunc(slices.Clone(of), func(s string) bool { return n.labels[s] == "" })
}

var (
	componentSets = []string{"CAR", "In-shop"}
	allSets       = []string{"CUB", "CAR", "SOP", "In-shop"}
)

// rates returns the learning rates of a rule in a sweep, in rising order.
func (n *Numbers) rates(table int, data, rule string) []float64 {
	var out []float64
	for _, f := range n.order {
		if f.Table == table && f.Data == data && f.Rule == rule && f.Metric == "R@1" {
			out = append(out, f.LR)
		}
	}
	slices.Sort(out)
	return out
}

// best returns the highest of the available numbers, or with sign −1 the lowest.
func (n *Numbers) best(sign float64, of []Fact) (Fact, bool) {
	at, found := Fact{}, math.Inf(-1)
	for _, f := range of {
		if s := n.Of(f); s.N > 0 && sign*s.Mean > found {
			at, found = f.key(), sign*s.Mean
		}
	}
	return at, !math.IsInf(found, -1)
}

// spread returns the terms of highest minus lowest of some numbers, times a weight. If one is missing it returns that
// alone, so that the comparison counts as missing.
func (n *Numbers) spread(weight float64, of []Fact) []term {
	for _, f := range of {
		if n.Of(f).N == 0 {
			return []term{{weight, f}}
		}
	}
	high, _ := n.best(1, of)
	low, _ := n.best(-1, of)
	return []term{{weight, high}, {-weight, low}}
}

// bestHeldOut returns a rule's number in a sweep at the rate that has the highest recall on held-out classes.
func (n *Numbers) bestHeldOut(table int, data, rule string) (Fact, bool) {
	of := n.swept(table, data, rule)
	for i := range of {
		of[i].Metric = HeldOut
	}
	best, there := n.best(1, of)
	best.Metric = ""
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

// swept returns a rule's numbers over the learning rates.
func (n *Numbers) swept(table int, data, rule string) []Fact {
	var out []Fact
	for _, lr := range n.rates(table, data, rule) {
		out = append(out, Fact{Table: table, Data: data, Rule: rule, LR: lr})
	}
	if out == nil { // Its lookup fails, so that the comparison counts as missing.
		out = []Fact{{Table: table, Data: data, Rule: rule}}
	}
	return out
}

// oursMethod is the name of the paper's best rule in Table 5.
const oursMethod = "Ours"

// metrics5 returns the recalls that the paper prints for a data set in Table 5.
func metrics5(data string) []string {
	return scores.Printed().Select(scores.Row{Table: 5, Data: data}).Values(scores.Measure.Of)
}

// literature returns the rows of Table 5 that the paper copied, for a data set and metric.
func (n *Numbers) literature(data, metric string) []Fact {
	return n.where(func(f Fact) bool {
		return f.Table == 5 && f.Data == data && f.Metric == metric && f.Rule == ""
	})
}

// own returns the authors' rows of a method, by rising batch.
func (n *Numbers) own(method, data, metric string) []Fact {
	out := n.where(func(f Fact) bool {
		return f.Table == 5 && f.Data == data && f.Metric == metric && f.Method == method && f.Rule != ""
	})
	slices.SortFunc(out, func(a, b Fact) int { return a.Times - b.Times })
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

func t2(data, direction string) Fact { return Fact{Table: 2, Data: data, Rule: direction + "/con/con"} }
func t3(data, direction, pair string) Fact {
	return Fact{Table: 3, Data: data, Rule: direction + "/" + pair + "/con"}
}
func t4(data, pair, triplet string) Fact {
	return Fact{Table: 4, Data: data, Rule: "cos/" + pair + "/" + triplet}
}

// sortedKeys returns a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
