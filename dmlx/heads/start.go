package heads

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/gomlx/compute"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// # Where a head starts
//
// A random map to fewer dimensions loses much of what frozen features know. A head starts instead with what retrieves
// best by itself, in as many dimensions as there are features: the features as they are, the features less their mean,
// or L⁻¹(x − mean), whitened by the scatter W within classes, shrunk to its mean: L Lᵀ = (1−s) W + s tr(W)/F I.
//
// If the means of classes scatter by B, two images are of one class the more likely the larger xᵀ (2W + W B⁻¹ W)⁻¹ y
// is, by probabilistic linear discriminant analysis (Ioffe, ECCV 2006). So two more starts weigh directions by that,
// with W as above: B is estimated in those directions of the whitened features in which the means of classes differ
// most, and shrunk; or it is the same in all directions of the features, and taken for three times as large as it is,
// which is between whitening, by B without bound, and what B says.
//
// Which start is taken is chosen by MAP@R over classes held out: the classes are dealt out to folds, and those of a
// fold are ranked by a start whose moments are those of the other classes.

// starts are those that are tried first, by name and shrinkages.
var starts = []headStart{{Name: "features"}, {Name: "features less their mean"},
	{Name: whitened, Shrinkage: 0.01}, {Name: whitened, Shrinkage: 0.03}, {Name: whitened, Shrinkage: 0.1},
	{Name: whitened, Shrinkage: 0.3}, {Name: whitened, Shrinkage: 0.6}, {Name: whitened, Shrinkage: 0.9}}

// pldaShrinkages are those of B that are tried then, with that of W which whitens best.
var pldaShrinkages = []float64{0.03, 1}

const whitened, plda = "whitened", "PLDA"

const (
	mostFolds     = 5
	largeFeatures = 768  // From so many features on there are three folds, since a start takes F³ operations for each.
	heldOutRows   = 1200 // Of a fold at most so many rows are ranked, by whole classes.
	chunkRows     = 400  // Rows of a matrix that are multiplied at a time, so that a graph is compiled once.
	smallMatrix   = 256  // Up to so many rows a matrix is inverted by the host alone.
)

// featureRows are features with their classes.
type featureRows struct {
	matrix
	labels []int64
}

// readFeatureRows reads those features of a split whose label is not in without.
func readFeatureRows(of samples.Split, without map[int64]bool) (r featureRows, err error) {
	var which []int
	for i, l := range of.Labels() {
		if !without[l] {
			which, r.labels = append(which, i), append(r.labels, l)
		}
	}
	values, err := samples.Floats(of, which)
	r.matrix = matrix{values, len(which), of.Shape().Size()}
	return r, err
}

// withRows calls do with those features of a split whose label is not in without, and what multiplies them.
func withRows(ctx context.Context, b compute.Backend, of samples.Split, without map[int64]bool,
	do func(*algebra, featureRows) error) (err error) {
	defer errs.Catch(&err)
	a, err := newAlgebra(ctx, b)
	if err != nil {
		return err
	}
	defer a.free()
	rows, err := readFeatureRows(of, without)
	if err != nil {
		return err
	}
	return do(a, rows)
}

// some are the rows with the given indices.
func (r featureRows) some(which []int) featureRows {
	out := featureRows{matrix: newMatrix(len(which), r.cols)}
	for to, i := range which {
		copy(out.row(to), r.row(i))
		out.labels = append(out.labels, r.labels[i])
	}
	return out
}

// headStart is an affine map of features: weight (x − mean). A nil weight is the identity, a nil mean zero.
type headStart struct {
	Name               string
	Shrinkage, Between float64    // Of W and B, 0 where they are not used; B with 1 is the same in all directions.
	weight             *mat.Dense // [F, F]
	mean               []float64
}

// apply maps rows.
func (s headStart) apply(a *algebra, x matrix) matrix {
	out := matrix{slices.Clone(x.values), x.rows, x.cols}
	for i := range x.rows {
		row := out.row(i)
		for j, m := range s.mean {
			row[j] -= float32(m)
		}
	}
	if s.weight == nil {
		return out
	}
	return a.times(out, float32sOf(s.weight))
}

