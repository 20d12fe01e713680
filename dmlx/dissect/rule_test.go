package dissect

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
)

// random is a batch of classes of unequal size with similarities of all kinds.
func random(n, dim, classes int, seed uint64) Embeddings {
	rng := rand.New(rand.NewPCG(seed, 1))
	e := Embeddings{Values: make([]float32, n*dim), N: n, Dim: dim, Labels: make([]int64, n)}
	centers := make([]float64, classes*dim)
	for i := range centers {
		centers[i] = rng.NormFloat64()
	}
	for i := range n {
		c := rng.IntN(classes)
		e.Labels[i] = int64(c*7 - 3)
		for j := range dim {
			e.Values[i*dim+j] = float32(2*rng.Float64()+0.5) * float32(0.7*centers[c*dim+j]+0.6*rng.NormFloat64())
		}
	}
	return e
}

func circleBatch(labels []int64, degrees ...float64) Embeddings {
	e := Embeddings{N: len(degrees), Dim: 2, Labels: labels}
	for _, d := range degrees {
		e.Values = append(e.Values, float32(math.Cos(d*math.Pi/180)), float32(math.Sin(d*math.Pi/180)))
	}
	return e
}

func mustParse(t *testing.T, name string) dmlx.Rule {
	t.Helper()
	r, err := dmlx.ParseRule(name)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(t *testing.T, what string, got []float32, want []vec, tolerance float64) {
	t.Helper()
	scale := 0.0
	for _, row := range want {
		for _, v := range row {
			scale = max(scale, math.Abs(v))
		}
	}
	i := 0
	for r, row := range want {
		for c, v := range row {
			if d := math.Abs(float64(got[i]) - v); !(d <= tolerance*max(scale, 1e-3)) {
				t.Fatalf("%s: row %d column %d is %g, the reference has %g (largest %g)", what, r, c, got[i], v, scale)
			}
			i++
		}
	}
}

func TestEveryRuleAgreesWithTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	rules := dmlx.Rules()
	plain := len(rules)
	for _, extra := range []string{"euc/lin/con+sc1", "euc-orth/sig/cir+sc2-printed?tau=3",
		"cos-orth/lin-ms/cir?keep-length&sum",
		"euc-orth/sig-ms/cos?negative-only&alpha=1.5&beta=20&lambda=0.25&epsilon=0.3", "cos/euc/con?skip-duplicates"} {
		rules = append(rules, mustParse(t, extra))
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := random(14, 6, 4, 3)
		// Many rules in a graph: XLA takes as long for each alone, and longer for all in one.
		for first := 0; first < len(rules); first += 24 {
			some := rules[first:min(first+24, len(rules))]
			out, err := runOn(b, e, func(x, labels *Node) (out []*Node) {
				f := dmlx.Normalize(x)
				for _, r := range some {
					out = append(out, dmlx.Compose(dmlx.NewBatch(f, labels, r.Options), r).G)
				}
				return out
			})
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range some {
				near(t, r.Name()+" at f", tensors.MustCopyFlatData[float32](out[i]), referenceOf(e, r).g, 2e-5)
			}
		}
		some := rules[plain-2:] // The op; whatever gradient comes in, here 3, is replaced.
		out, err := runOn(b, e, func(x, labels *Node) (out []*Node) {
			for _, r := range some {
				s, _ := dmlx.Surgery(x, labels, r)
				out = append(out, Gradient(ReduceAllSum(MulScalar(s, 3)), x)[0])
			}
			return out
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range some {
			near(t, r.Name()+" at the raw embeddings", tensors.MustCopyFlatData[float32](out[i]), referenceOf(e, r).raw(e), 2e-5)
		}
	})
}

func TestDissectAgreesWithTheReference(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := random(30, 8, 9, 5) // With classes of one image.
		for _, name := range []string{"ours", "euc-orth/sig-ms/cir+sc2"} {
			r := mustParse(t, name)
			d, err := Rule(b, e, r)
			if err != nil {
				t.Fatal(err)
			}
			want := referenceOf(e, r)
			near(t, name, d.G, want.g, 2e-5)
			near(t, name+" raw", d.Raw, want.raw(e), 2e-5)
			if len(d.Triplets) != len(want.triplets) {
				t.Fatalf("%d triplets, want %d", len(d.Triplets), len(want.triplets))
			}
			for i, got := range d.Triplets {
				w := want.triplets[i]
				if got.Anchor != w.Anchor || got.Positive != w.Positive || got.Negative != w.Negative {
					t.Errorf("triplet %d: %+v, want %+v", i, got, w)
				}
				for k, pair := range [][2]float32{{got.Sap, w.Sap}, {got.San, w.San}, {got.PairPositive, w.PairPositive},
					{got.PairNegative, w.PairNegative}, {got.Weight, w.Weight}} {
					if math.Abs(float64(pair[0]-pair[1])) > 1e-5*max(1, math.Abs(float64(pair[1]))) {
						t.Errorf("triplet %d value %d: %g, want %g", i, k, pair[0], pair[1])
					}
				}
			}
			// G = M F.
			product := make([]vec, e.N)
			for i := range product {
				product[i] = make(vec, e.Dim)
				for j := range e.N {
					for k := range e.Dim {
						product[i][k] += float64(d.M[i*e.N+j]) * float64(d.F[j*e.Dim+k])
					}
				}
			}
			near(t, name+": G against M F", d.G, product, 1e-5)
		}
	})
}

