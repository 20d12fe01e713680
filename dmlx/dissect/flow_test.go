package dissect

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// flowOf begins a flow of a rule by its options.
func flowOf(b compute.Backend, e Embeddings, r dmlx.Rule) (*Flow, error) {
	return Compile(b, r).Flow(e, r.Options)
}

// One step of a flow by hand: f − rate·T·P·e, normalized; see TestUnitCircleByHand.
func TestFlowStepByHand(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		// Each class has its pair, so that every image is an anchor; e_p = −f_a, e_n = f_a, T = ½.
		e := circleBatch([]int64{0, 0, 1, 1}, 0, 60, 150, 200)
		f, err := flowOf(b, e, dmlx.Rule{})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const rate = 0.1
		want := make([]vec, 4)
		r := referenceOf(e, dmlx.Rule{Options: dmlx.Options{Sum: true}})
		for i := range want {
			g := r.g[i].add(-r.g[i].dot(r.f[i]), r.f[i]) // Its part along the circle: rows have length 1.
			want[i] = r.f[i].add(-rate, g).unit(0)
		}
		if err := f.Advance(1, rate); err != nil {
			t.Fatal(err)
		}
		s := f.State()
		near(t, "one step", s.F, want, 1e-6)
		if s.Step != 1 || s.Triplets != 4 || s.Sap <= math.Cos(math.Pi/3) {
			t.Errorf("%+v", s)
		}
	})
}

func TestFlowSeparatesClasses(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		f, err := flowOf(b, random(24, 3, 4, 1), mustParse(t, "cos/lin/cir"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		first := f.State()
		if err := f.Advance(200, 0.05); err != nil {
			t.Fatal(err)
		}
		last := f.State()
		if last.Step != 200 || last.Sap <= first.Sap || last.San >= first.San || last.Violations > first.Violations {
			t.Errorf("from %+v to %+v", first, last)
		}
	})
}

func TestFlowBadInput(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		fails := func(what string, e Embeddings, r dmlx.Rule, want string) {
			t.Helper()
			f, err := flowOf(b, e, r)
			if err == nil {
				err = f.Advance(3, 0.1)
				f.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %q", what, err, want)
			}
		}
		e := random(8, 3, 2, 1)
		zero := e
		zero.Values = append([]float32{0, 0, 0}, e.Values[3:]...)
		fails("a row of length zero", zero, dmlx.Rule{}, "embedding 0 would not be of length 1")
		given := e
		given.Triplets = []Triplet{{Anchor: 0, Positive: 1, Negative: 2}}
		fails("given triplets", given, dmlx.Rule{}, "triplets are given")
		fails("no rows", Embeddings{}, dmlx.Rule{}, "want at least one row")
		nan := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "nan", Of: func(b *dmlx.Batch) *Node {
			return Sqrt(MulScalar(OnesLike(b.Sap), -1))
		}}}
		fails("NaN", e, nan, "step 1: embedding 0 would not be of length 1 but NaN")
		fails("a part that panics", e, dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "p",
			Of: func(b *dmlx.Batch) *Node { panic("not today") }}}, "not today")

		f, err := flowOf(b, e, nan)
		if err != nil {
			t.Fatal(err)
		}
		before := f.State()
		if err := f.Advance(1, math.NaN()); err == nil {
			t.Error("a rate of NaN")
		}
		if err := f.Advance(1, 0.1); err == nil {
			t.Error("a step to NaN")
		}
		if after := f.State(); after.Step != 0 || after.F[0] != before.F[0] {
			t.Error("a step that failed has moved something")
		}
		f.Close()
		if err := f.Advance(1, 0.1); err == nil {
			t.Error("a closed flow flows")
		}
	})
}

// One step of a flow of a loss, embeddings and proxies, against the gradient that Loss gives.
func TestLossFlowStep(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e, p := proxied(12, 4, 3, 0, 1, 3)
		proxies := func(b *dmlx.LossBatch) *Node { return Add(softLoss(b), proxyLoss(b)) }
		for _, k := range []struct {
			p    Proxies
			loss dmlx.LossFunc
		}{{Proxies{}, softLoss}, {p, proxies}} {
			l := CompileLoss(b, k.loss)
			f, err := l.Flow(e, k.p)
			if err != nil {
				t.Fatal(err)
			}
			at := f.State()
			unit, unitP := e, k.p
			unit.Values, unitP.Values = at.F, at.P
			d, err := l.Loss(unit, unitP)
			if err != nil {
				t.Fatal(err)
			}
			const rate = 0.05
			rows := append(at.F, at.P...)
			var want []vec
			for i := 0; i < len(rows); i += e.Dim {
				x := vec(float64s(rows[i : i+e.Dim]))
				want = append(want, x.add(-rate*float64(e.N), float64s(d.Raw[i:i+e.Dim])).unit(0))
			}
			if err := f.Advance(1, rate); err != nil {
				t.Fatal(err)
			}
			after := f.State()
			near(t, "a step of a loss", append(after.F, after.P...), want, 1e-6)
			before := d.Value
			unit.Values, unitP.Values = after.F, after.P
			if d, err = l.Loss(unit, unitP); err != nil || d.Value >= before {
				t.Errorf("the loss goes from %v to %v, %v", before, d.Value, err)
			}
			f.Close()
			l.Close()
		}
	})
}
