package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// Keeping returns a trainer that keeps, in at most so many bytes of [datasets.CacheDir], what the part of a network
// that is not trained gives for each image and its mirror image; 0 keeps nothing. That part is then computed once and
// not in every step. Weights and embeddings are the same, to the bit. It keeps what it can: of images without another
// augmentation than flips. The trainers share their compiled steps.
func (t *Trainer) Keeping(limit int64) *Trainer {
	other := *t
	other.keepBytes = limit
	return &other
}

// split divides a network into a body, whose output for an image never changes, and a tail, which is trained.
type split struct {
	name  string // Equal for equal splits of a network.
	width int    // Values that the body gives for an image.
	body  func(scope *model.Scope, images *Node) *Node
	tail  func(scope *model.Scope, kept *Node, pass backbone.Pass) *Node // Up to the last layer, which is behind it.
}

// bytes are those of what the body gives for an image.
func (s *split) bytes() int64 { return 4 * int64(s.width) }

// split returns how a config divides its network, and nil if all of it depends on trained weights.
func (c Config) split(size int) (*split, error) {
	p, err := c.part()
	if err != nil || p == (part{}) {
		return nil, err
	}
	return c.splitBy(size, p.trains)
}

// splitBy is split where trained tells which weights before the last layer are trained.
func (c Config) splitBy(size int, trained func(name string) bool) (*split, error) {
	if c.NetworkFile != "" {
		n, err := c.opened()
		if err != nil {
			return nil, err
		}
		if n, _, err = c.Adapt(n); err != nil {
			return nil, err
		}
		cut, err := n.Cut([2]int{size, size}, trained)
		if err != nil || cut == nil {
			return nil, err
		}
		return &split{strings.Join(cut.Names, " "), cut.Width, cut.Body, cut.Tail}, nil
	}
	a := backbone.Arch(c.Arch)
	stages, err := a.Frozen(trained)
	if err != nil || stages == 0 {
		return nil, err
	}
	shape, err := a.ShapeAt(stages, size)
	if err != nil {
		return nil, err
	}
	body := func(scope *model.Scope, images *Node) *Node {
		return Reshape(a.Through(scope, images, backbone.Pass{}, 0, stages), images.Shape().Dim(0), -1)
	}
	tail := func(scope *model.Scope, kept *Node, pass backbone.Pass) *Node {
		x := Reshape(kept, append([]int{-1}, shape...)...)
		return a.Through(scope, x, pass, stages, a.Stages())
	}
	return &split{fmt.Sprint(stages), shapes.Make(dtypes.Float32, shape...).Size(), body, tail}, nil
}

// divided returns a training on what the frozen part of its network gives, if the network has one: the body of a
// [split] is computed in batches of bodyRows images, ahead of the steps, or was before, see [Trainer.Keeping]. done
// frees the body.
func (t *Trainer) divided(ctx context.Context, training Training) (out Training, done func(), err error) {
	done = func() {}
	why := func(text string) (Training, func(), error) {
		if training.Warn != nil && t.keepBytes > 0 && text != "" {
			training.Warn("nothing is kept: " + text)
		}
		return training, done, nil
	}
	if training.Data == nil || training.Data.Check() != nil || training.tail != nil {
		return training, done, nil // The session returns the error.
	}
	c, data, err := training.prepared(training.Data)
	if err != nil {
		return training, done, err
	}
	divided := *data
	parts := []*samples.Split{&divided.Train, &divided.Test, &divided.Gallery}
	switch {
	case c.Arch == "" && c.NetworkFile == "":
		return why("the network is neither a backbone nor that of a file")
	case c.Precision != "":
		return why("the network is computed in " + c.Precision)
	case t.DeviceCount() > 1:
		return why("the network is computed on several devices")
	case c.Weights != Pretrained:
		return why("the weights are random")
	}
	cut, err := c.split(data.Train.Shape().Dim(0))
	if err != nil {
		return training, done, err
	}
	if cut == nil {
		return why("all of the network depends on trained weights")
	}
	c.tail = cut
	k := &keeper{ctx: ctx, trainer: t, training: training, config: c, data: data, cut: cut}
	augmentation, err := c.augmentation()
	if err != nil {
		return training, done, err
	}
	reason := ""
	if k.dir, reason, err = k.directory(parts, augmentation); err != nil {
		return training, done, err
	}
	_, _, _ = why(reason)
	out = training
	out.Config, out.Data = c, &divided
	divided.Scale, divided.Shift = nil, nil
	for i, to := range parts {
		if *to == nil {
			continue
		}
		if *to, err = k.samples(ctx, *to, i == 0 && augmentation.Flip); err != nil {
			k.close()
			return training, done, err
		}
	}
	return out, k.close, nil
}

