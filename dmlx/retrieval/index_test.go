package retrieval

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func indexOf(t testing.TB, e *Embeddings) *Index {
	t.Helper()
	x, err := NewIndex(e)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// normal are rows that all have another direction.
func normal(rng *rand.Rand, n, dim, classes int) *Embeddings {
	e := &Embeddings{Dim: dim}
	for range n * dim {
		e.Values = append(e.Values, float32(rng.NormFloat64()))
	}
	for i := range n {
		e.Labels = append(e.Labels, int64(i%classes))
	}
	return e
}

// An index finds what sorting all similarities finds, one query and many, and keeps ties in order.
func TestIndex(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 0))
	e, q := normal(rng, 9000, 9, 5), normal(rng, 40, 9, 5)
	copy(e.Values[8000*9:], e.Values[7*9:8*9])
	copy(q.Values, e.Values[7*9:8*9])
	x := indexOf(t, e)
	if x.Len() != 9000 || x.Dim() != 9 {
		t.Error(x.Len(), x.Dim())
	}
	many, err := x.Search(t.Context(), q.Values, 8)
	if err != nil {
		t.Fatal(err)
	}
	for i, found := range many {
		one, err := x.Search(t.Context(), q.Values[i*9:(i+1)*9], 8)
		if err != nil || !slices.Equal(one[0], found) {
			t.Errorf("query %d alone: %v, beside others: %v, %v", i, one[0], found, err)
		}
		want := byLoops(q.Values[i*9:(i+1)*9], e)
		for j, n := range found {
			if n.Index != want[j].Index || math.Abs(float64(n.Similarity-want[j].Similarity)) > 1e-6 {
				t.Errorf("query %d, neighbor %d: %v, want %v", i, j, n, want[j])
			}
		}
	}
	if many[0][0].Index != 7 || many[0][1].Index != 8000 {
		t.Errorf("equal rows: %v", many[0])
	}
	if one, err := x.Search(t.Context(), q.Values[:9], 10000); err != nil || len(one[0]) != 9000 {
		t.Errorf("all rows: %v, %v", one, err)
	}
}

// byLoops sorts all rows by their cosine in float64.
func byLoops(query []float32, e *Embeddings) []Neighbor {
	out := make([]Neighbor, len(e.Labels))
	for i := range out {
		var dot, a, b float64
		for j, v := range e.Values[i*e.Dim : (i+1)*e.Dim] {
			dot, a, b = dot+float64(v)*float64(query[j]), a+float64(v)*float64(v), b+float64(query[j])*float64(query[j])
		}
		out[i] = Neighbor{i, float32(dot / math.Sqrt(a*b))}
	}
	slices.SortStableFunc(out, func(a, b Neighbor) int {
		if a.Similarity > b.Similarity {
			return -1
		} else if a.Similarity < b.Similarity {
			return 1
		}
		return 0
	})
	return out
}

func TestIndexRefuses(t *testing.T) {
	t.Parallel()
	x := indexOf(t, &Embeddings{Values: []float32{1, 0, 0, 1}, Dim: 2})
	search := func(queries []float32, k int) error {
		_, err := x.Search(t.Context(), queries, k)
		return err
	}
	nan := float32(math.NaN())
	made := func(dim int, values ...float32) error {
		_, err := NewIndex(&Embeddings{Values: values, Dim: dim})
		return err
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{made(0, 1), "want rows of dimension 0"},
		{made(2), "want rows of dimension 2"},
		{made(2, 1, 2, 3), "want rows of dimension 2"},
		{made(2, 1, nan), "row 0, column 1 is NaN"},
		{search([]float32{1, 2, 3}, 1), "want rows of dimension 2"},
		{search([]float32{1, nan}, 1), "is NaN"},
		{search([]float32{1, 2}, 0), "at least 1"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want …%s…", c.err, c.want)
		}
	}
}

// Rows have length 1, and values that are not finite are named.
func TestUnits(t *testing.T) {
	t.Parallel()
	rows, err := units([]float32{3, 4, 0, 0}, 2)
	if err != nil || !slices.Equal(rows, []float32{0.6, 0.8, 0, 0}) {
		t.Error(rows, err)
	}
	_, err = units([]float32{1, 1, 1, float32(math.Inf(1))}, 2)
	if err == nil || !strings.Contains(err.Error(), "row 1, column 1") {
		t.Error(err)
	}
}
