// Package retrieval measures embeddings as the field does: Recall@K, R-precision and MAP@R, exactly.
//
// Similarities are cosines, computed on the backend by blocks; ranks are counted on the host while a block is at hand,
// so at any time no more than 2²² of them are on the device and as many on the host, or one query's row where that is
// longer. Nothing is approximated and nothing is random: of equal similarities the lowest gallery index ranks first.
//
// A [Relevance] says what matches beyond one label an item, and [Verify] what one threshold of similarity does.
//
// Recall@K as in Jégou et al. 2011 and Oh Song et al. 2016; R-precision and MAP@R as in Musgrave et al. 2020.
package retrieval

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// Embeddings are a labeled set of vectors. A row of zeros is at similarity 0 to everything.
type Embeddings = dmlx.Embeddings

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
	// MAP and NDCG are over the whole ranking, and NDCGAt[K] over the K nearest; only [EvaluateRelevance] has them.
	MAP    float64         `json:"map,omitempty"`
	NDCG   float64         `json:"ndcg,omitempty"`
	NDCGAt map[int]float64 `json:"ndcg_at,omitempty"`

	// Tied counts the queries in the means of which a measure depends on the order of equal similarities.
	Tied int `json:"-"`
	// NearestPositive and NearestNegative hold, per query, the highest similarity to another item of its class and to
	// an item of another class: the easy positive and hard negative of the whole set. NaN where there is none.
	NearestPositive []float32 `json:"-"`
	NearestNegative []float32 `json:"-"`
}

// Evaluate ranks the gallery for each query. A nil gallery means all against all: each query is ranked against the
// others, never against itself. The error names the row of a value that is not finite, sets that do not fit together,
// and a K beyond the number of items that can be retrieved, or is ctx's once that is done.
func Evaluate(ctx context.Context, b compute.Backend, queries, gallery *Embeddings, ks []int) (*Result, error) {
	return EvaluateOn(ctx, b, 1, queries, gallery, ks, nil)
}

// EvaluateOn is [Evaluate] on the first devices of a backend, which compute blocks of similarities in turn. The result
// is the same to the bit. Each device holds the gallery and a block. progress, if not nil, is told how many of
// all blocks are done.
func EvaluateOn(
	ctx context.Context, b compute.Backend, devices int, queries, gallery *Embeddings, ks []int,
	progress func(done, total int),
) (*Result, error) {
	return EvaluateRelevance(ctx, b, devices, queries, gallery, nil, ks, progress)
}

// EvaluateRelevance is [EvaluateOn] with matches by a relevance in place of the items of a query's class: with several
// labels, with grades, or without a query's own group. Any grade above 0 is a match. It adds the mean average precision
// and the normalized discounted cumulative gain with gains linear in the grade (Järvelin and Kekäläinen 2002), as
// scikit-learn's average_precision_score and ndcg_score. Labels only count the rows then, and each similarity is
// computed for both of its items.
func EvaluateRelevance(
	ctx context.Context, b compute.Backend, devices int, queries, gallery *Embeddings, relevance Relevance, ks []int,
	progress func(done, total int),
) (*Result, error) {
	if has := b.NumDevices(); devices < 1 || devices > has {
		return nil, fmt.Errorf("retrieval: %d devices: want 1 to %d", devices, has)
	}
	gallery, self, retrievable, err := fit(queries, gallery)
	if err != nil {
		return nil, err
	}
	for _, k := range ks {
		if k < 1 || k > retrievable {
			return nil, fmt.Errorf("retrieval: Recall@%d asked for, but K must lie in 1…%d, the items that can be retrieved", k,
				retrievable)
		}
	}

	ks = slices.Compact(slices.Sorted(slices.Values(ks))) // One that is asked for twice counts once.
	ranked, err := rankAll(ctx, b, devices, queries, gallery, self, relevance, ks, progress)
	if err != nil {
		return nil, err
	}
	return summarize(ranked, ks)
}

