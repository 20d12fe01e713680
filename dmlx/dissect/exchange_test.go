package dissect

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// ephnTripletCos is the mean of the loss of T^cos over the triplets that rules mine.
func ephnTripletCos(b *dmlx.LossBatch) *Node {
	mined := miners.Extreme{Positive: miners.Easy, Negative: miners.Hard}.Mine(b)
	t := mined.Triplets
	at := func(other *Node) *Node { return Gather(b.S, Stack([]*Node{t.Anchor, other}, 1)) }
	valid := ConvertDType(t.Valid, b.S.DType())
	return Div(ReduceAllSum(Mul(valid, Softplus(Sub(at(t.Negative), at(t.Positive))))),
		Max(ReduceAllSum(valid), OnesLike(ReduceAllSum(valid))))
}

// ownProxies is a cross entropy of embeddings with proxies, anchoredByProxies one of proxies with embeddings, in which
// proxies without an embedding push alone.
func ownProxies(b *dmlx.LossBatch) *Node {
	e := Exp(MulScalar(b.SP, 3))
	own := ReduceSum(Where(b.Own, e, ZerosLike(e)), 1)
	return ReduceAllSum(Sub(Log(ReduceSum(e, 1)), Log(own)))
}

func anchoredByProxies(b *dmlx.LossBatch) *Node {
	own := Transpose(b.Own, 0, 1)
	pull, push := Exp(MulScalar(b.PS, -4)), Exp(MulScalar(b.PS, 4))
	return ReduceAllSum(Add(Log1P(ReduceSum(Where(own, pull, ZerosLike(pull)), 1)),
		Log1P(ReduceSum(Where(own, ZerosLike(push), push), 1))))
}

// wrongSigns pushes some positives and pulls some negatives.
func wrongSigns(b *dmlx.LossBatch) *Node {
	x := Square(AddScalar(b.S, -0.3))
	return Sub(ReduceAllSum(Where(b.Negative, x, ZerosLike(x))),
		ReduceAllSum(Where(b.Positive, Square(AddScalar(b.S, 0.1)), ZerosLike(x))))
}

// exchanges of the tests: each part alone, and together.
var testExchanges = []string{"", "direction=cos", "direction=euc", "direction=euc-orth", "direction=cos-orth",
	"pair=con", "pair=euc", "pair=lin",
	"pair=lin-ms", "pair=sig", "pair=sig-ms", "triplet=con", "triplet=cos", "triplet=cir",
	"direction=euc-orth&pair=lin&triplet=cos",
	"direction=cos-orth&pair=lin-ms&triplet=cir"}

// some are those of the test's exchanges that a backend tries: all on Go's, one elsewhere, since each graph compiles
// for seconds.
func some(b compute.Backend) []string {
	if backendtest.IsGo(b) {
		return testExchanges
	}
	return testExchanges[len(testExchanges)-1:]
}

func parseExchange(t *testing.T, text string) dmlx.Exchange {
	t.Helper()
	x, err := dmlx.ParseExchange(text)
	if err != nil {
		t.Fatal(err)
	}
	if x.String() != text {
		t.Errorf("%q is written as %q", text, x)
	}
	return x
}

// A loss of one triplet an anchor with P^con turns into the rule that has the other part.
func TestExchangedTripletLossIsTheRule(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := random(24, 6, 5, 31)
		weightOf := func(rule string) float64 { // The sum of T over triplets.
			d, err := Rule(b, e, mustParse(t, rule))
			if err != nil {
				t.Fatal(err)
			}
			total := 0.0
			for _, x := range d.Triplets {
				total += float64(x.Weight)
			}
			return total
		}
		for _, text := range some(b) {
			x := parseExchange(t, text)
			x.PerAnchor = 1
			rule := dmlx.Rule{Direction: x.Direction, Pair: x.Pair, Triplet: dmlx.TripletCos}
			scale := 1.0
			if x.Triplet.Of != nil {
				rule.Triplet = x.Triplet
				scale = weightOf("cos/con/cos") / weightOf("cos/con/"+x.Triplet.Name) // κ
			}
			want, err := Rule(b, e, rule)
			if err != nil {
				t.Fatal(err)
			}
			g, raw, err := Exchanged(b, e, Proxies{}, ephnTripletCos, x)
			if err != nil {
				t.Fatal(err)
			}
			rows := func(x []float32) []vec {
				var out []vec
				for i := 0; i < len(x); i += e.Dim {
					out = append(out, scaledVec(float64s(x[i:i+e.Dim]), scale))
				}
				return out
			}
			near(t, text+": gradient for "+rule.Name(), g, rows(want.G), 2e-5)
			near(t, text+": raw gradient for "+rule.Name(), raw, rows(want.Raw), 2e-5)
		}
	})
}

