package miners

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/backend/backendtest"
	"github.com/gradient-surgery/dml/dmlx/dissect"
)

func circleBatch(labels []int64, degrees ...float64) dissect.Embeddings {
	e := dissect.Embeddings{N: len(degrees), Dim: 2, Labels: labels}
	for _, d := range degrees {
		e.Values = append(e.Values, float32(math.Cos(d*math.Pi/180)), float32(math.Sin(d*math.Pi/180)))
	}
	return e
}

func random(n, dim, classes int, seed uint64) dissect.Embeddings {
	rng := rand.New(rand.NewPCG(seed, 1))
	e := dissect.Embeddings{N: n, Dim: dim}
	for range n {
		e.Labels = append(e.Labels, rng.Int64N(int64(classes)))
		for range dim {
			e.Values = append(e.Values, float32(rng.NormFloat64()))
		}
	}
	return e
}

// mined is what a miner took of a batch: triplets, and pairs with the anchor first.
type mined struct {
	triplets           [][3]int
	positive, negative [][2]int
	list               bool // Triplets are listed.
}

// mine runs miners in one graph and returns what they took, and the similarities that they saw.
func mine(t *testing.T, b compute.Backend, e dissect.Embeddings, of ...Miner) (out []mined, s []float32) {
	t.Helper()
	exec, err := NewExec(b, func(x, labels *Node) (out []*Node) {
		all := dmlx.NewLossBatch(x, labels, nil, nil)
		out = append(out, all.S)
		for _, m := range of {
			c := m.Mine(all)
			tr := c.Triplets
			if tr == nil {
				none := Const(x.Graph(), []int32{0})
				tr = &dmlx.Triplets{Anchor: none, Positive: none, Negative: none, Valid: Const(x.Graph(), []bool{false})}
			}
			out = append(out, Const(x.Graph(), c.Triplets != nil), tr.Anchor, tr.Positive, tr.Negative, tr.Valid, c.Positive,
				c.Negative)
		}
		return out
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	values, err := exec.Call(tensors.FromFlatDataAndDimensions(e.Values, e.N, e.Dim),
		tensors.FromFlatDataAndDimensions(e.Labels, e.N))
	if err != nil {
		t.Fatal(err)
	}
	s, values = tensors.MustCopyFlatData[float32](values[0]), values[1:]
	for ; len(values) > 0; values = values[7:] {
		m := mined{list: tensors.ToScalar[bool](values[0])}
		ints := func(i int) []int32 { return tensors.MustCopyFlatData[int32](values[i]) }
		a, p, n := ints(1), ints(2), ints(3)
		for i, valid := range tensors.MustCopyFlatData[bool](values[4]) {
			if valid {
				m.triplets = append(m.triplets, [3]int{int(a[i]), int(p[i]), int(n[i])})
			}
		}
		pairs := func(i int) (out [][2]int) {
			for k, is := range tensors.MustCopyFlatData[bool](values[i]) {
				if is {
					out = append(out, [2]int{k / e.N, k % e.N})
				}
			}
			return out
		}
		m.positive, m.negative = pairs(5), pairs(6)
		out = append(out, m)
	}
	return out, s
}

func byHand() []Miner {
	return []Miner{Extreme{Hard, Hard}, Extreme{Easy, Hard}, Extreme{Easy, SemiHard}, Extreme{Easy, Easy},
		Extreme{Hard, SemiHard},
		SemiHardNegatives{}, SemiHardNegatives{Margin: 0.2}, NewMultiSimilarity(), Extreme{Easy,
			Every}, All{}, Extreme{Every, Hard}}
}

func TestMinersByHand(t *testing.T) {
	// Class 1 at 0°, 20°, 50°; class 2 at 30°, 80°.
	e := circleBatch([]int64{1, 1, 1, 2, 2}, 0, 20, 50, 30, 80)
	want := []mined{
		{triplets: [][3]int{{0, 2, 3}, {1, 2, 3}, {2, 0, 3}, {3, 4, 1}, {4, 3, 2}}},
		{triplets: [][3]int{{0, 1, 3}, {1, 0, 3}, {2, 1, 3}, {3, 4, 1}, {4, 3, 2}}},
		// The nearest negative behind the nearest positive. Row 2: its positive is 30° away, so is the negative row 4: equal
		// but for rounding; see below. Row 3's positive is 50° away, and no negative is farther. Row 4: 50° away, row 1 is
		// 60°.
		{triplets: [][3]int{{0, 1, 3}, {1, 0, 4}, {4, 3, 1}}},
		{triplets: [][3]int{{0, 1, 4}, {1, 0, 4}, {2, 1, 4}, {3, 4, 0}, {4, 3, 0}}},
		{triplets: [][3]int{{0, 2, 4}, {1, 2, 4}, {4, 3, 1}}},
		{triplets: [][3]int{{0, 1, 3}, {0, 2, 4}, {1, 0, 4}, {1, 2, 4}, {4, 3, 1}}},
	}
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		got, _ := mine(t, b, e, byHand()...)
		for i, w := range want {
			clear := slices.DeleteFunc(slices.Clone(got[i].triplets), func(tr [3]int) bool {
				return i != 0 && i != 1 && i != 3 && tr[0] == 2 // 30° against 30°: whichever way it rounds.
			})
			if !slices.Equal(clear, w.triplets) {
				t.Errorf("%+v: %v, want %v", byHand()[i], clear, w.triplets)
			}
		}
		every := got[8]
		if want := [][2]int{{0, 1}, {1, 0}, {2, 1}, {3, 4}, {4, 3}}; !slices.Equal(every.positive, want) ||
			len(every.negative) != 12 || every.list {
			t.Errorf("easy positives with all negatives: %v, %d", every.positive, len(every.negative))
		}
		if all := got[9]; len(all.positive) != 8 || len(all.negative) != 12 || all.list {
			t.Errorf("all: %d and %d pairs", len(all.positive), len(all.negative))
		}
		if hard := got[10]; len(hard.positive) != 8 || len(hard.negative) != 5 {
			t.Errorf("all positives with the hardest negative: %d and %d pairs", len(hard.positive), len(hard.negative))
		}
	})
}

