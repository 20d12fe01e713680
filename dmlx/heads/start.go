package heads

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// # Where a head starts
//
// A random map to fewer dimensions loses much of what frozen features know. A head starts instead with what retrieves
// best by itself, in as many dimensions as there are features: the features as they are, the features less their mean,
// or L⁻¹(x − mean), whitened by the scatter W within classes, shrunk to its mean: L Lᵀ = (1−s) W + s tr(W)/F I. Which
// of them is chosen by MAP@R over classes held out: the classes are dealt out to folds, and those of a fold are ranked
// by a start of which mean and scatter are those of the other classes.

// shrinkages are the s of the starts that are tried.
var shrinkages = []float64{0.01, 0.03, 0.1, 0.3, 0.6, 0.9}

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
	Name      string
	Shrinkage float64
	weight    *mat.Dense // [F, F]
	mean      []float64
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

// moments are mean and scatter within classes of features.
type moments struct {
	count   float64 // Of features.
	mean    []float64
	scatter *mat.Dense // The sum, [F, F].
}

func momentsOf(a *algebra, r featureRows) *moments {
	classes := samples.NumberClasses(r.labels, nil)
	means, count := make([]float64, len(classes)*r.cols), make([]float64, len(classes))
	m := &moments{count: float64(r.rows), mean: make([]float64, r.cols)}
	for i, l := range r.labels {
		c := int(classes[l])
		count[c]++
		for j, v := range r.row(i) {
			means[c*r.cols+j] += float64(v)
			m.mean[j] += float64(v) / float64(r.rows)
		}
	}
	rest := newMatrix(r.rows, r.cols)
	for i, l := range r.labels {
		c, to := int(classes[l]), rest.row(i)
		for j, v := range r.row(i) {
			to[j] = v - float32(means[c*r.cols+j]/count[c])
		}
	}
	m.scatter = a.columns(rest, rest)
	return m
}

// less returns the moments of all features but those of some classes.
func (m *moments) less(some *moments) *moments {
	out := &moments{count: m.count - some.count, mean: make([]float64, len(m.mean)), scatter: new(mat.Dense)}
	for j := range m.mean {
		out.mean[j] = (m.count*m.mean[j] - some.count*some.mean[j]) / out.count
	}
	out.scatter.Sub(m.scatter, some.scatter)
	return out
}

// start is one of the starts that are tried: the features, those less their mean, and whitened by each shrinkage. It is
// the features where these have no scatter within classes.
func (m *moments) start(a *algebra, i int) headStart {
	switch i {
	case 0:
		return headStart{Name: "features"}
	case 1:
		return headStart{Name: "features less their mean", mean: m.mean}
	}
	return m.whitened(a, shrinkages[i-2])
}

func (m *moments) whitened(a *algebra, shrinkage float64) headStart {
	plain := headStart{Name: "features"}
	n := len(m.mean)
	average := mat.Trace(m.scatter) / float64(n)
	if !(average > 1e-30) || math.IsInf(average, 0) {
		return plain
	}
	p := mat.NewDense(n, n, nil)
	p.Scale((1-shrinkage)/average, m.scatter)
	for i := range n {
		p.Set(i, i, p.At(i, i)+shrinkage)
	}
	root := a.inverseRoot(p)
	if root == nil {
		return plain
	}
	return headStart{Name: "whitened", Shrinkage: shrinkage, weight: root, mean: m.mean}
}

// fold is a part of the classes, with what the other classes say about features.
type fold struct {
	*moments       // Of the other classes.
	train    []int // Rows of other classes.
	held     featureRows
}

// foldsOf deals the classes of some rows with the given moments out to folds, with a fixed seed. There is none for
// fewer than four classes, or if no class has two rows.
func foldsOf(a *algebra, r featureRows, all *moments) (folds []fold) {
	rows := make(map[int64][]int)
	for i, l := range r.labels {
		rows[l] = append(rows[l], i)
	}
	classes := slices.Sorted(maps.Keys(rows))
	if len(classes) < 4 {
		return nil
	}
	k := min(mostFolds, len(classes)/2)
	if r.cols > largeFeatures {
		k = min(3, k)
	}
	of := make(map[int64]int)
	for i, c := range rand.New(rand.NewPCG(7, 7)).Perm(len(classes)) {
		of[classes[c]] = i % k
	}
	// As many classes are trained on in every fold, so that one graph serves all.
	fewest := len(classes) - (len(classes)+k-1)/k
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

// rank scores rows against each other by their cosines, given their inner products [N, N]. Where these are not finite
// all is wrong.
func rank(products matrix, labels []int64) (scores, error) {
	lengths := make([]float64, products.rows)
	for i := range lengths {
		lengths[i] = max(math.Sqrt(float64(products.row(i)[i])), 1e-12)
	}
	cosines := newMatrix(products.rows, products.cols)
	for i, length := range lengths {
		to := cosines.row(i)
		for j, v := range products.row(i) {
			if v-v != 0 {
				return scores{}, nil
			}
			to[j] = float32(float64(v) / (length * lengths[j]))
		}
	}
	r, err := retrieval.EvaluateSimilarities(cosines.values, labels)
	if err != nil {
		return scores{}, err
	}
	return scores{r.MAPAtR, r.Recall[1]}, nil
}
