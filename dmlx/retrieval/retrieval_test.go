package retrieval

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// circle places points of the given classes at the given angles, in degrees, with lengths that must not matter.
func circle(labels []int64, degrees ...float64) *Embeddings {
	e := &Embeddings{Dim: 2, Labels: labels}
	for i, a := range degrees {
		length := float64(i + 1)
		e.Values = append(e.Values, float32(length*math.Cos(a*math.Pi/180)), float32(length*math.Sin(a*math.Pi/180)))
	}
	return e
}

func TestByHand(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		// Three of class 1 and two of class 2, seen from each point in order of angle; * marks a match:
		//   0° (1): 10 20* 40* 70     R=2: first 1, precision@R 1/2, AP 1/2·(1/2) = 1/4
		//  10° (2): 0 20 40 70*       R=1: first 3, 0, 0            (0° and 20° tie up to rounding, both are no match)
		//  20° (1): 10 0*|40* 70      R=2: first 1, 1/2, 1/4
		//  40° (1): 20* 10 70 0*      R=2: first 0, 1/2, 1/2·(1/1) = 1/2
		//  70° (2): 40 20 10* 0       R=1: first 2, 0, 0
		// 300° (3): nothing of its class: lone
		r, err := Evaluate(t.Context(), b, circle([]int64{1, 2, 1, 1, 2, 3}, 0, 10, 20, 40, 70, 180), nil,
			[]int{5, 1, 2, 3, 4, 1}) // 1 twice.
		if err != nil {
			t.Fatal(err)
		}
		for k, want := range map[int]float64{1: 1. / 5, 2: 3. / 5, 3: 4. / 5, 4: 1, 5: 1} {
			if math.Abs(r.Recall[k]-want) > 1e-12 {
				t.Errorf("R@%d = %g, want %g", k, r.Recall[k], want)
			}
		}
		if math.Abs(r.RPrecision-1.5/5) > 1e-12 || math.Abs(r.MAPAtR-1./5) > 1e-12 {
			t.Errorf("R-precision %g, MAP@R %g; want 0.3, 0.2", r.RPrecision, r.MAPAtR)
		}
		if r.Queries != 5 || r.LoneQueries != 1 {
			t.Errorf("%d queries, %d lone", r.Queries, r.LoneQueries)
		}
		if got := float64(r.NearestPositive[0]); math.Abs(got-math.Cos(20*math.Pi/180)) > 1e-6 {
			t.Errorf("nearest positive of 0° at similarity %g", got)
		}
		if got := float64(r.NearestNegative[4]); math.Abs(got-math.Cos(30*math.Pi/180)) > 1e-6 {
			t.Errorf("nearest negative of 70° at similarity %g", got)
		}
		if !math.IsNaN(float64(r.NearestPositive[5])) {
			t.Errorf("a lone query has a nearest positive at %g", r.NearestPositive[5])
		}
	})
}

func TestQueryAndGallery(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		// The query at 0° is not itself in the gallery, so an item in the same place counts.
		q := circle([]int64{1, 2, 9}, 0, 90, 45)
		g := circle([]int64{2, 1, 1, 2}, 10, 0, 50, 60)
		r, err := Evaluate(t.Context(), b, q, g, []int{1, 2, 4})
		if err != nil {
			t.Fatal(err)
		}
		// 0° (1): 0* 10 50* 60: R=2, AP = 1/2; 90° (2): 60* 50 10*…: AP = 1/2; 45° is lone.
		if r.Recall[1] != 1 || r.MAPAtR != 0.5 || r.RPrecision != 0.5 || r.LoneQueries != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestTies has nothing but exact duplicates: the order is that of the gallery.
func TestTies(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		const dim, copies = 37, 61 // Odd sizes, so that a kernel's edges are not its middle.
		rng := rand.New(rand.NewPCG(1, 2))
		one := make([]float32, dim)
		for i := range one {
			one[i] = rng.Float32() - 0.3
		}
		g := &Embeddings{Dim: dim}
		for j := range copies {
			g.Values = append(g.Values, one...)
			g.Labels = append(g.Labels, int64(j))
		}
		q := &Embeddings{Dim: dim, Values: slices.Clone(g.Values), Labels: slices.Clone(g.Labels)}
		for k := range copies {
			r, err := Evaluate(t.Context(), b, q, g, []int{k + 1})
			if err != nil {
				t.Fatal(err)
			}
			if want := float64(k+1) / copies; math.Abs(r.Recall[k+1]-want) > 1e-12 {
				t.Fatalf("R@%d = %g, want %g: ties are not in the gallery's order", k+1, r.Recall[k+1], want)
			}
		}
	})
}