// The sums of Eq. 12 are of exp(β(S−R)): no β that a rule takes is too large for them.
func TestExchangeWithSteepSigmoids(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e, steep := random(24, 6, 5, 31), 300.0
		x := parseExchange(t, "pair=sig-ms")
		x.PerAnchor = 1
		x.Options.Alpha, x.Options.Beta = &steep, &steep
		want, err := Rule(b, e, dmlx.Rule{Pair: x.Pair, Triplet: dmlx.TripletCos, Options: x.Options})
		if err != nil {
			t.Fatal(err)
		}
		g, _, err := Exchanged(b, e, Proxies{}, ephnTripletCos, x)
		if err != nil {
			t.Fatal(err)
		}
		var rows []vec
		for i := 0; i < len(want.G); i += e.Dim {
			rows = append(rows, float64s(want.G[i:i+e.Dim]))
		}
		near(t, "gradient", g, rows, 1e-4)
	})
}

func scaledVec(x []float64, k float64) vec {
	out := make(vec, len(x))
	for i, v := range x {
		out[i] = k * v
	}
	return out
}

// With nothing exchanged it is the loss's own gradient, put together from its parts.
func TestNothingExchanged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e, p := proxied(20, 6, 6, 4, 2, 32)
		for name, loss := range exchangeLosses {
			d, err := Loss(b, e, p, loss.of)
			if err != nil {
				t.Fatal(err)
			}
			var want []vec
			for i := range d.Labels {
				want = append(want, float64s(d.G[i*d.Dim:(i+1)*d.Dim]))
			}
			if len(some(b)) < len(testExchanges) && name != "everything at once" {
				continue
			}
			for _, text := range []string{"", "direction=cos"} {
				g, _, err := Exchanged(b, e, p, loss.of, parseExchange(t, text))
				if err != nil {
					t.Fatal(err)
				}
				near(t, name+" "+text, g, want, 1e-5)
			}
		}
	})
}

// proxied is a batch with perClass proxies for each of its classes and, behind them, of classes that it has no image
// of.
func proxied(n, dim, classes, more, perClass int, seed uint64) (Embeddings, Proxies) {
	e := random(n, dim, classes, seed)
	var labels []int64
	for _, l := range e.Labels {
		if !slices.Contains(labels, l) {
			labels = append(labels, l)
		}
	}
	for i := range more {
		labels = append(labels, int64(1000+i))
	}
	q := random(len(labels)*perClass, dim, classes, seed+1)
	p := Proxies{Values: q.Values, N: q.N, Dim: dim}
	for i := range q.N {
		p.Classes = append(p.Classes, labels[i/perClass])
	}
	return e, p
}

// exchangeLosses with what their rows of W are over: embeddings and proxies, for anchors that are embeddings and
// proxies.
var exchangeLosses = map[string]struct {
	of                           dmlx.LossFunc
	ee, ep, pe, pp, needsProxies bool
}{
	"pairs":              {of: softLoss, ee: true},
	"wrong signs":        {of: wrongSigns, ee: true},
	"own proxies":        {of: ownProxies, ep: true},
	"proxies as anchors": {of: anchoredByProxies, pe: true},
	"everything at once": {of: func(b *dmlx.LossBatch) *Node { return Add(softLoss(b), proxyLoss(b)) }, ee: true,
		ep: true, pe: true, pp: true},
	"proxies as both": {of: func(b *dmlx.LossBatch) *Node { return Add(anchoredByProxies(b), ownProxies(b)) },
		ep: true, pe: true},
	"pairs beside proxies": {of: func(b *dmlx.LossBatch) *Node { return Add(softLoss(b), anchoredByProxies(b)) },
		ee: true, pe: true},
}

// The device's gradient is what a walk over all triplets makes of W in float64, each by the formulas of the paper.
func TestExchangeByWalkingTheTriplets(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e, p := proxied(18, 6, 5, 3, 2, 41)
		for name, loss := range exchangeLosses {
			if len(some(b)) < len(testExchanges) && name != "everything at once" {
				continue
			}
			d, err := Loss(b, e, p, loss.of)
			if err != nil {
				t.Fatal(err)
			}
			over := func(a, j int) bool {
				switch {
				case a < d.N && j < d.N:
					return loss.ee
				case a < d.N:
					return loss.ep
				case j < d.N:
					return loss.pe
				}
				return loss.pp
			}
			most := make(map[int64]int)
			for _, l := range d.Labels {
				most[l]++
			}
			for _, text := range some(b) {
				x := parseExchange(t, text)
				x.PerAnchor = slices.Max(slices.Collect(maps.Values(most)))
				g, _, err := Exchanged(b, e, p, loss.of, x)
				if err != nil {
					t.Fatal(err)
				}
				near(t, name+" "+text, g, walk(d, over, x), 5e-5)
			}
		}
	})
}

