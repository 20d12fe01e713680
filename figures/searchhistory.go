package figures

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// SearchTrial is a trial of a search with its scores at each training length that it reached.
type SearchTrial struct {
	Number int
	// Scores are Recall@1 of held-out classes in percent, shortest length first; NaN for a run that diverged.
	Scores []float64
}

// SearchTrials are the trials of a search, in order.
type SearchTrials struct {
	Title   Markup
	Lengths []string // Such as "6 epochs", shortest first.
	Trials  []SearchTrial
}

func (s SearchTrials) check() error {
	if len(s.Lengths) == 0 || len(s.Lengths) > len(searchShapes) || len(s.Trials) == 0 {
		return fmt.Errorf("history of a search: %d trials of %d lengths; want some, and at most %d lengths",
			len(s.Trials), len(s.Lengths), len(searchShapes))
	}
	for _, t := range s.Trials {
		if len(t.Scores) == 0 || len(t.Scores) > len(s.Lengths) {
			return fmt.Errorf("history of a search: trial %d has %d scores for %d lengths; want 1 to %d",
				t.Number, len(t.Scores), len(s.Lengths), len(s.Lengths))
		}
	}
	return nil
}

// SearchHistory draws the score of each trial of a search, by the length of its runs, and the best score so far at
// the full length. Each search has a panel; all share the vertical scale. Crosses at the bottom are runs that
// diverged. The paper has no such figure.
func SearchHistory(provenance string, searches ...SearchTrials) (*Figure, error) {
	if len(searches) == 0 {
		return nil, fmt.Errorf("history of a search: no searches; want at least one")
	}
	values := spanOf()
	for _, s := range searches {
		if err := s.check(); err != nil {
			return nil, err
		}
		for _, t := range s.Trials {
			values.add(t.Scores...)
		}
	}
	values = values.padded(0.06, 0.5)
	const legend = vg.Length(78) // Beside each panel.
	var panels []*plot.Plot
	var words []string
	for k, s := range searches {
		p := newPlot(s.Title, "trial", "")
		if k == 0 {
			p.Y.Label.Text = "held-out Recall@1, %"
		}
		last := s.Trials[len(s.Trials)-1].Number
		p.X.Min, p.X.Max = float64(s.Trials[0].Number)-1, float64(last)+1
		p.X.Tick.Marker = every(math.Ceil(roundStep(max(1, (p.X.Max-p.X.Min)/6))), 0, p.X.Max)
		values.scaled(&p.Y, 5)
		p.Add(painter(s.draw))
		for r := range s.Lengths {
			name := s.Lengths[len(s.Lengths)-1-r]
			p.Legend.Add(name, dots{s.glyph(len(s.Lengths) - 1 - r)})
		}
		p.Legend.Top, p.Legend.XOffs = true, legend
		panels = append(panels, p)
		full := s.Lengths[len(s.Lengths)-1]
		outcome := fmt.Sprintf("none of %s so far", full)
		if best := s.best(); len(best) > 0 {
			last := best[len(best)-1]
			outcome = fmt.Sprintf("the best of %s is number %d with %.1f", full, last.Number, last.Scores[len(s.Lengths)-1])
		}
		words = append(words, fmt.Sprintf("%s: %d trials, %s", Plain(s.Title), len(s.Trials), outcome))
	}
	return &Figure{
		Width: besideWidth / 2 * vg.Length(len(panels)), Height: vg.Points(250), Provenance: provenance,
		Alt: "Recall@1 of held-out classes, in percent, of each trial of a search. " + strings.Join(words, "; ") + ".",
		panels: func(c draw.Canvas) {
			c.Max.X -= legend
			drawRow(c, panels, 12+legend)
		},
	}, nil
}

// searchShapes are the shapes of lengths, shortest first. searchColors are their colors, longest first: black, and
// paler for shorter ones.
var (
	searchShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, diamond{}, draw.PyramidGlyph{}, draw.BoxGlyph{}}
	searchColors = []color.NRGBA{Black, Blue, SkyBlue, Orange}
)

func (s SearchTrials) glyph(length int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: searchColors[len(s.Lengths)-1-length], Radius: vg.Points(2.4 + 0.5*float64(length)),
		Shape: searchShapes[length]}
}

// best returns the trials of the full length that are better than all before them.
func (s SearchTrials) best() (trials []SearchTrial) {
	best := math.Inf(-1)
	for _, t := range s.Trials {
		if v := t.Scores[len(t.Scores)-1]; len(t.Scores) == len(s.Lengths) && v > best {
			best, trials = v, append(trials, t)
		}
	}
	return trials
}

func (s SearchTrials) draw(c draw.Canvas, _ *plot.Plot, x, y place) {
	var line []vg.Point
	height := vg.Length(0)
	for i, t := range s.best() {
		at := x(float64(t.Number))
		if i > 0 {
			line = append(line, pt(at, height))
		}
		height = y(t.Scores[len(s.Lengths)-1])
		line = append(line, pt(at, height))
	}
	if len(line) > 0 {
		c.StrokeLines(stroke(quiet, 0.9, 3, 2), append(line, pt(c.Max.X, height)))
	}
	for _, t := range s.Trials {
		for r, v := range t.Scores {
			if at := x(float64(t.Number)); math.IsNaN(v) {
				dot(c, Vermilion, vg.Points(2.6), draw.CrossGlyph{}, at, c.Min.Y+4)
			} else {
				c.DrawGlyphNoClip(s.glyph(r), pt(at, y(v)))
			}
		}
	}
}
