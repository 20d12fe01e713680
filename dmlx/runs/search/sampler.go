package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Observation is a point with its score: higher is better, −Inf means that the run diverged.
type Observation struct {
	At    Point
	Score float64
}

// Sampler names an algorithm that proposes points.
type Sampler string

// The samplers.
const (
	// Random draws each parameter uniformly from its range, or its logarithm from a logarithmic range.
	Random Sampler = "random"
	// TPE is the tree-structured Parzen estimator (Bergstra et al., Algorithms for Hyper-Parameter Optimization, NeurIPS
	// 2011). It estimates the density of the best 15 % of the points and the density of the others. It draws candidates
	// from the former and takes the one with the largest ratio of the two densities. As in BOHB (Falkner et al., ICML
	// 2018), which also has the 15 %, some points are drawn at random to keep exploring.
	TPE Sampler = "tpe"
)

// Samplers returns the names of all samplers.
func Samplers() []string { return []string{string(TPE), string(Random)} }

const (
	tpeStart      = 8    // Number of random points before the densities are used.
	tpeBest       = 0.15 // Share of the points that count as the best,
	tpeLeast      = 3    // and their least number.
	tpeCandidates = 12   // Candidates per parameter.
	tpeRandom     = 0.15 // Share of the points that are drawn at random.
)

// propose returns the next n points to try. It is deterministic: it draws from rng in a fixed order.
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
		for range 10 { // Avoid points that were tried, unless the space is too small.
			if !seen[space.Text(at)] {
				break
			}
			at = space.draw(rng)
		}
		seen[space.Text(at)] = true
		bad = append(bad, at) // Until its score is known, so that the points of a bracket differ.
		out = append(out, at)
	}
	return out, nil
}

// draw returns a uniformly drawn point.
func (s Space) draw(rng *rand.Rand) Point {
	at := make(Point)
	for _, p := range s {
		u := rng.Float64() // Also drawn for unused parameters, so that the values of later ones do not depend on it.
		if p.counts(at) {
			at[p.Name] = p.value(p.scale(u))
		}
	}
	return at
}

// scale turns a number in [0, 1) into a unit value: itself in a range, the number of a choice among choices.
func (p Parameter) scale(u float64) float64 {
	if n := len(p.Choices); n > 0 {
		return math.Floor(u * float64(n))
	}
	return u
}

// likeliest returns a point that is likely among the good points and unlikely among the bad ones, parameter by
// parameter.
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

// density is a distribution of unit values: probabilities of choices, or a mixture of equal weights of normal
// distributions truncated to [0, 1].
type density struct {
	choices []float64
	parts   []distuv.Normal
}

// density estimates the distribution of a parameter over the points that have it. The prior is one count for each
// choice, or one wide component in a range.
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
	d := density{parts: []distuv.Normal{{Mu: 0.5, Sigma: 1}}} // Almost uniform on [0, 1].
	slices.Sort(units)
	narrowest := 1 / min(100, float64(len(units)+2))
	for i, u := range units { // The width is the distance to the farther neighbor (Bergstra et al., §4).
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
