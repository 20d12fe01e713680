package dissect

import (
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
)

func TestCheckPassesThePapersRules(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(dmlx.Aliases(), "euc-orth/lin/cos+sc2?tau=4", "cos/con/con?sum") {
		c, err := Check(b, mustParse(t, name))
		if err != nil {
			t.Fatal(err)
		}
		if c.Err() != nil || len(c.Findings) < 6 || c.Scale == 0 {
			t.Errorf("%v\n%v", c.Err(), c)
		}
		if name == "cos/con/con?sum" && math.Abs(c.Scale-1) > 1e-6 {
			t.Errorf("cos/con/con is %g times as long as itself", c.Scale)
		}
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	pair := func(of func(b *dmlx.Batch) (*Node, *Node)) dmlx.Rule {
		return dmlx.Rule{Pair: dmlx.PairWeight{Name: "mine", Of: of}}
	}
	triplet := func(of func(b *dmlx.Batch) *Node) dmlx.Rule {
		return dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "mine", Of: of}}
	}
	direction := func(of func(b *dmlx.Batch) dmlx.Moves) dmlx.Rule {
		return dmlx.Rule{Direction: dmlx.Direction{Name: "mine", Of: of}}
	}
	for name, c := range map[string]struct {
		rule  dmlx.Rule
		check string
		grade Grade
		part  string
		want  string
	}{
		"panic": {triplet(func(b *dmlx.Batch) *Node { return Mul(b.Sap, b.S) }), "builds", Bad, "triplet weight mine", ""},
		"no error": {triplet(func(*dmlx.Batch) *Node { panic("not today") }), "builds", Bad, "triplet weight mine",
			"not today"},
		"shape": {pair(func(b *dmlx.Batch) (*Node, *Node) { return b.Sap, b.S }), "builds", Bad, "pair weight mine",
			"P₋ is float32 [32 32]; want one value for each triplet, float32 [32]"},
		"type": {triplet(func(b *dmlx.Batch) *Node { return GreaterThan(b.Sap, b.San) }), "builds", Bad,
			"triplet weight mine", "T is bool"},
		"nil": {pair(func(b *dmlx.Batch) (*Node, *Node) { return b.Sap, nil }), "builds", Bad, "pair weight mine",
			"P₋ is nil"},
		"one size": {triplet(func(b *dmlx.Batch) *Node { return Mul(b.Sap, Const(b.Sap.Graph(), make([]float32, 32))) }),
			"builds", Bad, "triplet weight mine", ""},
		"mask": {dmlx.Rule{Mask: dmlx.Mask{Name: "mine", Of: func(b *dmlx.Batch) *Node { return b.Sap }}}, "builds", Bad,
			"mask mine", "the mask is float32"},
		"moves": {direction(func(b *dmlx.Batch) dmlx.Moves { return dmlx.Moves{Positive: dmlx.Combination{Anchor: b.S}} }),
			"builds", Bad, "direction mine",
			"the coefficient of f_a in e_p is float32 [32 32]"},
		"NaN": {triplet(func(b *dmlx.Batch) *Node { return Sqrt(AddScalar(b.San, -2)) }), "finite", Bad,
			"triplet weight mine", "T is NaN at S_ap = "},
		"NaN of a direction": {direction(func(b *dmlx.Batch) dmlx.Moves {
			return dmlx.Moves{Positive: dmlx.Combination{Anchor: Log(AddScalar(b.San, -2))}}
		}), "finite", Bad, "direction mine",
			"though all weights are finite"},
		"negative similarity": {triplet(func(b *dmlx.Batch) *Node { return Sqrt(AddScalar(b.San, 0.9)) }), "any similarity",
			Bad, "triplet weight mine", "T is NaN at S_ap = -1, S_an = -1"},
		"coordinates": {pair(func(b *dmlx.Batch) (*Node, *Node) {
			first := Reshape(Slice(b.F, AxisRange(), AxisElem(0)), -1)
			return first, b.San
		}), "rotation", Bad, "pair weight mine", "depend on their similarities alone"},
		"large": {triplet(func(b *dmlx.Batch) *Node { return MulScalar(OnesLike(b.Sap), 500) }), "scale", Doubtful, "",
			"1e+03 times as long as that of cos/con/con: train at about 0.001 times"},
		"zero": {triplet(func(b *dmlx.Batch) *Node { return ZerosLike(b.Sap) }), "scale", Doubtful, "", "moves nothing"},
		"sign": {direction(func(b *dmlx.Batch) dmlx.Moves {
			one := OnesLike(b.Sap)
			return dmlx.Moves{Positive: dmlx.Combination{Anchor: one}, Negative: dmlx.Combination{Anchor: Neg(one)}}
		}), "sense", Doubtful, "", "is a sign wrong?"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Check(b, c.rule)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range got.Findings {
				if c.check == f.Check {
					if f.Grade != c.grade || f.Part != c.part || !strings.Contains(f.Message, c.want) ||
						strings.Contains(f.Message, "\n") {
						t.Errorf("%v; want %v: %s: %s", f, c.grade, c.part, c.want)
					}
					if (f.Part != "") != strings.HasSuffix(f.File, "check_test.go") || f.Part != "" && f.Line == 0 {
						t.Errorf("located at %s:%d", f.File, f.Line)
					}
				}
			}
			if (got.Err() != nil) != (c.grade == Bad) {
				t.Errorf("error %v", got.Err())
			}
			if !strings.Contains(got.String(), "\n"+c.check+": ") {
				t.Errorf("no finding of %s: %v", c.check, got)
			}
		})
	}
	if _, err := Check(nil, dmlx.Rule{}); err == nil {
		t.Error("no backend")
	}
}

// Tracing changes nothing about a rule.
func TestTraced(t *testing.T) {
	r := dmlx.Rule{Direction: dmlx.DirectionCosOrth, Pair: dmlx.PairWeight{Name: "square",
		Of: func(b *dmlx.Batch) (*Node, *Node) {
			return Square(OneMinus(b.Sap)), Square(b.San)
		}}, Options: dmlx.Options{Tau: new(2.0)}}
	id, err := IdentityOf(r)
	if err != nil {
		t.Fatal(err)
	}
	if traced, err := IdentityOf(r.Traced()); err != nil || traced != id {
		t.Errorf("%s, %v; want %s", traced, err, id)
	}
	if name := mustParse(t, "ours").Traced(); name.Custom() || name.Name() != "cos-orth/lin-ms/cir" {
		t.Errorf("the paper's rule becomes %v", name)
	}
}
