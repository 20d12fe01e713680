package train

import (
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/internal/sampling"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

func TestSchedule(t *testing.T) {
	s := tinyConfig()
	s.LR = 1
	for _, c := range []struct {
		epochs, first int
		decay         float64
	}{{60, 36, 0}, {3, 2, 0}, {2, 2, 0}, {1, 1, 0}, {24, 15, 0}, {24, 12, 0.5}, {24, 21, 0.85}, {6, 6, 1}} {
		s.Epochs, s.Decay = c.epochs, c.decay
		for e := range c.epochs {
			want := 1.0
			if e >= c.first {
				want = 0.1
			}
			if s.RateAt(e*s.StepsPerEpoch) != want {
				t.Errorf("epoch %d of %d has rate %g", e, c.epochs, s.RateAt(e*s.StepsPerEpoch))
			}
		}
	}
}

func TestSampler(t *testing.T) {
	var labels []int64
	for c := range 10 {
		for range 3 + c {
			labels = append(labels, int64(c))
		}
	}
	s, err := newSampler(labels, nil, 4, 3, 2, 7)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := newSampler(labels, nil, 4, 3, 2, 7)
	seen := make(map[int64]int)
	ways := make(map[samples.Move]bool)
	for step := 99; step >= 0; step-- { // Backwards: a step does not depend on those before.
		b := s.Batch(step)
		if len(b) != 12 {
			t.Fatalf("%d images", len(b))
		}
		classes, images := make(map[int64]int), make(map[int]bool)
		for _, d := range b {
			classes[labels[d]]++
			images[d] = true
		}
		for _, d := range s.augment(step).Moves(12, 16) {
			if d.DX < -2 || d.DX > 2 || d.DY < -2 || d.DY > 2 {
				t.Fatalf("moved by %d, %d", d.DX, d.DY)
			}
			ways[d] = true
		}
		if len(classes) != 4 || len(images) != 12 {
			t.Errorf("step %d: %d classes, %d images", step, len(classes), len(images))
		}
		for c, n := range classes {
			seen[c]++
			if n != 3 {
				t.Errorf("step %d: %d images of class %d", step, n, c)
			}
		}
	}
	for step := range 100 {
		if !slices.Equal(s.Batch(step), other.Batch(step)) ||
			!slices.Equal(s.augment(step).Moves(12, 16), other.augment(step).Moves(12, 16)) {
			t.Fatalf("step %d is not the same again", step)
		}
	}
	if len(seen) != 10 || len(ways) != 50 {
		t.Errorf("%d classes, %d ways to augment", len(seen), len(ways))
	}
	different, _ := newSampler(labels, nil, 4, 3, 2, 8)
	if slices.Equal(s.Batch(0), different.Batch(0)) {
		t.Error("two seeds give one batch")
	}
	for want, c := range map[string][2]int{
		"needs as many training classes, there are 10":                    {11, 1},
		"no class has the 13 images per class of a batch: use at most 12": {2, 13},
		"with at most 9 images of each, its 10 classes give 69":           {9, 9},
	} {
		if _, err := newSampler(labels, nil, c[0], c[1], 0, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want …%s…", err, want)
		}
	}
}

// As in Stanford Online Products: classes of two to twelve images, four of each in a batch.
func TestSamplerOfSmallClasses(t *testing.T) {
	t.Parallel()
	var labels []int64
	sizes := []int{2, 2, 3, 4, 5, 12, 3, 2, 9, 4, 2} // With at most four of each 34 images, so two batches a pass.
	for c, n := range sizes {
		for range n {
			labels = append(labels, int64(c))
		}
	}
	s, err := newSampler(labels, nil, 4, 4, 0, 3)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[int]bool)
	for pass := range 50 {
		ofPass := make(map[int64]int)
		for step := 2 * pass; step < 2*pass+2; step++ {
			b := s.Batch(step)
			images := make(map[int]bool)
			alone := 0
			ofBatch := make(map[int64]int)
			for _, d := range b {
				images[d], seen[d] = true, true
				ofPass[labels[d]]++
				ofBatch[labels[d]]++
			}
			for _, n := range ofBatch {
				if n == 1 {
					alone++
				}
			}
			if len(b) != 16 || len(images) != 16 || alone > 2 { // The first class and the last one.
				t.Errorf("step %d: %d images, %d of them different, %d without another of their class",
					step, len(b), len(images), alone)
			}
		}
		for c, n := range ofPass {
			if n > min(4, sizes[c]) {
				t.Errorf("pass %d: %d images of class %d, which has %d", pass, n, c, sizes[c])
			}
		}
	}
	if len(seen) != len(labels) {
		t.Errorf("%d of %d images were sampled", len(seen), len(labels))
	}
}

func TestHeldOut(t *testing.T) {
	labels := []int64{5, 5, 1, 1, 9, 9, 3, 3, 7} // Classes 1 3 5 7 9.
	got, err := samples.HeldOut(labels, 2)
	if err != nil || len(got) != 2 || !got[3] || !got[7] {
		t.Errorf("%v, %v", got, err)
	}
	s, err := newSampler(labels, got, 2, 2, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	for step := range 20 {
		for _, d := range s.Batch(step) {
			if got[labels[d]] {
				t.Fatalf("step %d trains on a class that is held out", step)
			}
		}
	}
	if none, err := samples.HeldOut(labels, 0); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	if _, err := samples.HeldOut(labels, 4); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("one class held out: %v", err)
	}
}

// newSampler is the sampler of a config with these settings.
func newSampler(labels []int64, without map[int64]bool, perBatch, perClass, pad int, seed uint64) (*sampler, error) {
	s, err := sampling.New(labels, without, perBatch, perClass, seed)
	if err != nil {
		return nil, err
	}
	return &sampler{*s, samples.Augmentation{Crop: samples.PadCrop, Pad: pad, Flip: true}}, nil
}