// walk is the exchange by definition: triplet for triplet.
func walk(d *LossDissection, over func(a, j int) bool, x dmlx.Exchange) []vec {
	n, dim := d.N+d.Proxies, d.Dim
	f := make([]vec, n)
	for i := range f {
		f[i] = float64s(d.F[i*dim : (i+1)*dim])
	}
	dot := func(x, y vec) float64 {
		sum := 0.0
		for i := range x {
			sum += x[i] * y[i]
		}
		return sum
	}
	plus := func(x vec, k float64, y vec) vec {
		out := make(vec, len(x))
		for i := range x {
			out[i] = x[i] + k*y[i]
		}
		return out
	}
	unit := func(x vec) vec { return scaledVec(x, 1/math.Sqrt(dot(x, x))) }
	s := func(i, j int) float64 { return dot(f[i], f[j]) }
	g := make([]vec, n)
	for i := range g {
		g[i] = make(vec, dim)
	}
	type change struct {
		row int
		by  vec
	}
	var changes []change
	var weight []float64 // Of the changes, without κ.
	before, after := 0.0, 0.0
	for a := range n {
		var positives, negatives []int
		for j := range n {
			w := float64(d.W[a*n+j])
			switch {
			case j == a:
				g[a] = plus(g[a], 2*w, f[a])
			case !over(a, j):
			case d.Labels[j] == d.Labels[a]:
				positives = append(positives, j)
			default:
				negatives = append(negatives, j)
			}
		}
		w := func(j int) float64 { return float64(d.W[a*n+j]) }
		var up, down float64
		for _, j := range positives {
			up += math.Abs(w(j))
		}
		for _, j := range negatives {
			down += math.Abs(w(j))
		}
		if up == 0 || down == 0 {
			for _, j := range slices.Concat(positives, negatives) {
				g[a], g[j] = plus(g[a], w(j), f[j]), plus(g[j], w(j), f[a])
			}
			continue
		}
		total := (up + down) / 2
		before += total
		for _, p := range positives {
			for _, m := range negatives {
				share := math.Abs(w(p)) / up * math.Abs(w(m)) / down
				t := total
				sap, san := s(a, p), s(a, m)
				switch x.Triplet.Name {
				case "con":
					t = 0.5
				case "cos":
					t = 1 / (1 + math.Exp(sap-san))
				case "cir":
					t = 1 / (1 + math.Exp(sap*(2-sap)-san*san))
				}
				t *= share
				after += t
				pull, push := up/total, down/total
				switch x.Pair.Name {
				case "con":
					pull, push = 1, 1
				case "euc":
					pull, push = math.Sqrt(2-2*sap), math.Sqrt(2-2*san)
				case "lin":
					pull, push = 1-sap, san
				case "sig":
					pull, push = 1/(1+math.Exp(2*(sap-0.5))), 1/(1+math.Exp(-10*(san-0.5)))
				case "lin-ms", "sig-ms":
					hardest, farthest := math.Inf(-1), math.Inf(1)
					for _, j := range negatives {
						hardest = max(hardest, s(a, j))
					}
					for _, j := range positives {
						farthest = min(farthest, s(a, j))
					}
					mean := func(of []int, without int, belongs func(s float64) bool, value func(s float64) float64,
						empty float64) float64 {
						sum, count := 0.0, 0.0
						for _, j := range of {
							if j != without && belongs(s(a, j)) {
								sum, count = sum+value(s(a, j)), count+1
							}
						}
						if count == 0 {
							return empty
						}
						return sum / count
					}
					near := func(s float64) bool { return s < hardest+0.1 }
					far := func(s float64) bool { return s > farthest-0.1 }
					if x.Pair.Name == "lin-ms" {
						pull = (1 - mean(positives, p, near, func(r float64) float64 { return sap - r }, 0)) * (1 - sap)
						push = (1 + mean(negatives, m, far, func(r float64) float64 { return san - r }, 0)) * san
					} else {
						pull = 1 / (mean(positives, p, near, func(r float64) float64 { return math.Exp(2 * (sap - r)) },
							1) + math.Exp(2*(sap-0.5)))
						push = 1 / (mean(negatives, m, far, func(r float64) float64 { return math.Exp(-10 * (san - r)) },
							1) + math.Exp(-10*(san-0.5)))
					}
				}
				pull, push = -math.Copysign(pull, pull*w(p)), math.Copysign(1, w(m))*push
				ep, en, eap, ean := scaledVec(f[a], -1), f[a], scaledVec(f[p], -1), f[m]
				if strings.HasPrefix(x.Direction.Name, "euc") {
					ep, en = unit(plus(f[p], -1, f[a])), unit(plus(f[a], -1, f[m]))
					eap, ean = scaledVec(ep, -1), scaledVec(en, -1)
				}
				if strings.HasSuffix(x.Direction.Name, "orth") {
					u := unit(plus(f[a], -1, f[p]))
					project := func(v vec) vec { return unit(plus(v, -dot(u, v), u)) }
					en, ean = project(en), project(ean)
				}
				for _, c := range []struct {
					row  int
					e    vec
					pair float64
				}{{p, ep, pull}, {m, en, push}, {a, eap, pull}, {a, ean, push}} {
					changes, weight = append(changes, change{c.row, scaledVec(c.e, c.pair)}), append(weight, t)
				}
			}
		}
	}
	kappa := before / after // 1 where T is not exchanged.
	for i, c := range changes {
		g[c.row] = plus(g[c.row], kappa*weight[i], c.by)
	}
	return g
}

