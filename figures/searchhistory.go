package figures

import (
	"fmt"
	"image/color"
	"math"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
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
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range searches {
		if err := s.check(); err != nil {
			return nil, err
		}
		for _, t := range s.Trials {
			for _, v := range t.Scores {
				if !math.IsNaN(v) {
					low, high = min(low, v), max(high, v)
				}
			}
		}
	}
	if low > high {
		low, high = 0, 100
	}
	room := max(0.06*(high-low), 0.5)
	const legend = vg.Length(78) // Beside each panel.
	var panels []*plot.Plot
	var words []string
	var widths []float64
	for k, s := range searches {
		p := newPlot(s.Title, "trial", "")
		if k == 0 {
			p.Y.Label.Text = "held-out Recall@1, %"
		}
		last := s.Trials[len(s.Trials)-1].Number
		p.X.Min, p.X.Max = float64(s.Trials[0].Number)-1, float64(last)+1
		p.Y.Min, p.Y.Max = low-room, high+room
		p.X.Tick.Marker = every(math.Ceil(roundStep(max(1, (p.X.Max-p.X.Min)/6))), 0, p.X.Max)
		p.Y.Tick.Marker = every(roundStep((p.Y.Max-p.Y.Min)/5), p.Y.Min, p.Y.Max)
		marks := searchMarks(s)
		p.Add(marks)
		for r := range s.Lengths {
			name := s.Lengths[len(s.Lengths)-1-r]
			p.Legend.Add(name, mark{marks.glyph(len(s.Lengths) - 1 - r)})
		}
		p.Legend.Top, p.Legend.XOffs = true, legend
		panels, widths = append(panels, p), append(widths, 1)
		best, at := marks.best()
		if at >= 0 {
			words = append(words, fmt.Sprintf("%s: %d trials, the best of %s is number %d with %.1f", Plain(s.Title),
				len(s.Trials), s.Lengths[len(s.Lengths)-1], at, best))
		} else {
			words = append(words, fmt.Sprintf("%s: %d trials, none of %s so far", Plain(s.Title), len(s.Trials),
				s.Lengths[len(s.Lengths)-1]))
		}
	}
	return &Figure{
		Width: vg.Points(360 * float64(len(panels))), Height: vg.Points(250), Provenance: provenance,
		Alt: "Recall@1 of held-out classes, in percent, of each trial of a search. " + strings.Join(words, "; ") + ".",
		panels: func(c draw.Canvas) {
			for k, part := range columns(c, 12, widths...) {
				part.Max.X -= legend
				drawPlot(panels[k], part)
			}
		},
	}, nil
}

// mark is a glyph in a legend.
type mark struct{ draw.GlyphStyle }

func (m mark) Thumbnail(c *draw.Canvas) { c.DrawGlyphNoClip(m.GlyphStyle, c.Center()) }

type searchMarks SearchTrials

// searchShapes are the shapes of lengths, shortest first. searchColors are their colors, longest first: black, and
// paler for shorter ones.
var (
	searchShapes = []draw.GlyphDrawer{draw.CircleGlyph{}, diamond{}, draw.PyramidGlyph{}, draw.BoxGlyph{}}
	searchColors = []color.NRGBA{Black, Blue, SkyBlue, Orange}
)

func (s searchMarks) glyph(length int) draw.GlyphStyle {
	return draw.GlyphStyle{Color: searchColors[len(s.Lengths)-1-length], Radius: vg.Points(2.4 + 0.5*float64(length)),
		Shape: searchShapes[length]}
}

// best returns the highest score at the full length and the number of its trial, which is −1 without one.
func (s searchMarks) best() (score float64, number int) {
	number = -1
	for _, t := range s.Trials {
		if v := t.Scores[len(t.Scores)-1]; len(t.Scores) == len(s.Lengths) && (number < 0 || v > score) && !math.IsNaN(v) {
			score, number = v, t.Number
		}
	}
	return score, number
}

func (s searchMarks) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	var line plotter.XYs
	best := math.Inf(-1)
	for _, t := range s.Trials {
		if v := t.Scores[len(t.Scores)-1]; len(t.Scores) == len(s.Lengths) && v > best {
			if len(line) > 0 {
				line = append(line, plotter.XY{X: float64(t.Number), Y: best})
			}
			best = v
			line = append(line, plotter.XY{X: float64(t.Number), Y: best})
		}
	}
	if len(line) > 0 {
		line = append(line, plotter.XY{X: p.X.Max, Y: best})
		var points []vg.Point
		for _, at := range line {
			points = append(points, vg.Point{X: x(at.X), Y: y(at.Y)})
		}
		c.StrokeLines(stroke(quiet, 0.9, 3, 2), points)
	}
	for _, t := range s.Trials {
		for r, v := range t.Scores {
			if math.IsNaN(v) {
				c.DrawGlyphNoClip(draw.GlyphStyle{Color: Vermilion, Radius: vg.Points(2.6), Shape: draw.CrossGlyph{}},
					vg.Point{X: x(float64(t.Number)), Y: c.Min.Y + 4})
				continue
			}
			c.DrawGlyphNoClip(s.glyph(r), vg.Point{X: x(float64(t.Number)), Y: y(v)})
		}
	}
}
