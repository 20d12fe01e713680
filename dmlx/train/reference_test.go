package train

import (
	"context"
	"errors"
	"reflect"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// What a network's features reach before it is trained is what its own graph gives for all test images at once.
func TestNetworkReferences(t *testing.T) {
	data := networkData(t, 32)
	small, err := tinyConfig().WithStart("small", Pretrained)
	if err != nil {
		t.Fatal(err)
	}
	for _, tr := range bothTrainers() {
		if testing.Short() && tr.Name != "go" {
			continue
		}
		got, err := tr.References(t.Context(), Training{Config: networkConfig(t, testNetwork), Data: data, HeldOut: 2})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 2 || got[0].Name != "features" || got[1].Name != "whitened features" || got[1].Queries == 0 {
			t.Fatalf("%+v", got)
		}
		m, err := retrieval.Evaluate(t.Context(), tr.Backend, testFeatures(t, tr, data), nil, []int{1, 2})
		if err != nil {
			t.Fatal(err)
		}
		own := map[int]float64{1: got[0].Recall[1], 2: got[0].Recall[2]}
		if !reflect.DeepEqual(own, m.Recall) || got[0].MAPAtR-m.MAPAtR > 1e-6 || m.MAPAtR-got[0].MAPAtR > 1e-6 {
			t.Errorf("%s: Recall %v and MAP@R %v, by its own graph %v and %v", tr.Name, own, got[0].MAPAtR, m.Recall, m.MAPAtR)
		}
		if got, err = tr.References(t.Context(), Training{Config: small, Data: data}); err != nil || got[0].Recall[1] == 0 {
			t.Errorf("small: %+v, %v", got, err)
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if _, err := tr.References(stopped, Training{Config: small, Data: data}); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped: %v", err)
		}
	}
}

// testFeatures are the features of the test network for the test images, in one batch.
func testFeatures(t *testing.T, tr *Trainer, data *samples.Data) *retrieval.Embeddings {
	t.Helper()
	n, err := networkConfig(t, testNetwork).opened()
	if err != nil {
		t.Fatal(err)
	}
	p, err := n.Preprocessing()
	if err != nil {
		t.Fatal(err)
	}
	own := *data
	own.Scale, own.Shift = nil, nil
	own.Normalize(p.Mean, p.Std)
	store := model.NewStore()
	defer store.Finalize()
	if err := n.Init(store, nil); err != nil {
		t.Fatal(err)
	}
	exec, err := model.NewExec(tr.Backend, store, func(scope *model.Scope, x, affine *Node) *Node {
		return n.Features(scope, samples.Scaled(x, affine), backbone.Pass{})
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	labels := data.Test.Labels()
	raw := make([]byte, len(labels)*int(data.Test.Shape().ByteSize()))
	if err := data.Test.Read(raw, samples.All(data.Test), nil); err != nil {
		t.Fatal(err)
	}
	images := tensors.FromFlatDataAndDimensions(raw, append([]int{len(labels)}, data.Test.Shape().Dimensions...)...)
	out, err := exec.Call1(images, own.Affine())
	if err != nil {
		t.Fatal(err)
	}
	values, err := tensors.CopyFlatData[float32](out)
	if err != nil {
		t.Fatal(err)
	}
	return &retrieval.Embeddings{Values: values, Dim: n.Width, Labels: labels}
}
