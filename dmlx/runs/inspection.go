package runs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Look is a finished run beside the images that it was tested on: what its network sees in them.
type Inspection struct {
	Result *Result
	Set    *datasets.Set
	// Queries are the embeddings of Set.Test, in its order, and Gallery those of Set.Gallery; nil if the test set has none
	// and each of its images is ranked against the others.
	Queries, Gallery *retrieval.Embeddings
}

// Look opens a finished run of the store with its test images. It fails, and says what to do, for a run that is not
// finished, that diverged to values which are not finite, of which only the result came with the program, and for images
// that are not those of the run.
func (s *Store) Inspect(hash string) (*Inspection, error) {
	r, err := s.finished(hash)
	if err != nil {
		return nil, err
	}
	if r.Bundled {
		return nil, &MissingError{fmt.Sprintf("run %s came with the program as a result, without its embeddings in %s", hash, s.Dir), r.Spec}
	}
	l := &Inspection{Result: r}
	if l.Queries, l.Gallery, err = s.Embeddings(hash); err != nil {
		return nil, err
	}
	if _, gone := os.Stat(r.Spec.Data); r.Spec.DataDigest != "" && !IsPublished(r.Spec.Data) && errors.Is(gone, fs.ErrNotExist) {
		return nil, fmt.Errorf("the images of run %s were in the folder %s, which is not there: put them back there, or a link to them", hash, r.Spec.Data)
	}
	if l.Set, err = OpenData(r.Spec, s.DataOptions); err != nil {
		return nil, fmt.Errorf("the images of run %s: %w", hash, err)
	}
	if l.Set.Digest != r.DataDigest {
		return nil, fmt.Errorf("the images of %s are not those of run %s (digest %.12s, then %.12s): restore them, or remove the run (dmlx runs remove %s) and make it again",
			r.Spec.Data, hash, l.Set.Digest, r.DataDigest, hash)
	}
	for _, part := range []struct {
		name       string
		images     *datasets.Images
		embeddings *retrieval.Embeddings
	}{{"test", l.Set.Test, l.Queries}, {"gallery", l.Set.Gallery, l.Gallery}} {
		if (part.images == nil) != (part.embeddings == nil) || part.images != nil && !slices.Equal(part.images.Labels, part.embeddings.Labels) {
			return nil, fmt.Errorf("run %s: the labels of its %s embeddings are not those of the images of %s", hash, part.name, r.Spec.Data)
		}
	}
	return l, nil
}

// finished is a run's result if there is something to look at, in the store or shipped.
func (s *Store) finished(hash string) (*Result, error) {
	if e := s.Entry(hash); e.Result == nil && e.Bad == "" {
		return nil, &MissingError{fmt.Sprintf("run %s is not finished: %d of %d epochs are done", hash, e.Epoch, e.Spec.Epochs), e.Spec}
	}
	r, err := s.Get(hash)
	if err != nil {
		if _, missing := os.Stat(s.Path(hash)); errors.Is(missing, fs.ErrNotExist) {
			return nil, fmt.Errorf("no run %s in %s", hash, s.Dir)
		}
		return nil, err
	}
	if r.Recall == nil {
		return nil, fmt.Errorf("run %s diverged (%s): it has no embeddings to look at; try a lower learning rate than %g", hash, r.Diverged, r.Spec.LR)
	}
	return r, nil
}

// MissingError says that a run, or files of it, are not there. Training the run's spec makes them.
type MissingError struct {
	Text string
	Spec Spec
}

func (e *MissingError) Error() string { return e.Text }

// Items are the images that queries are ranked against: the gallery, or the test set itself.
func (l *Inspection) Items() *datasets.Images {
	if l.Set.Gallery != nil {
		return l.Set.Gallery
	}
	return l.Set.Test
}

