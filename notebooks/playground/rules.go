// Package playground shows an interactive panel in a notebook's cell, for a rule or a loss of your own: [Panel] shows
// at once what it does, moves embeddings by it, and trains a layer by it. [Check] checks a rule. For the paper's rules
// there is a page that needs no kernel; nb.Live shows it in place of [Pictures].
//
// A panel is that page, too: what it draws is drawn by its own code, and what it asks for is computed by the cell's
// program, which knows your parts. The program runs while its panel is used, until Stop, the panel's End button, or
// another cell that waits. Then a picture by package figures stays, with what a training said last.
package playground

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/url"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/page/frame"
	"github.com/gradient-surgery/dml/figures"
)

// Panel shows what a rule or a loss does to triplets, moves embeddings by it, and trains a linear layer by it on the
// frozen features of drawn cars. Controls change its parts and parameters.
type Panel struct {
	// Rule is the rule at first. Its custom parts can be chosen beside the paper's.
	Rule dmlx.Rule
	// Loss is a loss of your own without proxies, by its name, which is shown at first in place of the rule.
	Loss objectives.LossFunction
	// Beside is what it is compared with at first, such as "cos/con/con" or "loss:ms"; nothing if it is empty.
	Beside string
	// Train leaves the training alone.
	Train bool
	// Batch is the batch whose triplets and gradient matrix are shown. If it is empty, it has 8 classes of 4 points on
	// the sphere, and sliders change it.
	Batch dissect.Embeddings
}

// Run shows the panel until the context ends, End is pressed or another cell waits; its last pictures stay. If no
// browser answers, as when a notebook is executed without one, it shows the first pictures.
func (p Panel) Run(ctx context.Context) error {
	shown, err := p.panel()
	if err != nil {
		return err
	}
	return shown.run(ctx)
}

func (p Panel) panel() (panel, error) {
	e, err := frame.NewEngine(p.Rule)
	if err != nil {
		return panel{}, err
	}
	e.Explain = explain
	a, title := p.Rule.Name(), "a rule's weights, motion, gradient matrix and flow"
	if p.Loss.Of != nil {
		if p.Loss.Proxies > 0 {
			return panel{}, fmt.Errorf("loss %s has proxies: a panel shows losses of pairs and triplets", p.Loss.Name)
		}
		if err := e.AddLoss(p.Loss.Name, p.Loss.Of); err != nil {
			return panel{}, err
		}
		a, title = "loss:"+p.Loss.Name, "a loss's motion, gradient matrix and flow"
	}
	state := "view=bench"
	if p.Train {
		state, title = "view=learn", "a layer, trained"
	}
	if state += "&a=" + escaped(a); p.Beside != "" {
		state += "&b=" + escaped(p.Beside)
	}
	answer := func(method string, args []byte, arrays map[string][]byte) (frame.Object, error) {
		out, err := e.Answer(method, args, arrays)
		if method == "describe" && err == nil && p.Batch.N > 0 {
			labels := make([]int32, len(p.Batch.Labels))
			for i, l := range p.Batch.Labels {
				labels[i] = int32(l)
			}
			out["batch"] = frame.Object{"embeddings": p.Batch.Values, "labels": labels, "n": p.Batch.N, "dim": p.Batch.Dim}
		}
		return out, err
	}
	_, err = p.still(state) // What cannot be drawn ends the cell.
	return panel{title: title, state: state, answer: answer, still: p.still}, err
}

// still draws what stays of the page in a state: its rule's pictures, or the matrix of the loss.
func (p Panel) still(state string) (*figures.Figure, error) {
	fields, err := url.ParseQuery(strings.NewReplacer("+", "%2B").Replace(state))
	if err != nil {
		return nil, err
	}
	if name, is := strings.CutPrefix(fields.Get("a"), "loss:"); is && name == p.Loss.Name {
		b, err := backend.Go()
		if err != nil {
			return nil, err
		}
		batch := sampleOr(p.Batch)
		d, err := dissect.Loss(b, batch, dissect.Proxies{}, p.Loss.Of)
		if err != nil {
			return nil, fmt.Errorf("loss %s: %w", name, err)
		}
		return figures.GradientMatrix(figures.Matrix{Title: "$M$ of " + plainCell(name), Values: d.M, Labels: batch.Labels})
	}
	r, err := dmlx.PartsWith(p.Rule).Parse(fields.Get("a"))
	if err != nil {
		return nil, err
	}
	all, err := pictures(r, sampleOr(p.Batch))
	if err != nil {
		return nil, explain(r, err)
	}
	return figures.Beside(all...), nil
}

// explain says what [Check] says of a rule, with the line, where it fails.
func explain(r dmlx.Rule, err error) error {
	b, failed := backend.Go()
	if failed != nil {
		return err
	}
	if checked, failed := dissect.Check(b, r); failed == nil {
		return cmp.Or(fault(checked), err)
	}
	return err
}

// sampleOr returns a batch, or the page's first one.
func sampleOr(own dissect.Embeddings) dissect.Embeddings {
	if own.N > 0 {
		return own
	}
	return dissect.Sample(8, 4, 3, 0.7, 1)
}

// Pictures draws what the page shows of a rule at first: the diagram, one triplet's motion and the gradient matrix.
func Pictures(r dmlx.Rule) ([]*figures.Figure, error) {
	return pictures(r, sampleOr(dissect.Embeddings{}))
}

func pictures(r dmlx.Rule, batch dissect.Embeddings) ([]*figures.Figure, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	d, err := dissect.Rule(b, batch, r)
	if err != nil {
		return nil, err
	}
	lone := dissect.Embeddings{N: 3, Dim: 2, Labels: []int64{0, 0, 1},
		Triplets: []dissect.Triplet{{Positive: 1, Negative: 2}}}
	for _, degrees := range []float64{0, 60.2, -50.4} {
		sin, cos := math.Sincos(degrees * math.Pi / 180)
		lone.Values = append(lone.Values, float32(sin), float32(cos))
	}
	step, err := dissect.Rule(b, lone, r)
	if err != nil {
		return nil, err
	}
	sap, san := figures.SimilarityGrid(0, 1, 81)
	pull, _, weight, err := dissect.Weights(b, r, sap, san)
	if err != nil {
		return nil, err
	}
	for k, t := range weight {
		pull[k] *= t
	}
	var all figures.Triplets
	for _, t := range d.Triplets {
		all.Sap, all.San = append(all.Sap, t.Sap), append(all.San, t.San)
	}
	at := func(of []float32, i int) [2]float64 { return [2]float64{float64(of[2*i]), float64(of[2*i+1])} }
	diagram, err := figures.TripletDiagram(figures.Diagram{Triplets: all,
		Field: figures.Field{Title: "$P_+ T$", Values: pull, Hue: figures.HuePull}})
	if err != nil {
		return nil, err
	}
	motion, err := figures.Motion(figures.TripletMotion{Title: "One triplet on the unit circle", Rule: r.Name(),
		Anchor: at(lone.Values, 0), Positive: at(lone.Values, 1), Negative: at(lone.Values, 2), AnchorGradient: at(step.G, 0),
		PositiveGradient: at(step.G, 1), NegativeGradient: at(step.G, 2)})
	if err != nil {
		return nil, err
	}
	matrix, err := figures.GradientMatrix(figures.Matrix{Title: "$M$ of the batch", Values: d.M, Labels: batch.Labels})
	return []*figures.Figure{diagram, motion, matrix}, err
}

// escaped is a name in a state.
func escaped(name string) string { return strings.ReplaceAll(name, "&", "%26") }
