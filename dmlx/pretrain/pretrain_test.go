package pretrain

import (
	"math"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// The features are the network's of the normalized pixels: one image at a time gives the same, in the order of the set,
// with the gallery behind the queries.
func TestFeatures(t *testing.T) {
	t.Parallel()
	set, err := datasets.Open("minishop", datasets.Options{Size: 32, TrainClasses: 3, TestClasses: 2})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range choices(t) {
		training, test, err := Features(t.Context(), c, backbone.Pretrained(), set)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(training.Classes, set.Train.Labels) ||
			!slices.Equal(test.Classes, slices.Concat(set.Test.Labels, set.Gallery.Labels)) {
			t.Errorf("%s: classes %v and %v", c.Name, training.Classes, test.Classes)
		}
		weights := model.NewStore()
		if _, err := backbone.DecodeWeights(backbone.Pretrained(), weights,
			backbone.LoadOptions{Arch: backbone.Small, WithoutHead: true}); err != nil {
			t.Fatal(err)
		}
		exec, err := model.NewExec(c.Backend, weights, func(scope *model.Scope, image *Node) *Node {
			return backbone.Small.Features(scope, image, backbone.Pass{})
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []struct {
			of    *datasets.Images
			i     int
			found *samples.Array
			row   int
		}{{set.Train, 0, training, 0}, {set.Train, set.Train.N - 1, training, set.Train.N - 1}, {set.Test, 1, test, 1},
			{set.Gallery, 2, test, set.Test.N + 2}} {
			pixels := make([]float32, 32*32*3)
			for k, v := range at.of.At(at.i) {
				pixels[k] = (float32(v)/255 - set.Mean[k%3]) / set.Std[k%3]
			}
			out, err := exec.Call1(tensors.FromFlatDataAndDimensions(pixels, 1, 32, 32, 3))
			if err != nil {
				t.Fatal(err)
			}
			want := tensors.MustCopyFlatData[float32](out)
			for k, got := range at.found.Values[at.row*len(want) : (at.row+1)*len(want)] {
				if math.Abs(float64(got-want[k])) > 1e-4*(1+math.Abs(float64(want[k]))) {
					t.Fatalf("%s: feature %d of row %d is %g; want %g", c.Name, k, at.row, got, want[k])
				}
			}
		}
	}
	if _, _, err := Features(t.Context(), choices(t)[0], []byte("no weights"), set); err == nil {
		t.Error("a file that is none of weights is read")
	}
}

// choices are the Go backend, and the one that is chosen by default where that is another.
func choices(t *testing.T) []*backend.Choice {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	all := []*backend.Choice{{Backend: b, Name: "go"}}
	if other, err := backend.Open(); err == nil && other.Name != "go" {
		all = append(all, other)
	}
	return all
}
