package formula

import (
	"fmt"
	"math"
)

// Weights are the weights of a rule as bound formulas. Mask is nil without one.
type Weights struct{ Positive, Negative, Triplet, Mask *Expr }

// At returns P₊, with the mask applied, P₋ and T of a triplet alone.
func (w Weights) At(sap, san float64) (positive, negative, triplet float64) {
	if positive = w.Positive.Value(sap, san); w.Mask != nil && w.Mask.Value(sap, san) != 0 {
		positive = 0
	}
	return positive, w.Negative.Value(sap, san), w.Triplet.Value(sap, san)
}

// side is the number of similarities on each axis where weights are looked at.
const side = 41

// similarity is one of those on an axis, from −1 to 1.
func similarity(i int) float64 { return -1 + 2*float64(i)/(side-1) }

// Remarks says where over the square of similarities weights are not finite numbers of 32 bits, and where they are
// negative, a sentence each.
func (w Weights) Remarks() (out []string) {
	var notFinite, below [3]region
	for i := range side {
		for j := range side {
			sap, san := similarity(i), similarity(j)
			positive, negative, triplet := w.At(sap, san)
			for k, x := range [...]float64{positive, negative, triplet} {
				switch {
				case !(math.Abs(x) <= math.MaxFloat32):
					notFinite[k].add(float64(float32(x)), sap, san)
				case x < 0:
					below[k].add(x, sap, san)
				}
			}
		}
	}
	for k, of := range []struct{ name, negative string }{
		{"P+", "it pushes positives away there"}, {"P-", "it pulls negatives nearer there"},
		{"T", "pull and push change places there"},
	} {
		bad, negative := notFinite[k], below[k]
		if bad.count > 0 {
			out = append(out, fmt.Sprintf("%s is %v at S_ap = %.3g, S_an = %.3g, and not finite at %.0f %% of all "+
				"similarities", of.name, bad.value, bad.sap, bad.san, bad.percent()))
		}
		if negative.count > 0 {
			out = append(out, fmt.Sprintf("%s is negative at %.0f %% of all similarities, such as S_ap = %.3g, S_an = %.3g: %s",
				of.name, negative.percent(), negative.sap, negative.san, of.negative))
		}
	}
	return out
}

// region is where on the square something holds: how often, and the place of the largest size.
type region struct {
	count           int
	value, sap, san float64
}

func (r *region) add(value, sap, san float64) {
	if r.count++; r.count == 1 || math.Abs(value) > math.Abs(r.value) {
		r.value, r.sap, r.san = value, sap, san
	}
}

func (r *region) percent() float64 { return 100 * float64(r.count) / (side * side) }

// Implied is the loss L(S_ap, S_an) of a triplet alone whose gradient a rule is, or why there is none.
type Implied struct {
	// L are its values, less a constant, in the middles of squares over all similarities, 40 each from −1 to 1: a row for
	// each S_an; nil where there is no such loss.
	L []float64
	// Curl is the largest ∂(T P₋)/∂S_ap + ∂(T P₊)/∂S_an, and Sap and San are where it is. With a loss it is 0: both are
	// its mixed derivative, with opposite signs.
	Curl, Sap, San float64
}

// Implied looks for the loss with ∂L/∂S_ap = −T P₊ and ∂L/∂S_an = T P₋, along the direction e^cos, or with euclidean
// along e^euc, whose pull T P₊ is ∂L/∂‖f_a−f_p‖. It integrates along two paths; where they differ there is none. It is
// an error if a weight is not finite.
func (w Weights) Implied(euclidean bool) (Implied, error) {
	const n, h = side - 1, 2.0 / (side - 1)
	out := Implied{L: make([]float64, n*n)}
	var s [n]float64 // Midpoints, where no distance is 0.
	for i := range s {
		s[i] = (similarity(i) + similarity(i+1)) / 2
	}
	var fault error
	along := func(pull bool, sap, san float64) float64 {
		positive, negative, triplet := w.At(sap, san)
		v, at := negative*triplet, san
		if pull {
			v, at = -positive*triplet, sap
		}
		if euclidean {
			v /= math.Sqrt(2 - 2*at)
		}
		if !(math.Abs(v) <= math.MaxFloat32) && fault == nil {
			fault = fmt.Errorf("the weights are not finite at S_ap = %.3g, S_an = %.3g", sap, san)
		}
		return v
	}
	// step integrates from a point to the next by Simpson's rule, along S_ap with pull, else along S_an.
	step := func(pull bool, i, j int) float64 {
		sap, san := s[i], s[j]
		if pull {
			i++
		} else {
			j++
		}
		return h / 6 * (along(pull, sap, san) + 4*along(pull, (sap+s[i])/2, (san+s[j])/2) + along(pull, s[i], s[j]))
	}
	low, high, apart := 0.0, 0.0, 0.0
	below := make([]float64, n) // How far a step along S_ap was from the difference of L, at the S_an before.
	for j := range n {
		gap := 0.0 // Of L by two paths: along S_ap and then S_an, and the other way around.
		for i := range n {
			k := j*n + i
			switch {
			case j > 0:
				out.L[k] = out.L[k-n] + step(false, i, j-1)
			case i > 0:
				out.L[k] = out.L[k-1] + step(true, i-1, 0)
			}
			low, high = min(low, out.L[k]), max(high, out.L[k])
			if i == 0 || j == 0 {
				continue
			}
			off := out.L[k] - out.L[k-1] - step(true, i-1, j)
			gap += off
			apart = max(apart, math.Abs(gap))
			if curl := (off - below[i]) / (h * h); math.Abs(curl) > math.Abs(out.Curl) {
				out.Curl, out.Sap, out.San = curl, (s[i]+s[i-1])/2, (s[j]+s[j-1])/2
			}
			below[i] = off
		}
	}
	if apart > 2e-3*(high-low) {
		out.L = nil
	} else {
		out.Curl, out.Sap, out.San = 0, 0, 0
	}
	return out, fault
}

// String says how far the loss falls from a hard triplet to an easy one, or where there is none.
func (l Implied) String() string {
	if l.L == nil {
		return fmt.Sprintf("no loss L(S_ap, S_an) of a triplet alone has these weights: its mixed derivatives by T P- and "+
			"by T P+ would differ, by up to %.3g at S_ap = %.3g, S_an = %.3g", math.Abs(l.Curl), l.Sap, l.San)
	}
	const low, high = 0.125, 0.875
	return fmt.Sprintf("these weights are the gradient of a loss L(S_ap, S_an) of a triplet alone: from a hard triplet "+
		"at (%[2]g, %[3]g) to an easy one at (%[3]g, %[2]g) it falls by %.3[1]f", l.At(low, high)-l.At(high, low), low, high)
}

// At returns the loss, linear between the places where it is known.
func (l Implied) At(sap, san float64) float64 {
	const n = side - 1
	place := func(s float64) (i int, part float64) {
		x := (s+1)/2*n - 0.5
		i = min(max(int(x), 0), n-2)
		return i, x - float64(i)
	}
	i, x := place(sap)
	j, y := place(san)
	at := l.L[j*n+i:]
	return (1-y)*((1-x)*at[0]+x*at[1]) + y*((1-x)*at[n]+x*at[n+1])
}
