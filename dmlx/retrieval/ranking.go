package retrieval

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"github.com/gomlx/compute"
)

// ranking is what one query contributes to a [Result].
type ranking struct {
	matches int // R, the number of items of its class.
	// Rank of the first match, from 0; where it is no K's business, not below the largest K.
	first                       int
	averagePrecision, precision float64 // At R.
	positive, negative          float32 // Highest similarity to a match and to another class, NaN where there is none.
}

// tally finds a query's ranking from its similarities one at a time, in any order: it counts the items of other classes
// between its matches, which needs no sorting and no row of similarities. What can no longer change the measures is not
// counted, so that nearly every similarity costs one comparison, with low.
type tally struct {
	matches []match // Best first.
	others  []int32 // others[t]: items of other classes seen that come after exactly t matches.
	within  int     // Matches whose ranks may still matter.
	counted int     // Items counted since within was last narrowed.
	most    int     // The largest K of Recall@K.
	highest float32 // The highest similarity of another class.

	// Of many matches, those of bucket b are matches[start[b]:start[b+1]], so that one is found in constant time.
	start []int32
	scale float32 // Buckets for each unit of similarity below the first match's.
}

// bucket is where a similarity belongs among the matches. It never falls where similarities do.
func (t *tally) bucket(top, similarity float32) int {
	return min(int(min(max(0, (top-similarity)*t.scale), 1<<30)), len(t.start)-2)
}

type match struct {
	similarity float32
	index      int
}

// before tells whether an item ranks before another. Of equals it is the lowest index.
func (m match) before(other match) bool {
	return m.similarity > other.similarity || m.similarity == other.similarity && m.index < other.index
}

// newTally begins with the query's matches in any order, which it may keep, and the largest K of Recall@K.
func newTally(matches []match, most int) *tally {
	t := &tally{
		matches: matches, others: make([]int32, len(matches)), within: len(matches), most: most,
		highest: float32(math.Inf(-1)),
	}
	order := func(a, b match) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.index, b.index))
	}
	if len(matches) < 64 {
		slices.SortFunc(matches, order)
		return t
	}
	top, bottom := matches[0].similarity, matches[0].similarity
	for _, m := range matches {
		top, bottom = max(top, m.similarity), min(bottom, m.similarity)
	}
	t.start = make([]int32, len(matches)+1)
	if top > bottom {
		t.scale = min(float32(len(matches))/(top-bottom), math.MaxFloat32) // No 0 times infinity.
	}
	next := make([]int32, len(matches)+1) // Where the next match of a bucket comes.
	for _, m := range matches {
		next[t.bucket(top, m.similarity)+1]++
	}
	for b := range matches {
		next[b+1] += next[b]
	}
	copy(t.start, next)
	t.matches = make([]match, len(matches))
	for _, m := range matches {
		b := t.bucket(top, m.similarity)
		t.matches[next[b]] = m
		next[b]++
	}
	for b := range matches {
		if of := t.matches[t.start[b]:t.start[b+1]]; len(of) > 1 {
			slices.SortFunc(of, order)
		}
	}
	return t
}

// low is a similarity below which another class's item changes nothing.
func (t *tally) low() float32 {
	if t.within == 0 {
		return t.highest
	}
	return min(t.highest, t.matches[t.within-1].similarity)
}

// see counts an item of another class and returns low, which that may raise.
func (t *tally) see(index int, similarity float32) float32 {
	t.highest = max(t.highest, similarity)
	item := match{similarity, index}
	from, to := 0, t.within
	if t.start != nil {
		b := t.bucket(t.matches[0].similarity, similarity)
		from, to = min(int(t.start[b]), to), min(int(t.start[b+1]), to)
	}
	after := from + sort.Search(to-from, func(i int) bool { return item.before(t.matches[from+i]) })
	if after < t.within {
		t.others[after]++
		if t.counted++; t.counted >= len(t.matches) {
			t.narrow()
		}
	}
	return t.low()
}

// narrow leaves out of within the matches that have fallen too far behind: all measures ask for the first R places, and
// recall also for the first match among the K nearest.
func (t *tally) narrow() {
	before, within := 0, 0
	for i := range t.within {
		before += int(t.others[i])
		limit := len(t.matches)
		if i == 0 {
			limit = max(limit, t.most)
		}
		if i+before >= limit {
			break
		}
		within++
	}
	t.within, t.counted = within, 0
}

// ranking is the query's, once all items have been seen.
func (t *tally) ranking() ranking {
	nan := float32(math.NaN())
	r := ranking{matches: len(t.matches), positive: nan, negative: nan}
	if !math.IsInf(float64(t.highest), -1) {
		r.negative = t.highest
	}
	if r.matches == 0 {
		return r
	}
	r.first, r.positive = int(t.others[0]), t.matches[0].similarity
	before := 0
	for i := range t.within {
		before += int(t.others[i])
		if i+before >= r.matches {
			break
		}
		r.precision++
		r.averagePrecision += float64(i+1) / float64(i+before+1)
	}
	r.precision /= float64(r.matches)
	r.averagePrecision /= float64(r.matches)
	return r
}

// seeAll sees items of other classes, the i-th of this similarity, and returns low, given what it is.
func (t *tally) seeAll(items []int, similarities []float32, low float32) float32 {
	for i, s := range similarities {
		if s >= low {
			low = t.see(items[i], s)
		}
	}
	return low
}

// rankAll ranks the gallery for each query; with self, the gallery is the queries. most is the largest K of Recall@K.
// progress may be nil.
func rankAll(
	ctx context.Context, b compute.Backend, devices int, queries, gallery *Embeddings, self bool, most int,
	progress func(done, total int),
) ([]ranking, error) {
	members := make(map[int64][]int) // Gallery indices of each class, ascending.
	for j, label := range gallery.Labels {
		members[label] = append(members[label], j)
	}
	ranked := make([]ranking, len(queries.Labels))
	byRow := upTo(len(queries.Labels))
	if self {
		if blocks := classBlocks(members); blocks != nil {
			torn := tornClasses(gallery)
			alone := slices.DeleteFunc(slices.Clone(byRow), func(i int) bool { return !torn[queries.Labels[i]] })
			if len(alone) <= len(byRow)/2 { // Else all by rows cost less.
				if err := rankPairs(ctx, b, devices, queries, blocks, most, ranked, progress); err != nil {
					return nil, err
				}
				byRow = alone
			}
		}
	}
	items := upTo(len(gallery.Labels))
	err := similarities(ctx, b, devices, queries, byRow, gallery, progress, func(i int, row []float32) {
		class, own := members[queries.Labels[i]], -1
		if self {
			own = i
		}
		matches := make([]match, 0, len(class))
		for _, j := range class {
			if j != own {
				matches = append(matches, match{row[j], j})
			}
		}
		t := newTally(matches, most)
		low, from := t.low(), 0
		for _, j := range class {
			low = t.seeAll(items[from:j], row[from:j], low)
			from = j + 1
		}
		t.seeAll(items[from:], row[from:], low)
		ranked[i] = t.ranking()
	})
	return ranked, err
}

// tornClasses are those with an item that is, bit by bit, an item of another class, too. As a match it ties with that
// item exactly, so that it takes one row of similarities to tell which comes first.
func tornClasses(e *Embeddings) map[int64]bool {
	torn := make(map[int64]bool)
	for _, c := range duplicates(e) {
		if a, b := e.Labels[c.original], e.Labels[c.copy]; a != b {
			torn[a], torn[b] = true, true
		}
	}
	return torn
}
