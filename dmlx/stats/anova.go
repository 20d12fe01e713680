package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Observation is one run of a rule, for [Analyze].
type Observation struct {
	Direction, Pair, Triplet string // Names of the rule's parts; Triplet with its mask.
	Value                    float64
}

// factors are the parts of a rule that an analysis of variance separates.
var factors = [...]string{"direction", "pair weight", "triplet weight"}

func (o Observation) level(factor int) string {
	return [...]string{o.Direction, o.Pair, o.Triplet}[factor]
}

// Anova is an analysis of variance of the full grid: the share of the differences between runs that goes with the
// direction, the pair weight and the triplet weight, each by itself and together.
type Anova struct {
	Runs, Cells int // Cells are the combinations that have a run.
	Possible    int // Combinations of all levels.
	Mean        float64
	// Effects are the three main effects, the three two-way interactions and the three-way one, in this order.
	Effects []Effect
	// Error is what the effects are tested against, named by ErrorTerm: how runs differ from seed to seed where that is
	// known, else the three-way interaction, which then cannot be tested.
	Error     Effect
	ErrorTerm string
	// Margins are the estimated marginal means by factor: direction, pair weight, triplet weight. MarginModel says from
	// which model.
	Margins     [3][]Margin
	MarginModel string
}

// The error terms of an [Anova], and the models of its marginal means.
const (
	SeedsError    = "seeds"                 // Pure error: runs of equal rules.
	ThreeWayError = "three-way interaction" // With one seed a rule.

	InteractionModel = "main effects and two-way interactions"
	AdditiveModel    = "main effects only"
)

// Effect is a line of an [Anova].
type Effect struct {
	Name string
	// DF are the degrees of freedom that the runs there are can tell; Full those of a grid without gaps.
	DF, Full int
	SS, MS   float64 // Sum of squares (Type II) and mean square; in squared units of the values.
	// F and P are the test against the error. NaN where there is no degree of freedom, and for the error itself.
	F, P float64
	// Omega is partial ω², the share of the variance of this effect and the error that is the effect's; 0 where the
	// estimate is negative. Low and High are its 95 % interval, by the noncentral F distribution.
	Omega, Low, High float64
}

// Margin is the estimated marginal mean of a level: the model's mean over all combinations of the other factors'
// levels, with runs or without.
type Margin struct {
	Level string
	Runs  int
	// Mean is NaN where the runs there are do not decide it. SE is its standard error, DF the degrees of freedom of
	// that; Low and High are the 95 % interval by Student's t.
	Mean, SE  float64
	DF        int
	Low, High float64
}

// Analyze computes an analysis of variance by least squares, with sum-to-zero coding and sums of squares of Type II: an
// effect's is what it explains beyond all effects that do not contain it (Fox, Applied Regression Analysis, §8.2).
// Combinations may have any number of runs, also none; gaps reduce an effect's degrees of freedom. Diverged runs have
// no value and must be left out before.
//
// seeds is the known noise between runs of equal combinations, in the values' unit. Without degrees of freedom it is
// estimated from combinations with several runs.
//
// A part that is the same in all runs has no effect and no degrees of freedom.
//
// It fails for values that are not finite, for runs of one combination alone, and if nothing is left to test against:
// no combination has two runs, and the two-way interactions explain everything.
func Analyze(observations []Observation, seeds Noise) (*Anova, error) {
	d, err := newDesign(observations)
	if err != nil {
		return nil, fmt.Errorf("analysis of variance: %w", err)
	}
	a := &Anova{Runs: len(d.y), Cells: len(d.cells), Possible: 1, Mean: d.mean}
	for _, l := range d.levels {
		a.Possible *= len(l)
	}
	const dir, pair, triplet = 1, 2, 4 // A term is a set of factors.
	terms := []uint{dir, pair, triplet, dir | pair, dir | triplet, pair | triplet, dir | pair | triplet}
	twoWay := terms[:6]
	pure, inner := d.withinCells()
	full, err := d.fit(twoWay)
	if err != nil {
		return nil, fmt.Errorf("analysis of variance: %w", err)
	}
	a.ErrorTerm, a.Error = SeedsError, Effect{SS: pure, DF: inner, Full: inner}
	switch {
	case seeds.Freedom > 0:
		a.Error = Effect{SS: seeds.Std * seeds.Std * float64(seeds.Freedom), DF: seeds.Freedom, Full: seeds.Freedom}
	case inner == 0:
		a.ErrorTerm, a.Error = ThreeWayError, Effect{SS: full.rss, DF: full.freedom, Full: d.freedom(dir | pair | triplet)}
	}
	e := &a.Error
	e.SS = d.whole(e.SS)
	e.Name, e.F, e.P, e.Omega, e.Low, e.High = a.ErrorTerm, math.NaN(), math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if e.DF == 0 {
		return nil, fmt.Errorf("analysis of variance: %d runs of %d combinations leave nothing to test against: run some "+
			"combinations "+
			"with a second seed, or more of the %d combinations", a.Runs, a.Cells, a.Possible)
	}
	e.MS = e.SS / float64(e.DF)
	for _, term := range terms {
		f := Effect{Name: name(term), Full: d.freedom(term), F: math.NaN(), P: math.NaN(), Omega: math.NaN(),
			Low: math.NaN(), High: math.NaN(), MS: math.NaN()}
		if term == dir|pair|triplet {
			if a.ErrorTerm == ThreeWayError {
				f.SS, f.DF = math.NaN(), 0
			} else {
				f.SS, f.DF = max(full.rss-pure, 0), full.freedom-inner
			}
		} else if err := d.typeII(&f, term, twoWay); err != nil {
			return nil, fmt.Errorf("analysis of variance: %w", err)
		}
		f.test(*e, a.Runs)
		a.Effects = append(a.Effects, f)
	}
	return a, d.margins(a, full)
}