// moments are mean and scatter within classes of features, with the means of the classes.
type moments struct {
	mean    []float64
	scatter *mat.Dense  // The sum, [F, F].
	means   featureRows // A row for each class.
	sizes   []float64   // Of the classes.
}

func momentsOf(a *algebra, r featureRows) *moments {
	classes := samples.NumberClasses(r.labels, nil)
	n := len(classes)
	means, m := make([]float64, n*r.cols), &moments{mean: make([]float64, r.cols), sizes: make([]float64, n)}
	m.means = featureRows{newMatrix(n, r.cols), make([]int64, n)}
	for i, l := range r.labels {
		c := int(classes[l])
		m.means.labels[c] = l
		m.sizes[c]++
		for j, v := range r.row(i) {
			means[c*r.cols+j] += float64(v)
			m.mean[j] += float64(v) / float64(r.rows)
		}
	}
	for i := range means {
		m.means.values[i] = float32(means[i] / m.sizes[i/r.cols])
	}
	rest := newMatrix(r.rows, r.cols)
	for i, l := range r.labels {
		to, mean := rest.row(i), m.means.row(int(classes[l]))
		for j, v := range r.row(i) {
			to[j] = v - mean[j]
		}
	}
	m.scatter = a.columns(rest, rest)
	return m
}

// less returns the moments of all features but those of some classes.
func (m *moments) less(some *moments) *moments {
	out := &moments{mean: make([]float64, len(m.mean)), scatter: new(mat.Dense)}
	var kept []int
	for c, l := range m.means.labels {
		if !slices.Contains(some.means.labels, l) {
			kept, out.sizes = append(kept, c), append(out.sizes, m.sizes[c])
		}
	}
	out.means = m.means.some(kept)
	all, count := floats.Sum(m.sizes), floats.Sum(some.sizes)
	for j := range m.mean {
		out.mean[j] = (all*m.mean[j] - count*some.mean[j]) / (all - count)
	}
	out.scatter.Sub(m.scatter, some.scatter)
	return out
}

// start returns a start given its name and shrinkages, and its weight before PLDA weighs directions, if that is known.
// Where features have no scatter within classes it is these.
func (m *moments) start(a *algebra, of headStart) headStart {
	if of.Name == starts[0].Name {
		return of
	}
	if of.mean = m.mean; of.Shrinkage == 0 {
		return of
	}
	n := len(m.mean)
	average := mat.Trace(m.scatter) / float64(n)
	if !(average > 1e-30) || math.IsInf(average, 0) {
		return starts[0]
	}
	// Means of classes in units of the noise, of which their scatter has a share in all directions.
	means, share := newMatrix(m.means.rows, n), float64(m.means.rows)/floats.Sum(m.sizes)
	for c := range means.rows {
		for j, v := range m.means.row(c) {
			means.row(c)[j] = float32((float64(v) - m.mean[j]) * math.Sqrt(m.sizes[c]/average))
		}
	}
	if of.weight == nil {
		within := mat.NewDense(n, n, nil)
		within.Scale((1-of.Shrinkage)/average, m.scatter)
		for i := range n {
			within.Set(i, i, within.At(i, i)+of.Shrinkage)
		}
		if of.Between == 1 {
			b := -share
			for _, v := range means.values {
				b += float64(v) * float64(v) / float64(n)
			}
			square := a.times64(within, within)
			square.Scale(1/max(3*b, 1e-3), square)
			within.Scale(2, within)
			within.Add(within, square)
		}
		if of.weight = a.inverseRoot(within); of.weight == nil {
			return starts[0]
		}
	}
	if of.Between > 0 && of.Between < 1 {
		of.weight = m.weigh(a, of.weight, of.Between, means, share/average)
	}
	return of
}

