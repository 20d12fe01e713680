// Package sampling has the random choices of a training: the images of each batch, and the initial values of linear
// layers. They depend on the seed alone, not on the backend or the machine.
package sampling

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// The purposes of random numbers. Each has a stream of its own, so that a change of one does not shift another.
const (
	Classes uint64 = iota + 1
	Images
	Augment
	Proxies
	Miner
	Model
)

// Stream returns the random numbers of a seed, a purpose and an index, such as a step.
func Stream(seed, purpose, index uint64) *rand.Rand {
	return rand.New(rand.NewPCG(seed, purpose<<48|index))
}

// Named returns the stream of a weight or bias, by its name.
func Named(name string, seed uint64) *rand.Rand {
	key := sha256.Sum256(append(binary.LittleEndian.AppendUint64(nil, seed), name...))
	return rand.New(rand.NewChaCha8(key))
}

// Linear returns n initial values of a weight or bias, by its name, of a layer with so many inputs, as PyTorch's Linear
// has them: U(−1/√in, 1/√in).
func Linear(name string, in, n int, seed uint64) []float32 {
	rng := Named(name, seed)
	bound := 1 / math.Sqrt(float64(in))
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(bound * (2*rng.Float64() - 1))
	}
	return values
}

// Sampler selects batches of C classes × N images. A class with fewer than N images, as a third of those of Stanford
// Online Products, gives all of them, and further classes fill the batch. The batch of a step depends only on the
// seed and the step, so a checkpoint needs no state of the sampler.
type Sampler struct {
	Seed               uint64
	classes            [][]int // Image indices of each class.
	perBatch, perClass int
	imagesPerPass      int // Images in one pass over all classes: N for each, or all of a smaller class.
}

// New returns a sampler of the images whose labels are not in without. It fails if they do not suffice for a batch.
func New(labels []int64, without map[int64]bool, perBatch, perClass int, seed uint64) (*Sampler, error) {
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
	s := &Sampler{Seed: seed, perBatch: perBatch, perClass: perClass}
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

// Batch returns the indices of the images of a step, class by class. The classes are shuffled again when fewer than a
// batch of images is left of a pass. If classes are small, a class may end one batch and begin the next.
func (s *Sampler) Batch(step int) []int {
	size := s.perBatch * s.perClass
	perPass := s.imagesPerPass / size
	skip := step % perPass * size // Images of this pass in earlier batches.
	rng := Stream(s.Seed, Images, uint64(step))
	out := make([]int, 0, size)
	for _, c := range Stream(s.Seed, Classes, uint64(step/perPass)).Perm(len(s.classes)) {
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