// Queries are counted of which the order of equal similarities decides a measure.
func TestTied(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		gallery := &Embeddings{Dim: 2, Values: []float32{1, 0, 0, 1, 0, 2, -1, 0}, Labels: []int64{1, 1, 2, 3}}
		queries := &Embeddings{Dim: 2, Values: []float32{1, 0, 2, 0, 3, 0}, Labels: []int64{1, 2, 3}}
		// Similarities 1, 0, 0, −1: a match and another tie for places 1 and 2. Class 1 asks for the first two, so that its
		// precision is 1, or ½ in the other order; class 2 asks for one, and with K = 2 or more for its first match; class 3
		// has none that ties.
		for k, want := range map[int]int{1: 1, 2: 2, 4: 2} {
			r, err := Evaluate(t.Context(), b, queries, gallery, []int{k})
			if err != nil || r.Tied != want || r.RPrecision != 1./3 {
				t.Errorf("K = %d: %+v, %v; want %d tied", k, r, err, want)
			}
		}
	})
}

// brute sorts the whole gallery for each query, in float64.
func brute(q, g *Embeddings, self bool, ks []int) *Result {
	r := &Result{Recall: map[int]float64{}}
	dot := func(a, b []float32) float64 {
		var ab, aa, bb float64
		for i := range a {
			ab += float64(a[i]) * float64(b[i])
			aa += float64(a[i]) * float64(a[i])
			bb += float64(b[i]) * float64(b[i])
		}
		return ab / math.Sqrt(aa*bb)
	}
	for i, label := range q.Labels {
		var order []int
		sims := make([]float64, len(g.Labels))
		matches := 0
		for j := range g.Labels {
			if self && i == j {
				continue
			}
			sims[j] = dot(q.Values[i*q.Dim:(i+1)*q.Dim], g.Values[j*g.Dim:(j+1)*g.Dim])
			order = append(order, j)
			if g.Labels[j] == label {
				matches++
			}
		}
		if matches == 0 {
			r.LoneQueries++
			continue
		}
		r.Queries++
		// Differences below rounding are ties: the data hold exact duplicates.
		sort.SliceStable(order, func(a, b int) bool { return sims[order[a]] > sims[order[b]]+1e-12 })
		found, ap := 0, 0.0
		hit := math.MaxInt
		for place, j := range order {
			if g.Labels[j] != label {
				continue
			}
			hit = min(hit, place)
			if place < matches {
				found++
				ap += float64(found) / float64(place+1)
			}
		}
		for _, k := range ks {
			if hit < k {
				r.Recall[k]++
			}
		}
		r.RPrecision += float64(found) / float64(matches)
		r.MAPAtR += ap / float64(matches)
	}
	for k := range r.Recall {
		r.Recall[k] /= float64(r.Queries)
	}
	r.RPrecision /= float64(r.Queries)
	r.MAPAtR /= float64(r.Queries)
	return r
}

// random has n rows of few values each, some of them copied, in classes of very different sizes.
func random(rng *rand.Rand, n, dim, classes int) *Embeddings {
	e := &Embeddings{Dim: dim, Values: make([]float32, n*dim), Labels: make([]int64, n)}
	for i := range n {
		row := e.Values[i*dim : (i+1)*dim]
		if i > 0 && rng.IntN(4) == 0 {
			j := rng.IntN(i)
			copy(row, e.Values[j*dim:(j+1)*dim])
		} else {
			for d := range row {
				row[d] = float32(rng.NormFloat64())
			}
		}
		e.Labels[i] = int64(classes * rng.IntN(classes) * rng.IntN(classes) / classes)
	}
	return e
}