// weigh weighs the directions of whitened features by the scatter b of classes in them, shrunk: by √(b / (2b + 1)). It
// is estimated in up to blockDirections of them, given the means of the classes and what these have of the scatter
// within.
func (m *moments) weigh(a *algebra, white *mat.Dense, shrinkage float64, means matrix, share float64) *mat.Dense {
	z := a.times(means, float32sOf(white))
	v := leading(a, z, min(blockDirections, z.cols, z.rows-1))
	back := a.times64(white.T(), v.T())
	noise := a.times64(m.scatter, back.T())
	along := a.times(z, float32sOf(v.T()))
	b, rest, moved := make([]float64, along.cols), 0., denseOf(along)
	for i := range b {
		b[i] = max(mat.Dot(moved.ColView(i), moved.ColView(i))-share*mat.Dot(back.ColView(i), noise.ColView(i)), 0)
		rest += shrinkage * b[i] / float64(z.cols)
	}
	rest = max(rest, 1e-6)
	weight := func(b float64) float64 { return math.Sqrt(b / (2*b + 1)) }
	v.Apply(func(_, j int, x float64) float64 {
		return x * (weight((1-shrinkage)*b[j]+rest) - weight(rest))
	}, v)
	weighed, change := new(mat.Dense), a.times64(v, back)
	weighed.Scale(weight(rest), white)
	weighed.Add(weighed, change)
	return weighed
}

// fold is a part of the classes, with what the other classes say about features.
type fold struct {
	*moments       // Of the other classes.
	train    []int // Rows of other classes.
	held     featureRows
}

// Folds returns the number of folds of [Choose] and of the classes that it trains on in each of them, given that of all
// classes and that of the features. Both are 0 for fewer than four classes.
func Folds(classes, features int) (k, trained int) {
	if classes < 4 {
		return 0, 0
	}
	k = min(mostFolds, classes/2)
	if features > largeFeatures {
		k = min(3, k)
	}
	return k, classes - (classes+k-1)/k // As many in every fold, so that one graph serves all.
}

// foldsOf deals the classes of some rows with the given moments out to folds, with a fixed seed. There is none for
// fewer than four classes, or if no class has two rows.
func foldsOf(a *algebra, r featureRows, all *moments) (folds []fold) {
	rows := make(map[int64][]int)
	for i, l := range r.labels {
		rows[l] = append(rows[l], i)
	}
	classes := slices.Sorted(maps.Keys(rows))
	k, fewest := Folds(len(classes), r.cols)
	if k == 0 {
		return nil
	}
	of := make(map[int64]int)
	for i, c := range rand.New(rand.NewPCG(7, 7)).Perm(len(classes)) {
		of[classes[c]] = i % k
	}
	for f := range k {
		var train, out, held []int
		others, ranked := 0, false
		for _, l := range classes {
			if of[l] != f {
				if others++; others <= fewest {
					train = append(train, rows[l]...)
				}
				continue
			}
			out = append(out, rows[l]...)
			if len(held) == 0 || len(held)+len(rows[l]) <= heldOutRows {
				held, ranked = append(held, rows[l]...), ranked || len(rows[l]) > 1
			}
		}
		if !ranked {
			continue
		}
		slices.Sort(train)
		folds = append(folds, fold{all.less(momentsOf(a, r.some(out))), train, r.some(held)})
	}
	return folds
}

// scores are MAP@R and Recall@1, as fractions.
type scores struct{ mapR, recall float64 }

// rank is the scores of [ranked].
func rank(products matrix, labels []int64) scores {
	r := ranked(products, labels)
	return scores{r.MAPAtR, r.Recall[1]}
}

// ranked scores rows against each other by their cosines, given their inner products [N, N]. Where these are not finite
// all is wrong. It panics if no class has two rows.
func ranked(products matrix, labels []int64) *retrieval.Result {
	lengths := make([]float64, products.rows)
	for i := range lengths {
		lengths[i] = max(math.Sqrt(float64(products.row(i)[i])), 1e-12)
	}
	cosines := newMatrix(products.rows, products.cols)
	for i, length := range lengths {
		to := cosines.row(i)
		for j, v := range products.row(i) {
			if v-v != 0 {
				none := make([]float32, len(labels))
				return &retrieval.Result{NearestPositive: none, NearestNegative: none}
			}
			to[j] = float32(float64(v) / (length * lengths[j]))
		}
	}
	r, err := retrieval.EvaluateSimilarities(cosines.values, labels)
	if err != nil {
		panic(err)
	}
	return r
}
