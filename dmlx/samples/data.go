// Package samples is what a training reads: data sets of images, of arrays in memory and of frozen features, and how
// their samples are augmented. [Data] has the splits of a data set, and [Split] is what a training needs of each.
package samples

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Data is a data set to train and test on. [Images] makes one of a [datasets.Set], [Arrays] one of arrays in memory.
type Data struct {
	Name string
	// Digest identifies all samples and labels. A training only resumes from a checkpoint with the same digest.
	Digest string
	// Train is trained on. Each sample of Test is a query that is ranked against the others, or against Gallery if that
	// is not nil.
	Train, Test, Gallery Split
	// Scale and Shift, if not nil, have a value for each index of the last axis of a sample: the model receives
	// x·Scale + Shift. It always receives float32.
	Scale, Shift []float32
	// Metadata is stored with the weights.
	Metadata map[string]string
}

// Split is a part of a data set: labeled arrays of one shape and type.
type Split interface {
	// Labels returns the class of each sample. Its length is the number of samples. The caller does not change it.
	Labels() []int64
	// Shape returns the shape and the type of one sample, Uint8 or Float32.
	Shape() shapes.Shape
	// Read writes samples into dst, one after the other, float32 values in little-endian order. augment is nil in
	// evaluation. Otherwise the samples may be augmented, as it says. Read may be called by several goroutines.
	Read(dst []byte, samples []int, augment *Augment) error
}

// Augment says how the samples of a batch are augmented.
type Augment struct {
	Augmentation            // That of the config.
	Rand         *rand.Rand // The only source of random numbers. Its state depends on the seed of the config and the step.
}

// Images returns a data set of images. Its samples are uint8 [Size, Size, 3], normalized to mean 0 and variance 1 of
// each color over the training images. In training they are shifted and mirrored at random.
func Images(set *datasets.Set) *Data {
	d := &Data{Name: set.Name, Digest: set.Digest}
	d.Normalize(set.Mean, set.Std)
	for _, part := range []struct {
		to *Split
		of *datasets.Images
	}{{&d.Train, set.Train}, {&d.Test, set.Test}, {&d.Gallery, set.Gallery}} {
		if part.of != nil {
			*part.to = images{part.of}
		}
	}
	if set.Train != nil {
		size := set.Train.Size
		d.Metadata = backbone.Preprocessing{Resize: size, Crop: size, Mean: set.Mean, Std: set.Std}.Metadata()
	}
	return d
}

// Normalize sets the scale and shift that turn pixels 0…255 into colors of mean 0 and variance 1.
func (d *Data) Normalize(mean, std [3]float32) {
	for c := range 3 {
		d.Scale = append(d.Scale, 1/(255*std[c]))
		d.Shift = append(d.Shift, -mean[c]/std[c])
	}
}

// ImageSplit returns images as a [Split].
func ImageSplit(im *datasets.Images) Split { return images{im} }

// images are a [Split] of images.
type images struct{ *datasets.Images }

func (im images) Labels() []int64 { return im.Images.Labels }

func (im images) Shape() shapes.Shape { return shapes.Make(dtypes.Uint8, im.Size, im.Size, 3) }

// Read reads images in parallel if they exceed a megabyte, so that a GPU does not wait.
func (im images) Read(dst []byte, samples []int, augment *Augment) error {
	one := im.Size * im.Size * 3
	if augment == nil {
		for k, i := range samples {
			copy(dst[k*one:], im.At(i))
		}
		return nil
	}
	moves := augment.Moves(len(samples), im.Size)
	workers := min(runtime.GOMAXPROCS(0), 1+len(dst)>>20)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for k := w; k < len(samples); k += workers {
				to, m := dst[k*one:(k+1)*one], moves[k]
				if augment.Crop == ResizedCrop {
					im.ResizedCrop(to, samples[k], m.part, m.Flip)
				} else {
					im.Augmented(to, samples[k], m.DX, m.DY, m.Flip)
				}
			}
		})
	}
	group.Wait()
	return nil
}

// some are samples of a split.
type some struct {
	Split
	which []int
}

