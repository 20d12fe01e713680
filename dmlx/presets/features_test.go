package presets

import "testing"

// The default batch of a head is 8 × 8 samples, or the largest that the classes give.
func TestBatchOfFeatures(t *testing.T) {
	t.Parallel()
	same := func(classes, images int) (labels []int64) {
		for i := range classes * images {
			labels = append(labels, int64(i/images))
		}
		return labels
	}
	for _, c := range []struct {
		name            string
		labels          []int64
		without         map[int64]bool
		width           int
		chosen          bool
		classes, images int
	}{
		{"many", same(40, 16), nil, 64, true, 8, 8},
		{"ten, folds of eight", same(10, 16), nil, 64, true, 8, 8},
		{"ten in three folds", same(10, 16), nil, 1280, true, 6, 8},
		{"five, the training half of ten", same(5, 16), nil, 64, true, 2, 8},
		{"five that start at random", same(5, 16), nil, 64, false, 5, 8},
		{"three, too few for folds", same(3, 16), nil, 64, true, 3, 8},
		{"classes of four", same(200, 4), nil, 64, true, 8, 4},
		{"held out", same(10, 16), map[int64]bool{3: true, 7: true}, 64, false, 8, 8},
		{"held out and few", same(8, 16), map[int64]bool{3: true, 7: true}, 64, false, 6, 8},
		{"one large class", append(same(7, 2), 7, 7, 7, 7, 7, 7, 7, 7), nil, 64, false, 3, 7},
		{"singles", same(40, 1), nil, 64, false, 2, 2}, // It fails with what is wrong.
		{"one class", same(1, 16), nil, 64, false, 2, 2},
	} {
		if classes, images := batchOf(c.labels, c.without, c.width, c.chosen); classes != c.classes || images != c.images {
			t.Errorf("%s: %d × %d, want %d × %d", c.name, classes, images, c.classes, c.images)
		}
	}
}
