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

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// recallKs are the K of Recall@K that the paper or the field reports on any of the four data sets.
var recallKs = []int{1, 2, 4, 8, 10, 20, 30, 40, 100, 1000}

// finish evaluates the weights of the last epoch. It may be repeated after an interruption.
func (s *session) finish(ctx context.Context) (*Outcome, error) {
	out := &Outcome{Measures: Measures{Diverged: s.state.Diverged, Head: s.state.Head}, Files: make(map[string]string)}
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
	out.Devices = s.state.withDevices(s.trainer.DeviceCount())
	for name, sum := range s.state.Triplets { // The sums of the checkpoint, so that a file changed since then is detected.
		out.Files[filepath.FromSlash(name)] = sum
	}
	for _, name := range outputs {
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

// compilesAhead reports whether the step of evaluation is compiled beside the training. Models of the user's own are
// not, since their function may not be safe to call beside itself, and on a GPU XLA chooses algorithms by timing them,
// which steps at the same time would disturb.
func (s *session) compilesAhead() bool {
	t := s.trainer
	return (s.step.key.own == nil || s.NetworkFile != "") && t.Name == "xla:cpu" && t.DeviceCount() == 1 &&
		!t.caches(s.network())
}

// compileEvaluation compiles the step of evaluation, which takes as long as a few hundred steps of a small network, and
// leaves it in the trainer's cache, unless it fails.
func (s *session) compileEvaluation() (err error) {
	defer errs.Catch(&err)
	e, err := s.trainer.evaluationStep(s.Config)
	if err != nil {
		return err
	}
	if err = e.initialize(s.Seed); err == nil { // A graph refers to weights; evaluation sets them.
		_, err = e.exec.Compile(batchShape(embedRows, s.Data.Test.Shape()), s.Data.Affine().Shape())
	}
	if err != nil {
		e.free()
		return err
	}
	s.trainer.keep(e)
	return nil
}

// evaluate embeds the test set, writes its embeddings and fills in the measures.
func (s *session) evaluate(ctx context.Context, r *Measures) error {
	s.compiling.Wait()
	done, images := 0, s.heldOutSamples()
	total := len(s.Data.Test.Labels()) + len(images)
	if s.Data.Gallery != nil {
		total += len(s.Data.Gallery.Labels())
	}
	embedded := func(n int) {
		if done += n; s.Progress != nil {
			s.Progress(Progress{Epoch: s.Epochs, Epochs: s.Epochs, Step: s.Steps(), Steps: s.Steps(),
				Embedded: done, Images: total})
		}
	}
	raw, err := s.step.encode(nil)
	if err != nil {
		return err
	}
	var queries, gallery, held *retrieval.Embeddings
	err = s.trainer.withWeights(s.Config, raw, func(e *compiledStep) (err error) {
		queries, err = s.embedAndWrite(ctx, e, s.Data.Test, EmbeddingsFile, LabelsFile, embedded)
		if err == nil && s.Data.Gallery != nil {
			gallery, err = s.embedAndWrite(ctx, e, s.Data.Gallery, GalleryEmbeddingsFile, GalleryLabelsFile, embedded)
		}
		if err == nil && len(s.heldOut) > 0 {
			held, err = embedSamples(ctx, e, s.Data, s.Data.Train, images, s.Dim, embedded)
		}
		return err
	})
	if err != nil {
		return err
	}
	if held != nil { // They may be infinite where those of the test set are finite.
		if err := checkFinite(held, "held-out"); err != nil {
			return err
		}
		m, err := retrieval.EvaluateOn(ctx, s.trainer.Backend, s.trainer.DeviceCount(), held, nil,
			recallKsUpTo(len(held.Labels)-1), nil)
		if err != nil {
			return fmt.Errorf("held-out classes of %s: %w", s.Data.Name, err)
		}
		r.HeldOutRecall = m.Recall
	}
	if err := r.measure(ctx, s.trainer, queries, gallery); err != nil {
		return fmt.Errorf("test set of %s: %w", s.Data.Name, err)
	}
	return nil
}

// withWeights calls use with a step of evaluation that has weights, those of a safetensors file, and then caches it.
func (t *Trainer) withWeights(c Config, weights []byte, use func(e *compiledStep) error) error {
	e, err := t.evaluationStep(c)
	if err != nil {
		return err
	}
	if err = e.decode(weights, 0); err == nil {
		err = use(e)
	}
	if err != nil {
		e.free()
		return err
	}
	t.keep(e)
	return nil
}

// measure fills in the measures of queries against a gallery, or against each other if that is nil.
func (r *Measures) measure(ctx context.Context, t *Trainer, queries, gallery *retrieval.Embeddings) error {
	items := len(queries.Labels) - 1
	if gallery != nil {
		items = len(gallery.Labels)
	}
	m, err := retrieval.EvaluateOn(ctx, t.Backend, t.DeviceCount(), queries, gallery, recallKsUpTo(items), nil)
	if err != nil {
		return err
	}
	r.Recall, r.MAPAtR, r.RPrecision = m.Recall, m.MAPAtR, m.RPrecision
	r.Queries, r.LoneQueries = m.Queries, m.LoneQueries
	r.Overlap = retrieval.Overlap(m.NearestPositive, m.NearestNegative)
	r.Compact = retrieval.Compactness(m.NearestPositive, m.NearestNegative)
	return nil
}

// measures reports whether Recall@1 is measured after a number of epochs.
func (s *session) measures(epoch int) bool { return s.Every > 0 && epoch%s.Every == 0 }

// recallNow returns Recall@1 of the held-out classes, or else of the test set, with the present weights, and 0 if an
// embedding is not finite, which the end of the training says.
func (s *session) recallNow(ctx context.Context) (float64, error) {
	raw, err := s.step.encode(nil)
	if err != nil {
		return 0, err
	}
	s.compiling.Wait()
	var queries, gallery *retrieval.Embeddings
	if held := s.heldOutSamples(); len(held) > 0 {
		queries, err = s.trainer.Embed(ctx, s.Config, raw, s.Data, s.Data.Train, held)
	} else {
		queries, err = s.trainer.Embed(ctx, s.Config, raw, s.Data, s.Data.Test, nil)
		if err == nil && s.Data.Gallery != nil {
			gallery, err = s.trainer.Embed(ctx, s.Config, raw, s.Data, s.Data.Gallery, nil)
		}
	}
	var bad *NotFiniteError
	if errors.As(err, &bad) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	m, err := retrieval.EvaluateOn(ctx, s.trainer.Backend, s.trainer.DeviceCount(), queries, gallery, []int{1}, nil)
	if err != nil {
		return 0, fmt.Errorf("%s, during training: %w", s.Data.Name, err)
	}
	return m.Recall[1], nil
}

// heldOutSamples are the indices of the images of held-out classes in the training set.
func (s *session) heldOutSamples() []int {
	labels := s.Data.Train.Labels()
	return slices.DeleteFunc(samples.All(s.Data.Train), func(i int) bool { return !s.heldOut[labels[i]] })
}

// recallKsUpTo returns those of [recallKs] that are at most the number of ranked items.
func recallKsUpTo(items int) []int {
	n, found := slices.BinarySearch(recallKs, max(items, 1))
	if found {
		n++
	}
	return recallKs[:n]
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
	ctx context.Context, step *compiledStep, of samples.Split, file, labels string, embedded func(n int),
) (*retrieval.Embeddings, error) {
	e, err := embedSamples(ctx, step, s.Data, of, samples.All(of), s.Dim, embedded)
	if err != nil {
		return nil, err
	}
	if err := checkFinite(e, "test"); err != nil {
		return nil, err
	}
	if err := npy.WriteFloat32(filepath.Join(s.Dir, file), e.Values, len(e.Labels), s.Dim); err != nil {
		return nil, fmt.Errorf("the embeddings cannot be written: %w", err)
	}
	if err := npy.WriteInt64(filepath.Join(s.Dir, labels), e.Labels, len(e.Labels)); err != nil {
		return nil, fmt.Errorf("the labels cannot be written: %w", err)
	}
	return e, nil
}

// Embed embeds samples of a data set. c is the config that the network was trained with, weights its safetensors file,
// of a split of data, and which are indices of samples in that split, nil for all. It returns a [NotFiniteError] if an
// embedding has NaN or Inf.
func (t *Trainer) Embed(
	ctx context.Context, c Config, weights []byte, data *samples.Data, of samples.Split, which []int,
) (*retrieval.Embeddings, error) {
	if data == nil || of == nil {
		return nil, errors.New("no data to embed: want a data set, and one of its splits, such as data.Test")
	}
	if which == nil {
		which = samples.All(of)
	}
	for _, i := range which {
		if n := len(of.Labels()); i < 0 || i >= n {
			return nil, errs.Invalid(fmt.Errorf("sample %d of %d: want 0 to %d", i, n, n-1))
		}
	}
	c, data, err := c.prepared(data)
	if err != nil {
		return nil, err
	}
	var embedded *retrieval.Embeddings
	err = t.withWeights(c, weights, func(e *compiledStep) (err error) {
		embedded, err = embedSamples(ctx, e, data, of, which, c.Dim, nil)
		return err
	})
	if err != nil {
		return nil, err
	}
	return embedded, checkFinite(embedded, "training")
}

// embedRows is the number of samples that are embedded at once, rounded up to a multiple of the devices. It is fixed so
// that one compiled graph serves all sets.
const embedRows = 128

// embedSamples embeds samples of a split of data, with the given indices, by a step of [Trainer.evaluationStep].
// embedded, if not nil, is called with the number of samples after each batch.
func embedSamples(
	ctx context.Context, step *compiledStep, data *samples.Data, of samples.Split, which []int, dim int,
	embedded func(n int),
) (*retrieval.Embeddings, error) {
	e := &retrieval.Embeddings{Dim: dim, Values: make([]float32, 0, len(which)*dim)}
	labels := of.Labels()
	for _, i := range which {
		e.Labels = append(e.Labels, labels[i])
	}
	copying, cancel := context.WithCancel(ctx)
	defer cancel()
	devices := step.mesh.Size()
	rows := (embedRows + devices - 1) / devices * devices
	affine := step.mesh.Replicate(data.Affine())
	for b := range prefetch(copying, step.inBatches(rows, of, which), batch.free) {
		if ctx.Err() != nil {
			b.free()
			break
		}
		if b.err != nil {
			return nil, b.err
		}
		out, err := step.mesh.Call(step.exec, b.images[0], affine)
		b.free()
		if err != nil {
			return nil, err
		}
		values, err := mesh.TakeRows(out[0])
		if err != nil {
			return nil, err
		}
		count := min(rows, len(which)-len(e.Values)/dim)
		e.Values = append(e.Values, values[:count*dim]...)
		if embedded != nil {
			embedded(count)
		}
	}
	if len(e.Values) < len(which)*dim {
		return nil, fmt.Errorf("stopped while images were embedded: %w", ctx.Err())
	}
	return e, nil
}

// inBatches copies samples to the devices, a number of rows at a time. The last batch is filled up with samples of the
// batch before or zeros, whose embeddings the caller ignores.
func (s *compiledStep) inBatches(rows int, of samples.Split, which []int) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		shape := batchShape(rows, of.Shape())
		one := int(of.Shape().ByteSize())
		values := make([]byte, rows*one)
		for some := range slices.Chunk(which, rows) {
			var x mesh.Value
			err := of.Read(values[:len(some)*one], some, nil)
			if err == nil {
				x, err = s.mesh.CopyRows(s.key.backend, shape, values)
			}
			if !yield(batch{images: []mesh.Value{x}, err: err}) {
				return
			}
		}
	}
}
