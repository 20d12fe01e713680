package embedding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// namedFeatures opens a file of features, as [cli.App.openFeatures] does, with the names and labels beside it.
func namedFeatures(a *cli.App, path, weights string) (*featureFile, error) {
	f, err := openFeatures(a, path, weights)
	if err != nil {
		return nil, err
	}
	if labels := files.LabelsOf(path, ""); labels != "" {
		var of [][]int64
		if of, f.classes, err = npy.ReadLabels(labels); err == nil {
			if f.labels, f.labelFile = of[0], labels; len(f.labels) != f.rows {
				err = fmt.Errorf("%s: %d labels, want a label for each of %d rows", labels, len(f.labels), f.rows)
			}
		}
	}
	if err == nil {
		f.names, err = files.ReadNames(files.Beside(path, files.NamesFile), f.rows)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// featureFile is a file of features [rows, _], which may be embedded by a head: [rows, width].
type featureFile struct {
	path        string
	values      []float32
	rows, width int
	names       []string // Nil, or of the rows, as labels.
	labels      []int64
	classes     []string     // Of labels that are names.
	labelFile   string       // That labels are from, if they are from one.
	close       func() error // Of what is mapped.
	// embed embeds values; nil if they are embedded.
	embed func(ctx context.Context, values []float32) ([]float32, error)
}

// noClose closes a file of which nothing is mapped.
func noClose() error { return nil }

// openFeatures opens a file of features for a head, or for none if weights is empty.
func openFeatures(a *cli.App, path, weights string) (*featureFile, error) {
	f := &featureFile{path: path}
	var shape []int
	var err error
	if f.values, shape, f.close, err = npy.MapFloat32(path); err != nil { // Of another type, or not there.
		f.close = noClose
		if f.values, shape, err = npy.ReadFloat32(path); err != nil {
			return nil, err
		}
	}
	fail := func(err error) (*featureFile, error) { return nil, errors.Join(err, f.close()) }
	if len(shape) != 2 || len(f.values) == 0 {
		return fail(fmt.Errorf("%s: shape %v, want [N, F], a row of features for each", path, shape))
	}
	f.rows, f.width = shape[0], shape[1]
	if err := errs.Finite(path+": ", f.values, f.width); err != nil {
		return fail(err)
	}
	if weights == "" {
		return f, nil
	}
	raw, name, err := weightsOf(a, weights)
	if err != nil {
		return fail(err)
	}
	head, err := heads.Read(raw)
	switch {
	case err != nil:
		return fail(fmt.Errorf("%s: %w", name, err))
	case head == nil:
		return fail(fmt.Errorf("%s: its weights are of a network on images: want those of a head, or --images DIR", name))
	case head.Features != f.width:
		return fail(fmt.Errorf("%s: shape %v, want [N, %d], features as the head of %s was trained on", path, shape,
			head.Features, name))
	}
	trainer, err := a.Backend()
	if err != nil {
		return fail(err)
	}
	f.width = head.Dim
	f.embed = func(ctx context.Context, v []float32) ([]float32, error) { return head.Embed(ctx, trainer.Backend, v) }
	return f, nil
}

// parts are the rows, embedded, some at a time.
func (f *featureFile) parts(ctx context.Context) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		of := len(f.values) / f.rows
		for some := range slices.Chunk(f.values, max(1<<23/of, 1)*of) {
			var err error
			if f.embed != nil {
				some, err = f.embed(ctx, some)
			}
			if err != nil {
				err = fmt.Errorf("%s: %w", f.path, err)
			}
			if !yield(some, err) {
				return
			}
		}
	}
}

// write writes the rows to a file, and beside it their names and labels, as far as there are any; see
// [files.Together]. labels ends in .txt if it is to have the names of the classes; empty paths are those beside the
// rows.
func (f *featureFile) write(ctx context.Context, a *cli.App, out, names, labels string) error {
	beside := []string{files.Beside(out, files.NamesFile), files.Beside(out, files.LabelsFile)}
	names, labels = cmp.Or(names, beside[0]), cmp.Or(labels, beside[1])
	all := []files.Output{{Path: out, Write: func(path string) (err error) {
		var failed error
		err = npy.WriteFloat32Parts(path, []int{f.rows, f.width}, func(yield func([]float32) bool) {
			for part, err := range f.parts(ctx) {
				if failed = err; err != nil || !yield(part) {
					return
				}
			}
		})
		return cmp.Or(failed, err)
	}}}
	add := func(path string, write func(path string) error) {
		all = append(all, files.Output{Path: path, Write: write})
	}
	if f.names != nil {
		add(names, func(path string) error { return files.WriteNames(path, f.names) })
	}
	switch {
	case f.labels == nil:
	case f.labelFile != "": // Labels that are names stay names.
		add(labels, func(path string) error { return files.Copy(f.labelFile, path) })
	case filepath.Ext(labels) == ".txt":
		of := slice.Map(f.labels, func(label int64) string { return f.classes[label] })
		add(labels, func(path string) error { return files.WriteNames(path, of) })
	default:
		add(labels, func(path string) error { return npy.WriteInt64(path, f.labels, len(f.labels)) })
	}
	return files.Together(a.Logf, all, beside...)
}
