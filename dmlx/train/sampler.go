package train

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
)

// sampler selects the batches of a training and how their images are augmented.
type sampler struct {
	sampling.Sampler
	augmentation Augmentation
}

// sampler returns the sampler of a config for a data set without some classes.
func (c Config) sampler(data *Data, without map[int64]bool) (*sampler, error) {
	s, err := newSampler(data.Train.Labels(), without, c.ClassesPerBatch, c.ImagesPerClass, c.Pad, c.Seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", data.Name, err)
	}
	s.augmentation, err = c.augmentation()
	return s, err
}

// newSampler returns a sampler of the images whose labels are not in without. It fails if they do not suffice for a
// batch.
func newSampler(labels []int64, without map[int64]bool, perBatch, perClass, pad int, seed uint64) (*sampler, error) {
	s, err := sampling.New(labels, without, perBatch, perClass, seed)
	if err != nil {
		return nil, err
	}
	return &sampler{*s, Augmentation{Crop: PadCrop, Pad: pad, Flip: true}}, nil
}

// augment returns the augmentation of the images of a step.
func (s *sampler) augment(step int) *Augment {
	return &Augment{Augmentation: s.augmentation, Rand: sampling.Stream(s.Seed, sampling.Augment, uint64(step))}
}

// batch is the input of one step: samples, [B, Shape...], and their labels, [B].
type batch struct {
	samples []byte
	labels  []int32
}

// load reads and augments the samples of a step. classes numbers their labels.
func (s *sampler) load(from Samples, classes map[int64]int32, step int) (batch, error) {
	samples := s.Batch(step)
	b := batch{samples: make([]byte, len(samples)*int(from.Shape().ByteSize())), labels: make([]int32, len(samples))}
	labels := from.Labels()
	for i, k := range samples {
		b.labels[i] = classes[labels[k]]
	}
	return b, from.Read(b.samples, samples, s.augment(step))
}

// HeldOutClasses returns the labels of every n-th class, in the order of the labels, and nil for n = 0. It fails if
// these are fewer than two classes or no class has two images.
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
		return nil, fmt.Errorf("every %d-th of %d training classes leaves too few images to rank: "+
			"want at least two classes, and two images of one", n, len(count))
	}
	return out, nil
}

// imagesWithLabels returns the indices of the images whose label is in of.
func imagesWithLabels(labels []int64, of map[int64]bool) []int {
	var out []int
	for i, l := range labels {
		if of[l] {
			out = append(out, i)
		}
	}
	return out
}