// Neighbours are the k nearest images of each query, and its triplet; see [retrieval.Nearest]. Where there are fewer than
// k items to find, all of them are.
func (l *Inspection) Neighbors(ctx context.Context, b compute.Backend, k int) ([]retrieval.Neighbors, error) {
	retrievable := l.Items().N
	if l.Gallery == nil {
		retrievable--
	}
	return retrieval.Nearest(ctx, b, l.Queries, l.Gallery, min(k, retrievable))
}

// Found tells whether the nearest item of a query is of its class, as Recall@1 counts: of equally near ones the lowest index
// is the nearest.
func Found(n retrieval.Neighbors) bool {
	switch p, q := n.Positive, n.Negative; {
	case p.Index < 0:
		return false
	case q.Index < 0:
		return true
	default:
		return p.Similarity > q.Similarity || p.Similarity == q.Similarity && p.Index < q.Index
	}
}

// Spread picks n of the queries in equal steps through the test set: nothing chooses them. With missed, only those whose
// nearest item is of another class, though there is one of theirs, are picked from.
func Spread(found []retrieval.Neighbors, n int, missed bool) []int {
	var from []int
	for i, f := range found {
		if !missed || f.Positive.Index >= 0 && !Found(f) {
			from = append(from, i)
		}
	}
	n = max(0, min(n, len(from)))
	out := make([]int, n)
	for i := range out {
		out[i] = from[(2*i+1)*len(from)/(2*n)]
	}
	return out
}

// Hardest are the n queries, as anchors, by how much their nearest negative is nearer than their nearest positive,
// S_an − S_ap, the hardest first; of equals the lowest index. Those without a positive or a negative make no triplet.
func Hardest(found []retrieval.Neighbors, n int) []int {
	var out []int
	for i, f := range found {
		if f.Positive.Index >= 0 && f.Negative.Index >= 0 {
			out = append(out, i)
		}
	}
	by := func(i int) float32 { return found[i].Negative.Similarity - found[i].Positive.Similarity }
	slices.SortStableFunc(out, func(i, j int) int { return cmp.Compare(by(j), by(i)) })
	return out[:max(0, min(n, len(out)))]
}

// ClassRecall is the Recall@1 of one class's queries.
type ClassRecall struct {
	Label   int64
	Name    string
	Queries int // Those that have a match, which are all or none: without any the class is left out.
	Found   int // Of them, those whose nearest item is of the class.
}

// Recall is the share that is found.
func (c ClassRecall) Recall() float64 { return float64(c.Found) / float64(c.Queries) }

// Classes are the classes of the queries by their recall, the worst first; of equals the lowest label. Queries without a
// match are left out, as from the run's own recall.
func (l *Inspection) Classes(found []retrieval.Neighbors) []ClassRecall {
	of := make(map[int64]*ClassRecall)
	var out []*ClassRecall
	for i, f := range found {
		if f.Positive.Index < 0 {
			continue
		}
		label := l.Queries.Labels[i]
		c := of[label]
		if c == nil {
			c = &ClassRecall{Label: label, Name: l.ClassName(label)}
			of[label], out = c, append(out, c)
		}
		c.Queries++
		if Found(f) {
			c.Found++
		}
	}
	slices.SortFunc(out, func(a, b *ClassRecall) int {
		return cmp.Or(cmp.Compare(a.Recall(), b.Recall()), cmp.Compare(a.Label, b.Label))
	})
	classes := make([]ClassRecall, len(out))
	for i, c := range out {
		classes[i] = *c
	}
	return classes
}

// ClassName is the name of a class of the test set.
func (l *Inspection) ClassName(label int64) string {
	if names := l.Set.Test.Names; label >= 0 && label < int64(len(names)) {
		return names[label]
	}
	return fmt.Sprintf("class %d", label)
}

// Plane is a projection of embeddings on the two directions in which they vary most (principal components).
type Plane struct {
	Queries, Gallery [][2]float64 // In the order of the embeddings.
	// Share is how much of the variance each axis holds, as a fraction of all.
	Share [2]float64
}

