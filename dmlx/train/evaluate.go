package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// recallKs are the K of Recall@K that the paper or the field reports on any of the four data sets.
var recallKs = []int{1, 2, 4, 8, 10, 20, 30, 40, 100, 1000}

// finish evaluates the weights of the last epoch. It may be repeated after an interruption.
func (s *session) finish(ctx context.Context) (*Outcome, error) {
	out := &Outcome{Measures: Measures{Diverged: s.state.Diverged}, Files: make(map[string]string)}
	if !strings.HasPrefix(out.Diverged, "not finite") {
		err := s.evaluate(ctx, &out.Measures)
		var bad *NotFiniteError
		if errors.As(err, &bad) {
			out.Diverged = bad.Error()
		} else if err != nil && errors.Is(err, ctx.Err()) {
			return nil, fmt.Errorf("stopped during evaluation; the same run resumes from there: %w", err)
		} else if err != nil {
			return nil, err
		}
	}
	out.Seconds = s.state.Seconds + time.Since(s.started).Seconds()
	for name, sum := range s.state.Triplets { // The sums of the checkpoint, so that a file changed since then is detected.
		out.Files[filepath.FromSlash(name)] = sum
	}
	for _, name := range []string{MetricsFile, EmbeddingsFile, LabelsFile, GalleryEmbeddingsFile, GalleryLabelsFile} {
		sum, err := durable.FileSum(filepath.Join(s.Dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		out.Files[name] = sum
	}
	return out, nil
}

// evaluate embeds the test set, writes its embeddings and fills in the measures.
func (s *session) evaluate(ctx context.Context, r *Measures) error {
	e, err := s.trainer.evaluationStep(s.Config)
	if err != nil {
		return err
	}
	succeeded := false
	defer func() {
		if succeeded {
			s.trainer.keep(e)
		} else {
			e.free()
		}
	}()
	raw, err := backbone.EncodeWeights(s.step.weights, e.key.arch, nil)
	if err != nil {
		return err
	}
	load := backbone.LoadOptions{Arch: e.key.arch, Dim: e.key.dim}
	if _, err := backbone.DecodeWeights(raw, e.weights, load); err != nil {
		return err
	}
	images, done := imagesWithLabels(s.Set.Train.Labels, s.heldOut), 0
	total := s.Set.Test.N + len(images)
	if s.Set.Gallery != nil {
		total += s.Set.Gallery.N
	}
	embedded := func(n int) {
		if done += n; s.Progress != nil {
			s.Progress(Progress{Epoch: s.Epochs, Epochs: s.Epochs, Step: s.Steps(), Steps: s.Steps(),
				Embedded: done, Images: total})
		}
	}
	queries, err := s.embedAndWrite(ctx, e.exec, s.Set.Test, EmbeddingsFile, LabelsFile, embedded)
	if err != nil {
		return err
	}
	var gallery *retrieval.Embeddings
	items := len(queries.Labels) - 1
	if s.Set.Gallery != nil {
		gallery, err = s.embedAndWrite(ctx, e.exec, s.Set.Gallery, GalleryEmbeddingsFile, GalleryLabelsFile, embedded)
		if err != nil {
			return err
		}
		items = len(gallery.Labels)
	}
	var held *retrieval.Embeddings
	if len(s.heldOut) > 0 {
		if held, err = embedImages(ctx, s.trainer.Backend, e.exec, s.Set, s.Set.Train, images, s.Dim, embedded); err != nil {
			return err
		}
	}
	succeeded = true
	if held != nil { // They may be infinite where those of the test set are finite.
		if err := checkFinite(held, "held-out"); err != nil {
			return err
		}
		m, err := retrieval.Evaluate(ctx, s.trainer.Backend, held, nil, recallKsUpTo(len(held.Labels)-1))
		if err != nil {
			return fmt.Errorf("held-out classes of %s: %w", s.Set.Name, err)
		}
		r.HeldOutRecall = m.Recall
	}
	m, err := retrieval.Evaluate(ctx, s.trainer.Backend, queries, gallery, recallKsUpTo(items))
	if err != nil {
		return fmt.Errorf("test set of %s: %w", s.Set.Name, err)
	}
	r.Recall, r.MAPAtR, r.RPrecision = m.Recall, m.MAPAtR, m.RPrecision
	r.Queries, r.LoneQueries = m.Queries, m.LoneQueries
	r.Overlap = retrieval.Overlap(m.NearestPositive, m.NearestNegative)
	r.Compact = retrieval.Compactness(m.NearestPositive, m.NearestNegative)
	return nil
}

// recallKsUpTo returns those of [recallKs] that are at most the number of ranked items.
func recallKsUpTo(items int) []int {
	k := recallKs
	for k[len(k)-1] > items && len(k) > 1 {
		k = k[:len(k)-1]
	}
	return k
}

// checkFinite returns a [NotFiniteError] that names the first embedding with NaN or Inf.
func checkFinite(e *retrieval.Embeddings, what string) error {
	for i, v := range e.Values {
		if v-v != 0 {
			return &NotFiniteError{fmt.Sprintf("the embedding of %s image %d is %g", what, i/e.Dim, v)}
		}
	}
	return nil
}

// embedAndWrite embeds all images of a split and writes their embeddings and labels.
func (s *session) embedAndWrite(
	ctx context.Context, exec *model.Exec, im *datasets.Images, file, labels string, embedded func(n int),
) (*retrieval.Embeddings, error) {
	e, err := embedAll(ctx, s.trainer.Backend, exec, s.Set, im, s.Dim, embedded)
	if err != nil {
		return nil, err
	}
	if err := checkFinite(e, "test"); err != nil {
		return nil, err
	}
	if err := npy.WriteFloat32(filepath.Join(s.Dir, file), e.Values, im.N, s.Dim); err != nil {
		return nil, fmt.Errorf("the embeddings cannot be written: %w", err)
	}
	if err := npy.WriteInt64(filepath.Join(s.Dir, labels), e.Labels, im.N); err != nil {
		return nil, fmt.Errorf("the labels cannot be written: %w", err)
	}
	return e, nil
}

// Embed embeds images of a data set. c is the config that the network was trained with, weights its safetensors file,
// im the split of set, and images the indices of the images in that split. It returns a [NotFiniteError] if an
// embedding has NaN or Inf.
func (t *Trainer) Embed(
	ctx context.Context, c Config, weights []byte, set *datasets.Set, im *datasets.Images, images []int,
) (*retrieval.Embeddings, error) {
	e, err := t.evaluationStep(c)
	if err != nil {
		return nil, err
	}
	var embedded *retrieval.Embeddings
	_, err = backbone.DecodeWeights(weights, e.weights, backbone.LoadOptions{Arch: e.key.arch, Dim: e.key.dim})
	if err == nil {
		embedded, err = embedImages(ctx, t.Backend, e.exec, set, im, images, c.Dim, nil)
	}
	if err != nil {
		e.free()
		return nil, err
	}
	t.keep(e)
	return embedded, checkFinite(embedded, "training")
}

// embedRows is the number of images that are embedded at once. It is fixed so that one compiled graph serves all
// sets.
const embedRows = 128

// embedAll embeds all images of a split. exec maps pixels and colors to embeddings [embedRows, dim]. embedded, if not
// nil, is called with the number of images after each batch.
func embedAll(
	ctx context.Context, b compute.Backend, exec *model.Exec, set *datasets.Set, im *datasets.Images, dim int,
	embedded func(n int),
) (*retrieval.Embeddings, error) {
	all := make([]int, im.N)
	for i := range all {
		all[i] = i
	}
	return embedImages(ctx, b, exec, set, im, all, dim, embedded)
}

// embedImages is embedAll for the images with the given indices.
func embedImages(
	ctx context.Context, b compute.Backend, exec *model.Exec, set *datasets.Set, im *datasets.Images, images []int,
	dim int, embedded func(n int),
) (*retrieval.Embeddings, error) {
	e := &retrieval.Embeddings{Dim: dim, Values: make([]float32, 0, len(images)*dim)}
	for _, i := range images {
		e.Labels = append(e.Labels, im.Labels[i])
	}
	copying, cancel := context.WithCancel(ctx)
	defer cancel()
	colors := colorScale(set)
	for batch := range prefetch(copying, inBatches(b, im, images), deviceBatch.free) {
		if ctx.Err() != nil {
			batch.free()
			break
		}
		if batch.err != nil {
			return nil, batch.err
		}
		out, err := exec.Call1(batch.images[0], colors)
		batch.free()
		if err != nil {
			return nil, err
		}
		values, err := tensors.CopyFlatData[float32](out)
		if err := errors.Join(err, out.FinalizeAll()); err != nil {
			return nil, err
		}
		count := min(embedRows, len(images)-len(e.Values)/dim)
		e.Values = append(e.Values, values[:count*dim]...)
		if embedded != nil {
			embedded(count)
		}
	}
	if len(e.Values) < len(images)*dim {
		return nil, fmt.Errorf("stopped while images were embedded: %w", ctx.Err())
	}
	return e, nil
}

// inBatches copies images to the device, [embedRows] at a time. The last batch is filled up with images of the batch
// before or black ones, whose embeddings the caller ignores.
func inBatches(b compute.Backend, im *datasets.Images, images []int) iter.Seq[deviceBatch] {
	return func(yield func(deviceBatch) bool) {
		one := im.Size * im.Size * 3
		pixels := make([]uint8, embedRows*one)
		for some := range slices.Chunk(images, embedRows) {
			for k, i := range some {
				copy(pixels[k*one:], im.At(i))
			}
			x, err := tensors.FromRaw(b, 0, shapes.Make(dtypes.Uint8, embedRows, im.Size, im.Size, 3), pixels)
			if !yield(deviceBatch{images: []*tensors.Tensor{x}, err: err}) {
				return
			}
		}
	}
}
