package dissect

import (
	"fmt"
	"math"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

// # The paper's three parts of a lone triplet
//
// A triplet has two similarities, so a loss on it is two functions: how strongly it pulls, g₊(S_ap, S_an) = T P₊, and
// how strongly it pushes, g₋ = T P₋. The paper's pair weights depend on their own pair alone (§3.3) and its triplet
// weight on both (§3.4), so
//
//	log g₊ − log g₋ = log P₊(S_ap) − log P₋(S_an)
//
// is a sum of a function of S_ap and one of S_an. On a grid that is a two-way table without interaction: its row and
// column effects are log P₊ and −log P₋ up to one constant, and T follows. (With a T of its own for the positive or for
// the negative no more would be determined.) What the additive fit leaves over is a share of the gradient again. The
// constant: P₊ and P₋ have the mean 1, both taken together, as P^con has.

// TripletParts are a triplet's weights on a grid of similarities, taken apart into pair weights and triplet weight.
type TripletParts struct {
	Sap, San []float32 // The grid's values of S_ap, [n], and of S_an, [m].
	// Positive and Negative are g₊ = T P₊ and g₋ = T P₋, [n, m] row by row: S_ap along rows.
	Positive, Negative []float32
	PairPositive       []float64 // P₊ at each of Sap, [n]. 0 where nothing is pulled.
	PairNegative       []float64 // P₋ at each of San, [m].
	Weight             []float64 // T, [n, m].
	// Residual is the share of (g₊, g₋) that T P₊ and T P₋ do not give back, 0 to 1.
	Residual float64
}

// LossParts finds the parts that a loss gives a lone triplet at each S_ap of a grid with each S_an. A loss of
// pairs sees an anchor, its positive and a negative; perClass is 0. A loss with proxies sees an embedding with perClass
// proxies at S_ap and as many of another class at S_an. What else there is to see is held out of the way: the
// positive and the negative are as similar as S_ap S_an. A loss that is not one on S is an error.
func LossParts(b compute.Backend, loss dmlx.LossFunc, perClass int, sap, san []float32) (*TripletParts, error) {
	l := CompileLoss(b, loss)
	defer l.Close()
	return l.Parts(perClass, sap, san)
}

// Parts finds the parts that the loss gives a lone triplet, as [LossParts] does.
func (l *CompiledLoss) Parts(perClass int, sap, san []float32) (*TripletParts, error) {
	if err := checkGrid(sap, san); err != nil {
		return nil, err
	}
	build := func(in []*Node) []*Node {
		g := in[0].Graph()
		ap, an := in[0], in[1]
		one, pn := OnesLike(ap), Mul(ap, an)
		square := func(x ...*Node) *Node {
			n := int(math.Sqrt(float64(len(x))))
			return graphs.Leaf(Reshape(Stack(x, 0), n, n))
		}
		at := func(n, i, j int) *Node {
			rows := make([][]bool, n)
			for r := range rows {
				rows[r] = make([]bool, n)
			}
			rows[i][j] = true
			return Const(g, rows)
		}
		if perClass == 0 {
			// The negative has a companion of its class, for losses that count on two of each; it is where the negative is.
			x := &dmlx.LossBatch{Labels: Const(g, []int64{0, 0, 1, 1}), Positive: at(4, 0, 1), Negative: at(4, 0, 3)}
			x.S = square(one, ap, an, an, ap, one, pn, pn, an, pn, one, one, an, pn, one, one)
			w := Gradient(l.loss(x), x.S)[0]
			row := Reshape(Slice(w, AxisElem(0), AxisRange()), 4)
			element := func(i int) *Node { return Reshape(Slice(row, AxisElem(i)), 1) }
			return []*Node{Neg(element(1)), Add(element(2), element(3))}
		}
		x := &dmlx.LossBatch{Labels: Const(g, []int64{0}), S: square(one), Positive: at(1, 0, 0), Negative: at(1, 0, 0)}
		x.Positive, x.Negative = ZerosLike(x.Positive), ZerosLike(x.Negative)
		classes := make([]int64, 2*perClass)
		var sp, pp []*Node
		for i := range classes {
			classes[i] = int64(i / perClass)
			sp = append(sp, []*Node{ap, an}[classes[i]])
			for j := range classes {
				if j/perClass == i/perClass {
					pp = append(pp, one)
				} else {
					pp = append(pp, pn)
				}
			}
		}
		x.SP, x.PP, x.Classes = graphs.Leaf(Reshape(Stack(sp, 0), 1, -1)), square(pp...), Const(g, classes)
		x.PS, x.Own = graphs.Leaf(Transpose(x.SP, 0, 1)), Reshape(Equal(x.Classes, ZerosLike(x.Classes)), 1, -1)
		d := Gradient(l.loss(x), x.SP, x.PS)
		w := Add(Reshape(d[0], -1), Reshape(d[1], -1))
		half := func(from int) *Node { return Reshape(ReduceAllSum(Slice(w, AxisRange(from, from+perClass))), 1) }
		return []*Node{Neg(half(0)), half(perClass)}
	}
	var positive, negative []float32
	for _, p := range sap {
		for _, n := range san {
			out, err := l.run(partsKey(perClass), build, []*tensors.Tensor{tensors.FromScalar(p), tensors.FromScalar(n)})
			if err != nil {
				return nil, fmt.Errorf("a lone triplet: %w; a loss that uses the vectors or their lengths is not one on S, and "+
					"has no parts there", err)
			}
			positive, negative = append(positive, graphs.Floats(out[0])[0]), append(negative, graphs.Floats(out[1])[0])
		}
	}
	return Separate(sap, san, positive, negative)
}

// partsKey tells the programs for lone triplets apart, by how many proxies a class has.
type partsKey int

// RuleParts are the parts of a rule on such a grid, from its weights: what [Separate] makes of T P₊ and T P₋.
func RuleParts(b compute.Backend, r dmlx.Rule, sap, san []float32) (*TripletParts, error) {
	if err := checkGrid(sap, san); err != nil {
		return nil, err
	}
	var p, q []float32
	for _, x := range sap {
		for _, y := range san {
			p, q = append(p, x), append(q, y)
		}
	}
	positive, negative, t, err := Weights(b, r, p, q)
	if err != nil {
		return nil, err
	}
	for i := range t {
		positive[i] *= t[i]
		negative[i] *= t[i]
	}
	return Separate(sap, san, positive, negative)
}

func checkGrid(sap, san []float32) error {
	if len(sap) == 0 || len(san) == 0 {
		return fmt.Errorf("a grid of %d values of S_ap and %d of S_an has no points", len(sap), len(san))
	}
	return nil
}

// Separate takes g₊ and g₋, [len(sap), len(san)] each, apart into pair weights that depend on their own similarity and
// a triplet weight that depends on both, as above. Signs are kept aside: the weights are of lengths.
func Separate(sap, san, positive, negative []float32) (*TripletParts, error) {
	n, m := len(sap), len(san)
	if len(positive) != n*m || len(negative) != n*m || n*m == 0 {
		return nil, fmt.Errorf("weights: %d and %d values for a grid of %d × %d", len(positive), len(negative), n, m)
	}
	largest := 0.0
	for i := range positive {
		if !finite(positive[i]) || !finite(negative[i]) {
			return nil, fmt.Errorf("weights: %v and %v at S_ap = %v, S_an = %v are not finite", positive[i], negative[i],
				sap[i/m], san[i%m])
		}
		largest = max(largest, math.Abs(float64(positive[i])), math.Abs(float64(negative[i])))
	}
	out := &TripletParts{Sap: sap, San: san, Positive: positive, Negative: negative,
		PairPositive: make([]float64, n), PairNegative: make([]float64, m), Weight: make([]float64, n*m)}
	if largest == 0 {
		return out, nil
	}
	pull := func(i, j int) float64 { return math.Abs(float64(positive[i*m+j])) / largest }
	push := func(i, j int) float64 { return math.Abs(float64(negative[i*m+j])) / largest }
	a, b, t := out.PairPositive, out.PairNegative, out.Weight
	additive(a, b, pull, push)
	// From there, alternating least squares of g₊ = T P₊ and g₋ = T P₋, which also knows what to do where one is zero.
	ratio := func(x, y float64) float64 {
		if y == 0 {
			return 0
		}
		return x / y
	}
	triplets := func() {
		for i := range n {
			for j := range m {
				t[i*m+j] = ratio(pull(i, j)*a[i]+push(i, j)*b[j], a[i]*a[i]+b[j]*b[j])
			}
		}
	}
	for range 300 {
		triplets()
		for i := range n {
			var top, bottom float64
			for j := range m {
				top, bottom = top+pull(i, j)*t[i*m+j], bottom+t[i*m+j]*t[i*m+j]
			}
			a[i] = ratio(top, bottom)
		}
		for j := range m {
			var top, bottom float64
			for i := range n {
				top, bottom = top+push(i, j)*t[i*m+j], bottom+t[i*m+j]*t[i*m+j]
			}
			b[j] = ratio(top, bottom)
		}
	}
	var sum float64
	for _, v := range out.PairPositive {
		sum += v / float64(n)
	}
	for _, v := range out.PairNegative {
		sum += v / float64(m)
	}
	scale := sum / 2
	for i := range a {
		a[i] = ratio(a[i], scale)
	}
	for j := range b {
		b[j] = ratio(b[j], scale)
	}
	triplets()
	var rest, whole float64
	for i := range n {
		for j := range m {
			p, q := pull(i, j)-t[i*m+j]*a[i], push(i, j)-t[i*m+j]*b[j]
			rest += p*p + q*q
			whole += pull(i, j)*pull(i, j) + push(i, j)*push(i, j)
		}
	}
	for k := range t {
		t[k] *= largest
	}
	out.Residual = math.Sqrt(rest / whole)
	return out, nil
}

// additive fits log g₊ − log g₋ by log a_i − log b_j, least squares over the points that have both, weighted by g₊ g₋.
// What has no such point gets 1.
func additive(a, b []float64, pull, push func(i, j int) float64) {
	const floor = 1e-7 // Under it is rounding.
	row, column := make([]float64, len(a)), make([]float64, len(b))
	for range 100 {
		for i := range a {
			sum, weight := 0.0, 0.0
			for j := range b {
				if p, q := pull(i, j), push(i, j); p > floor && q > floor {
					sum, weight = sum+p*q*(math.Log(p/q)+column[j]), weight+p*q
				}
			}
			if weight > 0 {
				row[i] = sum / weight
			}
		}
		for j := range b {
			sum, weight := 0.0, 0.0
			for i := range a {
				if p, q := pull(i, j), push(i, j); p > floor && q > floor {
					sum, weight = sum+p*q*(row[i]-math.Log(p/q)), weight+p*q
				}
			}
			if weight > 0 {
				column[j] = sum / weight
			}
		}
	}
	for i := range a {
		a[i] = math.Exp(row[i])
	}
	for j := range b {
		b[j] = math.Exp(column[j])
	}
}