// On the circle a reader can check by eye: a at 0°, p at 60°, n at 90°.
func TestUnitCircleByHand(t *testing.T) {
	h := math.Sqrt(3) / 2
	r2 := math.Sqrt(0.5)
	for _, c := range []struct {
		rule    string
		a, p, n vec
	}{
		// T = ½. e_p = −f_a, e_n = f_a, e_a = −f_p + f_n.
		{"cos/con/con", vec{-0.25, (1 - h) / 2}, vec{-0.5, 0}, vec{0.5, 0}},
		// f_p−f_a has length 1; f_a−f_n has length √2.
		{"euc/con/con", vec{0.25 - r2/2, -h/2 + r2/2}, vec{-0.25, h / 2}, vec{r2 / 2, -r2 / 2}},
		// P₊ = 1−½, P₋ = 0.
		{"cos/lin/con", vec{-0.125, -h / 4}, vec{-0.25, 0}, vec{0, 0}},
		// e_n along f_a+f_p, at 30°. e_an is the part of f_n at 90° along the same line.
		{"cos-orth/con/con", vec{-0.25 + h/2, -h/2 + 0.25}, vec{-0.5, 0}, vec{h / 2, 0.25}},
		// e_n: f_a−f_n at −45° on the line at 30° points to 30°; e_an is its opposite.
		{"euc-orth/con/con", vec{0.25 - h/2, -h/2 - 0.25}, vec{-0.25, h / 2}, vec{h / 2, 0.25}},
		// P₊ = 1, P₋ = √2 undo the lengths.
		{"euc/euc/con", vec{0.25 - 0.5, -h/2 + 0.5}, vec{-0.25, h / 2}, vec{0.5, -0.5}},
	} {
		e := circleBatch([]int64{0, 0, 1}, 0, 60, 90)
		e.Triplets = []Triplet{{Anchor: 0, Positive: 1, Negative: 2}}
		backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
			d, err := Rule(b, e, mustParse(t, c.rule))
			if err != nil {
				t.Fatal(err)
			}
			near(t, c.rule, d.G, []vec{c.a, c.p, c.n}, 1e-6)
		})
	}
}