// directory returns the folder of what is kept, or says why nothing is.
func (k *keeper) directory(parts []*samples.Split, a samples.Augmentation) (dir, why string, err error) {
	limit, needed := k.trainer.keepBytes, int64(0)
	for i, p := range parts {
		if *p == nil {
			continue
		}
		all, is := samples.WithMirrors(*p)
		if !is {
			return "", "the samples are no images of a data set", nil
		}
		if i > 0 || !a.Flip {
			all = *p
		}
		needed += int64(len(all.Labels())) * k.cut.bytes()
	}
	switch {
	case limit == 0:
		return "", "", nil
	case a.Crop != samples.None:
		return "", fmt.Sprintf("the augmentation %s cuts images; use augment=flip or none", a), nil
	case needed > limit:
		return "", fmt.Sprintf("it takes %.1f GB, more than the limit of %.1f GB", float64(needed)/1e9,
			float64(limit)/1e9), nil
	}
	cache, err := datasets.CacheDir()
	if err != nil {
		return "", "", err
	}
	dir = filepath.Join(cache, "kept")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", "", err
	}
	return dir, "", durable.Trim(dir, ".f32", limit-needed)
}

// bodyRows is the number of images of which the body of a network is computed at a time, in training and evaluation, so
// that its bits do not depend on the batch.
const bodyRows = 32

// keeper computes the body of a network.
type keeper struct {
	ctx      context.Context // Of all that it computes.
	trainer  *Trainer
	training Training
	config   Config
	data     *samples.Data
	cut      *split
	dir      string // Of what is kept; "" keeps nothing.

	mu   sync.Mutex
	step *compiledStep // Of the body; nil until it is needed.
	done int
}

func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.step != nil {
		k.trainer.keep(k.step)
		k.step = nil
	}
}

// samples returns the samples that the body gives for a split of images.
func (k *keeper) samples(ctx context.Context, of samples.Split, flip bool) (samples.Split, error) {
	if k.dir == "" {
		return &bodySamples{of, k}, nil
	}
	c, sum := k.config, sha256.New()
	fmt.Fprintln(sum, "kept 2", cmp.Or(c.Arch, c.Model), c.WeightsDigest, k.cut.name, k.data.Digest, k.data.Scale,
		k.data.Shift, of.Shape(), backendVariant(k.trainer.Choice), flip, of == k.data.Train, of == k.data.Test)
	_ = binary.Write(sum, binary.LittleEndian, of.Labels()) // A hash does not fail.
	path := filepath.Join(k.dir, hex.EncodeToString(sum.Sum(nil))[:24]+".f32")
	all := &bodySamples{of, k}
	if flip {
		all.of, _ = samples.WithMirrors(of)
	}
	info, err := os.Stat(path)
	if err == nil && info.Size() == int64(len(all.Labels()))*k.cut.bytes() {
		now := time.Now()
		_ = os.Chtimes(path, now, now) // The last use; a failure does no harm.
	} else if err := k.write(ctx, path, all); err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	return &keptSamples{f, of.Labels(), k.cut.width}, err
}

// write writes the rows of all samples.
func (k *keeper) write(ctx context.Context, path string, all *bodySamples) (err error) {
	f, err := durable.Create(path, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Cleanup()) }()
	for some := range slices.Chunk(samples.All(all), bodyRows) {
		if ctx.Err() != nil {
			return fmt.Errorf("stopped while the frozen part of the network was computed: %w", ctx.Err())
		}
		raw := make([]byte, k.cut.bytes()*int64(len(some)))
		if err := all.Read(raw, some, nil); err != nil {
			return err
		}
		if _, err := f.Write(raw); err != nil {
			return fmt.Errorf("what the frozen part of the network gives cannot be kept: %w", err)
		}
		if k.done += len(some); k.training.Progress != nil {
			k.training.Progress(Progress{Epochs: k.config.Epochs, Steps: k.config.Steps(), Kept: k.done})
		}
	}
	return f.CloseAtomicallyReplace()
}

