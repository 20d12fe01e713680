package figures

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot/plotter"
)

// blob returns a picture of a class: a disc in its color, shifted by the variant.
func blob(class, variant int) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, 32, 32))
	k := seriesColors[class%len(seriesColors)]
	for y := range 32 {
		for x := range 32 {
			c := color.NRGBA{uint8(200 + x), uint8(210 + y), 230, 255}
			if math.Hypot(float64(x-10-3*variant%11), float64(y-16+variant%5)) < 8+float64(class%3) {
				c = k
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

func TestRetrievalSheet(t *testing.T) {
	row := func(class int, hits ...int) RetrievalRow {
		r := RetrievalRow{Query: blob(class, 0), Class: fmt.Sprintf("class %d", class)}
		for k, h := range hits {
			name := fmt.Sprintf("class %d", h)
			if h == 4 {
				name = "Chevrolet Silverado 1500 Extended Cab 2012"
			}
			r.Hits = append(r.Hits, RetrievalHit{Image: blob(h, k+1), Class: name, Similarity: 0.99 - 0.031*float64(k),
				Right: h == class})
		}
		return r
	}
	f, err := RetrievalSheet(somewhere, row(0, 0, 0, 3, 0, 0), row(1, 4, 1, 1, 2, 1), row(2, 2, 2, 2, 2, 2))
	checkGolden(t, "retrievalsheet", f, err)
	if want := "12 of 15 are of the query's class, and so is the nearest of 2 queries"; !strings.Contains(f.Alt, want) {
		t.Error(f.Alt)
	}
	bad := row(0, 0)
	bad.Hits[0].Similarity = math.NaN()
	for name, rows := range map[string][]RetrievalRow{"none": nil, "no hit": {row(1)}, "NaN": {bad},
		"no picture": {{Hits: row(0, 0).Hits}}} {
		if _, err := RetrievalSheet("", rows...); err == nil || !strings.HasPrefix(err.Error(), "retrieval sheet: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Large pictures are reduced; 32 pixels are enlarged without new colors.
func TestThumb(t *testing.T) {
	for _, side := range []int{8, 32, 50, 256} {
		img := image.NewNRGBA(image.Rect(5, 5, 5+side, 5+side))
		for i := range img.Pix {
			img.Pix[i] = uint8(255 * (i / 4 % 2))
		}
		out := thumb(img)
		if b := out.Bounds(); b.Dx() != 96 || b.Dy() != 96 {
			t.Errorf("of %d pixels: %v", side, b)
		}
		if side == 32 {
			for x := range 96 {
				if want := img.At(5+x/3, 5+10); out.At(x, 31) != want {
					t.Fatalf("column %d is %v, want %v", x, out.At(x, 31), want)
				}
			}
		}
	}
}

func runGroups() []RunGroup {
	curve := func(epochs int, scale float64) []TrainingEpoch {
		out := make([]TrainingEpoch, epochs)
		for i := range out {
			x := math.Exp(-float64(i) / 6)
			out[i] = TrainingEpoch{i + 1, 0.12 + 0.3*x*scale, 0.9 - 0.2*x*scale, 0.6 + 0.2*x - 0.1*scale, scale * (0.3 + x)}
		}
		return out
	}
	return []RunGroup{
		{"euc/con/con", [][]TrainingEpoch{curve(24, 1), curve(24, 1.1), curve(24, 0.94)},
			stats.Mean{Mean: 71.9, Std: 1, N: 3}},
		{"cos/con/con", [][]TrainingEpoch{curve(24, 0.7), curve(24, 0.75), nil}, stats.Mean{Mean: 77.6, Std: 0.8, N: 3}},
		{"cos/lin/cir, lr 0.6", [][]TrainingEpoch{nil}, stats.Mean{Mean: 78.1, N: 1}},
	}
}

func TestRunCurves(t *testing.T) {
	groups := runGroups()
	f, err := RunCurves(somewhere, groups...)
	checkGolden(t, "runcurves", f, err)
	if !strings.Contains(f.Alt, "cos/con/con, Recall@1 77.6 ± 0.8 %, curves of 2 of 3 runs.") {
		t.Error(f.Alt)
	}
	if _, err := RunCurves("", groups[2]); err == nil || !strings.Contains(err.Error(), "no run has its epochs") {
		t.Errorf("without epochs: %v", err)
	}
	if _, err := RunCurves(""); err == nil {
		t.Error("no group was drawn")
	}
	groups[1].Curves[1][3].Sap = math.Inf(1)
	if _, err := RunCurves("", groups...); err == nil || !strings.Contains(err.Error(),
		"cos/con/con has a value in epoch 4") {
		t.Errorf("an infinite similarity: %v", err)
	}
	// A mean ends where the shortest run does.
	if mean := meanCourse([]plotter.XYs{{{X: 1, Y: 1}, {X: 2, Y: 2}}, {{X: 1, Y: 3}}}); len(mean) != 1 ||
		mean[0].Y != 2 {
		t.Errorf("mean %v", mean)
	}
}