func TestWeightsByHand(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	for _, c := range []struct {
		rule          string
		sap, san      float32
		pos, neg, tri float64
	}{
		{"cos/con/con", 0.3, 0.8, 1, 1, 0.5},
		{"cos/euc/con", 0.5, -1, 1, 2, 0.5},
		{"cos/lin/cos", 0.75, 0.25, 0.25, 0.25, sigmoid(-0.5)},
		{"cos/lin/cos?tau=4", 0.75, 0.25, 0.25, 0.25, sigmoid(-2)},
		{"cos/lin-ms/cir", 0.5, 0.5, 0.5, 0.5, sigmoid(-0.5)}, // No others: m = 0.
		{"cos/sig/con", 0.5, 0.5, 0.5, 0.5, 0.5},              // At λ.
		{"cos/sig-ms/con", 1, 0, sigmoid(-1), sigmoid(-5), 0.5},
		{"cos/con/cos+sc1", 0.4, 0.5, 0, 1, sigmoid(0.1)},
		{"cos/con/cos+sc1", 0.5, 0.5, 1, 1, 0.5}, // The inequality is strict.
		{"cos/con/cir+sc2", 0.5, 0.5, 1, 1, sigmoid(-0.5)},
		{"cos/con/cir+sc2", 0.25, 0.5, 0, 1, sigmoid(-0.1875)}, // 0.25·1.75 − 0.25 = 0.1875 < 0.5: masked.
		{"cos/con/cir+sc2-printed", 0.25, 0.5, 1, 1, sigmoid(-0.1875)},
		{"cos/con/cir+sc2-printed", 1, 0, 0, 1, sigmoid(-1)},
	} {
		p, n, tr, err := Weights(b, mustParse(t, c.rule), []float32{c.sap}, []float32{c.san})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range [][2]float64{{float64(p[0]), c.pos}, {float64(n[0]), c.neg}, {float64(tr[0]), c.tri}} {
			if math.Abs(v[0]-v[1]) > 1e-6 {
				t.Errorf("%s at S_ap=%g S_an=%g: value %d is %g, want %g", c.rule, c.sap, c.san, i, v[0], v[1])
			}
		}
	}
}

func TestMining(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	triplets := func(d *Dissection) (out [][3]int) {
		for _, t := range d.Triplets {
			out = append(out, [3]int{t.Anchor, t.Positive, t.Negative})
		}
		return out
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for _, c := range []struct {
			name string
			e    Embeddings
			rule string
			want [][3]int
		}{
			{"easy positive, hard negative", circleBatch([]int64{1, 1, 1, 2, 2}, 0, 10, 40, 50, 70), "cos/con/con",
				[][3]int{{0, 1, 3}, {1, 0, 3}, {2, 1, 3}, {3, 4, 2}, {4, 3, 2}}},
			{"exact ties take the lowest index", circleBatch([]int64{1, 1, 1, 2, 2}, 0, 20, 20, 90, 90), "cos/con/con",
				[][3]int{{0, 1, 3}, {1, 2, 3}, {2, 1, 3}, {3, 4, 1}, {4, 3, 1}}},
			{"an anchor without a positive is skipped", circleBatch([]int64{1, 1, 2}, 0, 20, 40), "cos/con/con",
				[][3]int{{0, 1, 2}, {1, 0, 2}}},
			{"duplicates are positives", circleBatch([]int64{1, 1, 1, 2}, 0, 0, 30, 90), "cos/con/con",
				[][3]int{{0, 1, 3}, {1, 0, 3}, {2, 0, 3}}},
			{"duplicates can be skipped", circleBatch([]int64{1, 1, 1, 2}, 0, 0, 30, 90), "cos/con/con?skip-duplicates",
				[][3]int{{0, 2, 3}, {1, 2, 3}, {2, 0, 3}}},
			{"one class", circleBatch([]int64{1, 1, 1}, 0, 20, 40), "ours", nil},
			{"one image a class", circleBatch([]int64{1, 2, 3}, 0, 20, 40), "euc-orth/sig-ms/cir+sc2", nil},
			{"one image", circleBatch([]int64{1}, 0), "ours", nil},
		} {
			d, err := Rule(b, c.e, mustParse(t, c.rule))
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if got := triplets(d); !slices.Equal(got, c.want) {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
			if c.want == nil && slices.ContainsFunc(append(slices.Clone(d.G), d.Raw...),
				func(v float32) bool { return v != 0 }) {
				t.Errorf("%s: the gradient is not zero", c.name)
			}
		}
	})
}

