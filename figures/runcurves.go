package figures

import (
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// RunGroup is runs that differ only in their seed.
type RunGroup struct {
	Name Markup
	// Curves are the epochs of each run. A run without epochs counts in Recall only.
	Curves [][]TrainingEpoch
	// Recall is Recall@1 over the group's seeds.
	Recall stats.Mean
}

func (g RunGroup) seen() int {
	return len(slices.DeleteFunc(slices.Clone(g.Curves), func(c []TrainingEpoch) bool { return len(c) == 0 }))
}

// lacking says how many runs have no curves.
func (g RunGroup) lacking() string {
	if n := g.seen(); n < len(g.Curves) {
		return fmt.Sprintf(", curves of %d of %d runs", n, len(g.Curves))
	}
	return ""
}

// RunCurves draws the training of groups of runs, by epoch: the share of violated triplets in percent, mean S_ap,
// mean S_an, and the length of the gradient of all weights on a logarithmic scale. Thin lines are single runs; the
// thick line with marks is the mean of a group over seeds. The paper has no such figure. It takes at most seven
// groups, which have distinct colors, and finite values.
func RunCurves(provenance string, groups ...RunGroup) (*Figure, error) {
	if len(groups) == 0 || len(groups) > len(seriesColors) {
		return nil, fmt.Errorf("curves of runs: %d groups; want 1 to %d", len(groups), len(seriesColors))
	}
	epochs, drawn := 0.0, 0
	for _, g := range groups {
		for _, c := range g.Curves {
			for _, e := range c {
				if err := e.check(); err != nil {
					return nil, fmt.Errorf("curves of runs: %s has %w", Plain(g.Name), err)
				}
				epochs = max(epochs, float64(e.Epoch))
			}
		}
		drawn += g.seen()
	}
	if drawn == 0 {
		return nil, fmt.Errorf("curves of runs: no run has its epochs; train one of them in this store")
	}
	similarities := func(p *plot.Plot, values span) { values.padded(0.05, 0.01).scaled(&p.Y, 5) }
	panels := []struct {
		title, label Markup
		of           func(TrainingEpoch) float64
		scale        func(*plot.Plot, span)
	}{
		{"$S_{an} > S_{ap}$", "share of triplets, %", violated, violationScale},
		{"$S_{ap}$", "mean similarity", sapOf, similarities},
		{"$S_{an}$", "mean similarity", sanOf, similarities},
		{"Gradient of all weights", "length", length, lengthScale},
	}
	runs := make([][][]TrainingEpoch, len(groups))
	for i, g := range groups {
		runs[i] = g.Curves
	}
	plots := make([]*plot.Plot, len(panels))
	for k, part := range panels {
		plots[k] = overEpochs(part.title, part.label, epochs, 4)
		part.scale(plots[k], courses(plots[k], course(runs, part.of)))
	}
	alt := "Training by epoch: share of violated triplets, mean S_ap and S_an, length of the gradient."
	for _, g := range groups {
		alt += fmt.Sprintf(" %s, Recall@1 %s %%%s.", Plain(g.Name), g.Recall, g.lacking())
	}
	names := func(across int) vg.Length { return vg.Length(14 * ((len(groups) + across - 1) / across)) } // Their height.
	return &Figure{
		Width: besideWidth, Height: vg.Points(188) + names(2) + 8 + noteRoom(provenance), Alt: alt, Provenance: provenance,
		panels: func(c draw.Canvas) {
			across := 2
			if c.Max.X-c.Min.X < 400 {
				across = 1
			}
			room := (c.Max.X - c.Min.X) / vg.Length(across)
			for i, g := range groups {
				label := fmt.Sprintf("%s: Recall@1 %s %%%s", g.Name, g.Recall, g.lacking())
				if n := g.seen(); n == 0 {
					label = fmt.Sprintf("%s: Recall@1 %s %%, its epochs are not in the store", g.Name, g.Recall)
				} else if n == len(g.Curves) && n > 1 {
					label += fmt.Sprintf(" over %d seeds", n)
				}
				courseKey(c, c.Min.X+vg.Length(i%across)*room+10, c.Min.Y+names(across)-7-vg.Length(i/across)*14, i, label, room-30)
			}
			c.Min.Y += names(across) + 8
			drawRow(c, plots, 10)
		},
	}, nil
}

func runGlyph(group int, radius vg.Length) draw.GlyphStyle {
	shape := ringed{seriesShapes[group%len(seriesShapes)]}
	return draw.GlyphStyle{Color: trainingColor(group), Radius: radius, Shape: shape}
}
