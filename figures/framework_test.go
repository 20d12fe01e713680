package figures

import (
	"image"
	"image/color"
	"math"
	"strings"
	"testing"
)

// twoClasses returns a step with eight embeddings on the unit circle in closed form, under cos/lin/cir; the positive is
// the neighbor.
func twoClasses() Step {
	const n, dim = 8, 2
	s := Step{PerRow: 4, Labels: make([]int64, n), Dim: dim, Rule: "cos/lin/cir", Loss: "circle",
		Formula: []Markup{"log(1 + exp($z$))"},
		Value:   0.5, Constant: 2, DifferenceM: 1.2e-7, M: make([]float32, n*n), LossM: make([]float32, n*n),
		G: make([]float32, n*dim), LossG: make([]float32, n*dim)}
	angle := func(i int) float64 { return 0.25 * float64(i) * (1 + 0.1*float64(i%3)) }
	for i := range n {
		s.Labels[i] = int64(i / 4)
		s.F = append(s.F, float32(math.Cos(angle(i))), float32(math.Sin(angle(i))))
		for j := range n {
			s.S = append(s.S, float32(math.Cos(angle(i)-angle(j))))
		}
		img := image.NewNRGBA(image.Rect(0, 0, 4, 4))
		for k := range 16 {
			img.SetNRGBA(k%4, k/4, color.NRGBA{uint8(30 * i), uint8(15 * k), 160, 255})
		}
		s.Images = append(s.Images, img)
	}
	for a := range n {
		p, q := a^1, (a+4)%n
		t := StepTriplet{Anchor: a, Positive: p, Negative: q, Sap: float64(s.S[a*n+p]), San: float64(s.S[a*n+q])}
		t.PairPositive, t.PairNegative, t.Weight = 1-t.Sap, t.San, 1/(1+math.Exp(t.Sap*(2-t.Sap)-t.San*t.San))
		s.Triplets = append(s.Triplets, t)
		for _, e := range [][3]float64{{float64(p), float64(a), -t.PairPositive}, {float64(a), float64(p), -t.PairPositive},
			{float64(q), float64(a), t.PairNegative}, {float64(a), float64(q), t.PairNegative}} {
			s.M[int(e[0])*n+int(e[1])] += float32(t.Weight * e[2] / n)
		}
	}
	for i := range n {
		for j := range n {
			s.LossM[i*n+j] = 2 * s.M[i*n+j]
			for k := range dim {
				s.G[i*dim+k] += s.M[i*n+j] * s.F[j*dim+k]
				s.LossG[i*dim+k] += s.LossM[i*n+j] * s.F[j*dim+k]
			}
		}
	}
	for i, name := range []string{"stem", "layer1", "fc"} {
		s.Stages = append(s.Stages, StepStage{name, 0.1 * float64(i+1), 0.2 * float64(i+1)})
	}
	return s
}

func TestFramework(t *testing.T) {
	f, err := Framework(twoClasses())
	checkGolden(t, "framework", f, err)

	for want, spoil := range map[string]func(*Step){
		"M has 63 values; want 64":        func(s *Step) { s.M = s.M[1:] },
		".LossG[3] is NaN":                func(s *Step) { s.LossG[3] = float32(math.NaN()) },
		"triplet 2 is of rows 2, 3 and 9": func(s *Step) { s.Triplets[2].Negative = 9 },
		".Triplets[0].Weight is +Inf":     func(s *Step) { s.Triplets[0].Weight = math.Inf(1) },
		".Stages[2].Loss is NaN":          func(s *Step) { s.Stages[2].Loss = math.NaN() },
		`rule "circle"`:                   func(s *Step) { s.Rule = "circle" },
		"0 labels":                        func(s *Step) { s.Labels = nil },
	} {
		s := twoClasses()
		spoil(&s)
		if _, err := Framework(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, not %v", want, err)
		}
	}
	s := twoClasses() // No triplets, and so no gradient.
	s.Triplets, s.Stages = nil, nil
	clear(s.M)
	f, err = Framework(s)
	if err == nil {
		_, err = Bytes(f, "svg")
	}
	if err != nil {
		t.Error(err)
	}
}