// compiled returns the step from samples and their scale to what the body gives, [bodyRows, width].
func (k *keeper) compiled() (*compiledStep, error) {
	if k.step != nil {
		return k.step, nil
	}
	c, t := k.config, k.trainer
	key := c.network()
	key.body = true
	step, err := t.compiled(key, func(s *compiledStep) (err error) {
		s.exec, err = model.NewExec(t.Backend, s.weights, func(scope *model.Scope, x, affine *Node) *Node {
			return ConvertDType(c.tail.body(scope, samples.Scaled(x, affine)), dtypes.Float32)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	s := &session{Training: k.training, step: step}
	s.Config = c
	if err := s.initializeWeights(); err != nil {
		step.free()
		return nil, err
	}
	k.step = step
	return step, nil
}

// bodySamples are what the body of a network gives for images.
type bodySamples struct {
	of samples.Split
	k  *keeper
}

// Labels implements [samples.Split].
func (b *bodySamples) Labels() []int64 { return b.of.Labels() }

// Shape implements [samples.Split].
func (b *bodySamples) Shape() shapes.Shape { return shapes.Make(dtypes.Float32, b.k.cut.width) }

// Read implements [samples.Split]. Images that are augmented are read at once, since random numbers are drawn for all.
func (b *bodySamples) Read(dst []byte, samples []int, augment *samples.Augment) (err error) {
	defer errs.Catch(&err)
	if augment != nil {
		return b.read(dst, samples, augment)
	}
	for some := range slices.Chunk(samples, bodyRows) {
		if err := cmp.Or(b.k.ctx.Err(), b.read(dst, some, nil)); err != nil {
			return err
		}
		dst = dst[int(b.k.cut.bytes())*len(some):]
	}
	return nil
}

func (b *bodySamples) read(dst []byte, samples []int, augment *samples.Augment) error {
	one := int(b.of.Shape().ByteSize())
	pixels := make([]byte, (len(samples)+bodyRows-1)/bodyRows*bodyRows*one)
	if err := b.of.Read(pixels[:len(samples)*one], samples, augment); err != nil {
		return err
	}
	b.k.mu.Lock()
	defer b.k.mu.Unlock()
	step, err := b.k.compiled()
	if err != nil {
		return err
	}
	width := 4 * b.k.cut.width
	for from := 0; from < len(samples); from += bodyRows {
		rows := pixels[from*one : (from+bodyRows)*one]
		x, err := step.mesh.CopyRows(step.key.backend, batchShape(bodyRows, b.of.Shape()), rows)
		if err != nil {
			return err
		}
		out, err := step.mesh.Call(step.exec, x, step.mesh.Replicate(b.k.data.Affine()))
		x.Free()
		if err != nil {
			return err
		}
		values, err := mesh.TakeRows(out[0])
		if err != nil {
			return err
		}
		to := dst[from*width : min(from+bodyRows, len(samples))*width]
		for i := range len(to) / 4 {
			binary.LittleEndian.PutUint32(to[4*i:], math.Float32bits(values[i]))
		}
	}
	return nil
}

// keptSamples are [samples.Split] of what is kept of images: rows of a file, and then those of the mirror images.
type keptSamples struct {
	file   *os.File
	labels []int64
	width  int
}

func (s *keptSamples) Labels() []int64 { return s.labels }

func (s *keptSamples) Shape() shapes.Shape { return shapes.Make(dtypes.Float32, s.width) }

// Read draws the same random numbers as images do.
func (s *keptSamples) Read(dst []byte, which []int, augment *samples.Augment) error {
	moves := make([]samples.Move, len(which))
	if augment != nil {
		moves = augment.Moves(len(which), 0)
	}
	one := int64(4 * s.width)
	for k, i := range which {
		if moves[k].Flip {
			i += len(s.labels)
		}
		if _, err := s.file.ReadAt(dst[int64(k)*one:int64(k+1)*one], int64(i)*one); err != nil {
			return fmt.Errorf("the kept outputs of the images cannot be read: %w", err)
		}
	}
	return nil
}
