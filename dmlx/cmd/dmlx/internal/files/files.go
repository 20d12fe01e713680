// Package files reads and writes the NumPy and CSV files of the command.
package files

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// ReadBatch reads embeddings, float32 [N, D], and their labels [N], integers or names; see [npy.ReadLabels].
func ReadBatch(embeddings, labels string) (dissect.Embeddings, error) {
	batches, err := ReadBatches(embeddings, labels)
	if err != nil {
		return dissect.Embeddings{}, err
	}
	return batches[0], nil
}

// ReadBatches reads pairs of files, of embeddings and of labels. Names have the same numbers in all of them. Without
// files of labels, all labels are 0.
func ReadBatches(pairs ...string) ([]dissect.Embeddings, error) {
	var out []dissect.Embeddings
	var labels []string
	for i := 0; i+1 < len(pairs); i += 2 {
		values, shape, err := npy.ReadFloat32(pairs[i])
		if err != nil {
			return nil, err
		}
		if len(shape) != 2 {
			return nil, fmt.Errorf("%s: shape %v, want [N, D]", pairs[i], shape)
		}
		if err := errs.Finite(pairs[i]+": ", values, shape[1]); err != nil {
			return nil, err
		}
		out = append(out, dissect.Embeddings{Values: values, N: shape[0], Dim: shape[1]})
		labels = append(labels, pairs[i+1])
	}
	if slices.Max(labels) == "" {
		for i := range out {
			out[i].Labels = make([]int64, out[i].N)
		}
		return out, nil
	}
	classes, _, err := npy.ReadLabels(labels...)
	if err != nil {
		return nil, err
	}
	for i := range out {
		if len(classes[i]) != out[i].N {
			return nil, fmt.Errorf("%s: %d labels, want [%d] for the %d rows of %s", labels[i], len(classes[i]), out[i].N,
				out[i].N, pairs[2*i])
		}
		out[i].Labels = classes[i]
	}
	return out, nil
}

// Beside is the path of the file of names or labels that belongs to a file of embeddings: F.names.txt and F.labels.npy
// beside F.npy.
func Beside(embeddings, what string) string {
	return strings.TrimSuffix(embeddings, ".npy") + "." + what
}

// The files beside embeddings, see [Beside].
const (
	NamesFile  = "names.txt"
	LabelsFile = "labels.npy"
)

// LabelsOf is the file of labels that is given, or the one beside the embeddings if it is there.
func LabelsOf(embeddings, given string) string {
	if beside := Beside(embeddings, LabelsFile); given == "" && embeddings != "" {
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside
		}
	}
	return given
}

// Output is a file of a result of several, and what writes it to a path.
type Output struct {
	Path  string
	Write func(path string) error
}

// Together writes files that belong together, the first of which says nothing true without the others. All are written
// under other names first, and what belongs to the first file that was there goes before it does, so that it is never
// beside others'. The last file goes first and comes last: where it is, all are. Files that may stand beside the first
// and are not written are renamed, which logf says.
func Together(logf func(format string, args ...any), all []Output, beside ...string) error {
	for i, f := range all {
		if err := f.Write(f.Path + ".new"); err != nil {
			for _, f := range all[:i+1] {
				_ = os.Remove(f.Path + ".new") // The error says more than one of these.
			}
			return err
		}
	}
	for _, f := range slices.Backward(all[1:]) {
		if err := os.Remove(f.Path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		beside = slices.DeleteFunc(beside, func(path string) bool { return path == f.Path })
	}
	for _, old := range beside {
		if now, err := durable.MoveAside(old, "old"); err == nil {
			logf("%s was of other rows: it is %s now", old, filepath.Base(now))
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, f := range all {
		if err := os.Rename(f.Path+".new", f.Path); err != nil {
			return err
		}
	}
	return nil
}

// Copied is a copy of a file, such as labels.
func Copied(from, to string) Output {
	return Output{Path: to, Write: func(path string) error {
		raw, err := durable.ReadFile(from)
		if err != nil {
			return err
		}
		return durable.WriteFile(path, raw, 0o644)
	}}
}

// ReadNames reads the names of n rows, one a line; see [durable.Names].
func ReadNames(path string, n int) ([]string, error) {
	raw, err := durable.ReadAtMost(path, durable.MaxText)
	if err != nil {
		return nil, err
	}
	names, err := durable.Names(raw)
	if err == nil && len(names) != n {
		err = fmt.Errorf("%d names, want one for each of %d rows", len(names), n)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return names, nil
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

// SayBytes logs if a file of embeddings or features holds bytes, which may be packed bits.
func SayBytes(logf func(format string, args ...any), file string) {
	if npy.IsBytes(file) {
		logf("%s holds bytes (uint8), taken as numbers from 0 to 255; if they are packed bits, unpack them: "+
			"np.unpackbits(x, axis=1) * 2.0 - 1", file)
	}
}

// SayOdd logs if a file holds bytes, which may be packed bits, and how many of its rows have no direction, and returns
// that number. names, of the rows, may be nil. A row without direction is zero; in a batch that is normalized as in
// training it may also be too short for that, see [dmlx.Normalize].
func SayOdd(logf func(format string, args ...any), e *retrieval.Embeddings, file string, names []string,
	training bool) int {
	SayBytes(logf, file)
	var rows []int
	what, least := "zero", 0.0
	if training {
		what, least = "zero or shorter than 1e-12", 1e-24
	}
	for i := range e.N {
		square := 0.0
		for _, v := range e.Values[i*e.Dim : (i+1)*e.Dim] {
			square += float64(v) * float64(v)
		}
		if square <= least {
			rows = append(rows, i)
		}
	}
	if len(rows) > 0 {
		logf("%d of %d rows of %s are %s and have no direction, so that they are similar to nothing: %s", len(rows), e.N,
			file, what, FirstOf(rows, names))
	}
	return len(rows)
}

// FirstOf names the first of some rows and counts the others. names may be nil.
func FirstOf(rows []int, names []string) string {
	const most = 3
	var out []string
	for _, i := range rows[:min(len(rows), most)] {
		text := fmt.Sprintf("row %d", i)
		if names != nil {
			text += ", " + names[i]
		}
		out = append(out, text)
	}
	if more := len(rows) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// IsZero tells whether all values are zero.
func IsZero(x []float32) bool {
	return !slices.ContainsFunc(x, func(v float32) bool { return v != 0 })
}

// InGallery returns the queries of which the gallery has the same row with the same label, and the gallery without
// those rows.
func InGallery(queries, gallery *retrieval.Embeddings) (there []int, rest *retrieval.Embeddings) {
	key := func(e *retrieval.Embeddings, i int) [sha256.Size]byte {
		raw := binary.LittleEndian.AppendUint64(nil, uint64(e.Labels[i]))
		for _, v := range e.Values[i*e.Dim : (i+1)*e.Dim] {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v+0)) // −0 is 0.
		}
		return sha256.Sum256(raw)
	}
	asked := map[[sha256.Size]byte][]int{}
	for i := range queries.N {
		k := key(queries, i)
		asked[k] = append(asked[k], i)
	}
	rest = &retrieval.Embeddings{Dim: gallery.Dim}
	for i := range gallery.N {
		k := key(gallery, i)
		if same, in := asked[k]; in {
			there, asked[k] = append(there, same...), nil
			continue
		}
		rest.Values = append(rest.Values, gallery.Values[i*gallery.Dim:(i+1)*gallery.Dim]...)
		rest.Labels = append(rest.Labels, gallery.Labels[i])
	}
	rest.N = len(rest.Labels)
	slices.Sort(there)
	return there, rest
}
