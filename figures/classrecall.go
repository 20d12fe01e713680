package figures

import (
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ClassScore counts the queries of a class, and those of them whose nearest image is of the class.
type ClassScore struct {
	Name           string
	Found, Queries int
}

func (c ClassScore) percent() float64 { return 100 * float64(c.Found) / float64(c.Queries) }

// worstClasses is the number of classes that ClassRecall names.
const worstClasses = 12

// ClassRecall draws the Recall@1 of each class, in percent, from the lowest on the left to the highest, and lists the
// lowest with their counts. A dashed line is the recall over all queries. The paper has no such figure. Counts
// outside 0 to Queries are an error.
func ClassRecall(provenance string, classes []ClassScore) (*Figure, error) {
	if len(classes) == 0 {
		return nil, fmt.Errorf("recall by class: no classes; want at least one")
	}
	found, queries, perfect := 0, 0, 0
	for _, c := range classes {
		if c.Queries < 1 || c.Found < 0 || c.Found > c.Queries {
			return nil, fmt.Errorf("recall by class: class %s has %d hits of %d queries; want 0 to all of at least one", c.Name,
				c.Found, c.Queries)
		}
		found, queries = found+c.Found, queries+c.Queries
		if c.Found == c.Queries {
			perfect++
		}
	}
	classes = slices.Clone(classes)
	slices.SortStableFunc(classes, func(a, b ClassScore) int { return a.Found*b.Queries - b.Found*a.Queries })
	overall := 100 * float64(found) / float64(queries)
	all := newPlot(fmt.Sprintf("All %d classes", len(classes)), "classes, the worst first", "Recall@1, %")
	all.X.Min, all.X.Max = 0.5, float64(len(classes))+0.5
	all.X.Tick.Marker = every(max(1, roundStep(float64(len(classes))/5)), 1, float64(len(classes)))
	setAxis(&all.Y, 0, 100, 20)
	all.Add(lightGrid(), painter(func(c draw.Canvas, _ *plot.Plot, x, y place) {
		c.StrokeLine2(stroke(quiet, 0.8, 4, 2.5), c.Min.X, y(overall), c.Max.X, y(overall))
		s := aligned(style(noteSize, quiet), text.XLeft, text.YBottom) // The lowest classes leave room at the left.
		write(c, s, c.Min.X+4, y(overall)+3, fmt.Sprintf("all queries: %.1f %%", overall))
		room := (c.Max.X - c.Min.X) / vg.Length(len(classes)) // Many dots are smaller, and without stems.
		for i, k := range classes {
			at := pt(x(float64(i+1)), y(k.percent()))
			if room > 3 {
				c.StrokeLine2(stroke(SkyBlue, 0.8), at.X, y(0), at.X, at.Y)
			}
			dot(c, Blue, max(0.8, min(2.4, 0.45*room)), draw.CircleGlyph{}, at.X, at.Y)
		}
	}))
	worst := classes[:min(worstClasses, len(classes))]
	var words []string
	for _, c := range worst {
		words = append(words, fmt.Sprintf("%s %d of %d", c.Name, c.Found, c.Queries))
	}
	return &Figure{
		Width: vg.Points(560), Height: vg.Points(236), Provenance: provenance,
		Alt: fmt.Sprintf("Recall@1 of each of %d classes, sorted: %.1f %% over all queries, %d classes without a miss. "+
			"The worst: %s.", len(classes), overall, perfect, strings.Join(words, ", ")),
		panels: func(c draw.Canvas) {
			parts := columns(c, 24, 1.15, 1)
			drawPlot(all, parts[0])
			drawWorst(parts[1], worst)
		},
	}, nil
}

// drawWorst lists classes with their counts and a bar for their recall.
func drawWorst(c draw.Canvas, classes []ClassScore) {
	head := aligned(bold(style(titleSize, ink)), text.XLeft, text.YTop)
	write(c, head, c.Min.X, c.Max.Y, fmt.Sprintf("The %d worst", len(classes)))
	name := aligned(style(tickSize, ink), text.XLeft, text.YCenter)
	const counts = vg.Length(52)
	room := min(widest(name, 0, classes, func(k ClassScore) Markup { return k.Name }), 0.5*(c.Max.X-c.Min.X))
	from, to := c.Min.X+room+8, c.Max.X-counts
	row := min(16, (c.Max.Y-c.Min.Y-22)/vg.Length(len(classes)))
	for i, k := range classes {
		y := c.Max.Y - 26 - row*vg.Length(i)
		write(c, name, c.Min.X, y, fitted(name, k.Name, room))
		c.StrokeLine2(stroke(faint, 0.8), from, y, to, y)
		at := from + (to-from)*vg.Length(k.percent()/100)
		c.StrokeLine2(stroke(SkyBlue, 2.4), from, y, at, y)
		dot(c, Blue, 2.6, draw.CircleGlyph{}, at, y)
		write(c, aligned(style(tickSize, ink), text.XRight, text.YCenter), c.Max.X, y,
			fmt.Sprintf("%d of %d", k.Found, k.Queries))
	}
	c.StrokeLine2(stroke(quiet, 0.6), from, c.Max.Y-18, from, c.Max.Y-26-row*(vg.Length(len(classes))-0.4))
}
