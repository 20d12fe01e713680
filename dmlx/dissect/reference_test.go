package dissect

import (
	"math"

	"github.com/gradient-surgery/dml/dmlx"
)

// The reference: the composed gradient in float64 on vectors, triplet by triplet, as the paper writes it. It shares no
// code and no idea (no matrix, no coefficients) with the library.

type vec []float64

func (a vec) dot(b vec) (s float64) {
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

func (a vec) add(k float64, b vec) vec {
	out := make(vec, len(a))
	for i := range a {
		out[i] = a[i] + k*b[i]
	}
	return out
}

func (a vec) times(k float64) vec { return make(vec, len(a)).add(k, a) }

func (a vec) unit(vanishing float64) vec {
	l := math.Sqrt(a.dot(a))
	if l <= vanishing {
		return make(vec, len(a))
	}
	return a.times(1 / l)
}

type reference struct {
	f        []vec
	g        []vec
	triplets []Triplet
}

func referenceOf(e Embeddings, r dmlx.Rule) reference {
	r = r.WithDefaults()
	o := r.Options
	f := make([]vec, e.N)
	for i := range f {
		f[i] = make(vec, e.Dim)
		for j := range f[i] {
			f[i][j] = float64(e.Values[i*e.Dim+j])
		}
		f[i] = f[i].unit(1e-12)
	}
	out := reference{f: f, g: make([]vec, e.N)}
	for i := range out.g {
		out.g[i] = make(vec, e.Dim)
	}
	similarity := func(i, j int) float64 { return f[i].dot(f[j]) }
	positives := func(a int) (p []int) {
		for i := range f {
			if i != a && e.Labels[i] == e.Labels[a] && (!o.SkipDuplicates || similarity(a, i) <= 0.9999) {
				p = append(p, i)
			}
		}
		return p
	}
	negatives := func(a int) (n []int) {
		for i := range f {
			if e.Labels[i] != e.Labels[a] {
				n = append(n, i)
			}
		}
		return n
	}
	nearest := func(a int, of []int) int {
		best := of[0]
		for _, i := range of {
			if similarity(a, i) > similarity(a, best) {
				best = i
			}
		}
		return best
	}
	chosen := e.Triplets
	if len(chosen) == 0 {
		for a := range f {
			if p, n := positives(a), negatives(a); len(p) > 0 && len(n) > 0 {
				chosen = append(chosen, Triplet{Anchor: a, Positive: nearest(a, p), Negative: nearest(a, n)})
			}
		}
	}
	scale := 1.0
	if !o.Sum && len(chosen) > 0 {
		scale = 1 / float64(len(chosen))
	}
	for _, t := range chosen {
		a, p, n := t.Anchor, t.Positive, t.Negative
		sap, san := similarity(a, p), similarity(a, n)
		var pp, pn float64
		// 𝒫 and 𝒩.
		hardest, farthest := math.Inf(-1), math.Inf(1)
		for _, i := range negatives(a) {
			hardest = max(hardest, similarity(a, i))
		}
		for _, i := range positives(a) {
			farthest = min(farthest, similarity(a, i))
		}
		var rp, rn []float64
		for _, i := range positives(a) {
			if s := similarity(a, i); i != p && s < hardest+dmlx.Epsilon.In(o) {
				rp = append(rp, s)
			}
		}
		for _, i := range negatives(a) {
			if s := similarity(a, i); i != n && s > farthest-dmlx.Epsilon.In(o) {
				rn = append(rn, s)
			}
		}
		mean := func(r []float64, empty float64, of func(float64) float64) float64 {
			if len(r) == 0 {
				return empty
			}
			s := 0.0
			for _, x := range r {
				s += of(x)
			}
			return s / float64(len(r))
		}
		alpha, beta, lambda := dmlx.Alpha.In(o), dmlx.Beta.In(o), dmlx.Lambda.In(o)
		switch r.Pair.Name {
		case "con":
			pp, pn = 1, 1
		case "euc":
			d, u := f[a].add(-1, f[p]), f[a].add(-1, f[n])
			pp, pn = math.Sqrt(d.dot(d)), math.Sqrt(u.dot(u))
		case "lin":
			pp, pn = 1-sap, san
		case "lin-ms":
			mp := mean(rp, 0, func(x float64) float64 { return sap - x })
			mn := mean(rn, 0, func(x float64) float64 { return san - x })
			pp, pn = (1-mp)*(1-sap), (1+mn)*san
		case "sig":
			pp, pn = 1/(1+math.Exp(alpha*(sap-lambda))), 1/(1+math.Exp(-beta*(san-lambda)))
		case "sig-ms":
			mp := mean(rp, 1, func(x float64) float64 { return math.Exp(alpha * (sap - x)) })
			mn := mean(rn, 1, func(x float64) float64 { return math.Exp(-beta * (san - x)) })
			pp, pn = 1/(mp+math.Exp(alpha*(sap-lambda))), 1/(mn+math.Exp(-beta*(san-lambda)))
		}
		circle := sap*(2-sap) - san*san
		var w float64
		switch r.Triplet.Name {
		case "con":
			w = 0.5
		case "cos":
			w = 1 / (1 + math.Exp(dmlx.Tau.In(o)*(sap-san)))
		case "cir":
			w = 1 / (1 + math.Exp(dmlx.Tau.In(o)*circle))
		}
		if r.Mask.Name == "sc1" && san > sap || r.Mask.Name == "sc2" && circle < 0.5 || r.Mask.Name == "sc2-printed" &&
			circle > 0.5 {
			pp = 0
		}
		var ep, en, eap, ean vec
		switch r.Direction.Name {
		case "cos", "cos-orth":
			ep, en, eap, ean = f[a].times(-1), f[a], f[p].times(-1), f[n]
		case "euc", "euc-orth":
			ep, en = f[p].add(-1, f[a]).unit(1e-5), f[a].add(-1, f[n]).unit(1e-5)
			eap, ean = ep.times(-1), en.times(-1)
		}
		if r.Direction.Name == "cos-orth" || r.Direction.Name == "euc-orth" {
			u := f[a].add(-1, f[p]).unit(1e-5)
			project := func(v vec) vec {
				v = v.add(-v.dot(u), u)
				if o.KeepLength {
					return v
				}
				return v.unit(1e-5)
			}
			en = project(en)
			if !o.NegativeOnly {
				ean = project(ean)
			}
		}
		out.g[p] = out.g[p].add(scale*w*pp, ep)
		out.g[n] = out.g[n].add(scale*w*pn, en)
		out.g[a] = out.g[a].add(scale*w*pp, eap).add(scale*w*pn, ean)
		out.triplets = append(out.triplets, Triplet{Anchor: a, Positive: p, Negative: n, Sap: float32(sap),
			San: float32(san), PairPositive: float32(pp), PairNegative: float32(pn), Weight: float32(w)})
	}
	return out
}

// raw is the gradient at un-normalized embeddings: (g − (g·f)f)/‖x‖ for each row.
func (r reference) raw(e Embeddings) []vec {
	out := make([]vec, e.N)
	for i := range out {
		length := 0.0
		for j := range e.Dim {
			length += float64(e.Values[i*e.Dim+j]) * float64(e.Values[i*e.Dim+j])
		}
		out[i] = r.g[i].add(-r.g[i].dot(r.f[i]), r.f[i])
		if length = math.Sqrt(length); length > 1e-12 {
			out[i] = out[i].times(1 / length)
		} else {
			out[i] = make(vec, e.Dim)
		}
	}
	return out
}