func TestDegenerateTripletsStayFinite(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	for name, degrees := range map[string][]float64{
		"anchor is the positive":          {10, 10, 80, 170},
		"anchor is the negative":          {10, 40, 10, 170},
		"positive is the negative":        {10, 40, 40, 170},
		"all are one":                     {10, 10, 10, 10},
		"positive opposite":               {0, 180, 90, 91},
		"negative on the line of a and p": {0, 60, 120, 300},
	} {
		e := circleBatch([]int64{0, 0, 1, 1}, degrees...)
		backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
			for _, r := range []string{"euc/con/con", "euc-orth/con/con", "cos-orth/lin-ms/cir", "cos-orth/con/con"} {
				rule := mustParse(t, r)
				d, err := Rule(b, e, rule)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				// The reference has the same rule for what vanishes; cancellation in float32 asks for its own triplets.
				ref := e
				ref.Triplets = d.Triplets
				near(t, name+" "+r, d.G, referenceOf(ref, rule).g, 1e-4)
			}
		})
	}
	// A zero embedding has no direction: no gradient goes through its normalization.
	e := circleBatch([]int64{0, 0, 1, 1}, 0, 30, 60, 90)
	e.Values[0], e.Values[1] = 0, 0
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		d, err := Rule(b, e, mustParse(t, "euc-orth/sig-ms/cir"))
		if err != nil {
			t.Fatal(err)
		}
		if d.Raw[0] != 0 || d.Raw[1] != 0 {
			t.Errorf("a zero embedding got the gradient %v", d.Raw[:2])
		}
		if left := d.Residual(); left > 1e-6 {
			t.Errorf("G is not M f: %g is left", left)
		}
		d.G[3] += 0.25
		if left := d.Residual(); math.Abs(left-0.25) > 1e-6 {
			t.Errorf("G is 0.25 off; %g is left", left)
		}
	})
}

func TestLossesAgreeWithTheirRules(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for i, l := range dmlx.Losses {
			for j, o := range []dmlx.Options{{}, {Tau: new(3.0), Alpha: new(1.0), Beta: new(6.0), Lambda: new(0.25)}} {
				if j > 0 && !backendtest.IsGo(b) {
					continue // Compiling is the time of this test; once for each loss will do.
				}
				a, err := Compare(b, random(24, 8, 5, uint64(i)), l, o)
				if err != nil {
					t.Fatal(err)
				}
				want := l.Constant(o)
				switch {
				case want == 0 && a.Error < 0.02:
					t.Errorf("%s (%s) is said not to agree with its rule, but does: %+v", l.Name, l.Text, a)
				case want != 0 && (a.Error > 1e-4 || math.Abs(a.Constant/want-1) > 1e-4):
					t.Errorf("%s (%s): %+v, want the constant %g", l.Name, l.Text, a, want)
				}
				orthogonal := strings.Contains(l.Rule(o).Name(), "orth")
				if symmetric := a.Skew < 1e-5; symmetric == orthogonal && l.Name != "triplet-euc" {
					t.Errorf("%s: M has skew %g", l.Name, a.Skew)
				}
			}
		}
	})
}

