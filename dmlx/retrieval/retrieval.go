// Package retrieval measures embeddings as the field does: Recall@K, R-precision and MAP@R, exactly.
//
// Similarities are cosines, computed on the backend by blocks of queries against the whole gallery; ranks are counted on
// the host while a block is at hand, so no more than [BlockSize] similarities exist at any time, whatever the set's size.
// Nothing is approximated and nothing is random: of equal similarities the lowest gallery index ranks first.
//
// Recall@K as in Jégou et al. 2011 and Oh Song et al. 2016; R-precision and MAP@R as in Musgrave et al. 2020.
package retrieval

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math"
	"runtime"
	"slices"
	"sort"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/dmlx/internal/brief"
)

// BlockSize bounds how many similarities are held at once: 16 MiB of float32 on the device and as much on the host, which
// caches still help. One query's row is the least that is held, so a gallery larger than this needs more.
const BlockSize = 4 << 20

var blockSize = BlockSize // Tests make it small.

// Embeddings is a labelled set of N vectors: row i of Values, a matrix [N, Dim] in row-major order, is of class
// Labels[i]. Rows need not be normalised; a row of zeros is at similarity 0 to everything.
type Embeddings struct {
	Values []float32
	Dim    int
	Labels []int64
}

// Result holds the measures of a set, each a fraction in [0, 1] and a mean over the queries that have a match.
type Result struct {
	// Recall[K] is the share of queries with a match among their K nearest.
	Recall map[int]float64 `json:"recall"`
	// MAPAtR is the mean over queries of 1/R Σ_{i≤R} [i-th is a match]·precision@i, R being the query's number of matches.
	MAPAtR float64 `json:"map_at_r"`
	// RPrecision is the mean share of matches among a query's R nearest.
	RPrecision float64 `json:"r_precision"`
	// Queries counts the queries in the means. LoneQueries counts those left out because the gallery has no match.
	Queries     int `json:"queries"`
	LoneQueries int `json:"lone_queries"`

	// NearestPositive and NearestNegative hold, per query, the highest similarity to another item of its class and to
	// an item of another class: the easy positive and hard negative of the whole set. NaN where there is none.
	NearestPositive []float32 `json:"-"`
	NearestNegative []float32 `json:"-"`
}

// Evaluate ranks the gallery for each query. A nil gallery means all against all: each query is ranked against the
// others, never against itself. The error names the row of a value that is not finite, sets that do not fit together, and
// a K beyond the number of items that can be retrieved.
func Evaluate(b compute.Backend, queries, gallery *Embeddings, ks []int) (*Result, error) {
	gallery, self, retrievable, err := fit(queries, gallery)
	if err != nil {
		return nil, err
	}
	for _, k := range ks {
		if k < 1 || k > retrievable {
			return nil, fmt.Errorf("retrieval: Recall@%d asked for, but K must lie in 1…%d, the items that can be retrieved", k, retrievable)
		}
	}

	ks = slices.Compact(slices.Sorted(slices.Values(ks))) // One that is asked for twice counts once.
	members := make(map[int64][]int)                      // Gallery indices of each class, ascending.
	for j, label := range gallery.Labels {
		members[label] = append(members[label], j)
	}
	n := len(queries.Labels)
	ranked := make([]ranking, n)
	err = similarities(b, queries, gallery, func(i int, row []float32) {
		own := -1
		if self {
			own = i
		}
		ranked[i] = rank(row, members[queries.Labels[i]], own)
	})
	if err != nil {
		return nil, err
	}

	r := &Result{Recall: make(map[int]float64), NearestPositive: make([]float32, n), NearestNegative: make([]float32, n)}
	for i, q := range ranked {
		r.NearestPositive[i], r.NearestNegative[i] = q.positive, q.negative
		if q.matches == 0 {
			r.LoneQueries++
			continue
		}
		r.Queries++
		for _, k := range ks {
			if q.first < k {
				r.Recall[k]++
			}
		}
		r.MAPAtR += q.averagePrecision
		r.RPrecision += q.precision
	}
	if r.Queries == 0 {
		return nil, fmt.Errorf("retrieval: none of the %d queries has a match in the gallery", n)
	}
	for _, k := range ks {
		r.Recall[k] /= float64(r.Queries)
	}
	r.MAPAtR /= float64(r.Queries)
	r.RPrecision /= float64(r.Queries)
	return r, nil
}

// Ks lists the K of a result in ascending order.
func (r *Result) Ks() []int { return slices.Sorted(maps.Keys(r.Recall)) }