func TestAgainstBruteForce(t *testing.T) {
	old := blockSize
	defer func() { blockSize = old }()
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for trial := range 24 {
			rng := rand.New(rand.NewPCG(uint64(trial), 7))
			blockSize = []int{1, 1000, old}[trial%3] // One row at a time, several blocks, one block.
			q := random(rng, 40+rng.IntN(60), 5+trial, []int{6, 12}[trial/12])
			ks := [][]int{{1, 2, 4, 8, 39}, {1}, nil}[trial/3%3] // What recall does not ask for need not be counted.
			for _, self := range []bool{true, false} {
				var g *Embeddings
				want := brute(q, q, true, ks)
				if !self {
					g = random(rng, 45+rng.IntN(90), q.Dim, 6)
					copy(g.Values[:3*q.Dim], q.Values)
					want = brute(q, g, false, ks)
				}
				got, err := Evaluate(t.Context(), b, q, g, ks)
				if err != nil {
					t.Fatal(err)
				}
				for _, k := range ks {
					if math.Abs(got.Recall[k]-want.Recall[k]) > 1e-9 {
						t.Errorf("trial %d self %v: R@%d %g, brute force %g", trial, self, k, got.Recall[k], want.Recall[k])
					}
				}
				if math.Abs(got.MAPAtR-want.MAPAtR) > 1e-9 || math.Abs(got.RPrecision-want.RPrecision) > 1e-9 ||
					got.LoneQueries != want.LoneQueries || got.Queries != want.Queries {
					t.Errorf("trial %d self %v: got %v %v %d, brute force %v %v %d", trial, self,
						got.MAPAtR, got.RPrecision, got.LoneQueries, want.MAPAtR, want.RPrecision, want.LoneQueries)
				}
			}
		}
	})
}

// Ranks that are counted, in however many blocks, are those of a sorted list, item for item.
func TestRanksAgainstSorting(t *testing.T) {
	old := blockSize
	defer func() { blockSize = old }()
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		rng := rand.New(rand.NewPCG(3, 1))
		const n, dim = 150, 4
		e := &Embeddings{Dim: dim}
		for range n {
			for range dim { // Whole numbers at one length, so that products are exact and many are equal.
				e.Values = append(e.Values, float32(2*rng.IntN(2)-1))
			}
			e.Labels = append(e.Labels, rng.Int64N(40))
		}
		for _, most := range []int{0, 1, 20} {
			blockSize = old
			sorted := make([]ranking, n)
			members := make(map[int64][]int)
			for i, label := range e.Labels {
				members[label] = append(members[label], i)
			}
			err := similarities(t.Context(), b, 1, e, e, nil, func(i int, row []float32) error {
				var order []int
				for j := range row {
					if j != i {
						order = append(order, j)
					}
				}
				slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(row[y], row[x]) })
				r := newTally(nil, 0).ranking()
				r.first = -1
				for place, j := range order {
					match := e.Labels[j] == e.Labels[i]
					switch {
					case match && r.first < 0:
						r.first, r.positive = place, row[j]
					case !match && math.IsNaN(float64(r.negative)):
						r.negative = row[j]
					}
				}
				r.matches = len(members[e.Labels[i]]) - 1
				for place := range order {
					r.tied = r.tied || r.matches > 0 && tiedFrom(order, place, r.matches, most, func(j int) (float32, bool) {
						return row[j], e.Labels[j] == e.Labels[i]
					})
				}
				found := 0
				for place, j := range order[:r.matches] {
					if e.Labels[j] == e.Labels[i] {
						found++
						r.averagePrecision += float64(found) / float64(place+1)
					}
				}
				if r.matches > 0 {
					r.precision = float64(found) / float64(r.matches)
					r.averagePrecision /= float64(r.matches)
				}
				sorted[i] = r
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, size := range []int{1000, 5000, old} {
				blockSize = size
				counted, err := rankAll(t.Context(), b, 1, e, e, true, nil, []int{most}[:min(most, 1)], nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, want := range sorted {
					got := counted[i]
					if limit := max(want.matches, most); want.first >= limit || want.first < 0 {
						if got.matches > 0 && got.first < limit {
							t.Errorf("K up to %d, item %d: first match at %d, want %d", most, i, got.first, want.first)
						}
						got.first = want.first
					}
					if fmt.Sprint(got) != fmt.Sprint(want) { // NaN is NaN.
						t.Errorf("K up to %d, blocks of %d, item %d: %+v, want %+v", most, size, i, got, want)
					}
				}
			}
		}
	})
}

