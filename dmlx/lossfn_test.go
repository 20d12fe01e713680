package dmlx_test

import (
	"fmt"
	"log"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"
	"github.com/gomlx/gomlx/ml/train/metric"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// A model is trained by a rule in GoMLX's own trainer. Its loss is the share of triplets in the wrong order; a metric
// watches the length of the gradient.
func ExampleLossFn() {
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	rule, err := dmlx.ParseRule("cos/lin/cir")
	if err != nil {
		log.Fatal(err)
	}
	embed := func(scope *model.Scope, x *Node) *Node { return layers.Dense(scope, x, false, 2) }
	norm := dmlx.Watch(rule, (*dmlx.Composed).GradientNorm)
	watched := metric.NewBaseMetric("Gradient norm", "|G|", "norm",
		func(_ *model.Scope, labels, predictions []*Node) *Node { return norm(labels, predictions) }, nil)

	store := model.NewStore()
	store.SetParam(model.ParamInitialSeed, int64(3))
	trainer := train.NewTrainer(b, store, embed, dmlx.LossFn(rule), optimizer.Adam().LearningRate(0.05).Done(),
		[]metric.Interface{watched}, nil)
	for i := range 101 {
		values, err := trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{tensors.FromValue(features)},
			Labels: []*tensors.Tensor{tensors.FromValue(labels)}})
		if err != nil {
			log.Fatal(err)
		}
		if i%50 == 0 { // The loss, its moving average, and the metric.
			fmt.Printf("step %3d: violations %.2f, gradient norm %.2f\n", i, tensors.ToScalar[float32](values[0]),
				tensors.ToScalar[float32](values[2]))
		}
	}
	// Output:
	// step   0: violations 1.00, gradient norm 0.11
	// step  50: violations 0.00, gradient norm 0.03
	// step 100: violations 0.00, gradient norm 0.02
}

// The loss function's gradient is the rule's, its value the share of violations, on each backend; a batch without
// triplets gives zeros.
func TestLossFn(t *testing.T) {
	rule, err := dmlx.ParseRule("cos-orth/lin-ms/cir")
	if err != nil {
		t.Fatal(err)
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		exec, err := NewExec(b, func(x, labels *Node) []*Node {
			loss := dmlx.LossFn(rule)([]*Node{labels}, []*Node{x})
			_, c := dmlx.Surgery(x, Reshape(labels, -1), rule)
			f := dmlx.Normalize(x)
			norm := dmlx.Watch(rule, (*dmlx.Composed).GradientNorm)([]*Node{labels}, []*Node{x})
			return []*Node{loss, Gradient(loss, x)[0], Gradient(ReduceAllSum(dmlx.Inject(f, c.G)), x)[0], norm, c.Sap, c.San,
				c.Triplets.Valid, c.G, f}
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, column := range []bool{false, true} {
			of := tensors.FromValue(labels)
			if column { // [B, 1], as GoMLX's data sets often have them.
				of = tensors.FromFlatDataAndDimensions(labels, len(labels), 1)
			}
			out, err := exec.Call(tensors.FromValue(features), of)
			if err != nil {
				t.Fatal(err)
			}
			floats := func(i int) []float32 { return tensors.MustCopyFlatData[float32](out[i]) }
			violated, count := 0.0, 0.0
			sap, san := floats(4), floats(5)
			for i, valid := range tensors.MustCopyFlatData[bool](out[6]) {
				if valid {
					count++
					if san[i] > sap[i] {
						violated++
					}
				}
			}
			if got := float64(floats(0)[0]); math.Abs(got-violated/count) > 1e-6 || violated == 0 {
				t.Errorf("the value is %g, want %g of %g", got, violated, count)
			}
			got, want := floats(1), floats(2)
			for i := range want { // XLA fuses the two in different ways.
				if math.Abs(float64(got[i]-want[i])) > 1e-6 {
					t.Fatalf("the gradient is %v, want %v", got, want)
				}
			}
			g, f, sphere := floats(7), floats(8), 0.0
			for i := 0; i < len(g); i += 4 {
				along, square := 0.0, 0.0
				for j := i; j < i+4; j++ {
					along += float64(g[j]) * float64(f[j])
					square += float64(g[j]) * float64(g[j])
				}
				sphere += square - along*along
			}
			if norm := float64(floats(3)[0]); math.Abs(norm-math.Sqrt(sphere)) > 1e-6 || norm == 0 {
				t.Errorf("the gradient's length is %g, want %g", norm, math.Sqrt(sphere))
			}
		}
		out, err := exec.Call(features, []int64{1, 1, 1, 1, 1, 1})
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range append(tensors.MustCopyFlatData[float32](out[1]), tensors.ToScalar[float32](out[0]),
			tensors.ToScalar[float32](out[3])) {
			if x != 0 {
				t.Errorf("a batch of one class has the value %g at %d", x, i)
			}
		}
	})
}

// What a user hands over by mistake is an error that says what would be right, from the trainer's first step.
func TestLossFnBadInput(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	rule := dmlx.Rule{}
	wide := func(scope *model.Scope, x *Node) *Node {
		return layers.Dense(scope, ConvertDType(x, dtypes.Float64), false, 2)
	}
	narrow := func(scope *model.Scope, x *Node) *Node { return layers.Dense(scope, x, false, 2) }
	sum := func(scope *model.Scope, x *Node) *Node { return ReduceSum(narrow(scope, x), 1) }
	whole := []*tensors.Tensor{tensors.FromValue(labels)}
	for want, c := range map[string]struct {
		model  func(*model.Scope, *Node) *Node
		labels []*tensors.Tensor
	}{
		"the embeddings are (Float64)[6, 2]; want float32 [B, D]: convert them": {wide, whole},
		"the embeddings are (Float32)[6]":                                       {sum, whole},
		"the labels are (Float32)[6]; want the classes of the 6 embeddings as integers, int64 [6]": {narrow,
			[]*tensors.Tensor{tensors.FromValue([]float32{0, 0, 0, 1, 1, 1})}},
		"the labels are (Int64)[5]":      {narrow, []*tensors.Tensor{tensors.FromValue(labels[:5])}},
		"the labels are (Int64)[3, 2]":   {narrow, []*tensors.Tensor{tensors.FromFlatDataAndDimensions(labels, 3, 2)}},
		"1 predictions and the data set": {narrow, append(whole, whole[0])},
	} {
		trainer := train.NewTrainer(b, model.NewStore(), c.model, dmlx.LossFn(rule), optimizer.Adam().Done(), nil, nil)
		_, err := trainer.TrainStep(train.Batch{Inputs: []*tensors.Tensor{tensors.FromValue(features)}, Labels: c.labels})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %.300v", want, err)
		}
	}
}

// Surgery alone refuses what the loss function refuses, and a part with a name and no function does not become another.
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
