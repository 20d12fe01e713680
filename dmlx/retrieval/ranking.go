package retrieval

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/gomlx/compute"
)

// ranking is what one query contributes to a [Result].
type ranking struct {
	matches int // R, the number of items of its class.
	// Rank of the first match, from 0; where it is no K's business, not below the largest K.
	first                       int
	averagePrecision, precision float64 // At R.
	positive, negative          float32 // Highest similarity to a match and to another class, NaN where there is none.
	tied                        bool    // Whether the order of equal similarities decides a measure.
	// Over the whole ranking, by a [Relevance]: the average precision, and the gain at each K and at the end.
	wholePrecision float64
	gain           []float64
}

// tally finds a query's ranking from its similarities one at a time, in any order: it counts the items of other classes
// between its matches, which needs no sorting and no row of similarities. What can no longer change the measures is not
// counted, so that nearly every similarity costs one comparison, with low.
type tally struct {
	matches []match // Best first.
	others  []int32 // others[t]: items of other classes seen that come after exactly t matches.
	equal   []int32 // equal[t]: those of them with the similarity of matches[t], the first that has it; −1 if none ties.
	within  int     // Matches whose ranks may still matter.
	counted int     // Items counted since within was last narrowed.
	most    int     // The largest K of Recall@K.
	highest float32 // The highest similarity of another class.
}

type match struct {
	similarity, grade float32
	index             int
}

// before tells whether an item ranks before another. Of equals it is the lowest index.
func (m match) before(other match) bool {
	return m.similarity > other.similarity || m.similarity == other.similarity && m.index < other.index
}

// newTally begins with the query's matches in any order, which it may keep, and the largest K of Recall@K.
func newTally(matches []match, most int) *tally {
	t := &tally{
		matches: matches, others: make([]int32, len(matches)), equal: make([]int32, len(matches)), within: len(matches),
		most: most, highest: float32(math.Inf(-1)),
	}
	for i := range t.equal {
		t.equal[i] = -1
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.similarity, a.similarity), cmp.Compare(a.index, b.index))
	})
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
	item := match{similarity: similarity, index: index}
	after, to := 0, t.within
	for after < to { // As sort.Search, whose calls take most of the time of queries with many matches.
		if middle := (after + to) / 2; t.matches[middle].before(item) {
			after = middle + 1
		} else {
			to = middle
		}
	}
	at := after
	for at > 0 && t.matches[at-1].similarity == similarity {
		at--
	}
	if at < t.within && t.matches[at].similarity == similarity {
		t.equal[at] = max(t.equal[at], 0)
		if at == after {
			t.equal[at]++
		}
	}
	if after < t.within {
		t.others[after]++
		if t.counted++; t.counted >= len(t.matches) {
			t.narrow()
		}
	}
	return t.low()
}

// limit is the place from which on a match does not count: all measures ask for the first R places, and recall also for
// the first match among the K nearest.
func limit(match, matches, most int) int {
	if match == 0 {
		return max(matches, most)
	}
	return matches
}

// narrow leaves out of within the matches that have fallen too far behind, whatever the order of equal ones.
func (t *tally) narrow() {
	before, within := 0, 0
	for i := range t.within {
		before += int(t.others[i])
		if i+before-int(max(t.equal[i], 0)) >= limit(i, len(t.matches), t.most) {
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
		if tied := int(t.equal[i]); tied >= 0 && i+before-tied < limit(i, r.matches, t.most) {
			r.tied = true
		}
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

// seeAll sees items of other classes, from one on, with their similarities, and returns low, given what it is.
func (t *tally) seeAll(from int, similarities []float32, low float32) float32 {
	for i, s := range similarities {
		if s >= low {
			low = t.see(from+i, s)
		}
	}
	return low
}

// rankAll ranks the gallery for each query; with self, the gallery is the queries. ks are the K of Recall@K, ascending.
// relevance may be nil, for the items of a query's class, and so may progress.
func rankAll(
	ctx context.Context, b compute.Backend, devices int, queries, gallery *Embeddings, self bool, relevance Relevance,
	ks []int, progress func(done, total int),
) ([]ranking, error) {
	most := 0
	if len(ks) > 0 {
		most = ks[len(ks)-1]
	}
	members := membersOf(gallery.Labels)
	ranked := make([]ranking, len(queries.Labels))
	err := similarities(ctx, b, devices, queries, gallery, progress, func(i int, row []float32) error {
		class, own := members[queries.Labels[i]], -1
		if self {
			own = i
		}
		var err error
		matches, skip := []match(nil), class
		if relevance == nil {
			matches = matchesOf(row, class, own)
		} else if matches, skip, err = relevance.of(i, own, row); err != nil {
			return err
		}
		t := newTally(matches, most)
		if relevance != nil {
			t.counted = math.MinInt // Each match counts, however far behind.
		}
		ranked[i] = rankRow(row, t, skip)
		if relevance != nil {
			ranked[i] = ranked[i].graded(t, ks)
		}
		return nil
	})
	return ranked, err
}

// membersOf returns the indices of each class, ascending.
func membersOf(labels []int64) map[int64][]int {
	members := make(map[int64][]int)
	for j, label := range labels {
		members[label] = append(members[label], j)
	}
	return members
}

// matchesOf are the items of a class with their similarities to a query, but for its own item, which may be −1.
func matchesOf(row []float32, class []int, own int) []match {
	matches := make([]match, 0, len(class))
	for _, j := range class {
		if j != own {
			matches = append(matches, match{similarity: row[j], index: j})
		}
	}
	return matches
}

// rankRow ranks items by their similarities to a query, given the tally of its matches. Those to skip are no others.
func rankRow(row []float32, t *tally, skip []int) ranking {
	low, from := t.low(), 0
	for _, j := range skip {
		low = t.seeAll(from, row[from:j], low)
		from = j + 1
	}
	t.seeAll(from, row[from:], low)
	return t.ranking()
}