// The losses' autodiff is itself held against finite differences.
func TestLossesByFiniteDifferences(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	e := random(10, 4, 3, 8)
	for _, l := range dmlx.Losses {
		if strings.Contains(l.Text, "held fixed") || l.Name == "table1-dr-ms" {
			continue // Their value says nothing about their gradient.
		}
		at := func(values []float32) (loss float32, gradient []float32) {
			moved := e
			moved.Values = values
			// The triplets and sets of the batch as it was.
			out, err := runOn(b, moved, func(x, labels *Node) []*Node {
				fixed := dmlx.NewBatch(dmlx.Normalize(Const(x.Graph(), tensors.FromFlatDataAndDimensions(e.Values, e.N, e.Dim))),
					labels, dmlx.Options{})
				f := dmlx.Normalize(x)
				loss := l.Of(fixed, f, MatMul(f, Transpose(f, 0, 1)))
				return []*Node{loss, Gradient(loss, x)[0]}
			})
			if err != nil {
				t.Fatal(err)
			}
			return tensors.ToScalar[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])
		}
		_, gradient := at(e.Values)
		const h = 5e-3
		for _, i := range []int{0, 7, 18, 33} {
			up, down := slices.Clone(e.Values), slices.Clone(e.Values)
			up[i] += h
			down[i] -= h
			high, _ := at(up)
			low, _ := at(down)
			if want := (high - low) / (2 * h); math.Abs(float64(gradient[i]-want)) > 2e-3 {
				t.Errorf("%s (%s): derivative %d is %g, by differences %g", l.Name, l.Text, i, gradient[i], want)
			}
		}
	}
}

func TestLossMatrix(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := random(12, 5, 3, 2)
		out, err := runOn(b, e, func(x, labels *Node) []*Node {
			f := dmlx.Normalize(x)
			batch := dmlx.NewBatch(f, labels, dmlx.Options{})
			s := MatMul(f, Transpose(f, 0, 1))
			published := slices.IndexFunc(dmlx.Losses, func(l dmlx.Loss) bool { return l.Name == "table1-ms-published" })
			loss := dmlx.Losses[published].Of(batch, f, s)
			return []*Node{MatMul(dmlx.LossMatrix(loss, s), f), Gradient(loss, f)[0]}
		})
		if err != nil {
			t.Fatal(err)
		}
		mf, direct := tensors.MustCopyFlatData[float32](out[0]), tensors.MustCopyFlatData[float32](out[1])
		for i := range mf {
			if math.Abs(float64(mf[i]-direct[i])) > 1e-5 {
				t.Fatalf("value %d: M f has %g, autodiff %g", i, mf[i], direct[i])
			}
		}
	})
}

func custom(power float64) dmlx.Rule {
	return dmlx.Rule{Pair: dmlx.PairWeight{Name: "power", Of: func(b *dmlx.Batch) (*Node, *Node) {
		return PowScalar(OneMinus(b.Sap), power), b.San
	}}}
}

func TestOwnRules(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := random(12, 4, 3, 9)
		d, err := Rule(b, e, custom(1))
		if err != nil {
			t.Fatal(err)
		}
		near(t, "an own P^lin", d.G, referenceOf(e, mustParse(t, "cos/lin/con")).g, 1e-5)
	})
	first, err := IdentityOf(custom(1))
	if err != nil {
		t.Fatal(err)
	}
	again, _ := IdentityOf(custom(1))
	edited, _ := IdentityOf(custom(2))
	// A digest that runs have been stored under.
	r := dmlx.Rule{Direction: dmlx.DirectionCosOrth, Pair: dmlx.PairWeight{Name: "square",
		Of: func(b *dmlx.Batch) (*Node, *Node) {
			return Square(OneMinus(b.Sap)), Square(b.San)
		}}, Options: dmlx.Options{Tau: new(2.0)}}
	mask := dmlx.Rule{Direction: dmlx.DirectionEuc, Mask: dmlx.Mask{Of: func(b *dmlx.Batch) *Node {
		return GreaterThan(b.Dap(), b.Dan())
	}}}
	for want, r := range map[string]dmlx.Rule{"cos-orth/square/con?tau=2#720cbeaf9ca6": r,
		"euc/con/con+custom#caf337914cc8": mask} {
		if got, err := IdentityOf(r); err != nil || got != want {
			t.Errorf("identity %s, %v; want %s", got, err, want)
		}
	}
	if first != again || first == edited || !strings.HasPrefix(first, "cos/power/con#") {
		t.Errorf("identities %s, %s and, edited, %s", first, again, edited)
	}
	if got, _ := IdentityOf(mustParse(t, "ours")); got != "cos-orth/lin-ms/cir" {
		t.Errorf("the paper's rule is %s", got)
	}
}

