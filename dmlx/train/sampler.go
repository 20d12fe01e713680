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

// sampler draws batches of C classes × N images. A class with fewer images, such as a third of those of Stanford Online Products,
// gives all that it has, and the batch is filled from further classes. What it draws for a step depends on the seed and the
// step alone, so that a run which goes on needs no state of it.
type sampler struct {
	seed               uint64
	classes            [][]int // Image indices of each class.
	perBatch, perClass int
	imagesPerPass      int // In batches, that a pass over all classes fills: N for each, or as many as it has images.
	pad                int // By how many pixels the random crop moves an image at most.
}

// draw is one image of a batch and how it is augmented.
type sample struct {
	image  int
	dx, dy int
	flip   bool
}

// sampler returns the sampler of the batches, or what is wrong with them on a data set.
func (c Config) sampler(set *datasets.Set, without map[int64]bool) (*sampler, error) {
	s, err := newSampler(set.Train.Labels, without, c.ClassesPerBatch, c.ImagesPerClass, c.Pad, c.Seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", set.Name, err)
	}
	return s, nil
}

// newSampler draws from the images whose labels are not in without.
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
		return nil, fmt.Errorf("a batch of %d classes needs as many train classes, there are %d: take fewer classes per batch",
			perBatch, len(order))
	}
	s := &sampler{seed: seed, pad: pad, perBatch: perBatch, perClass: perClass}
	most := 0
	for _, l := range order {
		s.classes = append(s.classes, byLabel[l])
		s.imagesPerPass += min(len(byLabel[l]), perClass)
		most = max(most, len(byLabel[l]))
	}
	if most < perClass {
		return nil, fmt.Errorf("no class has the %d images per class of a batch, the largest has %d: take at most as many", perClass, most)
	}
	if s.imagesPerPass < perBatch*perClass {
		return nil, fmt.Errorf("a batch of %d classes × %d images cannot be filled: with at most %d of each, the %d train classes give %d images",
			perBatch, perClass, perClass, len(order), s.imagesPerPass)
	}
	return s, nil
}

// Streams of random numbers: one purpose each, so that none shifts another.
const (
	streamClasses uint64 = iota + 1
	streamImages
	streamAugment
	streamProxies
	streamMiner
)

func stream(seed, purpose, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<48|index))
}

// batch draws a step's images, class by class. Classes are shuffled anew when fewer than a batch of them are left. Where classes
// are small, a class may be the last of one batch and, with the rest of its images' number, the first of the next.
func (s *sampler) batch(step int) []sample {
	size := s.perBatch * s.perClass
	perPass := s.imagesPerPass / size
	skip := step % perPass * size // Places of this pass that earlier batches fill.
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

// augment draws how a step's images are moved and mirrored.
func (s *sampler) augment(out []sample, step int) {
	rng := stream(s.seed, streamAugment, uint64(step))
	for i := range out {
		out[i].dx, out[i].dy = rng.IntN(2*s.pad+1)-s.pad, rng.IntN(2*s.pad+1)-s.pad
		out[i].flip = rng.IntN(2) == 1
	}
}

// batch is one step's input: uint8 pixels [B, Size, Size, 3] and labels [B].
type batch struct {
	pixels []uint8
	labels []int32
}

// load reads the images of a batch, on all cores where they are megabytes, so that a GPU does not wait for them.
func load(im *datasets.Images, draws []sample) batch {
	one := im.Size * im.Size * 3
	b := batch{pixels: make([]uint8, len(draws)*one), labels: make([]int32, len(draws))}
	workers := min(runtime.GOMAXPROCS(0), 1+len(b.pixels)>>20)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < len(draws); i += workers {
				d := draws[i]
				im.Augmented(b.pixels[i*one:(i+1)*one], d.image, d.dx, d.dy, d.flip)
				b.labels[i] = int32(im.Labels[d.image])
			}
		})
	}
	group.Wait()
	return b
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
