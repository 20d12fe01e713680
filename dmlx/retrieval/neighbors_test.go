package retrieval

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

func indices(n []Neighbor) []int {
	out := make([]int, len(n))
	for i, x := range n {
		out[i] = x.Index
	}
	return out
}

func TestNearestByHand(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		// Places 0 1 2 3 4 at these angles; seen from each in order of angle.
		e := circle([]int64{1, 2, 1, 1, 3}, 0, 11, 20, 40, 180)
		found, err := Nearest(t.Context(), b, e, nil, 3)
		if err != nil {
			t.Fatal(err)
		}
		want := []struct {
			nearest            []int
			positive, negative int
		}{{[]int{1, 2, 3}, 2, 1}, {[]int{2, 0, 3}, -1, 2}, {[]int{1, 0, 3}, 0, 1}, {[]int{2, 1, 0}, 2, 1}, {[]int{3, 2, 1},
			-1, 3}}
		for i, w := range want {
			f := found[i]
			if !slices.Equal(indices(f.Nearest), w.nearest) || f.Positive.Index != w.positive || f.Negative.Index != w.negative {
				t.Errorf("query %d: %v, positive %v, negative %v; want %v", i, f.Nearest, f.Positive, f.Negative, w)
			}
		}
		if s := found[0].Positive.Similarity; s < 0.93969 || s > 0.9397 { // cos 20°
			t.Errorf("S_ap of query 0 is %v", s)
		}
		if none := found[1].Positive.Similarity; none == none {
			t.Errorf("S_ap of a lone query is %v, want NaN", none)
		}
		// A copy of an item is as near as the item and comes after it.
		gallery := circle([]int64{1, 2, 2, 1}, 30, 5, 5, 5)
		for i := range gallery.Dim {
			gallery.Values[2*2+i], gallery.Values[3*2+i] = gallery.Values[2+i], gallery.Values[2+i]
		}
		found, err = Nearest(t.Context(), b, circle([]int64{1}, 0), gallery, 4)
		if err != nil {
			t.Fatal(err)
		}
		if f := found[0]; !slices.Equal(indices(f.Nearest), []int{1, 2, 3, 0}) || f.Positive.Index != 3 ||
			f.Negative.Index != 1 {
			t.Errorf("with copies: %+v", f)
		}
		for _, k := range []int{5, -1} {
			if _, err := Nearest(t.Context(), b, circle([]int64{1}, 0), gallery, k); err == nil ||
				!strings.Contains(err.Error(), "want 0…4") {
				t.Errorf("%d neighbors of 4 items: %v", k, err)
			}
		}
		if _, err := Nearest(t.Context(), b, &Embeddings{}, nil, 1); err == nil {
			t.Error("no queries were ranked")
		}
	})
}

// However small the blocks, the neighbors are those that sorting each row finds, and agree with Evaluate's.
func TestNearestAgainstSorting(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		defer func(size int) { blockSize = size }(blockSize)
		rng := rand.New(rand.NewPCG(7, 0))
		const n, m, d, k = 37, 53, 3, 9
		draw := func(n int) *Embeddings {
			e := &Embeddings{Dim: d}
			for range n * d { // Few values, so that many similarities are equal.
				e.Values = append(e.Values, float32(rng.IntN(3)-1))
			}
			for range n {
				e.Labels = append(e.Labels, rng.Int64N(6))
			}
			return e
		}
		queries, items := draw(n), draw(m)
		for _, gallery := range []*Embeddings{nil, items} {
			for _, size := range []int{1, 200, blockSize} {
				blockSize = size
				found, err := Nearest(t.Context(), b, queries, gallery, k)
				if err != nil {
					t.Fatal(err)
				}
				whole, err := Evaluate(t.Context(), b, queries, gallery, []int{1})
				if err != nil {
					t.Fatal(err)
				}
				in := gallery
				if in == nil {
					in = queries
				}
				err = similarities(t.Context(), b, 1, queries, in, nil, func(i int, row []float32) error {
					var order []int
					for j := range row {
						if gallery != nil || j != i {
							order = append(order, j)
						}
					}
					slices.SortStableFunc(order, func(x, y int) int { return cmp.Compare(row[y], row[x]) })
					first := func(same bool) int {
						return order[slices.IndexFunc(order, func(j int) bool { return (in.Labels[j] == queries.Labels[i]) == same })]
					}
					f := found[i]
					if !slices.Equal(indices(f.Nearest), order[:k]) || f.Positive.Index != first(true) ||
						f.Negative.Index != first(false) {
						t.Errorf("blocks of %d, query %d: %+v; want %v", size, i, f, order[:k])
					}
					if f.Positive.Similarity != whole.NearestPositive[i] || f.Negative.Similarity != whole.NearestNegative[i] {
						t.Errorf("blocks of %d, query %d: %+v; Evaluate has %v and %v", size, i, f, whole.NearestPositive[i],
							whole.NearestNegative[i])
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