func TestBadInput(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	good := circle([]int64{1, 1, 2, 2}, 0, 10, 20, 30)
	nan := circle([]int64{1, 1, 2, 2}, 0, 10, 20, 30)
	nan.Values[5] = float32(math.NaN())
	inf := circle([]int64{1, 1, 2, 2}, 0, 10, 20, 30)
	inf.Values[0] = float32(math.Inf(1))
	for name, c := range map[string]struct {
		q, g *Embeddings
		k    int
		want string
	}{
		"nan":    {nan, nil, 1, "queries: row 2, column 1 is NaN"},
		"inf":    {good, inf, 1, "gallery: row 0, column 0 is +Inf"},
		"labels": {&Embeddings{Values: good.Values, Dim: 2, Labels: []int64{1, 2}}, nil, 1, "8 values are not 2 rows"},
		"dimension": {good, &Embeddings{Values: make([]float32, 3), Dim: 3, Labels: []int64{1}}, 1,
			"dimension 2, the gallery 3"},
		"rows":     {&Embeddings{Values: good.Values, N: 3, Dim: 2, Labels: good.Labels}, nil, 1, "3 rows and 4 labels"},
		"empty":    {&Embeddings{}, nil, 1, "empty"},
		"nil":      {nil, nil, 1, "empty"},
		"k":        {good, nil, 4, "must lie in 1…3"},
		"k0":       {good, nil, 0, "must lie in 1…3"},
		"all lone": {circle([]int64{1, 2}, 0, 1), nil, 1, "none of the 2 queries has a match"},
	} {
		_, err := Evaluate(t.Context(), b, c.q, c.g, []int{c.k})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: got %v, want …%s…", name, err, c.want)
		}
	}
}

func TestZeroRow(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := circle([]int64{1, 1, 2, 2}, 0, 10, 20, 30)
		clear(e.Values[:2])
		r, err := Evaluate(t.Context(), b, e, nil, []int{1})
		if err != nil {
			t.Fatal(err)
		}
		if s := r.NearestPositive[0]; s != 0 {
			t.Errorf("a row of zeros has similarity %g", s)
		}
	})
}

func ExampleEvaluate() {
	b, _ := backend.Go()
	e := &Embeddings{Dim: 2, Values: []float32{1, 0, 1, .1, 0, 1, .1, 1}, Labels: []int64{1, 1, 2, 2}}
	r, err := Evaluate(context.Background(), b, e, nil, []int{1, 2})
	fmt.Println(r.Recall[1], r.MAPAtR, err)
	// Output: 1 1 <nil>
}

// apart is a backend whose memory the host cannot read, as a GPU's.
type apart struct{ compute.Backend }

func (apart) HasSharedBuffers() bool { return false }

// Similarities that are copied to the host give the measures and neighbors of those that it reads in place.
func TestMemoryApart(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := normal(rand.New(rand.NewPCG(8, 1)), 90, 5, 12)
		for _, gallery := range []*Embeddings{nil, e} {
			want, err := Evaluate(t.Context(), b, e, gallery, []int{1, 8})
			if err != nil {
				t.Fatal(err)
			}
			if got, err := Evaluate(t.Context(), apart{b}, e, gallery, []int{1, 8}); !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v, want %+v", got, err, want)
			}
		}
		want, err := Nearest(t.Context(), b, e, nil, 3)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Nearest(t.Context(), apart{b}, e, nil, 3); !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	})
}