func TestMinersAgainstTheirDefinitions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than two seconds")
	}
	e := random(26, 5, 6, 3)
	e.Labels[25] = 99 // A class of one.
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		got, s := mine(t, b, e, byHand()...)
		at := func(i, j int) float32 { return s[i*e.N+j] }
		same := func(i, j int) bool { return e.Labels[i] == e.Labels[j] }
		var semi, margin [][3]int
		var hardPositive, hardNegative [][2]int
		for a := range e.N {
			farthest, nearest := float32(4), float32(-4)
			for j := range e.N {
				switch {
				case j == a:
				case same(a, j):
					farthest = min(farthest, at(a, j))
				default:
					nearest = max(nearest, at(a, j))
				}
			}
			for p := range e.N {
				switch {
				case p == a:
				case !same(a, p):
					if at(a, p)+0.1 > farthest {
						hardNegative = append(hardNegative, [2]int{a, p})
					}
				default:
					if at(a, p)-0.1 < nearest {
						hardPositive = append(hardPositive, [2]int{a, p})
					}
					best := -1
					for n := range e.N {
						if !same(a, n) && at(a, n) < at(a, p) && (best < 0 || at(a, n) > at(a, best)) {
							best = n
						}
					}
					if best >= 0 {
						semi = append(semi, [3]int{a, p, best})
						if at(a, p)-at(a, best) < 0.2 {
							margin = append(margin, [3]int{a, p, best})
						}
					}
				}
			}
		}
		if !slices.Equal(got[5].triplets, semi) || !slices.Equal(got[6].triplets, margin) || len(margin) == 0 ||
			len(margin) == len(semi) {
			t.Errorf("semi-hard: %v and %v,\nwant %v and %v", got[5].triplets, got[6].triplets, semi, margin)
		}
		if !slices.Equal(got[7].positive, hardPositive) || !slices.Equal(got[7].negative, hardNegative) {
			t.Errorf("multi-similarity: %d and %d pairs, want %d and %d", len(got[7].positive), len(got[7].negative),
				len(hardPositive), len(hardNegative))
		}
		// EPHN is what rules mine by.
		d, err := dissect.Rule(b, e, dmlx.Rule{})
		if err != nil {
			t.Fatal(err)
		}
		var rule [][3]int
		for _, tr := range d.Triplets {
			rule = append(rule, [3]int{tr.Anchor, tr.Positive, tr.Negative})
		}
		if !slices.Equal(got[1].triplets, rule) {
			t.Errorf("EPHN: %v, rules have %v", got[1].triplets, rule)
		}
	})
}