// OfClasses returns those samples of a split whose class is among some, by label and then in their order.
func OfClasses(of Split, classes map[int64]bool) Split {
	labels := of.Labels()
	which := slices.DeleteFunc(All(of), func(i int) bool { return !classes[labels[i]] })
	slices.SortStableFunc(which, func(i, j int) int { return cmp.Compare(labels[i], labels[j]) })
	return &some{of, which}
}

func (s *some) Labels() []int64 {
	labels := s.Split.Labels()
	return slice.Map(s.which, func(i int) int64 { return labels[i] })
}

func (s *some) Read(dst []byte, samples []int, augment *Augment) error {
	return s.Split.Read(dst, slice.Map(samples, func(i int) int { return s.which[i] }), augment)
}

// WithMirrors returns images with their mirror images behind them, and whether a split is of images.
func WithMirrors(of Split) (Split, bool) {
	if s, is := of.(*some); is {
		all, is := WithMirrors(s.Split)
		twice, n := slices.Clone(s.which), len(s.Split.Labels())
		for _, i := range s.which {
			twice = append(twice, n+i)
		}
		return &some{all, twice}, is
	}
	im, is := of.(images)
	return mirrors{im}, is
}

type mirrors struct{ images }

func (m mirrors) Labels() []int64 { return slices.Repeat(m.images.Labels(), 2) }

func (m mirrors) Read(dst []byte, samples []int, _ *Augment) error {
	one := m.Size * m.Size * 3
	for k, i := range samples {
		m.Augmented(dst[k*one:(k+1)*one], i%m.N, 0, 0, i >= m.N)
	}
	return nil
}

// Move is the augmentation of an image: the shift of the crop in pixels or the part that is cut out, and whether it is
// mirrored.
type Move struct {
	DX, DY int
	part   datasets.Rectangle
	Flip   bool
}

// Moves returns random moves of a number of square images.
func (a *Augment) Moves(n, size int) []Move {
	out := make([]Move, n)
	for i := range out {
		switch a.Crop {
		case PadCrop:
			out[i].DX, out[i].DY = a.Rand.IntN(2*a.Pad+1)-a.Pad, a.Rand.IntN(2*a.Pad+1)-a.Pad
		case ResizedCrop:
			out[i].part = a.cut(a.Rand, size)
		}
		out[i].Flip = a.Flip && a.Rand.IntN(2) == 1
	}
	return out
}

// Array is a [Split] in memory, without augmentation: features of any network, for example.
type Array struct {
	Values  []float32 // [N, Dims...], one sample after the other.
	Dims    []int     // The shape of a sample.
	Classes []int64   // The label of each sample, [N].
}

// Labels implements [Split].
func (a *Array) Labels() []int64 { return a.Classes }

// Shape implements [Split].
func (a *Array) Shape() shapes.Shape { return shapes.Make(dtypes.Float32, a.Dims...) }

// Read implements [Split].
func (a *Array) Read(dst []byte, samples []int, _ *Augment) error {
	one := a.Shape().Size()
	for k, i := range samples {
		for j, v := range a.Values[i*one : (i+1)*one] {
			binary.LittleEndian.PutUint32(dst[4*(k*one+j):], math.Float32bits(v))
		}
	}
	return nil
}

// Arrays returns a data set of arrays in memory. A nil test stands for all of train, as in a set without test classes
// of its own. It fails if labels do not fit values, a value is NaN or Inf, or train has fewer than two classes.
func Arrays(name string, train, test *Array) (*Data, error) {
	d := &Data{Name: name, Train: train, Test: train}
	sum := sha256.New()
	for _, part := range []struct {
		what string
		of   *Array
	}{{"training", train}, {"test", test}} {
		if part.of == nil && part.what == "test" {
			continue
		}
		if err := part.of.check(part.what); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fmt.Fprintf(sum, "%s %v\n", part.what, part.of.Dims)
		_ = binary.Write(sum, binary.LittleEndian, part.of.Classes) // A hash does not fail.
		_ = binary.Write(sum, binary.LittleEndian, part.of.Values)
	}
	if test != nil {
		d.Test = test
		if !slices.Equal(train.Dims, test.Dims) {
			return nil, fmt.Errorf("%s: training samples have the shape %v, test samples %v: want the same",
				name, train.Dims, test.Dims)
		}
	}
	if distinct := NumberClasses(train.Classes, nil); len(distinct) < 2 {
		return nil, fmt.Errorf("%s: all %d training samples are of one class: want at least two classes",
			name, len(train.Classes))
	}
	d.Digest = hex.EncodeToString(sum.Sum(nil))
	return d, nil
}

