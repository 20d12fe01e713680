package engine

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/npy"
)

// parseNpy reads a user's embeddings and labels, and draws a batch of them if they are many.
func (e *Engine) parseNpy(q *request) (Object, error) {
	embeddingsName := cmp.Or(q.Names.Embeddings, "the embeddings")
	labelsName := cmp.Or(q.Names.Labels, "the labels")
	raw, is := q.arrays["embeddings"]
	if !is {
		return nil, errors.New("no file of embeddings was given")
	}
	if len(raw) > mostFile {
		return nil, tooLarge(embeddingsName, len(raw))
	}
	values, shape, err := npy.DecodeFloat32(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", embeddingsName, err)
	}
	if len(shape) != 2 || shape[0] < 1 || shape[1] < 1 {
		return nil, fmt.Errorf("%s has the shape %v; want [N, D], a row for each embedding", embeddingsName, shape)
	}
	n, dim := shape[0], shape[1]
	if n > mostRowsOfFile || dim > mostDim {
		return nil, fmt.Errorf("%s has %d rows of %d values; the page reads at most %d rows of %d", embeddingsName, n, dim,
			mostRowsOfFile, mostDim)
	}
	for i, v := range values {
		if v-v != 0 {
			return nil, fmt.Errorf("%s: the value at row %d, column %d is %v; want finite numbers", embeddingsName, i/dim, i%dim,
				v)
		}
	}
	labels := make([]int64, n)
	raw, is = q.arrays["labels"]
	if is {
		if len(raw) > mostFile {
			return nil, tooLarge(labelsName, len(raw))
		}
		read, shape, err := npy.DecodeInt64(raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", labelsName, err)
		}
		if len(shape) != 1 || shape[0] != n {
			return nil, fmt.Errorf("%s has the shape %v; want [%d], a label for each row of %s", labelsName, shape, n,
				embeddingsName)
		}
		copy(labels, read)
	} else {
		for i := range labels {
			labels[i] = int64(i)
		}
	}
	members := make(map[int64][]int32) // Rows of each class.
	var classes []int64
	for i, l := range labels {
		if members[l] == nil {
			classes = append(classes, l)
		}
		members[l] = append(members[l], int32(i))
	}
	slices.Sort(classes)
	rows, note := make([]int32, 0, min(n, mostRows)), ""
	drawn := n > mostRows || q.Classes > 0 || q.Images > 0
	if drawn {
		rows = draw(classes, members, q)
		note = fmt.Sprintf("%d of %s: a draw of %s", len(rows), count(n, "row", "rows"),
			count(min(len(classes), classesOf(q)), "class", "classes"))
	} else {
		for i := range n {
			rows = append(rows, int32(i))
		}
		note = count(n, "row", "rows") + ", " + count(len(classes), "class", "classes")
	}
	// Labels of the page are the classes' places in their order, which fit into 32 bits.
	out, chosen := make([]float32, 0, len(rows)*dim), make([]int32, len(rows))
	var zero []int32
	for i, row := range rows {
		values := values[int(row)*dim : (int(row)+1)*dim]
		if !slices.ContainsFunc(values, func(v float32) bool { return v != 0 }) {
			zero = append(zero, row)
		}
		out = append(out, values...)
		place, _ := slices.BinarySearch(classes, labels[row])
		chosen[i] = int32(place)
	}
	if len(zero) == 1 {
		note += fmt.Sprintf("; row %d is zero, so it has no direction", zero[0])
	} else if len(zero) > 1 {
		note += fmt.Sprintf("; %d rows, such as row %d, are zero, so they have no direction", len(zero), zero[0])
	}
	return Object{"n": len(rows), "dim": dim, "embeddings": out, "labels": chosen, "rows": rows, "of": n,
		"classes": len(classes), "drawn": drawn, "note": note}, nil
}

// count is a number with what it counts.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func tooLarge(name string, bytes int) error {
	return fmt.Errorf("%s has %d MB; the page reads at most %d MB", name, bytes>>20, mostFile>>20)
}

func classesOf(q *request) int { return cmp.Or(max(q.Classes, 0), defaultClasses) }

// draw chooses some rows of some classes, those with two or more first, which triplets need.
func draw(classes []int64, members map[int64][]int32, q *request) []int32 {
	rng := rand.New(rand.NewPCG(given(q.Seed, 1), 3))
	order := slices.Clone(classes)
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	slices.SortStableFunc(order, func(x, y int64) int {
		return min(len(members[y]), 2) - min(len(members[x]), 2)
	})
	order = order[:min(len(order), classesOf(q))]
	slices.Sort(order)
	var rows []int32
	for _, l := range order {
		of := slices.Clone(members[l])
		rng.Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
		of = of[:min(len(of), cmp.Or(max(q.Images, 0), defaultImages))]
		slices.Sort(of)
		rows = append(rows, of...)
	}
	return rows[:min(len(rows), mostRows)]
}
