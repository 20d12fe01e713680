package train

import (
	"fmt"

	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// sampler selects the batches of a training and how their images are augmented.
type sampler struct {
	sampling.Sampler
	augmentation samples.Augmentation
}

// sampler returns the sampler of a config for a data set without some classes. It fails if these do not suffice for a
// batch.
func (c Config) sampler(data *samples.Data, without map[int64]bool) (*sampler, error) {
	s, err := sampling.New(data.Train.Labels(), without, c.ClassesPerBatch, c.ImagesPerClass, c.Seed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", data.Name, err)
	}
	a, err := c.augmentation()
	return &sampler{*s, a}, err
}

// augment returns the augmentation of the images of a step.
func (s *sampler) augment(step int) *samples.Augment {
	return &samples.Augment{Augmentation: s.augmentation, Rand: sampling.Stream(s.Seed, sampling.Augment, uint64(step))}
}

// batch is the input of one step: samples, [B, Shape...], and their labels, [B]; or the error of reading or copying it.
type batch struct {
	samples []byte
	labels  []int32
	images  []mesh.Value // The samples on the devices; see [compiledStep.upload].
	err     error
}

func (b batch) free() { free(b.images) }

// load reads and augments the samples of a step. classes numbers their labels.
func (s *sampler) load(from samples.Split, classes map[int64]int32, step int) (batch, error) {
	samples := s.Batch(step)
	b := batch{samples: make([]byte, len(samples)*int(from.Shape().ByteSize())), labels: make([]int32, len(samples))}
	labels := from.Labels()
	for i, k := range samples {
		b.labels[i] = classes[labels[k]]
	}
	return b, from.Read(b.samples, samples, s.augment(step))
}

// augmentation returns the augmentation of the config.
func (c Config) augmentation() (samples.Augmentation, error) {
	if c.Augment == "" {
		return samples.Augmentation{Crop: samples.PadCrop, Pad: c.Pad, Flip: true}, nil
	}
	return samples.ParseAugmentation(c.Augment, 0)
}
