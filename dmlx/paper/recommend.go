package paper

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/stats"
)

// Way is how a candidate is chosen.
type Protocol int

// The ways to choose, the most honest last.
const (
	// ByTestRecall takes the best mean over all seeds, and judges it by the same runs: the highest of many is too high.
	ByTestRecall Protocol = iota
	// ByOneSeed takes the best with the first seed, and judges it by the other seeds. The test classes are still those that
	// it was chosen by.
	ByOneSeed
	// ByHeldOutClasses takes the best of runs that held training classes out, by these, and judges it on the test classes, by runs
	// that hold none out: nothing of the test has chosen.
	ByHeldOutClasses
)

// Choice is a rule or a loss that is chosen in one way, and how it compares with the reference.
type Selection struct {
	Protocol      Protocol
	Objective     string // "" if there is nothing to choose from.
	LR            float64
	Candidates    int            // Of how many it is the best.
	Judged        stats.Mean     // Recall@1 of the runs that it is judged by, a fraction,
	Against       stats.Mean     // and of the reference, by all of its seeds that may judge in this way.
	Difference    stats.Interval // Without an interval where it is the reference itself.
	ChosenLR      float64        // The rate of the run that chose it.
	ChosenByValue float64        // What it was chosen by.
}

// Recommendation is what the runs on a data set recommend, against a reference.
type Recommendation struct {
	Data                   string
	Reference              string      // An objective: the paper's best.
	ReferenceLR            float64     // 0 if it has not been run.
	Candidates, Replicated int         // Rules and losses with one seed and with several.
	Noise                  stats.Noise // By the other seeds than the first, which has chosen some of those that have several.
	Selections             []Selection // By [Way].
}

// Recommend chooses among runs on a data set those of a preset's size, each rule and loss at each rate a candidate, in three
// ways. first is the seed that [ByOneSeed] chooses by. Runs of another size have had more or less training, and are left out;
// so are candidates of which a run diverged.
func Recommend(results []*runs.Result, preset presets.Preset, data, reference string, first uint64) (*Recommendation, error) {
	measure := func(r *runs.Result) float64 {
		if v, measured := r.Recall[1]; measured {
			return v
		}
		return math.NaN()
	}
	out := &Recommendation{Data: data, Reference: reference}
	full, err := filepath.Abs(data) // As a run has its folder.
	if err != nil {
		return out, err
	}
	var whole, without []*runs.Result // Runs with all training classes, and those that hold some out.
	for _, r := range results {
		switch {
		case r.Spec.Data != data && r.Spec.Data != full || presets.Of(r.Spec) != preset.Name || r.Spec.Decay != 0:
		case r.Spec.HeldOut != 0:
			without = append(without, r)
		default:
			whole = append(whole, r)
		}
	}
	with := func(results []*runs.Result, seeds func(uint64) bool) []*runs.Result {
		return slices.DeleteFunc(slices.Clone(results), func(r *runs.Result) bool { return !seeds(r.Spec.Seed) })
	}
	all := func(uint64) bool { return true }
	isFirst, others := func(s uint64) bool { return s == first }, func(s uint64) bool { return s != first }
	type candidate struct {
		spec runs.Spec
		runs []*runs.Result
	}
	var candidates []candidate
	var groups [][]*runs.Result
	var paper []*runs.Result
	for _, g := range runs.SameButSeed(whole) {
		if runs.MeanOf(g, measure).Diverged > 0 {
			continue
		}
		spec := g[0].Spec
		candidates, groups = append(candidates, candidate{spec, g}), append(groups, with(g, others))
		if len(g) > 1 {
			out.Replicated++
		}
		if spec.Objective() == reference && len(g) > len(paper) {
			paper, out.ReferenceLR = g, spec.LR
		}
	}
	out.Candidates, out.Noise = len(candidates), runs.PooledNoise(groups, measure)
	judge := func(c *Selection, results []*runs.Result, seeds func(uint64) bool) {
		c.Judged, c.Against = runs.MeanOf(with(results, seeds), measure), runs.MeanOf(with(paper, seeds), measure)
		c.Difference = out.Noise.Difference(c.Judged, c.Against)
		if c.Judged.N > 0 && len(paper) > 0 && results[0].Hash == paper[0].Hash {
			c.Difference = stats.Point(0) // With itself.
		}
	}
	best := func(way Protocol, least int, by, judged func(uint64) bool) Selection {
		c := Selection{Protocol: way, Judged: stats.Mean{Mean: math.NaN()}, Against: stats.Mean{Mean: math.NaN()}, ChosenByValue: math.Inf(-1)}
		c.Difference = stats.Point(math.NaN())
		for _, x := range candidates {
			s := runs.MeanOf(with(x.runs, by), measure)
			if s.N < least {
				continue
			}
			c.Candidates++
			if s.Mean > c.ChosenByValue {
				c.ChosenByValue, c.Objective, c.LR, c.ChosenLR = s.Mean, x.spec.Objective(), x.spec.LR, x.spec.LR
				judge(&c, x.runs, judged)
			}
		}
		return c
	}
	out.Selections = []Selection{best(ByTestRecall, 2, all, all), best(ByOneSeed, 1, isFirst, others)}
	held := Selection{Protocol: ByHeldOutClasses, Judged: stats.Mean{Mean: math.NaN()}, Against: stats.Mean{Mean: math.NaN()}, ChosenByValue: math.Inf(-1)}
	held.Difference = stats.Point(math.NaN())
	for _, g := range runs.SameButSeed(without) {
		s := runs.MeanOf(g, func(r *runs.Result) float64 {
			if v, measured := r.HeldOutRecall[1]; measured {
				return v
			}
			return math.NaN()
		})
		if s.N == 0 || s.Diverged > 0 {
			continue
		}
		held.Candidates++
		if s.Mean > held.ChosenByValue {
			held.ChosenByValue, held.Objective, held.ChosenLR = s.Mean, g[0].Spec.Objective(), g[0].Spec.LR
		}
	}
	// Of its runs with all classes those at the nearest rate, of these the ones with most seeds.
	var own []candidate
	for _, x := range candidates {
		if held.Objective != "" && x.spec.Objective() == held.Objective {
			own = append(own, x)
		}
	}
	if len(own) > 0 {
		far := func(x candidate) float64 { return math.Abs(math.Log(x.spec.LR / held.ChosenLR)) }
		slices.SortStableFunc(own, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(far(a), far(b)), cmp.Compare(len(b.runs), len(a.runs)))
		})
		held.LR = own[0].spec.LR
		judge(&held, own[0].runs, all)
	}
	out.Selections = append(out.Selections, held)
	if len(candidates) == 0 {
		return out, fmt.Errorf("no runs of preset %s on %s", preset.Name, data)
	}
	return out, nil
}
