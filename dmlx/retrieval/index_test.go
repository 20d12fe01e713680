package retrieval

import (
	"bytes"
	"encoding/binary"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

func indexOf(t testing.TB, e *Embeddings, half bool) *Index {
	t.Helper()
	x, err := NewIndex(e.Dim, half)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Add(e); err != nil {
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

// An index finds what sorting all similarities finds, one query and many, in memory and in a file, and keeps ties in
// order.
func TestIndex(t *testing.T) {
	for name, half := range map[string]bool{"float32": false, "float16": true} {
		t.Run(name, func(t *testing.T) {
			backendtest.OnEach(t, func(t *testing.T, b compute.Backend) { testIndex(t, b, half) })
		})
	}
}

func testIndex(t *testing.T, b compute.Backend, half bool) {
	rng := rand.New(rand.NewPCG(3, 0))
	e, q := normal(rng, 300, 9, 5), normal(rng, 40, 9, 5)
	copy(e.Values[250*9:], e.Values[7*9:8*9])
	copy(q.Values, e.Values[7*9:8*9])
	old := blockSize
	blockSize = 40 * 32 // Several blocks of rows.
	defer func() { blockSize = old }()

	x, dir := indexOf(t, e, half), t.TempDir()
	if err := x.Save(dir); err != nil {
		t.Fatal(err)
	}
	opened, err := OpenIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(opened.Labels(), e.Labels) || opened.Len() != 300 || opened.Dim() != 9 {
		t.Error(opened.Labels(), opened.Len(), opened.Dim())
	}
	for _, x := range []*Index{x, opened} {
		many, err := x.Search(t.Context(), b, q.Values, 8)
		if err != nil {
			t.Fatal(err)
		}
		for i, found := range many {
			one, err := x.Search(t.Context(), nil, q.Values[i*9:(i+1)*9], 8)
			if err != nil || !slices.Equal(one[0], found) {
				t.Errorf("query %d alone: %v, beside others: %v, %v", i, one[0], found, err)
			}
			want, near := byLoops(q.Values[i*9:(i+1)*9], e), 1e-6
			if half {
				near = 5e-4
			}
			for j, n := range found {
				if n.Index != want[j].Index && !half || math.Abs(float64(n.Similarity-want[j].Similarity)) > near {
					t.Errorf("query %d, neighbor %d: %v, want %v", i, j, n, want[j])
				}
			}
		}
		if many[0][0].Index != 7 || many[0][1].Index != 250 {
			t.Errorf("equal rows: %v", many[0])
		}
		if err := x.Remove(7, 0); err != nil {
			t.Fatal(err)
		}
		if one, err := x.Search(t.Context(), nil, q.Values[:9], 1000); err != nil || one[0][0].Index != 248 ||
			len(one[0]) != 298 || x.Labels()[0] != e.Labels[1] {
			t.Errorf("without rows 0 and 7: %v, %v", one, err)
		}
	}

	path := filepath.Join(dir, "x.fvecs")
	if err := x.WriteFvecs(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	first := math.Float32frombits(binary.LittleEndian.Uint32(raw[4:]))
	if err != nil || len(raw) != 298*40 || !bytes.Equal(raw[40:44], []byte{9, 0, 0, 0}) ||
		first != x.some(0, 1, x.room(1))[0] {
		t.Error(err, len(raw))
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
	x := indexOf(t, &Embeddings{Values: []float32{1, 0, 0, 1}, Dim: 2, Labels: []int64{1, 2}}, false)
	search := func(queries []float32, k int) error {
		_, err := x.Search(t.Context(), nil, queries, k)
		return err
	}
	open := func(dir string) error { _, err := OpenIndex(dir); return err }
	damaged := t.TempDir()
	if err := os.WriteFile(filepath.Join(damaged, IndexRows), []byte("no array"), 0o600); err != nil {
		t.Fatal(err)
	}
	// The error of a cut file names the type that it has, and another type is named beside one that an index takes.
	cut := func(half bool) string {
		dir, whole := t.TempDir(), indexOf(t, &Embeddings{Values: make([]float32, 64), Dim: 8}, half)
		path := filepath.Join(dir, IndexRows)
		if err := whole.Save(dir); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || os.Truncate(path, info.Size()-16) != nil {
			t.Fatal(err)
		}
		return dir
	}
	numbers := t.TempDir()
	if err := npy.WriteInt64(filepath.Join(numbers, IndexRows), []int64{1, 2}, 1, 2); err != nil {
		t.Fatal(err)
	}
	_, none := NewIndex(0, false)
	nan := float32(math.NaN())
	for _, c := range []struct {
		err  error
		want string
	}{
		{none, "at least 1"},
		{x.Add(&Embeddings{Values: []float32{1, 2, 3}, Dim: 2}), "want rows of dimension 2"},
		{x.Add(&Embeddings{Values: []float32{1, 2}, Dim: 2}), "labels for all rows"},
		{x.Add(&Embeddings{Values: []float32{1, nan}, Dim: 2, Labels: []int64{1}}), "row 0, column 1 is NaN"},
		{x.Remove(2), "row 2 of an index of 2"},
		{search([]float32{1, 2, 3}, 1), "want rows of dimension 2"},
		{search([]float32{1, nan}, 1), "is NaN"},
		{search([]float32{1, 2}, 0), "at least 1"},
		{open(t.TempDir()), "no such file"},
		{open(damaged), "not a NumPy array"},
		{open(cut(true)), `112 bytes of "<f2" values, Fortran order false, shape [8 8]: want all values in C order`},
		{open(cut(false)), `240 bytes of "<f4" values, Fortran order false, shape [8 8]: want all values in C order`},
		{open(numbers), `values of another type: "<i8", want "<f4"`},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%v, want …%s…", c.err, c.want)
		}
	}
	if x.Len() != 2 {
		t.Error("something was added")
	}
}

// An index that is written in parts is the one that is saved whole; what does not fit leaves no rows behind.
func TestWriteIndex(t *testing.T) {
	t.Parallel()
	values := []float32{3, 4, 0, 2, 1, 1}
	parts := func(sizes ...int) iter.Seq2[[]float32, error] {
		return func(yield func([]float32, error) bool) {
			from := 0
			for _, n := range sizes {
				if !yield(values[2*from:2*(from+n)], nil) {
					return
				}
				from += n
			}
		}
	}
	whole, dir := indexOf(t, &Embeddings{Values: values, Dim: 2, Labels: []int64{5, 6, 7}}, false), t.TempDir()
	if err := WriteIndex(dir, 3, 2, false, []int64{5, 6, 7}, parts(2, 1)); err != nil {
		t.Fatal(err)
	}
	got, err := OpenIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.rows, whole.rows) || !slices.Equal(got.labels, whole.labels) {
		t.Errorf("%v %v, want %v", got.rows, got.labels, whole.rows)
	}
	if err := got.Close(); err != nil {
		t.Fatal(err)
	}
	none := t.TempDir()
	for what, err := range map[string]error{
		"too few": WriteIndex(none, 3, 2, false, nil, parts(2)),
		"labels":  WriteIndex(none, 3, 2, false, []int64{1}, parts(3)),
		"an error": WriteIndex(none, 3, 2, false, nil, func(yield func([]float32, error) bool) {
			yield(nil, errors.New("x"))
		}),
		"NaN": WriteIndex(none, 1, 2, true, nil, func(yield func([]float32, error) bool) {
			yield([]float32{1, float32(math.NaN())}, nil)
		}),
	} {
		if _, opened := OpenIndex(none); err == nil || opened == nil {
			t.Errorf("%s: %v, %v", what, err, opened)
		}
	}
	values[5] = float32(math.NaN())
	err = WriteIndex(none, 3, 2, true, nil, parts(2, 1))
	if err == nil || !strings.Contains(err.Error(), "row 2, column 1") {
		t.Errorf("a value of the second part: %v", err)
	}
}