// fit checks that queries and gallery are whole and fit together. A nil gallery is the queries themselves, and then one item
// less can be retrieved.
func fit(queries, gallery *Embeddings) (items *Embeddings, self bool, retrievable int, err error) {
	if err := queries.check("queries"); err != nil {
		return nil, false, 0, err
	}
	if gallery == nil {
		return queries, true, len(queries.Labels) - 1, nil
	}
	if err := gallery.check("gallery"); err != nil {
		return nil, false, 0, err
	}
	if queries.Dim != gallery.Dim {
		return nil, false, 0, fmt.Errorf("retrieval: queries have dimension %d, the gallery %d", queries.Dim, gallery.Dim)
	}
	return gallery, false, len(gallery.Labels), nil
}

func (e *Embeddings) check(what string) error {
	if e == nil || len(e.Labels) == 0 {
		return fmt.Errorf("retrieval: %s: empty", what)
	}
	if e.Dim < 1 || len(e.Values) != len(e.Labels)*e.Dim {
		return fmt.Errorf("retrieval: %s: %d values are not %d rows (one per label) of dimension %d", what, len(e.Values), len(e.Labels), e.Dim)
	}
	for i, v := range e.Values {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return fmt.Errorf("retrieval: %s: row %d, column %d is %g", what, i/e.Dim, i%e.Dim, v)
		}
	}
	return nil
}

// similarities calls visit once per query with its cosines to the whole gallery, several at a time. The row is only
// valid during the call.
func similarities(b compute.Backend, queries, gallery *Embeddings, visit func(i int, row []float32)) (err error) {
	defer func() {
		if r := recover(); r != nil { // GoMLX panics where a graph cannot be built.
			err = oneLine("similarities", fmt.Errorf("%v", r))
		}
	}()
	n, m, d := len(queries.Labels), len(gallery.Labels), queries.Dim
	rows := min(n, max(1, blockSize/m))
	exec, err := graph.NewExec(b, func(q, g *graph.Node) *graph.Node { return graph.Einsum("qd,gd->qg", q, g) })
	if err != nil {
		return oneLine("similarities", err)
	}
	defer exec.Finalize()
	// Each is written in place where the backend allows it, so that there is one copy of the gallery and of a block.
	g, err := tensors.FromShapeForBackend(b, 0, shapes.Make(dtypes.Float32, m, d))
	if err != nil {
		return oneLine("similarities", err)
	}
	defer g.MustFinalizeAll()
	var copies []duplicate
	tensors.MustMutableFlatData(g, func(unit []float32) {
		normalize(unit, gallery.Values, d)
		copies = duplicates(unit, d)
	})
	q, err := tensors.FromShapeForBackend(b, 0, shapes.Make(dtypes.Float32, rows, d))
	if err != nil {
		return oneLine("similarities", err)
	}
	defer q.MustFinalizeAll()
	block := tensors.FromShape(shapes.Make(dtypes.Float32, rows, m))
	for start := 0; start < n; start += rows {
		count := min(rows, n-start)
		tensors.MustMutableFlatData(q, func(unit []float32) {
			clear(unit[count*d:]) // The last block is filled up with zeros, so that the graph is compiled once.
			normalize(unit[:count*d], queries.Values[start*d:(start+count)*d], d)
		})
		s, err := exec.Call1(q, g)
		if err != nil {
			return oneLine("similarities", err)
		}
		if err := errors.Join(block.CopyFrom(s), s.FinalizeAll()); err != nil {
			return oneLine("similarities", err)
		}
		tensors.MustMutableFlatData(block, func(values []float32) {
			var workers errgroup.Group
			workers.SetLimit(runtime.GOMAXPROCS(0))
			for from := 0; from < count; from += 16 {
				workers.Go(func() error {
					for i := from; i < min(from+16, count); i++ {
						row := values[i*m : (i+1)*m]
						for _, c := range copies {
							row[c.copy] = row[c.original]
						}
						visit(start+i, row)
					}
					return nil
				})
			}
			_ = workers.Wait() // The workers return no error.
		})
	}
	return nil
}

// ranking is what one query contributes.
type ranking struct {
	matches                     int     // R, the number of items of its class.
	first                       int     // Rank of the first match, from 0.
	averagePrecision, precision float64 // At R.
	positive, negative          float32 // Highest similarity to a match and to another class.
}

