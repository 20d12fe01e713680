package dmlx_test

import (
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

// A model is trained by a rule in GoMLX's own trainer. The loss's gradient is the rule's; a constant beside it, here
// the mean similarity of the mined negatives, gives it a value to watch.
func ExampleSurgery_trainer() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	rule, err := dmlx.ParseRule("cos/lin/cir")
	if err != nil {
		log.Fatal(err)
	}
	embed := func(scope *model.Scope, x *Node) *Node { return layers.Dense(scope, x, false, 2) }
	loss := func(labels, predictions []*Node) *Node {
		f, composed := dmlx.Surgery(predictions[0], labels[0], rule)
		sum := ReduceAllSum(f)
		return Add(StopGradient(ReduceAllMean(composed.San)), Sub(sum, StopGradient(sum)))
	}
	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(3))
	trainer := train.NewTrainer(b, store, embed, loss, optimizer.Adam().LearningRate(0.05).Done(), nil, nil)
	for i := range 101 {
		values, err := trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{tensors.FromValue(features)},
			Labels: []*tensors.Tensor{tensors.FromValue(labels)}})
		if err != nil {
			log.Fatal(err)
		}
		if i%50 == 0 {
			fmt.Printf("step %3d: mean S_an %.2f\n", i, tensors.ToScalar[float32](values[0]))
		}
	}
	// Output:
	// step   0: mean S_an 0.96
	// step  50: mean S_an 0.01
	// step 100: mean S_an -0.01
}

// What a user hands over by mistake is an error that says what would be right, and a part with a name and no function
// does not become another.
func TestSurgeryBadInput(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	named := func(r dmlx.Rule) func(x, labels *Node) *Node {
		return func(x, labels *Node) *Node { f, _ := dmlx.Surgery(x, labels, r); return f }
	}
	for want, of := range map[string]func(x, labels *Node) *Node{
		"the embeddings are (Float64)[6, 4]; want float32 [B, D]: convert them": func(x, labels *Node) *Node {
			return named(dmlx.Rule{})(ConvertDType(x, dtypes.Float64), labels)
		},
		"the embeddings are (Float32)[6]": func(x, labels *Node) *Node {
			return named(dmlx.Rule{})(ReduceSum(x, 1), labels)
		},
		"the labels are (Int64)[5]": func(x, labels *Node) *Node {
			return named(dmlx.Rule{})(x, Slice(labels, AxisRange(0, 5)))
		},
		"the labels are (Int64)[3, 2]": func(x, labels *Node) *Node {
			return named(dmlx.Rule{})(x, Reshape(labels, 3, 2))
		},
		"the labels are (Float32)[6]; want the classes of the 6": func(x, labels *Node) *Node {
			return named(dmlx.Rule{})(x, ConvertDType(labels, dtypes.Float32))
		},
		`mine/con/con: the direction "mine" has no function`:  named(dmlx.Rule{Direction: dmlx.Direction{Name: "mine"}}),
		`cos/lin/con: the pair weight "lin" has no function`:  named(dmlx.Rule{Pair: dmlx.PairWeight{Name: "lin"}}),
		`cos/con/up: the triplet weight "up" has no function`: named(dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "up"}}),
		`cos/con/con+sc1: the mask "sc1" has no function`:     named(dmlx.Rule{Mask: dmlx.Mask{Name: "sc1"}}),
	} {
		exec, err := NewExec(b, of)
		if err == nil {
			_, err = exec.Call(features, labels)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %.300v", want, err)
		}
	}
}
