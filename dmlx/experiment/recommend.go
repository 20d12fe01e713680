package experiment

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Noise is how much one measure of runs differs from seed to seed.
type Noise struct {
	Std     float64 // Pooled over groups of runs; NaN if none has several.
	Freedom int     // Its degrees of freedom.
}

// PooledNoise is that of groups of runs that differ in their seed alone each. Diverged runs are left out.
func PooledNoise(groups [][]*Result, measure func(*Result) float64) Noise {
	var stats []Stat
	for _, g := range groups {
		stats = append(stats, Over(g, measure))
	}
	return pool(stats)
}

// pool is the noise of groups of which these are the statistics.
func pool(groups []Stat) Noise {
	var n Noise
	sum := 0.0
	for _, s := range groups {
		if s.N > 1 {
			sum += s.Std * s.Std * float64(s.N-1)
			n.Freedom += s.N - 1
		}
	}
	n.Std = math.Sqrt(sum / float64(n.Freedom)) // 0/0 is NaN.
	return n
}

// around gives a value the interval that the noise gives it, when its variance is the noise's times factor.
func (n Noise) around(value, factor float64) Estimate {
	e := Estimate{value, math.NaN(), math.NaN()}
	if n.Freedom > 0 && !math.IsNaN(value) {
		half := distuv.StudentsT{Sigma: 1, Nu: float64(n.Freedom)}.Quantile(0.975) * n.Std * math.Sqrt(factor)
		e.Low, e.High = value-half, value+half
	}
	return e
}

// Difference is a's mean less b's with the 95 % interval that the noise gives it, as if no seed were shared; NaN without
// runs on either side, and without an interval where there is no noise to judge by.
func (n Noise) Difference(a, b Stat) Estimate {
	if a.N == 0 || b.N == 0 {
		return Estimate{math.NaN(), math.NaN(), math.NaN()}
	}
	return n.around(a.Mean-b.Mean, 1/float64(a.N)+1/float64(b.N))
}

// Way is how a candidate is chosen.
type Way int

// The ways to choose, the most honest last.
const (
	// ByTestRecall takes the best mean over all seeds, and judges it by the same runs: the highest of many is too high.
	ByTestRecall Way = iota
	// ByOneSeed takes the best with the first seed, and judges it by the other seeds. The test classes are still those that
	// it was chosen by.
	ByOneSeed
	// ByHeldOutClasses takes the best of runs that held training classes out, by these, and judges it on the test classes, by runs
	// that hold none out: nothing of the test has chosen.
	ByHeldOutClasses
)

// Choice is a rule or a loss that is chosen in one way, and how it compares with the reference.
type Choice struct {
	Way           Way
	Objective     string // "" if there is nothing to choose from.
	LR            float64
	Candidates    int      // Of how many it is the best.
	Judged        Stat     // Recall@1 of the runs that it is judged by, a fraction,
	Against       Stat     // and of the reference, by all of its seeds that may judge in this way.
	Difference    Estimate // Without an interval where it is the reference itself.
	ChosenLR      float64  // The rate of the run that chose it.
	ChosenByValue float64  // What it was chosen by.
}

// Recommendation is what the runs on a data set recommend, against a reference.
type Recommendation struct {
	Data                   string
	Reference              string   // An objective: the paper's best.
	ReferenceLR            float64  // 0 if it has not been run.
	Candidates, Replicated int      // Rules and losses with one seed and with several.
	Noise                  Noise    // By the other seeds than the first, which has chosen some of those that have several.
	Choices                []Choice // By [Way].
}

// Recommend chooses among runs on a data set those of a preset's size, each rule and loss at each rate a candidate, in three
// ways. first is the seed that [ByOneSeed] chooses by. Runs of another size have had more or less training, and are left out;
// so are candidates of which a run diverged.
func Recommend(runs []*Result, preset Preset, data, reference string, first uint64) (*Recommendation, error) {
	measure := func(r *Result) float64 {
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
	var whole, without []*Result // Runs with all training classes, and those that hold some out.
	for _, r := range runs {
		switch {
		case r.Spec.Data != data && r.Spec.Data != full || PresetOf(r.Spec) != preset.Name || r.Spec.Decay != 0:
		case r.Spec.HeldOut != 0:
			without = append(without, r)
		default:
			whole = append(whole, r)
		}
	}
	with := func(runs []*Result, seeds func(uint64) bool) []*Result {
		return slices.DeleteFunc(slices.Clone(runs), func(r *Result) bool { return !seeds(r.Spec.Seed) })
	}
	all := func(uint64) bool { return true }
	isFirst, others := func(s uint64) bool { return s == first }, func(s uint64) bool { return s != first }
	type candidate struct {
		spec Spec
		runs []*Result
	}
	var candidates []candidate
	var groups [][]*Result
	var paper []*Result
	for _, g := range SameButSeed(whole) {
		if Over(g, measure).Diverged > 0 {
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
	out.Candidates, out.Noise = len(candidates), PooledNoise(groups, measure)
	judge := func(c *Choice, runs []*Result, seeds func(uint64) bool) {
		c.Judged, c.Against = Over(with(runs, seeds), measure), Over(with(paper, seeds), measure)
		c.Difference = out.Noise.Difference(c.Judged, c.Against)
		if c.Judged.N > 0 && len(paper) > 0 && runs[0].Hash == paper[0].Hash {
			c.Difference = Estimate{0, math.NaN(), math.NaN()} // With itself.
		}
	}
	best := func(way Way, least int, by, judged func(uint64) bool) Choice {
		c := Choice{Way: way, Judged: Stat{Mean: math.NaN()}, Against: Stat{Mean: math.NaN()}, ChosenByValue: math.Inf(-1)}
		c.Difference = Estimate{math.NaN(), math.NaN(), math.NaN()}
		for _, x := range candidates {
			s := Over(with(x.runs, by), measure)
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
	out.Choices = []Choice{best(ByTestRecall, 2, all, all), best(ByOneSeed, 1, isFirst, others)}
	held := Choice{Way: ByHeldOutClasses, Judged: Stat{Mean: math.NaN()}, Against: Stat{Mean: math.NaN()}, ChosenByValue: math.Inf(-1)}
	held.Difference = Estimate{math.NaN(), math.NaN(), math.NaN()}
	for _, g := range SameButSeed(without) {
		s := Over(g, func(r *Result) float64 {
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
	out.Choices = append(out.Choices, held)
	if len(candidates) == 0 {
		return out, fmt.Errorf("no runs of preset %s on %s", preset.Name, data)
	}
	return out, nil
}
