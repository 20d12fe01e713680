package train_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/samples"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// A Fit that is stopped keeps nothing, and does not say that it could go on.
func TestStoppedFit(t *testing.T) {
	features := &samples.Array{Dims: []int{2}}
	for i := range 16 {
		features.Values = append(features.Values, float32(i%5), float32(i%7))
		features.Classes = append(features.Classes, int64(i/4))
	}
	data, err := samples.Arrays("few", features, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	fitted, err := train.Fit(ctx, data, train.Config{Dim: 2, ClassesPerBatch: 2, ImagesPerClass: 2},
		func(train.Progress) { stop() })
	if fitted != nil || !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "resumes") {
		t.Errorf("%v, %v", fitted, err)
	}
}
