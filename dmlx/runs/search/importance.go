package search

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Importance says what matters in a space, by a functional analysis of variance of a forest (Hutter, Hoos and Leyton-Brown,
// An Efficient Approach for Assessing Hyperparameter Importance, ICML 2014), with averages over drawn points in place of exact
// integrals. The forest is fitted to what all trials scored at the first rung: later ones have the better trials only. What
// diverged counts as the worst of what did not.
//
// Of forty trials the shares are rough: a sampler goes where it is good, so trials that are bad for one reason may be taken to
// be so for another. On a known function the parameter that mattered most by far came first in most searches, not in all.
type Importance struct {
	Trials, Epochs int // How many trials it rests on, and the length of their runs.
	// Explained is the share of the scores' variance that the forest foretells of trials that a tree has not seen (R², out of bag). At
	// 0 or below, the rest says nothing.
	Explained float64
	// Effects are those of each parameter alone, in the space's order. What their shares leave of 1 is due to several together.
	Effects []Effect
}

// Effect is what one parameter does on its own.
type Effect struct {
	Parameter Parameter
	// Share is the part of the forest's variance over the space that is due to this parameter alone. One that counts in a part of
	// the space only has the variance there, times how much of the space that is.
	Share float64
	// Slice is the mean score over the space as the parameter varies, where it counts.
	Slice []SlicePoint
}

// SlicePoint is a point of a slice. Low to High are the 10th and the 90th percentile of the trees.
type SlicePoint struct {
	Value           string
	Unit            float64 // Where it lies in the range, from 0 to 1, or the number of the choice.
	Mean, Low, High float64
}

const (
	forestTrees  = 100
	forestLeaf   = 2   // The fewest trials in a leaf.
	forestPoints = 256 // Drawn to average over.
	slicePoints  = 9   // Of a range.
)

// Importance fits the forest. It depends on the history alone.
func (s *Search) Importance() (*Importance, error) {
	var at []Point
	var y []float64
	for _, r := range s.Records {
		if r.Rung == 0 {
			at, y = append(at, r.At), append(y, r.Score())
		}
	}
	finite := slices.DeleteFunc(slices.Clone(y), func(v float64) bool { return math.IsInf(v, -1) })
	if len(finite) < 8 {
		return nil, fmt.Errorf("search %s: %d trials that did not diverge are too few to say what matters: want 8", s.Name, len(finite))
	}
	lowest := slices.Min(finite)
	for i := range y {
		y[i] = max(y[i], lowest)
	}
	if stat.Variance(y, nil) == 0 {
		return nil, errors.New("all trials scored the same: nothing matters")
	}
	x := make([][]float64, len(at))
	for i := range at {
		var err error
		if x[i], err = s.Space.features(at[i]); err != nil {
			return nil, err
		}
	}
	rng := rand.New(rand.NewPCG(s.Seed, math.MaxUint64)) // No bracket's.
	f := grow(s.Space, x, y, rng)
	out := &Importance{Trials: len(y), Epochs: s.Rungs[0], Explained: f.explained(x, y)}

	draws := make([][]float64, forestPoints)
	for i := range draws {
		draws[i] = make([]float64, len(s.Space))
		for j := range draws[i] {
			draws[i][j] = rng.Float64()
		}
	}
	// mean is the trees' mean scores over the drawn points with a parameter held, those of them where it counts.
	mean := func(held string, unit float64) (trees []float64, counted float64, err error) {
		trees = make([]float64, len(f.trees))
		n := 0.0
		for _, u := range draws {
			p := s.Space.place(u, held, unit)
			if _, counts := p[held]; !counts {
				continue
			}
			features, err := s.Space.features(p)
			if err != nil {
				return nil, 0, err
			}
			n++
			for t := range f.trees {
				trees[t] += f.trees[t].predict(features)
			}
		}
		for t := range trees {
			trees[t] /= max(n, 1)
		}
		return trees, n / forestPoints, nil
	}
	var all []float64
	for range 16 * forestPoints { // A variance takes more points than a mean.
		features, err := s.Space.features(s.Space.draw(rng))
		if err != nil {
			return nil, err
		}
		all = append(all, f.predict(features))
	}
	total := stat.PopVariance(all, nil)
	for _, p := range s.Space {
		e := Effect{Parameter: p}
		var means []float64
		counts := 0.0
		grid := len(p.Choices)
		if grid == 0 {
			grid = slicePoints
		}
		for k := range grid {
			unit := float64(k)
			if p.Choices == nil {
				unit = (float64(k) + 0.5) / slicePoints // Middles of equal parts, which have the variance of the whole.
			}
			trees, counted, err := mean(p.Name, unit)
			if err != nil {
				return nil, err
			}
			counts = counted
			slices.Sort(trees)
			point := SlicePoint{Value: p.value(unit), Unit: unit, Mean: stat.Mean(trees, nil),
				Low: stat.Quantile(0.1, stat.Empirical, trees, nil), High: stat.Quantile(0.9, stat.Empirical, trees, nil)}
			e.Slice, means = append(e.Slice, point), append(means, point.Mean)
		}
		if total > 0 && counts > 0 {
			e.Share = counts * stat.PopVariance(means, nil) / total
		}
		out.Effects = append(out.Effects, e)
	}
	return out, nil
}

// place makes numbers from 0 to 1 a point, one number a parameter, with one parameter held at a unit value.
func (s Space) place(u []float64, held string, unit float64) Point {
	at := make(Point)
	for j, p := range s {
		if !p.counts(at) {
			continue
		}
		if p.Name == held {
			at[p.Name] = p.value(unit)
		} else {
			at[p.Name] = p.value(p.scale(u[j]))
		}
	}
	return at
}

// absent is the feature of a parameter that does not count: outside all ranges.
const absent = -1

// features are a point's unit values, in the space's order.
func (s Space) features(at Point) ([]float64, error) {
	out := make([]float64, len(s))
	for j, p := range s {
		out[j] = absent
		if v, there := at[p.Name]; there {
			var err error
			if out[j], err = p.Unit(v); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// forest is extremely randomised regression trees (Geurts, Ernst and Wehenkel, 2006), each grown on trials drawn with replacement.
type forest struct {
	trees []*node
	out   [][]bool // Which trials each tree has not seen.
}

// node is a leaf with a mean, or a split of one feature: left are the values in a set, of choices, or up to a limit.
type node struct {
	mean        float64
	feature     int
	limit       float64
	set         map[float64]bool // Of choices.
	left, right *node
}

func grow(space Space, x [][]float64, y []float64, rng *rand.Rand) *forest {
	f := &forest{}
	for range forestTrees {
		out := slices.Repeat([]bool{true}, len(y))
		rows := make([]int, len(y))
		for i := range rows {
			rows[i] = rng.IntN(len(y))
			out[rows[i]] = false
		}
		f.trees, f.out = append(f.trees, split(space, x, y, rows, rng)), append(f.out, out)
	}
	return f
}

// split grows a tree. Of each feature one split is drawn at random, and the best of them taken: if each were searched for its
// best, those with many values would win by luck.
func split(space Space, x [][]float64, y []float64, rows []int, rng *rand.Rand) *node {
	n := &node{}
	for _, r := range rows {
		n.mean += y[r] / float64(len(rows))
	}
	best := node{}
	most := 1e-12
	for j := range space {
		cut := draw(space[j], x, rows, j, rng)
		left, count := 0.0, 0.0 // Sum of deviations from the mean; what a split gains follows from it.
		for _, r := range rows {
			if cut.takes(x[r]) {
				left += y[r] - n.mean
				count++
			}
		}
		rest := float64(len(rows)) - count
		if count < forestLeaf || rest < forestLeaf {
			continue
		}
		if gain := left * left * (1/count + 1/rest); gain > most {
			most, best = gain, cut
		}
	}
	if most <= 1e-12 {
		return n
	}
	var left, right []int
	for _, r := range rows {
		if best.takes(x[r]) {
			left = append(left, r)
		} else {
			right = append(right, r)
		}
	}
	n.feature, n.limit, n.set = best.feature, best.limit, best.set
	n.left, n.right = split(space, x, y, left, rng), split(space, x, y, right, rng)
	return n
}

// draw is a split of a feature: a limit between its least and its largest value, or some of the choices that are there.
func draw(p Parameter, x [][]float64, rows []int, feature int, rng *rand.Rand) node {
	n := node{feature: feature}
	if p.Choices == nil {
		low, high := math.Inf(1), math.Inf(-1)
		for _, r := range rows {
			low, high = min(low, x[r][feature]), max(high, x[r][feature])
		}
		n.limit = low + rng.Float64()*(high-low)
		return n
	}
	n.set = make(map[float64]bool)
	for c := range p.Choices {
		n.set[float64(c)] = rng.IntN(2) == 0
	}
	n.set[absent] = rng.IntN(2) == 0
	return n
}

// takes tells whether features go to the left.
func (n *node) takes(x []float64) bool {
	v := x[n.feature]
	return n.set != nil && n.set[v] || n.set == nil && v <= n.limit
}

func (n *node) predict(x []float64) float64 {
	for n.left != nil {
		if n.takes(x) {
			n = n.left
		} else {
			n = n.right
		}
	}
	return n.mean
}

func (f *forest) predict(x []float64) float64 {
	sum := 0.0
	for _, t := range f.trees {
		sum += t.predict(x)
	}
	return sum / float64(len(f.trees))
}

// explained is R² of predictions by the trees that have not seen a trial.
func (f *forest) explained(x [][]float64, y []float64) float64 {
	var residual, variance float64
	mean := stat.Mean(y, nil)
	for i := range y {
		sum, trees := 0.0, 0.0
		for t := range f.trees {
			if f.out[t][i] {
				sum += f.trees[t].predict(x[i])
				trees++
			}
		}
		if trees > 0 {
			residual += (y[i] - sum/trees) * (y[i] - sum/trees)
			variance += (y[i] - mean) * (y[i] - mean)
		}
	}
	return 1 - residual/variance
}
