package retrieval

import (
	"fmt"
	"math"
	"slices"
)

// Relevant is an item of the gallery that answers a query.
type Relevant struct {
	Item  int
	Grade float64 // How well it does. With 0 it is not ranked for the query, as if the gallery did not have it.
}

// Relevance returns the items that answer a query, in ascending order; all others do not. It is called for several
// queries at a time. In a set that is its own gallery a query is never ranked against itself, listed or not.
type Relevance func(query int) []Relevant

// ByLabels is the relevance between sets with several labels an item, such as a class and its superclass, or tags: the
// grade is the number of labels in common. A nil gallery is the queries.
func ByLabels(queries, gallery [][]int64) Relevance {
	if gallery == nil {
		gallery = queries
	}
	members := map[int64][]int{}
	for j, labels := range gallery {
		for _, label := range labels {
			members[label] = append(members[label], j)
		}
	}
	return func(i int) (out []Relevant) {
		var items []int
		for _, label := range queries[i] {
			items = append(items, members[label]...)
		}
		slices.Sort(items)
		for k, j := range items {
			if k == 0 || j != items[k-1] {
				out = append(out, Relevant{Item: j})
			}
			out[len(out)-1].Grade++
		}
		return out
	}
}

// LeaveOut is the relevance without the matches of a query's own group [N] in a gallery's [M], such as its camera,
// sequence or near-duplicates: these are not ranked, as in Zheng et al., ICCV 2015 (Market-1501). Items of the group
// that do not answer the query stay; open-metric-learning leaves these out of a sequence, too.
func (r Relevance) LeaveOut(queries, gallery []int64) Relevance {
	return func(i int) []Relevant {
		of := slices.Clone(r(i))
		for k := range of {
			if gallery[of[k].Item] == queries[i] {
				of[k].Grade = 0
			}
		}
		return of
	}
}

// of returns a query's matches with their similarities in a row, and the items that are none of its others, ascending.
// own is the query's own item or −1.
func (r Relevance) of(query, own int, row []float32) (matches []match, skip []int, err error) {
	last := -1
	for _, v := range r(query) {
		if v.Item <= last || v.Item >= len(row) || !(v.Grade >= 0) || math.IsInf(v.Grade, 1) {
			return nil, nil, fmt.Errorf("retrieval: query %d: item %d with grade %v; want items of 0…%d in ascending order, "+
				"with grades of 0 or more", query, v.Item, v.Grade, len(row)-1)
		}
		if last < own && own < v.Item {
			skip = append(skip, own)
		}
		last = v.Item
		skip = append(skip, last)
		if v.Grade > 0 && last != own {
			matches = append(matches, match{row[last], float32(v.Grade), last})
		}
	}
	if last < own {
		skip = append(skip, own)
	}
	return matches, skip, nil
}

// graded adds what is measured over the whole ranking: the average precision, and the discounted cumulative gain at
// each K and at the end, over the best that the grades allow.
func (r ranking) graded(t *tally, ks []int) ranking {
	n := len(t.matches)
	best := make([]float64, n)
	for i, m := range t.matches {
		best[i] = -float64(m.grade)
	}
	slices.Sort(best)
	ends := append(slices.Clone(ks), math.MaxInt)
	r.gain = make([]float64, len(ends))
	for e, end := range ends {
		before, ideal := 0, 0.0
		for i, m := range t.matches[:min(n, end)] {
			if before += int(t.others[i]); i+before < end {
				r.gain[e] += float64(m.grade) / math.Log2(float64(i+before+2))
			}
			ideal -= best[i] / math.Log2(float64(i+2))
		}
		if n > 0 {
			r.gain[e] /= ideal
		}
	}
	before := 0
	for i, m := range t.matches {
		before += int(t.others[i])
		r.wholePrecision += float64(i+1) / float64(i+before+1) / float64(n)
		r.tied = r.tied || t.equal[i] >= 0 ||
			i > 0 && m.similarity == t.matches[i-1].similarity && m.grade != t.matches[i-1].grade
	}
	return r
}
