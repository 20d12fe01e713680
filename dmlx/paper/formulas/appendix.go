package formulas

import (
	"context"
	"fmt"
	"math"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/figures"
)

// MSWeights draws the appendix's figure: P^sig-ms and P^lin-ms over the similarity of the pair, with all others of the
// anchor at the same distance ΔS = 0 and 0.1. The op evaluates them at the given number of points.
func MSWeights(b compute.Backend, points int) (*figures.Figure, error) {
	var curves []figures.WeightCurve
	for _, pair := range []dmlx.PairWeight{dmlx.PairSigMS, dmlx.PairLinMS} {
		for _, delta := range []float64{0, 0.1} {
			k := figures.WeightCurve{Pair: pair.Name, Delta: delta}
			for i := range points {
				s := float64(i) / float64(points-1)
				p, n, err := RelativeWeights(b, dmlx.Rule{Pair: pair}, s, delta, 1)
				if err != nil {
					return nil, err
				}
				k.S, k.Positive, k.Negative = append(k.S, s), append(k.Positive, p), append(k.Negative, n)
			}
			curves = append(curves, k)
		}
	}
	f, err := figures.MSWeights(curves...)
	if err == nil {
		f.Provenance = "the op, a probe batch a point, one other positive and negative · α = 2, β = 10, λ = 0.5 · Go backend"
	}
	return f, err
}

// PublishedMS returns a table of P₋ by sig-ms, by lin-ms and by the published MS loss, at one S_an and growing
// distance of the others.
func PublishedMS(b compute.Backend) (*figures.Table, error) {
	const s = 0.75
	t := &figures.Table{
		Columns: []figures.Column{{Title: "$\\Delta S$", Left: true}, {Title: "$P_-^{lin-ms}$"}, {Title: "$P_-^{sig-ms}$"},
			{Title: "1 other", Group: "MS loss as published, $\\partial L/\\partial S_{an}$"},
			{Title: "3 others", Group: "MS loss as published, $\\partial L/\\partial S_{an}$"},
			{Title: "10 others", Group: "MS loss as published, $\\partial L/\\partial S_{an}$"}},
		Caption: fmt.Sprintf("The weight of a negative at $S_{an}$ = %g, all others of the anchor being less similar "+
			"by ΔS.", s),
		Notes:      []figures.Markup{"How many others there are makes no difference to the two means."},
		Provenance: "the op and autodiff of the loss, Go backend",
	}
	for _, delta := range []float64{0, 0.1, 0.2, 0.5, 1} {
		row := figures.Row(fmt.Sprintf("%g", delta))
		for _, pair := range []dmlx.PairWeight{dmlx.PairLinMS, dmlx.PairSigMS} {
			_, n, err := RelativeWeights(b, dmlx.Rule{Pair: pair}, s, delta, 1)
			if err != nil {
				return nil, err
			}
			row = append(row, figures.Text(fmt.Sprintf("%.3g", n)))
		}
		for _, others := range []int{1, 3, 10} {
			_, n, err := PublishedWeights(b, s, delta, others)
			if err != nil {
				return nil, err
			}
			row = append(row, figures.Text(fmt.Sprintf("%.3g", n)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// DataBatches are batches of a data set's training images with their embeddings before the first step.
type DataBatches struct {
	Data            string
	Classes, Images int // Of a batch: its classes, and the images of each.
	Batches         []dissect.Embeddings
}

// Batches returns the number of batches of a data set that the appendix measures at a preset.
func Batches(preset string) int {
	if preset == "smoke" {
		return 3
	}
	return 6
}

// FirstBatches embeds the given number of batches of each drawn data set, in the sizes of the quick preset.
func FirstBatches(ctx context.Context, b compute.Backend, batches int) ([]DataBatches, error) {
	sets := []DataBatches{{Data: "minicar", Classes: 8, Images: 8}, {Data: "minishop", Classes: 16, Images: 4}}
	n, err := FirstStep(b, stepDim, stepSeed)
	if err != nil {
		return nil, err
	}
	defer n.Close()
	for k := range sets {
		s := &sets[k]
		set, err := datasets.Open(s.Data, datasets.Options{})
		if err != nil {
			return nil, err
		}
		for i := range batches {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			batch, err := DrawBatch(set, s.Classes, s.Images, uint64(i+1))
			if err != nil {
				return nil, err
			}
			e, err := n.Embed(batch)
			if err != nil {
				return nil, err
			}
			s.Batches = append(s.Batches, e)
		}
	}
	return sets, nil
}

// BatchesProvenance describes the batches in one line: network, data sets and sizes, backend.
func BatchesProvenance(sets []DataBatches) string {
	line := "small network, bundled weights, before its first step"
	for _, s := range sets {
		line += fmt.Sprintf(" · %s: %d batches of %d × %d", s.Data, len(s.Batches), s.Classes, s.Images)
	}
	return line + " · Go backend"
}

// instabilityBetas are the values of β at which gradients are measured; the paper's is 10.
var instabilityBetas = []float64{2, 5, 10, 20, 50}

// Instability measures the length of G over batches at rising β: with all pair weights that have a β, with lin and
// lin-ms, which have none, and for the gradient of the published MS loss.
func Instability(ctx context.Context, b compute.Backend, sets []DataBatches) ([]figures.NormPanel, error) {
	published, err := publishedMS()
	if err != nil {
		return nil, err
	}
	var panels []figures.NormPanel
	for _, s := range sets {
		panel := figures.NormPanel{Data: s.Data}
		for _, pair := range []dmlx.PairWeight{dmlx.PairSigMS, dmlx.PairSig, dmlx.PairLinMS, dmlx.PairLin} {
			k := figures.NormCurve{Name: figures.PairLabel(pair.Name), Pair: pair.Name}
			for _, beta := range instabilityBetas {
				var norms []float64
				for _, e := range s.Batches {
					d, err := dissect.Rule(b, e, dmlx.Rule{Pair: pair, Options: dmlx.Options{Beta: &beta}})
					if err != nil {
						return nil, err
					}
					norms = append(norms, euclidean(d.G))
				}
				k.Beta, k.Norms = append(k.Beta, beta), append(k.Norms, norms)
				if err := ctx.Err(); err != nil {
					return nil, err
				}
			}
			panel.Curves = append(panel.Curves, k)
		}
		k := figures.NormCurve{Name: "MS loss as published"}
		for _, beta := range instabilityBetas {
			var norms []float64
			for _, e := range s.Batches {
				g, err := Differentiate(b, e, published, dmlx.Options{Beta: &beta})
				if err != nil {
					return nil, err
				}
				norms = append(norms, euclidean(g.G)/2) // A rule has T^con = 0.5 in it.
			}
			k.Beta, k.Norms = append(k.Beta, beta), append(k.Norms, norms)
		}
		panel.Curves = append(panel.Curves, k)
		panels = append(panels, panel)
	}
	return panels, nil
}

// euclidean returns the Euclidean norm.
func euclidean(v []float32) float64 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum)
}