// Plane projects the test embeddings, those of the gallery with them. Directions have the sign by which their largest
// component is positive, so that equal embeddings always make the same picture.
func (l *Inspection) Plane() (*Plane, error) {
	d := l.Queries.Dim
	if d < 2 {
		return nil, fmt.Errorf("run %s has embeddings of dimension %d: want at least 2 for a map", l.Result.Hash, d)
	}
	values := slices.Clone(l.Queries.Values)
	if l.Gallery != nil {
		values = append(values, l.Gallery.Values...)
	}
	n := len(values) / d
	wide := make([]float64, len(values))
	for i, v := range values {
		wide[i] = float64(v)
	}
	x := mat.NewDense(n, d, wide)
	mean := make([]float64, d)
	for j := range d {
		mean[j] = stat.Mean(mat.Col(nil, j, x), nil)
	}
	for i := range n {
		row := x.RawRowView(i)
		for j := range row {
			row[j] -= mean[j]
		}
	}
	// Of the covariance and not of x itself: it is [d, d] however many images there are.
	covariance := mat.NewSymDense(d, nil)
	covariance.SymOuterK(1/float64(max(n-1, 1)), x.T())
	var eigen mat.EigenSym
	if !eigen.Factorize(covariance, true) {
		return nil, fmt.Errorf("run %s: the principal components of its embeddings cannot be computed", l.Result.Hash)
	}
	variances := eigen.Values(nil) // Ascending.
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	total := 0.0
	for _, v := range variances {
		total += max(v, 0)
	}
	if total == 0 || math.IsNaN(total) {
		return nil, fmt.Errorf("run %s: all its test embeddings are equal, so there is no map of them", l.Result.Hash)
	}
	p := &Plane{}
	points := make([][2]float64, n)
	for axis := range 2 {
		direction := mat.Col(nil, d-1-axis, &vectors)
		largest := 0.0
		for _, v := range direction {
			if math.Abs(v) > math.Abs(largest)+1e-9 {
				largest = v
			}
		}
		for i := range n {
			for j, v := range x.RawRowView(i) {
				points[i][axis] += v * math.Copysign(1, largest) * direction[j]
			}
		}
		p.Share[axis] = max(variances[d-1-axis], 0) / total
	}
	m := len(l.Queries.Labels)
	p.Queries, p.Gallery = points[:m:m], points[m:]
	return p, nil
}

// Clouds are the triplets of a finished run, those of its last five epochs of training and those of its whole test set: of
// its portrait, where the store or the program has one, else of its directory. choose is called if there is none.
func (s *Store) Densities(ctx context.Context, choose func() (*train.Trainer, error), hash string) (last, test TripletDensity, err error) {
	r, err := s.finished(hash)
	if err != nil {
		return last, test, err
	}
	if r.Bundled {
		shipped, err := bundledHistograms()
		if err != nil {
			return last, test, err
		}
		if p := shipped[hash]; p != nil {
			return p.Last, p.Test, nil
		}
		return last, test, &MissingError{fmt.Sprintf("run %s came with the program as a result, without its triplets in %s", hash, s.Dir), r.Spec}
	}
	p, _, err := s.histograms(r.Spec)
	if err != nil {
		return last, test, err
	}
	if p != nil {
		return p.Last, p.Test, nil
	}
	sap, san, err := s.Triplets(hash)
	if err != nil {
		return last, test, err
	}
	if len(sap) == 0 {
		return last, test, fmt.Errorf("run %s has no triplets in %s", hash, filepath.Join(s.Path(hash), train.TripletsDir))
	}
	queries, gallery, err := s.Embeddings(hash)
	if err != nil {
		return last, test, err
	}
	trainer, err := choose()
	if err != nil {
		return last, test, err
	}
	m, err := retrieval.Evaluate(ctx, trainer.Backend, queries, gallery, nil)
	if err != nil {
		return last, test, fmt.Errorf("run %s: %w", hash, err)
	}
	return newTripletDensity(sap, san), newTripletDensity(m.NearestPositive, m.NearestNegative), nil
}
