package objectives_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/objectives"
)

// An objective is read as it is written.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"cos/lin/cir?tau=2": "cos/lin/cir?tau=2", "ours": "cos-orth/lin-ms/cir", "loss ms": "loss ms",
		"loss ms?beta=50, miner ms": "loss ms, miner ms", "cos/lin/cir, miner hard": "cos/lin/cir, miner hard",
		"loss triplet, miner semi-hard, pair=lin-ms": "loss triplet, miner semi-hard, pair=lin-ms",
		"loss ms,pair=[1-Sap,San],miner hard":        "loss ms, miner hard, pair=[1-Sap, San]",
	} {
		o, err := objectives.Parse(text)
		if err != nil || o.String() != want {
			t.Errorf("%s is read as %s, %v, want %s", text, o, err, want)
			continue
		}
		if again, err := objectives.Parse(o.String()); err != nil || again.String() != want {
			t.Errorf("%s is read again as %s, %v", text, again, err)
		}
	}
	for text, want := range map[string]string{"loss nix": "there are", "loss ms, ms": "neither a miner",
		"loss ms, miner x": "none of that name", "loss norm-softmax, miner ms": "miner ms", "cos/lin": "want direction",
		"loss ms, pair=x":           "no pair weight",
		"loss ms,pair=[1-Sap":       "exchange \"pair=[1-Sap\": the [ at character 6 has no ]",
		"loss ms,pair=[1-Sap, Spa]": "at character 8: no variable Spa; did you mean Sap?",
		"loss":                      "want direction", "cos/lin/cir, pair=lin": "belongs to a loss"} {
		if o, err := objectives.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is read as %s, %v, want …%s…", text, o, err, want)
		}
	}
}

// square is a loss: mean (1 − S)² of positive pairs plus mean S² of negative ones.
func square(slope float64) dmlx.LossFunc {
	return func(b *dmlx.LossBatch) *Node {
		mean := func(of, x *Node) *Node {
			of = ConvertDType(of, x.DType())
			return Div(ReduceAllSum(Mul(of, Square(x))), MaxScalar(ReduceAllSum(of), 1))
		}
		return Add(mean(b.Positive, OneMinus(b.S)), MulScalar(mean(b.Negative, b.S), slope))
	}
}

func TestLossFunctionIdentity(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, l := range []objectives.LossFunction{
		{Name: "square", Of: square(1)}, {Name: "square", Of: square(2)}, {Name: "square", Of: square(1), Proxies: 2},
	} {
		a, errA := objectives.ByLoss(l)
		b, errB := objectives.ByLoss(l)
		if err := errors.Join(errA, errB); err != nil || a.Loss != b.Loss || seen[a.Loss] ||
			!strings.HasPrefix(a.String(), "loss square#") {
			t.Errorf("%s, then %s, %v", a.Loss, b.Loss, err)
		}
		seen[a.Loss] = true
	}
	for want, l := range map[string]objectives.LossFunction{
		"must not be empty":   {Of: square(1)},
		"its function is nil": {Name: "x"},
		"not a scalar":        {Name: "x", Of: func(b *dmlx.LossBatch) *Node { return b.S }},
		"nonsense":            {Name: "x", Of: func(*dmlx.LossBatch) *Node { panic("nonsense") }},
		"want finite values":  {Name: "x", Of: func(b *dmlx.LossBatch) *Node { return ReduceAllSum(Log(Neg(Square(b.S)))) }},
		"another graph each":  {Name: "x"},
		"gradient is zero":    {Name: "x", Of: func(b *dmlx.LossBatch) *Node { return StopGradient(square(1)(b)) }},
		"of which a miner":    {Name: "x", Of: square(1), Proxies: 1, Miner: "ms"},
		"none of that name":   {Name: "x", Of: square(1), Miner: "nonsense"},
	} {
		if want == "another graph each" {
			l.Of = func(b *dmlx.LossBatch) *Node { return square(rand.Float64())(b) }
		}
		if _, err := objectives.ByLoss(l); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
	stored := objectives.Objective{Loss: "square#0123"} // As it is read from a file.
	if err := stored.Validate(); err == nil || !strings.Contains(err.Error(), "objectives.ByLoss") {
		t.Errorf("without its function: %v", err)
	}
}

func TestFirstProxies(t *testing.T) {
	t.Parallel()
	few, many := objectives.InitialProxies(3, 8, 7), objectives.InitialProxies(5, 8, 7)
	if !reflect.DeepEqual(few, many[:24]) {
		t.Error("a proxy depends on the number of proxies")
	}
	if reflect.DeepEqual(few, objectives.InitialProxies(3, 8, 8)) || reflect.DeepEqual(many[:8], many[8:16]) {
		t.Error("proxies are alike")
	}
	for i := range 5 {
		square := 0.0
		for _, v := range many[i*8 : (i+1)*8] {
			square += float64(v) * float64(v)
		}
		if math.Abs(square-1) > 1e-6 {
			t.Errorf("proxy %d is of length² %g", i, square)
		}
	}
}