func TestDistanceWeighted(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		// One anchor of note, many positives that each draw one of three negatives.
		e := random(120, 6, 1, 5)
		for i := range 4 { // Row 0 and three negatives at given similarities.
			for j := range 6 {
				e.Values[i*6+j] = 0
			}
			e.Labels[i] = 1
		}
		e.Labels[0] = 0
		e.Values[0] = 1
		similarities := []float64{0.2, 0.5, 0.8}
		for i, s := range similarities {
			e.Values[(i+1)*6], e.Values[(i+1)*6+1] = float32(s), float32(math.Sqrt(1-s*s))
		}
		one := NewDistanceWeighted()
		two := one
		two.Seed = 7
		got, s := mine(t, b, e, one, two, one)
		if !slices.Equal(got[0].triplets, got[2].triplets) || slices.Equal(got[0].triplets, got[1].triplets) {
			t.Error("draws are not a function of the seed")
		}
		for _, tr := range got[0].triplets {
			if d := 2 - 2*s[tr[0]*e.N+tr[2]]; e.Labels[tr[0]] != e.Labels[tr[1]] || e.Labels[tr[0]] == e.Labels[tr[2]] ||
				tr[0] == tr[1] || d >= 1.4*1.4 {
				t.Fatalf("%v is no triplet of near negatives", tr)
			}
		}
		var counts, weights [3]float64
		total, whole := 0.0, 0.0
		for _, m := range got[:2] {
			for _, tr := range m.triplets {
				if tr[0] == 0 {
					counts[tr[2]-1]++
					total++
				}
			}
		}
		for i, s := range similarities {
			d2 := max(2-2*s, 0.25)
			weights[i] = math.Pow(d2, (2-6)/2.) * math.Pow(1-d2/4, -(6-3)/2.)
			whole += weights[i]
		}
		if total != 2*116 {
			t.Fatalf("%g draws, want two for each of 116 positives", total)
		}
		for i := range counts {
			p := weights[i] / whole
			if got := counts[i] / total; math.Abs(got-p) > 4*math.Sqrt(p*(1-p)/total) {
				t.Errorf("a negative at S = %g is drawn in %.3f of cases, want %.3f", similarities[i], got, p)
			}
		}
	})
}

func TestNothingToMine(t *testing.T) {
	backendtest.OnEach(t, func(t *testing.T, b compute.Backend) {
		for what, e := range map[string]dissect.Embeddings{
			"one class":         circleBatch([]int64{1, 1, 1}, 0, 20, 40),
			"one image a class": circleBatch([]int64{1, 2, 3}, 0, 20, 40),
		} {
			if !strings.HasSuffix(t.Name(), "/go") && what == "one class" {
				continue // Compiling is the time of this test.
			}
			var of []Miner
			for _, name := range Names() {
				m, err := Parse(name)
				if err != nil {
					t.Fatal(err)
				}
				of = append(of, m)
			}
			got, _ := mine(t, b, e, of...)
			for i, m := range got {
				if len(m.triplets) != 0 || len(m.positive) != 0 && len(m.negative) != 0 {
					t.Errorf("%s: %s took %+v", what, Names()[i], m)
				}
			}
		}
	})
}

func TestBadMiners(t *testing.T) {
	if _, err := Parse("hardest"); err == nil || !strings.Contains(err.Error(), "semi-hard") {
		t.Errorf("%v", err)
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []Extreme{{}, {Positive: SemiHard, Negative: SemiHard}, {Positive: Every, Negative: SemiHard}} {
		_, err := dissect.Loss(b, random(6, 3, 2, 1), dissect.Proxies{},
			With(m, func(b *dmlx.LossBatch) *Node { return ReduceAllSum(b.S) }))
		if err == nil || !strings.Contains(err.Error(), "do not go together") {
			t.Errorf("%+v: %v", m, err)
		}
	}
}

func ExampleWith() {
	b, err := backend.Go()
	if err != nil {
		fmt.Println(err)
		return
	}
	// The hinge of the hardest triplet of each anchor.
	loss := With(Extreme{Hard, Hard}, func(b *dmlx.LossBatch) *Node {
		at := func(other *Node) *Node { return Gather(b.S, Stack([]*Node{b.Triplets.Anchor, other}, 1)) }
		x := AddScalar(Sub(at(b.Triplets.Negative), at(b.Triplets.Positive)), 0.5)
		return ReduceAllSum(Where(LogicalAnd(b.Triplets.Valid, GreaterThan(x, ZerosLike(x))), x, ZerosLike(x)))
	})
	d, err := dissect.Loss(b, circleBatch([]int64{0, 0, 1}, 0, 60, 90), dissect.Proxies{}, loss)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range d.Implied.Anchors {
		fmt.Printf("anchor %d: T = %.1f, P₊ = %.1f, P₋ = %.1f\n", a.Anchor, a.Weight, a.PairPositive, a.PairNegative)
	}
	// Output:
	// anchor 1: T = 1.0, P₊ = 1.0, P₋ = 1.0
}
