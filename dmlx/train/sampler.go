package train

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// sampler selects batches of C classes × N images. A class with fewer than N images, as a third of those of Stanford
// Online Products, gives all of them, and further classes fill the batch. The batch of a step depends only on the
// seed and the step, so a checkpoint needs no state of the sampler.
type sampler struct {
	seed               uint64
	classes            [][]int // Image indices of each class.
	perBatch, perClass int
	imagesPerPass      int // Images in one pass over all classes: N for each, or all of a smaller class.
	augmentation       Augmentation
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
	byLabel := make(map[int64][]int)
	var order []int64
	for i, l := range labels {
		if without[l] {
			continue
		}
		if len(byLabel[l]) == 0 {
			order = append(order, l)
		}
		byLabel[l] = append(byLabel[l], i)
	}
	slices.Sort(order)
	if len(order) < perBatch {
		return nil, fmt.Errorf("a batch of %d classes needs as many training classes, there are %d: "+
			"use fewer classes per batch", perBatch, len(order))
	}
	s := &sampler{seed: seed, perBatch: perBatch, perClass: perClass}
	s.augmentation = Augmentation{Crop: PadCrop, Pad: pad, Flip: true}
	most := 0
	for _, l := range order {
		s.classes = append(s.classes, byLabel[l])
		s.imagesPerPass += min(len(byLabel[l]), perClass)
		most = max(most, len(byLabel[l]))
	}
	if most < perClass {
		return nil, fmt.Errorf("no class has the %d images per class of a batch: use at most %d, as the largest class has",
			perClass, most)
	}
	if s.imagesPerPass < perBatch*perClass {
		return nil, fmt.Errorf("a batch of %d classes × %d images is larger than the training set: "+
			"with at most %d images of each, its %d classes give %d",
			perBatch, perClass, perClass, len(order), s.imagesPerPass)
	}
	return s, nil
}

// The purposes of random numbers. Each has a stream of its own, so that a change of one does not shift another.
const (
	streamClasses uint64 = iota + 1
	streamImages
	streamAugment
	streamProxies
	streamMiner
	streamModel
)

// stream returns the random numbers of a seed, a purpose and an index, such as a step.
func stream(seed, purpose, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<48|index))
}

// batch returns the indices of the images of a step, class by class. The classes are shuffled again when fewer than a
// batch of images is left of a pass. If classes are small, a class may end one batch and begin the next.
func (s *sampler) batch(step int) []int {
	size := s.perBatch * s.perClass
	perPass := s.imagesPerPass / size
	skip := step % perPass * size // Images of this pass in earlier batches.
	rng := stream(s.seed, streamImages, uint64(step))
	out := make([]int, 0, size)
	for _, c := range stream(s.seed, streamClasses, uint64(step/perPass)).Perm(len(s.classes)) {
		images := s.classes[c]
		n := min(len(images), s.perClass)
		if skip >= n {
			skip -= n
			continue
		}
		n, skip = min(n-skip, size-len(out)), 0
		for _, i := range rng.Perm(len(images))[:n] {
			out = append(out, images[i])
		}
		if len(out) == size {
			break
		}
	}
	return out
}

// augment returns the augmentation of the images of a step.
func (s *sampler) augment(step int) *Augment {
	return &Augment{Augmentation: s.augmentation, Rand: stream(s.seed, streamAugment, uint64(step))}
}

// batch is the input of one step: samples, [B, Shape...], and their labels, [B].
type batch struct {
	samples []byte
	labels  []int32
}

// load reads and augments the samples of a step. classes numbers their labels.
func (s *sampler) load(from Samples, classes map[int64]int32, step int) (batch, error) {
	samples := s.batch(step)
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