// check reports what is wrong with an array.
func (a *Array) check(what string) error {
	if a == nil {
		return fmt.Errorf("no %s samples", what)
	}
	one := 1
	for _, d := range a.Dims {
		if d < 1 || d > math.MaxInt32 || one > math.MaxInt32/d {
			return fmt.Errorf("%s samples of shape %v: want positive dimensions, and at most 2³¹ values", what, a.Dims)
		}
		one *= d
	}
	if len(a.Classes) == 0 {
		return fmt.Errorf("there are no %s samples", what)
	}
	if len(a.Values) != len(a.Classes)*one {
		return fmt.Errorf("%d %s values do not fit %d labels: samples of shape %v have %d values each", len(a.Values), what,
			len(a.Classes), a.Dims, one)
	}
	for i, v := range a.Values {
		if v-v != 0 {
			return fmt.Errorf("%s sample %d has the value %g: want finite values", what, i/one, v)
		}
	}
	return nil
}

// Check reports what is missing from a data set.
func (d *Data) Check() error {
	if d == nil {
		return errors.New("no data set")
	}
	if d.Train == nil || d.Test == nil {
		return fmt.Errorf("%s: no samples to train on, or none to test", d.Name)
	}
	shape := d.Train.Shape()
	if shape.DType != dtypes.Uint8 && shape.DType != dtypes.Float32 {
		return fmt.Errorf("%s: samples are %s: want uint8 or float32", d.Name, shape)
	}
	for _, other := range []Split{d.Test, d.Gallery} {
		if other != nil && !other.Shape().Equal(shape) {
			return fmt.Errorf("%s: training samples are %s, others %s: want the same", d.Name, shape, other.Shape())
		}
	}
	if n := len(d.Scale); n != len(d.Shift) || n > 0 && (shape.Rank() == 0 || shape.Dim(-1) != n) {
		return fmt.Errorf("%s: scale of %d values and shift of %d for samples of shape %s: want one of each for an index "+
			"of the last axis", d.Name, n, len(d.Shift), shape)
	}
	return nil
}

// Affine returns scale and shift as an input of graphs, float32 [2, C]; [2, 1] without.
func (d *Data) Affine() *tensors.Tensor {
	if len(d.Scale) == 0 {
		return tensors.FromFlatDataAndDimensions([]float32{1, 0}, 2, 1)
	}
	return tensors.FromFlatDataAndDimensions(slices.Concat(d.Scale, d.Shift), 2, len(d.Scale))
}

// HasMatch reports whether any query of the test set has a match. Recall is undefined without one.
func (d *Data) HasMatch() bool {
	gallery, own := d.Gallery, 0
	if gallery == nil {
		gallery, own = d.Test, 1
	}
	count := make(map[int64]int)
	for _, label := range gallery.Labels() {
		count[label]++
	}
	return slices.ContainsFunc(d.Test.Labels(), func(label int64) bool { return count[label] > own })
}

// All returns the indices of all samples.
func All(of Split) []int {
	all := make([]int, len(of.Labels()))
	for i := range all {
		all[i] = i
	}
	return all
}

// Floats reads samples of float32 with the given indices, one after the other.
func Floats(of Split, which []int) ([]float32, error) {
	raw := make([]byte, len(which)*int(of.Shape().ByteSize()))
	if err := of.Read(raw, which, nil); err != nil {
		return nil, err
	}
	values := make([]float32, len(raw)/4)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return values, nil
}

// Scaled returns samples [N, ...] as float32, times the scale and plus the shift of [Data.Affine].
func Scaled(samples, affine *graph.Node) *graph.Node {
	dims := slices.Repeat([]int{1}, samples.Rank())
	dims[len(dims)-1] = affine.Shape().Dim(1)
	row := func(i int) *graph.Node { return graph.Reshape(graph.Slice(affine, graph.AxisElem(i)), dims...) }
	return graph.Add(graph.Mul(graph.ConvertDType(samples, dtypes.Float32), row(0)), row(1))
}
