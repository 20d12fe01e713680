package train

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
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
	"github.com/gradient-surgery/dml/dmlx/internal/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// ks are the K at which the paper or the field reports recall on one of the four data sets.
var ks = []int{1, 2, 4, 8, 10, 20, 30, 40, 100, 1000}

// finish evaluates the last epoch's weights. It can be repeated.
func (t *session) finish(ctx context.Context) (*Outcome, error) {
	out := &Outcome{Measures: Measures{Diverged: t.state.Diverged}, Files: make(map[string]string)}
	if !strings.HasPrefix(out.Diverged, "not finite") {
		err := t.evaluate(ctx, &out.Measures)
		var bad *NotFiniteError
		if errors.As(err, &bad) {
			out.Diverged = bad.Error()
		} else if err != nil && errors.Is(err, ctx.Err()) {
			return nil, fmt.Errorf("stopped before it was measured; the same run goes on from there: %w", err)
		} else if err != nil {
			return nil, err
		}
	}
	out.Seconds = t.state.Seconds + time.Since(t.started).Seconds()
	for name, sum := range t.state.Triplets { // As they were written: what has changed since shows.
		out.Files[filepath.FromSlash(name)] = sum
	}
	for _, name := range []string{MetricsFile, EmbeddingsFile, LabelsFile, GalleryEmbeddingsFile, GalleryLabelsFile} {
		sum, err := durable.FileSum(filepath.Join(t.Dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		out.Files[name] = sum
	}
	return out, nil
}

// NotFiniteError says that weights embed images as NaN or Inf.
type NotFiniteError struct{ what string }

func (e *NotFiniteError) Error() string { return "not finite: " + e.what }

// evaluate embeds the test set, writes its embeddings and fills in the measures.
func (t *session) evaluate(ctx context.Context, r *Measures) error {
	e, err := t.trainer.evaluationStep(t.Config)
	if err != nil {
		return err
	}
	sound := false
	defer func() {
		if sound {
			t.trainer.keep(e)
		} else {
			e.free()
		}
	}()
	raw, err := backbone.EncodeWeights(t.step.weights, e.key.arch, nil)
	if err != nil {
		return err
	}
	if _, err := backbone.DecodeWeights(raw, e.weights, backbone.LoadOptions{Arch: e.key.arch, Dim: e.key.dim}); err != nil {
		return err
	}
	images, done := imagesWithLabels(t.Set.Train.Labels, t.heldOut), 0
	total := t.Set.Test.N + len(images)
	if t.Set.Gallery != nil {
		total += t.Set.Gallery.N
	}
	embedded := func(n int) {
		if done += n; t.Progress != nil {
			t.Progress(Progress{Epoch: t.Epochs, Epochs: t.Epochs, Step: t.Steps(), Steps: t.Steps(), Embedded: done, Images: total})
		}
	}
	queries, err := t.embed(ctx, e.exec, t.Set.Test, EmbeddingsFile, LabelsFile, embedded)
	if err != nil {
		return err
	}
	var gallery *retrieval.Embeddings
	items := len(queries.Labels) - 1
	if t.Set.Gallery != nil {
		if gallery, err = t.embed(ctx, e.exec, t.Set.Gallery, GalleryEmbeddingsFile, GalleryLabelsFile, embedded); err != nil {
			return err
		}
		items = len(gallery.Labels)
	}
	var held *retrieval.Embeddings
	if len(t.heldOut) > 0 {
		if held, err = embedSome(ctx, t.trainer.Backend, e.exec, t.Set, t.Set.Train, images, t.Dim, embedded); err != nil {
			return err
		}
	}
	sound = true
	if held != nil { // Their embeddings are finite where the test set's are not always, and the other way round.
		if err := finite(held, "held-out"); err != nil {
			return err
		}
		m, err := retrieval.Evaluate(ctx, t.trainer.Backend, held, nil, possible(len(held.Labels)-1))
		if err != nil {
			return fmt.Errorf("held-out classes of %s: %w", t.Set.Name, err)
		}
		r.HeldOutRecall = m.Recall
	}
	m, err := retrieval.Evaluate(ctx, t.trainer.Backend, queries, gallery, possible(items))
	if err != nil {
		return fmt.Errorf("test set of %s: %w", t.Set.Name, err)
	}
	r.Recall, r.MAPAtR, r.RPrecision, r.Queries, r.LoneQueries = m.Recall, m.MAPAtR, m.RPrecision, m.Queries, m.LoneQueries
	r.Overlap = retrieval.Overlap(m.NearestPositive, m.NearestNegative)
	r.Compact = retrieval.Compactness(m.NearestPositive, m.NearestNegative)
	return nil
}

// possible are the K of [ks] that a ranking of so many items has.
func possible(items int) []int {
	k := ks
	for k[len(k)-1] > items && len(k) > 1 {
		k = k[:len(k)-1]
	}
	return k
}

// finite tells which embedding, if any, is not finite.
func finite(e *retrieval.Embeddings, what string) error {
	for i, v := range e.Values {
		if v-v != 0 {
			return &NotFiniteError{fmt.Sprintf("the embedding of %s image %d is %g", what, i/e.Dim, v)}
		}
	}
	return nil
}

// heldOut are the labels of every n-th class, the classes in the order of their labels; none for n = 0.
func HeldOutClasses(labels []int64, n int) (map[int64]bool, error) {
	if n == 0 {
		return nil, nil
	}
	count := make(map[int64]int)
	for _, l := range labels {
		count[l]++
	}
	out, ranked := make(map[int64]bool), false
	for i, l := range slices.Sorted(maps.Keys(count)) {
		if i%n == n-1 {
			out[l] = true
			ranked = ranked || count[l] > 1
		}
	}
	if len(out) < 2 || !ranked {
		return nil, fmt.Errorf("every %d-th of %d training classes leaves too little to rank: want two classes and an image to be found", n, len(count))
	}
	return out, nil
}

// imagesOf are the images with one of the labels.
func imagesWithLabels(labels []int64, of map[int64]bool) []int {
	var out []int
	for i, l := range labels {
		if of[l] {
			out = append(out, i)
		}
	}
	return out
}

// measurable tells whether some query of the test set has a match, without which there is no recall.
func measurable(set *datasets.Set) bool {
	gallery, own := set.Gallery, 0
	if gallery == nil {
		gallery, own = set.Test, 1
	}
	count := make(map[int64]int)
	for _, label := range gallery.Labels {
		count[label]++
	}
	return slices.ContainsFunc(set.Test.Labels, func(label int64) bool { return count[label] > own })
}

// embed computes the embeddings of all images and writes them with their labels.
func (t *session) embed(ctx context.Context, exec *model.Exec, im *datasets.Images, file, labels string, embedded func(n int)) (*retrieval.Embeddings, error) {
	e, err := embedAll(ctx, t.trainer.Backend, exec, t.Set, im, t.Dim, embedded)
	if err != nil {
		return nil, err
	}
	if err := finite(e, "test"); err != nil {
		return nil, err
	}
	if err := npy.WriteFloat32(filepath.Join(t.Dir, file), e.Values, im.N, t.Dim); err != nil {
		return nil, fmt.Errorf("the embeddings cannot be written: %w", err)
	}
	if err := npy.WriteInt64(filepath.Join(t.Dir, labels), e.Labels, im.N); err != nil {
		return nil, fmt.Errorf("the labels cannot be written: %w", err)
	}
	return e, nil
}

// embedRows is how many images are embedded at once, so that a graph is compiled once for all sets.
const embedRows = 128

// embedAll runs a network, pixels and colors in and [embedRows, dim] out, on all images of a split, batch by batch. embedded, if
// not nil, is told how many each batch had.
func embedAll(ctx context.Context, b compute.Backend, exec *model.Exec, set *datasets.Set, im *datasets.Images, dim int, embedded func(n int)) (*retrieval.Embeddings, error) {
	all := make([]int, im.N)
	for i := range all {
		all[i] = i
	}
	return embedSome(ctx, b, exec, set, im, all, dim, embedded)
}

// embedSome is embedAll for the images given.
func embedSome(ctx context.Context, b compute.Backend, exec *model.Exec, set *datasets.Set, im *datasets.Images, images []int, dim int, embedded func(n int)) (*retrieval.Embeddings, error) {
	e := &retrieval.Embeddings{Dim: dim, Values: make([]float32, 0, len(images)*dim)}
	for _, i := range images {
		e.Labels = append(e.Labels, im.Labels[i])
	}
	copying, cancel := context.WithCancel(ctx)
	defer cancel()
	colors := colors(set)
	for batch := range ahead(copying, inBatches(b, im, images), uploaded.free) {
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

// inBatches copies images to the device, [embedRows] at a time: the last ones filled up with images of the batch before, or black
// ones, whose embeddings are to be cut off.
func inBatches(b compute.Backend, im *datasets.Images, images []int) iter.Seq[uploaded] {
	return func(yield func(uploaded) bool) {
		one := im.Size * im.Size * 3
		pixels := make([]uint8, embedRows*one)
		for some := range slices.Chunk(images, embedRows) {
			for k, i := range some {
				copy(pixels[k*one:], im.At(i))
			}
			x, err := tensors.FromRaw(b, 0, shapes.Make(dtypes.Uint8, embedRows, im.Size, im.Size, 3), pixels)
			if !yield(uploaded{images: []*tensors.Tensor{x}, err: err}) {
				return
			}
		}
	}
}

// Embed embeds images of a data set by weights, a safetensors file, of a network that was trained as c says. They are the images
// of the split im with the given numbers. An embedding that is not finite is a [NotFiniteError].
func (t *Trainer) Embed(ctx context.Context, c Config, weights []byte, set *datasets.Set, im *datasets.Images, images []int) (*retrieval.Embeddings, error) {
	e, err := t.evaluationStep(c)
	if err != nil {
		return nil, err
	}
	var embedded *retrieval.Embeddings
	_, err = backbone.DecodeWeights(weights, e.weights, backbone.LoadOptions{Arch: e.key.arch, Dim: e.key.dim})
	if err == nil {
		embedded, err = embedSome(ctx, t.Backend, e.exec, set, im, images, c.Dim, nil)
	}
	if err != nil {
		e.free()
		return nil, err
	}
	t.keep(e)
	return embedded, finite(embedded, "training")
}

const MetricsFile = "metrics.jsonl"

const EmbeddingsFile = "embeddings.npy" // The test set's, or the queries', float32 [N, Dim], of length 1.

const LabelsFile = "labels.npy" // Their classes, int64 [N].

const GalleryEmbeddingsFile = "gallery_embeddings.npy" // The gallery's, where it is a set of its own.

const GalleryLabelsFile = "gallery_labels.npy"
