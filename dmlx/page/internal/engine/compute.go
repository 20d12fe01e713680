package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// compute takes a rule or a loss apart at a batch.
func (e *Engine) compute(q *request) (Object, error) {
	s, err := q.subject()
	if err != nil {
		return nil, err
	}
	batch, err := q.batch()
	if err != nil {
		return nil, err
	}
	if s.loss != nil {
		return e.computeLoss(q, s.loss, batch)
	}
	d, err := e.compiledRule(s.rule).Rule(batch, s.rule.Options)
	if err != nil {
		return nil, err
	}
	var t triplets
	anchors := make([]bool, batch.N)
	for _, x := range d.Triplets {
		t.add(x)
		anchors[x.Anchor] = true
	}
	without := []int32{}
	for i, is := range anchors {
		if len(batch.Triplets) == 0 && !is {
			without = append(without, int32(i))
		}
	}
	return Object{"kind": "rule", "name": s.rule.Name(), "n": d.N, "dim": d.Dim, "rows": d.N, "f": d.F, "S": d.S, "M": d.M,
		"G": d.G, "raw": d.Raw, "labels": int32s(batch.Labels), "triplets": t.object(), "alone": without,
		"skew": skew(d.M, d.N)}, nil
}

// triplets are the columns of a list of triplets.
type triplets struct {
	anchor, positive, negative                   []int32
	sap, san, pairPositive, pairNegative, weight []float32
}

func (t *triplets) add(x dissect.Triplet) {
	t.anchor, t.positive, t.negative = append(t.anchor, int32(x.Anchor)), append(t.positive, int32(x.Positive)),
		append(t.negative, int32(x.Negative))
	t.sap, t.san, t.weight = append(t.sap, x.Sap), append(t.san, x.San), append(t.weight, x.Weight)
	t.pairPositive, t.pairNegative = append(t.pairPositive, x.PairPositive), append(t.pairNegative, x.PairNegative)
}

func (t *triplets) object() Object {
	return Object{"count": len(t.anchor), "anchor": t.anchor, "positive": t.positive, "negative": t.negative,
		"sap": t.sap, "san": t.san, "pairPositive": t.pairPositive, "pairNegative": t.pairNegative, "weight": t.weight}
}

// skew is ‖M−Mᵀ‖ / (2‖M‖), 0 for a matrix of zeros.
func skew(m []float32, n int) float64 {
	var off, whole float64
	for i := range n {
		for j := range n {
			x, y := float64(m[i*n+j]), float64(m[j*n+i])
			off, whole = off+(x-y)*(x-y), whole+x*x
		}
	}
	if whole == 0 {
		return 0
	}
	return math.Sqrt(off) / (2 * math.Sqrt(whole))
}

func int32s(x []int64) []int32 {
	return slice.Map(x, func(v int64) int32 { return int32(v) })
}

func (e *Engine) computeLoss(q *request, l *losses.Named, batch dissect.Embeddings) (Object, error) {
	p, err := q.proxies(l, batch)
	if err != nil {
		return nil, err
	}
	d, err := e.compiledLoss(l).Loss(batch, p)
	if err != nil {
		return nil, fmt.Errorf("loss %s: %w", l, err)
	}
	onS := ""
	if err := d.OnS(); err != nil {
		onS = err.Error()
	}
	t, left := heaviest(d.Implied.Anchors)
	list := t.object()
	list["left"] = left
	return Object{"kind": "loss", "name": l.String(), "n": d.N, "dim": d.Dim, "proxies": d.Proxies,
		"rows": d.N + d.Proxies, "value": float64(d.Value), "f": d.F, "S": d.S, "M": d.M, "G": d.G, "raw": d.Raw,
		"labels": int32s(d.Labels), "onS": onS,
		"implied":  Object{"residual": d.Implied.Residual, "lone": d.Implied.Lone},
		"triplets": list, "skew": skew(d.M, d.N+d.Proxies)}, nil
}