func TestBadInput(t *testing.T) {
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	good := random(6, 3, 2, 1)
	with := func(change func(*Embeddings)) Embeddings {
		e := good
		e.Values, e.Labels = slices.Clone(good.Values), slices.Clone(good.Labels)
		change(&e)
		return e
	}
	failing := func(of func(b *dmlx.Batch) *Node) dmlx.Rule {
		return dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "mine", Of: of}}
	}
	for _, c := range []struct {
		want string
		e    Embeddings
		r    dmlx.Rule
	}{
		{"row 2, column 1 is NaN", with(func(e *Embeddings) { e.Values[7] = float32(math.NaN()) }), dmlx.Rule{}},
		{"row 0, column 0 is +Inf", with(func(e *Embeddings) { e.Values[0] = float32(math.Inf(1)) }), dmlx.Rule{}},
		{"row 1 has the length", with(func(e *Embeddings) { e.Values[3] = 1e30 }), dmlx.Rule{}},
		{"as many labels", with(func(e *Embeddings) { e.Labels = e.Labels[:5] }), dmlx.Rule{}},
		{"needs 18 values", with(func(e *Embeddings) { e.Values = e.Values[:17] }), dmlx.Rule{}},
		{"at least one row", Embeddings{}, dmlx.Rule{}},
		{"outside the batch", with(func(e *Embeddings) { e.Triplets = []Triplet{{Positive: 1, Negative: 6}} }), dmlx.Rule{}},
		{"cos/con/mine", good, failing(func(b *dmlx.Batch) *Node { return Reshape(b.Sap, 3, 2) })},
		{"oh no", good, failing(func(b *dmlx.Batch) *Node { panic("oh no") })},
		{"not finite", good, failing(func(b *dmlx.Batch) *Node { return Div(b.Sap, ZerosLike(b.Sap)) })},
	} {
		if _, err := Rule(b, c.e, c.r); err == nil {
			t.Errorf("no error that says %q", c.want)
		} else if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("unclear: %v: does not say %q", err, c.want)
		}
	}
	_, err = runOn(b, good, func(x, labels *Node) []*Node {
		return []*Node{dmlx.Compose(dmlx.NewBatch(dmlx.Normalize(x), labels, dmlx.Options{}),
			mustParse(t, "cos/con/con?skip-duplicates")).G}
	})
	if err == nil || !strings.Contains(err.Error(), "SkipDuplicates is true, and the batch was mined with false") {
		t.Errorf("mined with other options: %v", err)
	}
	scalar := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "mine",
		Of: func(b *dmlx.Batch) *Node { return ReduceAllMax(b.Sap) }}}
	if _, _, _, err := Weights(b, scalar, []float32{1, 0}, []float32{0, 0}); err == nil ||
		!strings.Contains(err.Error(), "triplet weight mine: T is float32 []; want one value for each triplet, float32 [2]") {
		t.Error(err)
	}
	panics := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "mine",
		Of: func(b *dmlx.Batch) *Node { return Sub(b.San, b.F) }}}
	var part *dmlx.PartError
	if _, _, _, err := Weights(b, panics, []float32{1, 0}, []float32{0, 0}); !errors.As(err, &part) ||
		!strings.Contains(part.What, "Node is nil") {
		t.Error(err)
	} else if file, line := part.Source(); filepath.Base(file) != "rule_test.go" || line == 0 {
		t.Errorf("located at %s, line %d", file, line)
	}
	if _, err := dmlx.ParseRule("cos/con/con?tau=2&tau=3"); err == nil ||
		!strings.Contains(err.Error(), "option tau is given twice") {
		t.Error(err)
	}
	if _, _, _, err := Weights(b, dmlx.Rule{}, []float32{1}, nil); err == nil {
		t.Error("similarities of unequal number are taken")
	}
}