// rank finds the ranks of the matches in row by counting the items before them, which needs no sorting of the row. members
// are the gallery's items of the query's class, ascending; own is the query's place among them or -1.
func rank(row []float32, members []int, own int) ranking {
	nan := float32(math.NaN())
	r := ranking{positive: nan, negative: nan}
	matches := make([]int, 0, len(members))
	for _, j := range members {
		if j != own {
			matches = append(matches, j)
		}
	}
	slices.SortFunc(matches, func(a, b int) int { // Best first; of equals the lowest index.
		return cmp.Or(cmp.Compare(row[b], row[a]), cmp.Compare(a, b))
	})
	r.matches = len(matches)
	first, best := len(row), float32(math.Inf(1))
	if r.matches > 0 {
		first, best = matches[0], row[matches[0]]
		r.positive = best
	}
	negative := float32(math.Inf(-1))
	for from, to := range between(members, len(row)) {
		above, level, highest := count(row[from:to], best)
		r.first += above
		if to <= first {
			r.first += level
		}
		negative = max(negative, highest)
	}
	if !math.IsInf(float64(negative), -1) {
		r.negative = negative
	}
	if r.matches == 0 || r.first >= r.matches {
		return r // No match is among the R nearest.
	}
	others := make([]int, r.matches) // others[t]: items of other classes that come after exactly t matches.
	within, counted := r.matches, 0  // Matches that may be among the R nearest, which is all that the measures at R ask.
	for from, to := range between(members, len(row)) {
		for j, s := range row[from:to] {
			if s < row[matches[within-1]] {
				continue
			}
			after := sort.Search(within, func(t int) bool {
				p := matches[t]
				return row[p] < s || row[p] == s && p > from+j
			})
			if after == within {
				continue
			}
			others[after]++
			if counted++; counted == r.matches {
				within, counted = nearEnough(others[:within], r.matches), 0
			}
		}
	}
	before := 0
	for t := range nearEnough(others[:within], r.matches) {
		before += others[t]
		r.precision++
		r.averagePrecision += float64(t+1) / float64(t+before+1)
	}
	r.precision /= float64(r.matches)
	r.averagePrecision /= float64(r.matches)
	return r
}

// count counts the values above a threshold and those level with it, and finds the highest. Nearly all the host's time goes
// here, so it has no jump that cannot be foreseen.
func count(values []float32, threshold float32) (above, level int, highest float32) {
	highest = float32(math.Inf(-1))
	for _, v := range values {
		above += int(math.Float32bits(threshold-v) >> 31) // The sign.
		if v == threshold {
			level++
		}
		if v > highest {
			highest = v
		}
	}
	return above, level, highest
}

// between yields the ranges of 0…n−1 that lie between members.
func between(members []int, n int) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		from := 0
		for _, j := range members {
			if !yield(from, j) {
				return
			}
			from = j + 1
		}
		yield(from, n)
	}
}

// nearEnough counts the matches with a rank below r, given how many others come after exactly t matches.
func nearEnough(others []int, r int) int {
	before := 0
	for t, n := range others {
		if before += n; t+before >= r {
			return t
		}
	}
	return len(others)
}

// normalize divides each row of dimension d by its length. Equal rows stay equal bit by bit, so ties stay ties.
func normalize(unit, values []float32, d int) {
	for i := 0; i < len(values); i += d {
		sum := 0.0
		for _, v := range values[i : i+d] {
			sum += float64(v) * float64(v)
		}
		length := math.Sqrt(sum)
		if sum == 0 {
			length = 1
		}
		for j, v := range values[i : i+d] {
			unit[i+j] = float32(float64(v) / length)
		}
	}
}

type duplicate struct{ original, copy int }

// duplicates finds the rows that equal an earlier one. A matrix product may round the same dot product differently in
// different columns, which would break a tie of duplicates at random.
func duplicates(unit []float32, d int) []duplicate {
	var out []duplicate
	seed := maphash.MakeSeed()
	first := make(map[uint64]int, len(unit)/d)
	for j := range len(unit) / d {
		row := unit[j*d : (j+1)*d]
		var h maphash.Hash
		h.SetSeed(seed)
		_ = binary.Write(&h, binary.LittleEndian, row) // A hash does not fail.
		i, seen := first[h.Sum64()]
		if !seen {
			first[h.Sum64()] = j
		} else if slices.Equal(row, unit[i*d:(i+1)*d]) {
			out = append(out, duplicate{i, j})
		}
	}
	return out
}

// oneLine keeps the first line of a GoMLX error, which carries a stack.
func oneLine(what string, err error) error {
	return fmt.Errorf("retrieval: %s: %w", what, brief.Error(err))
}
