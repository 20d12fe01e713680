package embedding

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// embedFeatures embeds the features of a file with the head of a weight file or of a run. The names and labels beside
// the features are written beside the rows, as they are.
func embedFeatures(ctx context.Context, a *app.App, features, weights, out string) error {
	besideIn := []string{files.Beside(features, files.NamesFile), files.Beside(features, files.LabelsFile)}
	besideOut := []string{files.Beside(out, files.NamesFile), files.Beside(out, files.LabelsFile)}
	if err := cli.CheckOut(append(besideIn, features, weights), out, besideOut[0], besideOut[1]); err != nil {
		return err
	}
	labels := files.LabelsOf(features, "")
	e, err := files.ReadBatch(features, labels)
	if err != nil {
		return err
	}
	var with []files.Output
	if names, err := files.ReadNames(besideIn[0], e.N); err == nil {
		with = append(with, written(besideOut[0], durable.JoinNames(names)))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if labels != "" { // Labels that are names stay names.
		with = append(with, files.Copied(labels, besideOut[1]))
	}
	raw, name, err := weightsOf(a, weights)
	if err != nil {
		return err
	}
	head, err := heads.Read(raw)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case head == nil:
		return fmt.Errorf("%s: its weights are of a network on images: want those of a head, or --images DIR", name)
	case head.Features != e.Dim || e.N == 0:
		return fmt.Errorf("%s: shape [%d %d], want [N, %d], features as the head of %s was trained on", features, e.N, e.Dim,
			head.Features, name)
	}
	trainer, err := a.Backend()
	if err != nil {
		return err
	}
	values, err := head.Embed(ctx, trainer.Backend, e.Values)
	if err != nil {
		return fmt.Errorf("%s: %w", features, err)
	}
	if err := writeRows(a, out, values, head.Dim, with...); err != nil {
		return err
	}
	return a.Print(map[string]any{"rows": e.N, "dim": head.Dim, "out": out},
		fmt.Sprintf("%d rows, %d values each, in %s", e.N, head.Dim, out))
}

// writeRows writes values as rows of a width to a file, and what belongs to them; see [files.Together].
func writeRows(a *app.App, out string, values []float32, width int, with ...files.Output) error {
	rows := files.Output{Path: out, Write: func(path string) error {
		return npy.WriteFloat32(path, values, len(values)/width, width)
	}}
	return files.Together(a.Logf, append([]files.Output{rows}, with...), files.Beside(out, files.NamesFile),
		files.Beside(out, files.LabelsFile))
}

// written is a file with this content.
func written(path string, content []byte) files.Output {
	return files.Output{Path: path, Write: func(path string) error { return durable.WriteFile(path, content, 0o644) }}
}
