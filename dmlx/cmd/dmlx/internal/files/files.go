// Package files reads and writes the NumPy and CSV files of the command.
package files

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// ReadBatch reads embeddings, float32 [N, D], and their labels, int64 [N].
func ReadBatch(embeddings, labels string) (dissect.Embeddings, error) {
	values, shape, err := npy.ReadFloat32(embeddings)
	if err != nil {
		return dissect.Embeddings{}, err
	}
	if len(shape) != 2 {
		return dissect.Embeddings{}, fmt.Errorf("%s: shape %v, want [N, D]", embeddings, shape)
	}
	classes, labelShape, err := npy.ReadInt64(labels)
	if err != nil {
		return dissect.Embeddings{}, err
	}
	if len(labelShape) != 1 || labelShape[0] != shape[0] {
		return dissect.Embeddings{}, fmt.Errorf("%s: shape %v, want [%d] for the %d rows of %s", labels, labelShape, shape[0],
			shape[0], embeddings)
	}
	return dissect.Embeddings{Values: values, N: shape[0], Dim: shape[1], Labels: classes}, nil
}

// ReadProxies reads the proxies of a loss, float32 [C, D], and their labels, int64 [C]. Without a file of labels the
// classes are 0, 1, 2, …, each with the loss's number of proxies. A loss without proxies has none, and needs no files.
func ReadProxies(l *losses.Named, proxies, classes string) (dissect.Proxies, error) {
	perClass := losses.PerClass(l)
	switch {
	case perClass == 0 && (proxies != "" || classes != ""):
		return dissect.Proxies{}, fmt.Errorf("loss %s has no proxies: leave out --proxies and --classes", l)
	case perClass == 0:
		return dissect.Proxies{}, nil
	case proxies == "":
		return dissect.Proxies{}, fmt.Errorf("loss %s has %d proxies per class: add --proxies P.npy", l, perClass)
	}
	if classes != "" {
		e, err := ReadBatch(proxies, classes)
		if err == nil {
			if err = losses.CheckClasses(l, e.Labels); err != nil {
				err = fmt.Errorf("%s: %w", classes, err)
			}
		}
		return dissect.Proxies{Values: e.Values, N: e.N, Dim: e.Dim, Classes: e.Labels}, err
	}
	values, shape, err := npy.ReadFloat32(proxies)
	if err != nil {
		return dissect.Proxies{}, err
	}
	if len(shape) != 2 {
		return dissect.Proxies{}, fmt.Errorf("%s: shape %v, want [C, D]", proxies, shape)
	}
	p := dissect.Proxies{Values: values, N: shape[0], Dim: shape[1]}
	for i := range p.N {
		p.Classes = append(p.Classes, int64(i/perClass))
	}
	return p, nil
}

// ReadSteps reads the batches of steps: pixels, uint8 [K, B, H, H, 3], and labels, int64 [K, B].
func ReadSteps(s *train.Steps, pixels, labels string) error {
	values, shape, err := npy.ReadUint8(pixels)
	if err != nil {
		return err
	}
	if len(shape) != 5 || shape[2] != shape[3] || shape[4] != 3 {
		return fmt.Errorf("%s: shape %v, want [K, B, H, H, 3]", pixels, shape)
	}
	classes, labelShape, err := npy.ReadInt64(labels)
	if err != nil {
		return err
	}
	if len(labelShape) != 2 || labelShape[0] != shape[0] || labelShape[1] != shape[1] {
		return fmt.Errorf("%s: shape %v, want %v for the batches of %s", labels, labelShape, shape[:2], pixels)
	}
	s.Count, s.Batch, s.Size, s.Pixels, s.Labels = shape[0], shape[1], shape[2], values, classes
	return nil
}

// WriteTriplets writes triplets with their similarities, pair weights and triplet weight as CSV.
func WriteTriplets(path string, triplets []dissect.Triplet) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	// A bytes.Buffer does not fail.
	_ = w.Write([]string{"anchor", "positive", "negative", "S_ap", "S_an", "P+", "P-", "T"})
	for _, t := range triplets {
		row := []string{strconv.Itoa(t.Anchor), strconv.Itoa(t.Positive), strconv.Itoa(t.Negative)}
		for _, v := range []float32{t.Sap, t.San, t.PairPositive, t.PairNegative, t.Weight} {
			row = append(row, strconv.FormatFloat(float64(v), 'g', -1, 32))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return durable.WriteFile(path, out.Bytes(), 0o644)
}

// WritePairs writes the pairs of a dissected loss with their similarity and weights as CSV.
func WritePairs(path string, parts *dissect.Implied) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{"anchor", "other", "kind", "S", "P", "T"})
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }
	for _, a := range parts.Anchors {
		rows := func(kind string, pairs []dissect.ImpliedPair) {
			for _, p := range pairs {
				_ = w.Write([]string{strconv.Itoa(a.Anchor), strconv.Itoa(p.Other), kind, number(float64(p.S)), number(p.Weight),
					number(a.Weight)})
			}
		}
		rows("positive", a.Positives)
		rows("negative", a.Negatives)
	}
	w.Flush()
	return durable.WriteFile(path, out.Bytes(), 0o644)
}
