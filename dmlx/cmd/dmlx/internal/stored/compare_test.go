package stored

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// The last line of a training says whether the network is better than the features that it started from.
func TestGained(t *testing.T) {
	t.Parallel()
	at := func(name string, recall float64) train.Reference { // Its standard error is 5 points at 0.5.
		return train.Reference{Name: name, Measures: train.Measures{Recall: map[int]float64{1: recall}, Queries: 100}}
	}
	before := []train.Reference{at("features", 0.5), at("whitened features", 0.4)}
	for recall, want := range map[float64]string{
		0.56: "Recall@1 is 6.0 points above the features (50.0): the training made it better.",
		0.52: "Recall@1 is that of the features (50.0) within a standard error of the test set, 5.0 points.",
		0.44: "Recall@1 is 6.0 points below the features (50.0): the training made it worse. What may help: a lower --lr",
	} {
		r := &runs.Result{Measures: train.Measures{Recall: map[int]float64{1: recall}}}
		if got := Gained(r, before); !strings.HasPrefix(got, "\n"+want) {
			t.Errorf("%q, want %q", got, want)
		}
		if got := Gained(r, nil); got != "" {
			t.Errorf("without anything before: %q", got)
		}
	}
}