// Hits returns 1 for each query that has an item of its class nearer than all of other classes, and 0 for the others.
func (r *Result) Hits() []float64 {
	out := make([]float64, len(r.NearestPositive))
	for i, v := range r.NearestPositive {
		if v > r.NearestNegative[i] {
			out[i] = 1
		}
	}
	return out
}

// EvaluateSimilarities is [Evaluate] with Recall@1 of a set that is its own gallery, by its similarities [N, N].
func EvaluateSimilarities(similarities []float32, labels []int64) (*Result, error) {
	n := len(labels)
	if n == 0 || len(similarities) != n*n {
		return nil, fmt.Errorf("retrieval: %d similarities of %d items: want N × N", len(similarities), n)
	}
	members, ranked := membersOf(labels), make([]ranking, n)
	inParallel(n, 16, func(i int) {
		row, class := similarities[i*n:(i+1)*n], members[labels[i]]
		ranked[i] = rankRow(row, newTally(matchesOf(row, class, i), 1), class)
	})
	return summarize(ranked, []int{1})
}

// summarize takes means over queries.
func summarize(ranked []ranking, ks []int) (*Result, error) {
	n := len(ranked)
	r := &Result{Recall: make(map[int]float64), NearestPositive: make([]float32, n), NearestNegative: make([]float32, n)}
	for i, q := range ranked {
		r.NearestPositive[i], r.NearestNegative[i] = q.positive, q.negative
		if q.matches == 0 {
			r.LoneQueries++
			continue
		}
		r.Queries++
		if q.tied {
			r.Tied++
		}
		for _, k := range ks {
			if q.first < k {
				r.Recall[k]++
			}
		}
		r.MAPAtR += q.averagePrecision
		r.RPrecision += q.precision
		if r.MAP += q.wholePrecision; q.gain != nil {
			r.NDCG += q.gain[len(ks)]
			if r.NDCGAt == nil {
				r.NDCGAt = make(map[int]float64)
			}
			for i, k := range ks {
				r.NDCGAt[k] += q.gain[i]
			}
		}
	}
	if r.Queries == 0 {
		return nil, fmt.Errorf("retrieval: none of the %d queries has a match in the gallery", n)
	}
	for _, k := range ks {
		r.Recall[k] /= float64(r.Queries)
	}
	for k := range r.NDCGAt {
		r.NDCGAt[k] /= float64(r.Queries)
	}
	r.MAP /= float64(r.Queries)
	r.NDCG /= float64(r.Queries)
	r.MAPAtR /= float64(r.Queries)
	r.RPrecision /= float64(r.Queries)
	return r, nil
}

// Ks lists the K of a result in ascending order.
func (r *Result) Ks() []int { return slices.Sorted(maps.Keys(r.Recall)) }

// fit checks that queries and gallery are whole and fit together. A nil gallery is the queries themselves, and then one
// item less can be retrieved.
func fit(queries, gallery *Embeddings) (items *Embeddings, self bool, retrievable int, err error) {
	if err := check(queries, "queries"); err != nil {
		return nil, false, 0, err
	}
	if gallery == nil {
		return queries, true, len(queries.Labels) - 1, nil
	}
	if err := check(gallery, "gallery"); err != nil {
		return nil, false, 0, err
	}
	if queries.Dim != gallery.Dim {
		return nil, false, 0, fmt.Errorf("retrieval: queries have dimension %d, the gallery %d", queries.Dim, gallery.Dim)
	}
	return gallery, false, len(gallery.Labels), nil
}

func check(e *Embeddings, what string) error {
	if e == nil || len(e.Labels) == 0 {
		return fmt.Errorf("retrieval: %s: empty", what)
	}
	if e.N != 0 && e.N != len(e.Labels) {
		return fmt.Errorf("retrieval: %s: %d rows and %d labels; want one a row", what, e.N, len(e.Labels))
	}
	if e.Dim < 1 || len(e.Values) != len(e.Labels)*e.Dim {
		return fmt.Errorf("retrieval: %s: %d values are not %d rows (one per label) of dimension %d", what, len(e.Values),
			len(e.Labels), e.Dim)
	}
	return errs.Finite("retrieval: "+what+": ", e.Values, e.Dim)
}