// name is a term's: "direction × pair weight".
func name(term uint) string {
	out := ""
	for i, f := range factors {
		if term&(1<<i) == 0 {
			continue
		}
		if out != "" {
			out += " × "
		}
		out += f
	}
	return out
}

// test fills in what depends on the error. A grid without any noise has no F.
func (f *Effect) test(e Effect, runs int) {
	if f.DF == 0 {
		return
	}
	f.MS = f.SS / float64(f.DF)
	if !(e.MS > 0) {
		return
	}
	f.F = f.MS / e.MS
	d1, d2 := float64(f.DF), float64(e.DF)
	f.P = distuv.F{D1: d1, D2: d2}.Survival(f.F)
	// The noncentrality λ is runs times the effect's variance over the error's, so that λ/(λ+runs) is the share.
	share := func(lambda float64) float64 { return lambda / (lambda + float64(runs)) }
	f.Omega = share(max(0, d1*(f.F-1)))
	f.Low, f.High = share(noncentrality(f.F, d1, d2, 0.975)), share(noncentrality(f.F, d1, d2, 0.025))
}

// noncentrality returns the λ with which a noncentral F is at most f with probability p; 0 where none is as small
// (Steiger, Psychological Methods 9, 2004).
func noncentrality(f, d1, d2, p float64) float64 {
	if noncentralF(f, d1, d2, 0) <= p {
		return 0
	}
	low, high := 0.0, 1.0
	for high < 1e100 && noncentralF(f, d1, d2, high) > p { // Where squares are still finite.
		low, high = high, 2*high
	}
	for range 60 {
		if middle := (low + high) / 2; noncentralF(f, d1, d2, middle) > p {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// mixtureEnds is the noncentrality up to which the distribution function of F is summed as a mixture, whose terms
// grow with its root; at it this and the integral differ by less than 10⁻⁶ for up to a thousand runs.
const mixtureEnds = 1e4

// noncentralF returns the distribution function of F with d1 and d2 degrees of freedom and noncentrality λ: a mixture
// of beta distributions with Poisson weights, summed where these exceed rounding.
func noncentralF(f, d1, d2, lambda float64) float64 {
	if lambda > mixtureEnds {
		return farNoncentralF(f, d1, d2, lambda)
	}
	x := d1 * f / (d1*f + d2)
	if lambda == 0 {
		return mathext.RegIncBeta(d1/2, d2/2, x)
	}
	poisson := distuv.Poisson{Lambda: lambda / 2}
	sum := 0.0
	first, last := poissonReach(lambda / 2)
	for j := first; j <= last; j++ {
		sum += poisson.Prob(j) * mathext.RegIncBeta(d1/2+j, d2/2, x)
	}
	return sum
}

// poissonReach returns the range in which the weights of a Poisson distribution exceed rounding.
func poissonReach(mean float64) (first, last float64) {
	reach := 12*math.Sqrt(mean) + 30
	return math.Floor(max(0, mean-reach)), math.Floor(mean + reach)
}

// farNoncentralF is noncentralF for a large λ. F is then the ratio of a noncentral χ² that is nearly the square of a
// normal variable, of which it has mean and variance here, to a χ² whose distribution is integrated over it. With d1
// = 1 it is exact.
func farNoncentralF(f, d1, d2, lambda float64) float64 {
	mean, halved := d1+lambda, d1+2*lambda // The variance is twice that.
	square := halved / (mean + math.Sqrt(mean*mean-halved))
	centre, spread := math.Sqrt(mean-square), math.Sqrt(square)
	sum, weights := 0.0, 0.0
	for i := -32; i <= 32; i++ {
		z := float64(i) / 4
		weight, x := math.Exp(-z*z/2), centre+spread*z
		sum += weight * mathext.GammaIncRegComp(d2/2, d2*x*x/(2*d1*f))
		weights += weight
	}
	return sum / weights
}

// design holds the runs in the form that models are fitted to.
type design struct {
	levels [3][]string // By factor, in order of appearance.
	at     [][3]int    // By run: its levels' numbers.
	y      []float64   // By run: its value less the mean of all.
	mean   float64
	cells  map[[3]int][]float64
}

func newDesign(observations []Observation) (*design, error) {
	if len(observations) == 0 {
		return nil, errors.New("there are no runs")
	}
	d := &design{cells: make(map[[3]int][]float64)}
	for i, o := range observations {
		if math.IsNaN(o.Value) || math.IsInf(o.Value, 0) {
			return nil, fmt.Errorf("run %d, %s/%s/%s, has the value %v: leave diverged runs out and count them", i,
				o.Direction,
				o.Pair, o.Triplet, o.Value)
		}
		var at [3]int
		for f := range factors {
			level := o.level(f)
			if level == "" {
				return nil, fmt.Errorf("run %d has no %s", i, factors[f])
			}
			if at[f] = slices.Index(d.levels[f], level); at[f] < 0 {
				at[f] = len(d.levels[f])
				d.levels[f] = append(d.levels[f], level)
			}
		}
		d.at, d.y = append(d.at, at), append(d.y, o.Value)
	}
	if d.freedom(1)+d.freedom(2)+d.freedom(4) == 0 {
		return nil, fmt.Errorf("all %d runs are of %s/%s/%s: an effect needs two levels of a part or more",
			len(d.y), d.levels[0][0], d.levels[1][0], d.levels[2][0])
	}
	d.mean = stat.Mean(d.y, nil)
	for i := range d.y {
		d.y[i] -= d.mean // All models have a constant; without it sums of squares keep their digits.
		d.cells[d.at[i]] = append(d.cells[d.at[i]], d.y[i])
	}
	return d, nil
}

// freedom is a term's degrees of freedom on a grid without gaps.
func (d *design) freedom(term uint) int {
	n := 1
	for f := range factors {
		if term&(1<<f) != 0 {
			n *= len(d.levels[f]) - 1
		}
	}
	return n
}

// withinCells is the sum of squares of runs about the means of their combinations, and its degrees of freedom.
func (d *design) withinCells() (ss float64, freedom int) {
	for _, at := range d.at { // In the order of the runs, so that the sum is the same each time.
		values := d.cells[at]
		mean := stat.Mean(values, nil)
		share := 0.0
		for _, v := range values {
			share += (v - mean) * (v - mean)
		}
		ss += share / float64(len(values))
	}
	return ss, len(d.y) - len(d.cells)
}

// code is the sum-to-zero coding of a level: 1 in its own column, −1 in all for the last level.
func (d *design) code(factor, level int) []float64 {
	out := make([]float64, len(d.levels[factor])-1)
	if level < len(out) {
		out[level] = 1
		return out
	}
	for i := range out {
		out[i] = -1
	}
	return out
}

// row is a run's line of the model's matrix: the constant, then each term's columns.
func (d *design) row(terms []uint, at [3]int) []float64 {
	out := []float64{1}
	for _, term := range terms {
		columns := []float64{1}
		for f := range factors {
			if term&(1<<f) == 0 {
				continue
			}
			var product []float64
			for _, c := range columns {
				for _, k := range d.code(f, at[f]) {
					product = append(product, c*k)
				}
			}
			columns = product
		}
		out = append(out, columns...)
	}
	return out
}

// fitted is a model by least squares.
type fitted struct {
	terms   []uint
	rank    int
	rss     float64 // Residual sum of squares.
	freedom int     // Of the residual.
	// v has the right singular vectors as columns; along these, coefficients are the solution's and inverse are the
	// reciprocal singular values.
	v                     mat.Matrix
	coefficients, inverse []float64
}

// fit fits a model by the singular value decomposition, so that columns which the gaps make dependent do no harm.
func (d *design) fit(terms []uint) (*fitted, error) {
	n, columns := len(d.y), len(d.row(terms, d.at[0]))
	x := mat.NewDense(n, columns, nil)
	for i, at := range d.at {
		x.SetRow(i, d.row(terms, at))
	}
	var svd mat.SVD
	if !svd.Factorize(x, mat.SVDThin) {
		return nil, errors.New("least squares: the singular value decomposition did not converge")
	}
	values := svd.Values(nil)
	var u, v mat.Dense
	svd.UTo(&u)
	svd.VTo(&v)
	f := &fitted{terms: terms, rank: svd.Rank(1e-10)}
	f.v = v.Slice(0, columns, 0, max(f.rank, 1))
	residual := slices.Clone(d.y)
	for k := range f.rank {
		along := mat.Col(nil, k, &u)
		c := floats.Dot(along, d.y)
		floats.AddScaled(residual, -c, along)
		f.coefficients, f.inverse = append(f.coefficients, c/values[k]), append(f.inverse, 1/values[k])
	}
	f.rss, f.freedom = floats.Dot(residual, residual), n-f.rank
	f.rss = d.whole(f.rss)
	return f, nil
}

// whole is a sum of squares that is left over, without what is mere rounding: then all there is has been explained.
func (d *design) whole(ss float64) float64 {
	if ss < 1e-24*floats.Dot(d.y, d.y) {
		return 0
	}
	return ss
}

// estimate is a linear combination of the model's coefficients, and the factor that makes the residual standard
// deviation its standard error. ok is false if the runs there are do not decide it.
func (f *fitted) estimate(combination []float64) (value, factor float64, ok bool) {
	rest := slices.Clone(combination)
	for k := range f.rank {
		along := mat.Col(nil, k, f.v)
		c := floats.Dot(along, combination)
		floats.AddScaled(rest, -c, along)
		value += c * f.coefficients[k]
		factor += c * c * f.inverse[k] * f.inverse[k]
	}
	return value, math.Sqrt(factor), floats.Norm(rest, 2) < 1e-8*floats.Norm(combination, 2)
}

// typeII fills in a term's sum of squares and degrees of freedom: what is gained by adding it to all terms of the
// model that do not contain it.
func (d *design) typeII(f *Effect, term uint, model []uint) error {
	var others []uint
	for _, t := range model {
		if t&term != term {
			others = append(others, t)
		}
	}
	without, err := d.fit(others)
	if err != nil {
		return err
	}
	with, err := d.fit(append(slices.Clone(others), term))
	if err != nil {
		return err
	}
	f.SS, f.DF = max(without.rss-with.rss, 0), with.rank-without.rank
	return nil
}

// margins fills in the marginal means: of the model with two-way interactions where the runs decide all of them,
// else of the additive one, with that model's residual as the error.
func (d *design) margins(a *Anova, full *fitted) error {
	a.MarginModel = InteractionModel
	model := full
	if !d.decides(full) {
		additive, err := d.fit([]uint{1, 2, 4})
		if err != nil {
			return fmt.Errorf("analysis of variance: %w", err)
		}
		a.MarginModel, model = AdditiveModel, additive
	}
	sigma, t := math.NaN(), math.NaN()
	if model.freedom > 0 {
		sigma = math.Sqrt(model.rss / float64(model.freedom))
		t = distuv.StudentsT{Sigma: 1, Nu: float64(model.freedom)}.Quantile(0.975)
	}
	for f, levels := range d.levels {
		for level, name := range levels {
			m := Margin{Level: name, Mean: math.NaN(), SE: math.NaN(), Low: math.NaN(), High: math.NaN(), DF: model.freedom}
			for _, at := range d.at {
				if at[f] == level {
					m.Runs++
				}
			}
			if value, factor, ok := model.estimate(d.margin(model.terms, f, level)); ok {
				m.Mean, m.SE = d.mean+value, sigma*factor
				m.Low, m.High = m.Mean-t*m.SE, m.Mean+t*m.SE
			}
			a.Margins[f] = append(a.Margins[f], m)
		}
	}
	return nil
}

// decides says whether the runs decide all marginal means of a model, and have something left for its error.
func (d *design) decides(model *fitted) bool {
	for f, levels := range d.levels {
		for level := range levels {
			if _, _, ok := model.estimate(d.margin(model.terms, f, level)); !ok {
				return false
			}
		}
	}
	return model.freedom > 0
}

// margin is a marginal mean as a combination of coefficients. In sum-to-zero coding all other columns have the mean
// 0.
func (d *design) margin(terms []uint, factor, level int) []float64 {
	out := []float64{1}
	for _, term := range terms {
		if term == 1<<factor {
			out = append(out, d.code(factor, level)...)
		} else {
			out = append(out, make([]float64, d.freedom(term))...)
		}
	}
	return out
}
