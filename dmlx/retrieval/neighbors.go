package retrieval

import (
	"context"
	"fmt"
	"math"

	"github.com/gomlx/compute"
)

// Neighbor is an item of the gallery and its similarity to a query. Where there is none, Index is −1 and the
// similarity NaN.
type Neighbor struct {
	Index      int
	Similarity float32
}

// Neighbors are what one query finds. Of equal similarities the lowest index comes first.
type Neighbors struct {
	// Nearest are its K nearest, the nearest first.
	Nearest []Neighbor
	// Positive and Negative are the nearest other item of its class and the nearest of another class: with the query as
	// anchor, its triplet by easy positive and hard negative over the whole set.
	Positive, Negative Neighbor
}

// Nearest finds the k nearest items of the gallery for each query, and its nearest positive and nearest negative. As
// for [Evaluate], a nil gallery means all against all, each query against the others, and memory is bounded as there.
func Nearest(ctx context.Context, b compute.Backend, queries, gallery *Embeddings, k int) ([]Neighbors, error) {
	gallery, self, retrievable, err := fit(queries, gallery)
	if err != nil {
		return nil, err
	}
	if k < 0 || k > retrievable {
		return nil, fmt.Errorf("retrieval: %d neighbors asked for; want 0…%d, the items that can be retrieved", k,
			retrievable)
	}
	out := make([]Neighbors, len(queries.Labels))
	err = similarities(ctx, b, 1, queries, gallery, nil, func(i int, row []float32) error {
		own := -1
		if self {
			own = i
		}
		out[i] = nearest(row, gallery.Labels, queries.Labels[i], own, k)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// nearest picks a query's neighbors from its similarities to the gallery. own is the query's place there or −1.
func nearest(row []float32, labels []int64, label int64, own, k int) Neighbors {
	none := Neighbor{-1, float32(math.NaN())}
	n := Neighbors{Nearest: make([]Neighbor, 0, k), Positive: none, Negative: none}
	for j, s := range row {
		if j == own {
			continue
		}
		best := &n.Negative
		if labels[j] == label {
			best = &n.Positive
		}
		if best.Index < 0 || s > best.Similarity {
			*best = Neighbor{j, s}
		}
		if nearer(n.Nearest, s, k) {
			n.Nearest = insert(n.Nearest, Neighbor{j, s}, k)
		}
	}
	return n
}

// nearer reports whether a similarity belongs to a list of at most k neighbors, the nearest first. It is apart from
// insert since it is inlined, and most similarities end there.
func nearer(list []Neighbor, s float32, k int) bool {
	return len(list) < k || k > 0 && s > list[k-1].Similarity
}

// insert puts a neighbor into a list to which it belongs.
func insert(list []Neighbor, n Neighbor, k int) []Neighbor {
	if len(list) < k {
		list = append(list, n)
	}
	at := len(list) - 1
	for ; at > 0 && n.Similarity > list[at-1].Similarity; at-- {
		list[at] = list[at-1]
	}
	list[at] = n
	return list
}
