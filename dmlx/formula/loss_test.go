package formula

import (
	"math"
	"strings"
	"testing"
)

// weightsOf reads P₊, P₋ and T, and a mask.
func weightsOf(t *testing.T, pair, triplet, mask string) (w Weights) {
	t.Helper()
	for _, p := range []struct {
		text  string
		kinds []Kind
		to    []**Expr
	}{{pair, []Kind{IsNumber, IsNumber}, []**Expr{&w.Positive, &w.Negative}},
		{triplet, []Kind{IsNumber}, []**Expr{&w.Triplet}}, {mask, []Kind{IsCondition}, []**Expr{&w.Mask}}} {
		if p.text == "" {
			continue
		}
		l, err := Parse(p.text, nil, p.kinds...)
		if err != nil {
			t.Fatal(err)
		}
		for i, e := range l.Bound(nil) {
			*p.to[i] = e
		}
	}
	return w
}

// The loss of a rule by integration is the one known in closed form, where there is one.
func TestImplied(t *testing.T) {
	t.Parallel()
	softplus := func(x float64) float64 { return math.Log1p(math.Exp(x)) }
	d := func(s float64) float64 { return math.Sqrt(2 - 2*s) }
	for _, c := range []struct {
		pair, triplet, mask string
		euclidean           bool
		loss                func(sap, san float64) float64
		curl, tolerance     float64
	}{
		{"1, 1", "0.5", "", false, func(sap, san float64) float64 { return (san - sap) / 2 }, 0, 1e-9},
		{"1, 1", "1/(1+exp(2*(Sap-San)))", "", false, // T^cos: the soft margin.
			func(sap, san float64) float64 { return softplus(2*(san-sap)) / 2 }, 0, 2e-3},
		{"1-Sap, San", "1/(1+exp(Sap*(2-Sap)-San*San))", "", false, // Circle.
			func(sap, san float64) float64 { return softplus(san*san-sap*(2-sap)) / 2 }, 0, 2e-3},
		{"1, 1", "max(0, San-Sap+0.5)", "", false, // A hinge, squared.
			func(sap, san float64) float64 { return math.Pow(max(0, san-sap+0.5), 2) / 2 }, 0, 5e-3},
		{"1, 1", "1", "", true, func(sap, san float64) float64 { return d(sap) - d(san) }, 0, 5e-2}, // The triplet loss.
		{"1-Sap, San", "0.5", "", false, func(sap, san float64) float64 {
			return (math.Pow(1-sap, 2) + san*san) / 4
		}, 0, 1e-3},
		{"San, Sap", "1", "", false, nil, 2, 1e-6},            // ∂(S_ap)/∂S_ap + ∂(S_an)/∂S_an
		{"1, 1", "1", "San > Sap", false, nil, math.NaN(), 0}, // The pull ends at a line.
	} {
		of, err := weightsOf(t, c.pair, c.triplet, c.mask).Implied(c.euclidean)
		if err != nil {
			t.Fatal(err)
		}
		if c.loss == nil {
			if of.L != nil || math.Abs(of.Curl-c.curl) > c.tolerance {
				t.Errorf("[%s] [%s]: a loss %v, curl %g, want %g", c.pair, c.triplet, of.L != nil, of.Curl, c.curl)
			}
			continue
		}
		if of.L == nil || of.Curl != 0 {
			t.Errorf("[%s] [%s]: no loss: curl %g at %g, %g", c.pair, c.triplet, of.Curl, of.Sap, of.San)
			continue
		}
		for _, at := range [][2]float64{{0.875, 0.125}, {0.525, 0.525}, {-0.325, 0.825}, {0.9, 0.1}, {0.413, 0.607}} {
			got, want := of.At(at[0], at[1])-of.At(0.125, 0.225), c.loss(at[0], at[1])-c.loss(0.125, 0.225)
			if math.Abs(got-want) > c.tolerance {
				t.Errorf("[%s] [%s] at %v: %g, want %g", c.pair, c.triplet, at, got, want)
			}
		}
	}
	if _, err := weightsOf(t, "1, 1/San", "1", "").Implied(false); err == nil {
		t.Error("no error for a pole")
	}
}

func TestRemarks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pair, triplet, want string }{
		{"1, 1", "0.5", ""},
		{"1-Sap, max(San, 0)", "sigmoid(9*San)", ""},
		{"log(1-Sap), 1", "1", "P+ is -Inf at S_ap = 1, S_an = -1, and not finite at 2 % of all similarities|P+ is " +
			"negative at 46 % of all similarities, such as S_ap = 0.95, S_an = -1: it pushes positives away there"},
		{"1, San", "1", "P- is negative at 49 % of all similarities, such as S_ap = -1, S_an = -1: it pulls negatives " +
			"nearer there"},
		{"1, 1", "where(Sap > 0.97, sqrt(-2), 1)", "T is NaN at S_ap = 1, S_an = -1, and not finite at 2 % of all " +
			"similarities"},
		{"1, 1", "exp(80*(San-Sap))", "T is +Inf at S_ap = -1, S_an = 0.15, and not finite at 10 % of all " +
			"similarities"}, // Of 32 bits: beyond exp(88.7).
	} {
		if got := strings.Join(weightsOf(t, c.pair, c.triplet, "").Remarks(), "|"); got != c.want {
			t.Errorf("[%s] [%s]: %s\nwant %s", c.pair, c.triplet, got, c.want)
		}
	}
}
