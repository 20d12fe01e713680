package train

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"github.com/gradient-surgery/dml/datasets"
)

// sampler selects batches of C classes × N images. A class with fewer than N images, as a third of those of Stanford
// Online Products, gives all of them, and further classes fill the batch. The batch of a step depends only on the
// seed and the step, so a checkpoint needs no state of the sampler.
type sampler struct {
	seed               uint64
	classes            [][]int // Image indices of each class.
	perBatch, perClass int
	imagesPerPass      int // Images in one pass over all classes: N for each, or all of a smaller class.
	pad                int // The largest shift of the random crop in pixels.
}

// sample is one image of a batch with its augmentation: the shift of the crop in pixels, and whether it is mirrored.
type sample struct {
	image  int
	dx, dy int
	flip   bool
}

// sampler returns the sampler of a config for a data set without some classes.
func (c Config) sampler(set *datasets.Set, without map[int64]bool) (*sampler, error) {
	s, err := newSampler(set.Train.Labels, without, c.ClassesPerBatch, c.ImagesPerClass, c.Pad, c.Seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set.Name, err)
	}
	return s, nil
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
	s := &sampler{seed: seed, pad: pad, perBatch: perBatch, perClass: perClass}
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
)

// stream returns the random numbers of a seed, a purpose and an index, such as a step.
func stream(seed, purpose, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<48|index))
}

// batch returns the images of a step, class by class. The classes are shuffled again when fewer than a batch of
// images is left of a pass. If classes are small, a class may end one batch and begin the next.
func (s *sampler) batch(step int) []sample {
	size := s.perBatch * s.perClass
	perPass := s.imagesPerPass / size
	skip := step % perPass * size // Images of this pass in earlier batches.
	rng := stream(s.seed, streamImages, uint64(step))
	out := make([]sample, 0, size)
	for _, c := range stream(s.seed, streamClasses, uint64(step/perPass)).Perm(len(s.classes)) {
		images := s.classes[c]
		n := min(len(images), s.perClass)
		if skip >= n {
			skip -= n
			continue
		}
		n, skip = min(n-skip, size-len(out)), 0
		for _, i := range rng.Perm(len(images))[:n] {
			out = append(out, sample{image: images[i]})
		}
		if len(out) == size {
			break
		}
	}
	s.augment(out, step)
	return out
}

// augment sets random shifts and mirroring for the images of a step.
func (s *sampler) augment(out []sample, step int) {
	rng := stream(s.seed, streamAugment, uint64(step))
	for i := range out {
		out[i].dx, out[i].dy = rng.IntN(2*s.pad+1)-s.pad, rng.IntN(2*s.pad+1)-s.pad
		out[i].flip = rng.IntN(2) == 1
	}
}

// batch is the input of one step: uint8 pixels [B, Size, Size, 3] and labels [B].
type batch struct {
	pixels []uint8
	labels []int32
}

// load reads and augments the images of a batch, in parallel if they exceed a megabyte, so that a GPU does not wait.
func load(im *datasets.Images, samples []sample) batch {
	one := im.Size * im.Size * 3
	b := batch{pixels: make([]uint8, len(samples)*one), labels: make([]int32, len(samples))}
	workers := min(runtime.GOMAXPROCS(0), 1+len(b.pixels)>>20)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(samples); i += workers {
				d := samples[i]
				im.Augmented(b.pixels[i*one:(i+1)*one], d.image, d.dx, d.dy, d.flip)
				b.labels[i] = int32(im.Labels[d.image])
			}
		})
	}
	group.Wait()
	return b
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
		return nil, fmt.Errorf("every %d-th of %d training classes leaves too little to rank: "+
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

// hasMatch reports whether any query of the test set has a match. Recall is undefined without one.
func hasMatch(set *datasets.Set) bool {
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
