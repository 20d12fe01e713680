package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Tried is a point with what it scored: more is better, and −Inf is a run that diverged.
type Observation struct {
	At    Point
	Score float64
}

// Sampler proposes points.
type Sampler string

// The samplers.
const (
	// Random draws each parameter uniformly from its range, of its logarithm where it is spaced by ratios.
	Random Sampler = "random"
	// TPE is the tree-structured Parzen estimator (Bergstra et al., Algorithms for Hyper-Parameter Optimization, NeurIPS 2011): of
	// the points tried, the density of the best 15 % is set against that of the others, and of some draws from the former the one
	// is taken that is likeliest among the best and least likely among the others. Some points are drawn at random, so that no
	// corner is given up, as in BOHB (Falkner et al., ICML 2018), whose 15 % it is.
	TPE Sampler = "tpe"
)

// Samplers lists the samplers' names.
func Samplers() []string { return []string{string(TPE), string(Random)} }

const (
	tpeStart      = 8    // So many points are tried before any is proposed by density.
	tpeBest       = 0.15 // The share of them that are the best ones,
	tpeLeast      = 3    // at least so many.
	tpeCandidates = 12   // Draws for each parameter.
	tpeRandom     = 0.15 // The share of points that are drawn at random.
)

// propose gives n points to try next. It depends on nothing but its arguments: the generator is drawn from in a fixed order.
func (s Sampler) propose(space Space, tried []Observation, n int, rng *rand.Rand) ([]Point, error) {
	var good, bad []Point
	if s == TPE && len(tried) >= tpeStart {
		order := slices.Clone(tried)
		slices.SortStableFunc(order, func(a, b Observation) int { return cmp.Compare(b.Score, a.Score) })
		split := max(tpeLeast, int(math.Ceil(tpeBest*float64(len(order)))))
		for i, t := range order {
			if i < split && !math.IsInf(t.Score, -1) {
				good = append(good, t.At)
			} else {
				bad = append(bad, t.At)
			}
		}
	} else if s != TPE && s != Random {
		return nil, fmt.Errorf("no sampler %q; there are %s, %s", s, TPE, Random)
	}
	seen := make(map[string]bool)
	for _, t := range tried {
		seen[space.Text(t.At)] = true
	}
	var out []Point
	for range n {
		var at Point
		var err error
		if uniform := rng.Float64() < tpeRandom; uniform || len(good) == 0 {
			at = space.draw(rng)
		} else if at, err = space.likeliest(good, bad, rng); err != nil {
			return nil, err
		}
		for range 10 { // What was tried would only be read from the store. A small space may have nothing else.
			if !seen[space.Text(at)] {
				break
			}
			at = space.draw(rng)
		}
		seen[space.Text(at)] = true
		bad = append(bad, at) // As long as nothing is known of it, so that the points of a bracket differ.
		out = append(out, at)
	}
	return out, nil
}

// draw is a point drawn uniformly.
func (s Space) draw(rng *rand.Rand) Point {
	at := make(Point)
	for _, p := range s {
		u := rng.Float64() // Drawn whether it counts or not, so that one parameter's value does not shift the others'.
		if p.counts(at) {
			at[p.Name] = p.value(p.scale(u))
		}
	}
	return at
}

// scale makes a number from 0 to 1 a unit value: itself in a range, and among choices a choice's number.
func (p Parameter) scale(u float64) float64 {
	if n := len(p.Choices); n > 0 {
		return math.Floor(u * float64(n))
	}
	return u
}

// likeliest is a point that is likely among the good and unlikely among the bad, parameter by parameter.
func (s Space) likeliest(good, bad []Point, rng *rand.Rand) (Point, error) {
	at := make(Point)
	for _, p := range s {
		if !p.counts(at) {
			continue
		}
		l, err := p.density(good)
		if err != nil {
			return nil, err
		}
		g, err := p.density(bad)
		if err != nil {
			return nil, err
		}
		best, value := math.Inf(-1), 0.0
		for range tpeCandidates {
			u := l.draw(rng)
			if ratio := l.logDensity(u) - g.logDensity(u); ratio > best {
				best, value = ratio, u
			}
		}
		at[p.Name] = p.value(value)
	}
	return at, nil
}

// density is a distribution of unit values: of choices their probabilities, else equal parts of normal distributions cut off
// at 0 and 1.
type density struct {
	choices []float64
	parts   []distuv.Normal
}

// density estimates how a parameter is distributed over points, those of them where it counts. Beside them each choice counts
// once more, and in a range one part that is all but uniform.
func (p Parameter) density(points []Point) (density, error) {
	var units []float64
	for _, at := range points {
		v, there := at[p.Name]
		if !there {
			continue
		}
		u, err := p.Unit(v)
		if err != nil {
			return density{}, err
		}
		units = append(units, u)
	}
	if n := len(p.Choices); n > 0 {
		d := density{choices: slices.Repeat([]float64{1}, n)}
		for _, u := range units {
			d.choices[int(u)]++
		}
		for i := range d.choices {
			d.choices[i] /= float64(len(units) + n)
		}
		return d, nil
	}
	d := density{parts: []distuv.Normal{{Mu: 0.5, Sigma: 1}}} // All but uniform on [0, 1].
	slices.Sort(units)
	narrowest := 1 / min(100, float64(len(units)+2))
	for i, u := range units { // As wide as the farther neighbour is far (Bergstra et al., §4).
		left, right := u, 1-u
		if i > 0 {
			left = u - units[i-1]
		}
		if i+1 < len(units) {
			right = units[i+1] - u
		}
		d.parts = append(d.parts, distuv.Normal{Mu: u, Sigma: min(max(left, right, narrowest), 1)})
	}
	return d, nil
}

func (d density) draw(rng *rand.Rand) float64 {
	if d.choices != nil {
		u := rng.Float64()
		for i, p := range d.choices {
			if u -= p; u < 0 {
				return float64(i)
			}
		}
		return float64(len(d.choices) - 1)
	}
	part := d.parts[rng.IntN(len(d.parts))]
	low, high := part.CDF(0), part.CDF(1)
	return min(max(part.Quantile(low+rng.Float64()*(high-low)), 0), 1)
}

func (d density) logDensity(u float64) float64 {
	if d.choices != nil {
		return math.Log(d.choices[int(u)])
	}
	sum := 0.0
	for _, part := range d.parts {
		sum += part.Prob(u) / (part.CDF(1) - part.CDF(0))
	}
	return math.Log(sum / float64(len(d.parts)))
}