// The same parts in other names: an exchange for what the loss has already changes nothing.
func TestExchangeForItsOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		e := random(24, 6, 5, 33)
		want, _, err := Exchanged(b, e, Proxies{}, ephnTripletCos, dmlx.Exchange{})
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Exchanged(b, e, Proxies{}, ephnTripletCos, parseExchange(t, "direction=cos&pair=con&triplet=cos"))
		if err != nil {
			t.Fatal(err)
		}
		var rows []vec
		for i := 0; i < len(want); i += e.Dim {
			rows = append(rows, float64s(want[i:i+e.Dim]))
		}
		near(t, "its own parts", got, rows, 1e-5)
	})
}

func TestExchangeAngle(t *testing.T) {
	t.Parallel()
	b, e := goBackend(t), random(24, 6, 5, 33)
	for text, want := range map[string]struct{ low, high float64 }{"": {0, 0.1}, "triplet=cos": {0, 0.1},
		"direction=cos-orth": {5, 80}, "pair=lin": {1, 80}} {
		got, err := ExchangeAngle(b, e, Proxies{}, ephnTripletCos, parseExchange(t, text))
		if err != nil || got < want.low || got > want.high {
			t.Errorf("%s: turned by %g°, %v", text, got, err)
		}
	}
	if _, err := ExchangeAngle(b, circleBatch([]int64{1, 2}, 0, 90), Proxies{}, ephnTripletCos,
		dmlx.Exchange{}); err == nil || !strings.Contains(err.Error(), "no gradient") {
		t.Errorf("a batch without pairs: %v", err)
	}
}

func TestExchangeOfNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		same := circleBatch([]int64{1, 1, 1}, 0, 10, 20)           // No negatives, so no triplets: what pulls pulls on.
		alike := circleBatch([]int64{1, 1, 2, 2}, 30, 30, 30, 200) // Vectors in one place have no direction to each other.
		for _, e := range []Embeddings{same, alike} {
			for _, text := range some(b) {
				if _, _, err := Exchanged(b, e, Proxies{}, softLoss, parseExchange(t, text)); err != nil {
					t.Errorf("%s: %v", text, err)
				}
			}
		}
	})
}

func TestBadExchange(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"pair=nonsense": "no pair weight \"nonsense\"", "nonsense": "no part " +
			"\"nonsense\"", "pair=lin&pair=con": "twice", "mask=sc1": "no part \"mask\"",
		"direction=": "no direction \"\"",
	} {
		if _, err := dmlx.ParseExchange(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	e, b := circleBatch([]int64{1, 1, 2, 2}, 0, 10, 40, 60), goBackend(t)
	x := parseExchange(t, "pair=lin")
	for want, loss := range map[string]dmlx.LossFunc{
		"uses the coordinates of the vectors " +
			"themselves": func(b *dmlx.LossBatch) *Node { return ReduceAllSum(Square(b.F)) },
		"uses the embeddings before their " +
			"normalization": func(b *dmlx.LossBatch) *Node { return Add(ReduceAllSum(b.S), ReduceAllSum(Square(b.X))) },
		"exchange pair=lin is not finite at row 0, column 0":                nil,
		"exchange direction=mine: a loss has no formula for this direction": softLoss,
	} {
		x := x
		switch {
		case strings.Contains(want, "mine"):
			x = dmlx.Exchange{Direction: dmlx.Direction{Name: "mine", Of: dmlx.DirectionCos.Of}}
		case loss == nil:
			want = "gradient with pair=lin is not finite at row 0, column 0"
			loss = func(b *dmlx.LossBatch) *Node { return ReduceAllSum(Log(Sub(b.S, b.S))) }
		}
		if _, _, err := Exchanged(b, e, Proxies{}, loss, x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