// heaviest are the triplets of a loss's anchors with the largest weights, and how many are left out.
func heaviest(anchors []dissect.ImpliedAnchor) (t triplets, left int) {
	var all []dissect.Triplet
	for _, a := range anchors {
		for i, p := range a.Positives {
			for j, n := range a.Negatives {
				all = append(all, dissect.Triplet{Anchor: a.Anchor, Positive: p.Other, Negative: n.Other, Sap: p.S, San: n.S,
					PairPositive: float32(a.PairPositive), PairNegative: float32(a.PairNegative),
					Weight: float32(a.Triplet(i, j))})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y dissect.Triplet) int { return cmp.Compare(y.Weight, x.Weight) })
	for _, x := range all[:min(len(all), mostTriplets)] {
		t.add(x)
	}
	return t, max(0, len(all)-mostTriplets)
}

// grid reads the range and side of a diagram.
func (q *request) grid(low, high float64, side int) (from, to float64, n int, at []float32, err error) {
	low, high, side = given(q.Low, low), given(q.High, high), cmp.Or(q.Side, side)
	if side < 2 || side > mostSide {
		return 0, 0, 0, nil, fmt.Errorf("a diagram of %d × %d points; want 2 to %d", side, side, mostSide)
	}
	if !(low < high && low >= -1 && high <= 1) {
		return 0, 0, 0, nil, fmt.Errorf("a diagram from %v to %v; want an increasing range between -1 and 1", low, high)
	}
	for i := range side {
		at = append(at, float32(low+(high-low)*float64(i)/float64(side-1)))
	}
	return low, high, side, at, nil
}

// diagram evaluates a rule or a loss for lone triplets.
func (e *Engine) diagram(q *request) (Object, error) {
	s, err := q.subject()
	if err != nil {
		return nil, err
	}
	side := ruleSide
	if s.loss != nil {
		side = lossSide
	}
	low, high, n, at, err := q.grid(0, 1, side)
	if err != nil {
		return nil, err
	}
	positive, negative, weight := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	pull, push, residual := make([]float32, n*n), make([]float32, n*n), 0.0
	if s.loss != nil {
		for i, v := range at { // At 1 itself distances have no slope, which says nothing of the weights beside it.
			at[i] = min(v, 1-1e-4)
		}
		parts, err := e.compiledLoss(s.loss).Parts(losses.PerClass(s.loss), at, at)
		if err != nil {
			return nil, fmt.Errorf("loss %s: %w", s.loss, err)
		}
		residual = parts.Residual
		for i := range n { // S_ap
			for j := range n { // S_an
				k := j*n + i
				positive[k], negative[k] = float32(parts.PairPositive[i]), float32(parts.PairNegative[j])
				weight[k] = float32(parts.Weight[i*n+j])
				pull[k], push[k] = parts.Positive[i*n+j], parts.Negative[i*n+j]
			}
		}
	} else {
		sap, san := make([]float32, n*n), make([]float32, n*n)
		for k := range sap {
			sap[k], san[k] = at[k%n], at[k/n]
		}
		positive, negative, weight, err = e.compiledRule(s.rule).Weights(s.rule.Options, sap, san)
		if err != nil {
			return nil, err
		}
		for k := range weight {
			pull[k], push[k] = weight[k]*positive[k], weight[k]*negative[k]
		}
	}
	return Object{"name": s.name(), "low": low, "high": high, "side": n, "pairPositive": positive,
		"pairNegative": negative, "weight": weight, "pull": pull, "push": push, "residual": residual}, nil
}

// field takes a step of descent for lone triplets.
func (e *Engine) field(q *request) (Object, error) {
	s, err := q.subject()
	if err != nil {
		return nil, err
	}
	low, high, n, at, err := q.grid(-1, 1, fieldSide)
	if err != nil {
		return nil, err
	}
	rate := given(q.Rate, fieldRate)
	if !(rate > 0 && rate <= 10) {
		return nil, fmt.Errorf("the rate is %v; want a number above 0, at most 10", rate)
	}
	sap, san, dsap, dsan := make([]float32, n*n), make([]float32, n*n), make([]float32, n*n), make([]float32, n*n)
	for k := range sap {
		sap[k], san[k] = at[k%n], at[k/n]
		ap, an, err := e.step(s, float64(sap[k]), float64(san[k]), rate)
		if err != nil {
			return nil, err
		}
		dsap[k], dsan[k] = float32((ap-float64(sap[k]))/rate), float32((an-float64(san[k]))/rate)
	}
	return Object{"name": s.name(), "low": low, "high": high, "side": n, "sap": sap, "san": san, "dsap": dsap,
		"dsan": dsan}, nil
}

// step is where a step of descent takes the similarities of a lone triplet on the sphere. Seen from the anchor, the
// positive and the negative are at right angles. Of a loss with proxies, they are its classes' proxies.
func (e *Engine) step(s subject, sap, san, rate float64) (ap, an float64, err error) {
	a, p := [3]float64{0, 0, 1}, [3]float64{math.Sqrt(max(0, 1-sap*sap)), 0, sap}
	n := [3]float64{0, math.Sqrt(max(0, 1-san*san)), san}
	batch := dissect.Embeddings{Dim: 3}
	var proxies dissect.Proxies
	point := func(x [3]float64, label int64) {
		for _, v := range x {
			batch.Values = append(batch.Values, float32(v))
		}
		batch.Labels, batch.N = append(batch.Labels, label), batch.N+1
	}
	point(a, 0)
	var raw []float32
	// The rows of the positive and of the negative.
	positives, negatives := []int{1}, []int{2}
	if s.loss == nil {
		point(p, 0)
		point(n, 1)
		batch.Triplets = []dissect.Triplet{{Anchor: 0, Positive: 1, Negative: 2}}
		d, err := e.compiledRule(s.rule).Rule(batch, s.rule.Options)
		if err != nil {
			return 0, 0, err
		}
		raw = d.Raw
	} else {
		k := losses.PerClass(s.loss)
		if k == 0 {
			point(p, 0)
			point(n, 1)
			point(n, 1) // Losses that count on two of each class find a companion, as in dissect.LossParts.
			negatives = []int{2, 3}
		} else {
			proxies.Dim = 3
			positives, negatives = nil, nil
			for class, x := range [][3]float64{p, n} {
				for range k {
					if row := 1 + proxies.N; class == 0 {
						positives = append(positives, row)
					} else {
						negatives = append(negatives, row)
					}
					for _, v := range x {
						proxies.Values = append(proxies.Values, float32(v))
					}
					proxies.Classes, proxies.N = append(proxies.Classes, int64(class)), proxies.N+1
				}
			}
		}
		d, err := e.compiledLoss(s.loss).Loss(batch, proxies)
		if err != nil {
			return 0, 0, fmt.Errorf("loss %s: %w", s.loss, err)
		}
		raw = d.Raw
	}
	moved := func(x [3]float64, rows ...int) [3]float64 {
		length := 0.0
		for j := range x {
			for _, row := range rows {
				x[j] -= rate * float64(raw[3*row+j])
			}
			length += x[j] * x[j]
		}
		for j := range x {
			x[j] /= math.Sqrt(length)
		}
		return x
	}
	product := func(x, y [3]float64) float64 { return x[0]*y[0] + x[1]*y[1] + x[2]*y[2] }
	a, p, n = moved(a, 0), moved(p, positives...), moved(n, negatives...)
	return product(a, p), product(a, n), nil
}

// flow moves a batch down the gradient.
func (e *Engine) flow(q *request) (Object, error) {
	s, err := q.subject()
	if err != nil {
		return nil, err
	}
	batch, err := q.batch()
	if err != nil {
		return nil, err
	}
	frames, steps, rate := given(q.Frames, 1), given(q.Steps, 1), given(q.Rate, 0.03)
	if frames < 0 || frames > mostFrames || steps < 1 || steps > mostSteps || frames*batch.N*batch.Dim > 1<<24 {
		return nil, fmt.Errorf("a flow of %d frames of %d steps with %d points; want 0 to %d frames, 1 to %d steps, and "+
			"fewer points for many frames", frames, steps, batch.N, mostFrames, mostSteps)
	}
	var f *dissect.Flow
	var proxies dissect.Proxies
	if s.loss != nil {
		if proxies, err = q.proxies(s.loss, batch); err != nil {
			return nil, err
		}
		f, err = e.compiledLoss(s.loss).Flow(batch, proxies)
	} else {
		f, err = e.compiledRule(s.rule).Flow(batch, s.rule.Options)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var positions, sap, san []float32
	for range frames {
		if err := f.Advance(steps, rate); err != nil {
			return nil, err
		}
		at := f.State()
		positions = append(positions, at.F...)
		sap, san = append(sap, float32(at.Sap)), append(san, float32(at.San))
	}
	return Object{"name": s.name(), "n": batch.N, "dim": batch.Dim, "frames": frames, "F": positions,
		"labels": int32s(batch.Labels), "proxies": proxies.N, "P": f.State().P, "sap": sap, "san": san}, nil
}