// On several devices the measures are those of one to the bit, whatever the blocks.
func TestEvaluateOnDevices(t *testing.T) {
	c := backendtest.OnDevices(t, 3)
	if c == nil {
		return
	}
	defer func(size int) { blockSize = size }(blockSize)
	rng := rand.New(rand.NewPCG(8, 0))
	const n, d = 90, 5
	e := &Embeddings{Dim: d}
	for range n * d {
		e.Values = append(e.Values, float32(rng.NormFloat64()))
	}
	for i := range n {
		e.Labels = append(e.Labels, int64(i%12))
	}
	for _, gallery := range []*Embeddings{nil, e} {
		for _, size := range []int{1, 400, 2000, blockSize} {
			blockSize = size
			want, err := Evaluate(t.Context(), c.Backend, e, gallery, []int{1, 8})
			if err != nil {
				t.Fatal(err)
			}
			for _, devices := range []int{2, 3} {
				told, total := 0, 0
				tell := func(done, of int) { told, total = done, of }
				got, err := EvaluateOn(t.Context(), c.Backend, devices, e, gallery, []int{1, 8}, tell)
				if err != nil {
					t.Fatal(err)
				}
				if told != total || total == 0 && size == 400 {
					t.Errorf("%d devices: told of %d blocks of %d", devices, told, total)
				}
				if !reflect.DeepEqual(got, want) {
					t.Errorf("%d devices, blocks of %d: %+v, want %+v", devices, size, got, want)
				}
			}
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := EvaluateOn(ctx, c.Backend, 3, e, nil, nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := EvaluateOn(t.Context(), c.Backend, 4, e, nil, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "want 1 to 3") {
		t.Errorf("4 devices of 3: %v", err)
	}
}

// tiedFrom tells whether at a place begin items of one similarity, matches and others, whose order decides a measure:
// they begin within the first R places, or within the most first ones and no match comes before them.
func tiedFrom[T any](ranked []T, place, matches, most int, of func(T) (similarity float32, match bool)) bool {
	s, _ := of(ranked[place])
	limit := max(matches, most)
	for _, item := range ranked[:place] {
		before, match := of(item)
		if before == s {
			return false
		}
		if match {
			limit = matches
		}
	}
	kinds := map[bool]bool{}
	for _, item := range ranked[place:] {
		if similarity, match := of(item); similarity == s {
			kinds[match] = true
		}
	}
	return place < limit && len(kinds) == 2
}

// A tally ranks as sorting does, whatever the similarities are.
func TestTally(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 2))
	for what, draw := range map[string]func() float32{
		"spread":   func() float32 { return 2*rng.Float32() - 1 },
		"few":      func() float32 { return float32(rng.IntN(5)) / 4 },
		"equal":    func() float32 { return 0.5 },
		"tiny":     func() float32 { return float32(rng.IntN(3)) * math.SmallestNonzeroFloat32 },
		"neighbor": func() float32 { return math.Nextafter32(1, float32(rng.IntN(3))) },
		"outlier": func() float32 {
			if rng.IntN(50) == 0 {
				return -1
			}
			return 0.9 + rng.Float32()*1e-5
		},
	} {
		for _, n := range []int{1, 2, 5, 64, 300} {
			var matches, all []match
			items := rng.Perm(3 * n)
			for i, item := range items {
				all = append(all, match{similarity: draw(), index: item})
				if i < n {
					matches = append(matches, all[i])
				}
			}
			tally := newTally(slices.Clone(matches), 3*n)
			low := tally.low()
			for _, m := range all[n:] {
				if m.similarity >= low {
					low = tally.see(m.index, m.similarity)
				}
			}
			want := ranking{matches: n, first: -1}
			isMatch := map[int]bool{}
			for _, m := range matches {
				isMatch[m.index] = true
			}
			slices.SortFunc(all, func(a, b match) int {
				return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.index, b.index))
			})
			for place, m := range all {
				want.tied = want.tied || tiedFrom(all, place, n, 3*n, func(m match) (float32, bool) {
					return m.similarity, isMatch[m.index]
				})
				if isMatch[m.index] && want.first < 0 {
					want.first = place
				}
				if isMatch[m.index] && place < n {
					want.precision++
					want.averagePrecision += want.precision / float64(place+1)
				}
			}
			want.precision, want.averagePrecision = want.precision/float64(n), want.averagePrecision/float64(n)
			got := tally.ranking()
			if got.first != want.first || got.tied != want.tied || math.Abs(got.precision-want.precision) > 1e-12 ||
				math.Abs(got.averagePrecision-want.averagePrecision) > 1e-12 {
				t.Errorf("%s, %d matches: %+v; want %+v", what, n, got, want)
			}
		}
	}
}
