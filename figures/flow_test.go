package figures

import (
	"image"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestMotion(t *testing.T) {
	polar := func(degrees float64) [2]float64 {
		sin, cos := math.Sincos(degrees * math.Pi / 180)
		return [2]float64{cos, sin}
	}
	a, p, n := polar(90), polar(30), polar(140)
	times := func(k float64, v [2]float64) [2]float64 { return [2]float64{k * v[0], k * v[1]} }
	m := TripletMotion{
		Title: "cos/con/con", Anchor: a, Positive: p, Negative: n,
		PositiveGradient: times(-0.5, a), NegativeGradient: times(0.5, a),
		AnchorGradient: [2]float64{0.5 * (n[0] - p[0]), 0.5 * (n[1] - p[1])},
	}
	f, err := Motion(m)
	checkGolden(t, "motion", f, err)
	if want := "positive by 0.50, negative by 0.50"; !strings.Contains(f.Alt, want) {
		t.Errorf("%q lacks %q", f.Alt, want)
	}
	bad := m
	bad.Positive = [2]float64{2, 0}
	if _, err := Motion(bad); err == nil || !strings.Contains(err.Error(), "positive") {
		t.Errorf("a positive of length 2: %v", err)
	}
	bad = m
	bad.NegativeGradient[1] = math.NaN()
	if _, err := Motion(bad); err == nil || !strings.Contains(err.Error(), "NegativeGradient[1] is NaN") {
		t.Errorf("NaN: %v", err)
	}
}

// swarm returns n classes of 4 embeddings after k steps toward the center of their class.
func swarm(n, dim, k int) Swarm {
	s := Swarm{Title: "step 30", Dim: dim}
	at := func(k int) (points []float32) {
		for i := range 4 * n {
			angle, off := 2*math.Pi*float64(i/4)/float64(n), 0.5*math.Pow(0.8, float64(k))*(float64(i%4)-1.5)
			if dim == 2 {
				points = append(points, float32(math.Cos(angle+off)), float32(math.Sin(angle+off)))
				continue
			}
			up := 0.8 * math.Sin(3*angle+2*off)
			points = append(points, float32(math.Cos(angle+off)*math.Cos(up)), float32(math.Sin(angle+off)*math.Cos(up)),
				float32(math.Sin(up)))
		}
		return points
	}
	for i := range 4 * n {
		s.Labels = append(s.Labels, int64(10-i/4))
	}
	for i := range k {
		s.Before = append(s.Before, at(i))
	}
	s.Points = at(k)
	return s
}

func TestFlow(t *testing.T) {
	var h History
	for i := range 31 {
		h.Steps = append(h.Steps, i)
		h.Sap, h.San = append(h.Sap, 1-0.5*math.Exp(-float64(i)/8)), append(h.San, 0.7*math.Exp(-float64(i)/12)-0.1)
	}
	f, err := Flow(h, swarm(5, 2, 6), swarm(9, 3, 6))
	checkGolden(t, "flow", f, err)
	if f, err = Flow(History{}, swarm(5, 2, 0)); err != nil || strings.Contains(f.Alt, "mean") {
		t.Errorf("one step without history: %v", err)
	}
	pictured := swarm(5, 2, 1)
	pictured.Images = slices.Repeat([]image.Image{image.NewNRGBA(image.Rect(0, 0, 4, 4))}, len(pictured.Labels))
	if f, err = Flow(History{}, pictured); err != nil || !f.Photographs {
		t.Errorf("images: %v", err)
	}
	few := pictured
	few.Images = few.Images[:4]
	long := swarm(5, 3, 2)
	long.Before[1][4] = 3
	for name, bad := range map[string]Swarm{
		"4 dimensions":     {Dim: 4},
		"an image too few": few,
		"a label too many": {Dim: 2, Points: []float32{1, 0}, Labels: []int64{1, 2}},
		"off the sphere":   long,
		"NaN":              {Dim: 2, Points: []float32{float32(math.NaN()), 0}, Labels: []int64{1}},
	} {
		if _, err := Flow(History{}, bad); err == nil {
			t.Errorf("%s: drawn", name)
		}
	}
	if _, err := Flow(History{}); err == nil {
		t.Error("nothing was drawn")
	}
	if _, err := Flow(History{Steps: []int{1}}, swarm(5, 2, 0)); err == nil {
		t.Error("a history without similarities was drawn")
	}
}
