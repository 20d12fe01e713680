// Package playground shows interactive panels in a notebook's cell, for rules of your own: [Panel] shows at once what a
// change of a gradient rule does, and [Flow] moves embeddings by a rule. [Check] checks a rule, and [Training] trains
// it beside others. For the paper's rules there is a page that needs no kernel; nb.Live shows it in place of
// [Pictures].
//
// The cell's program runs while its panel is used, until Stop or the panel's End button. Pictures come from packages
// dmlx, on the Go backend, and figures, as everywhere else. Outside a notebook, panels print the alternative texts of
// their pictures.
package playground

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/figures"
	"github.com/gradient-surgery/dml/notebooks/sample"
)

// Panel shows what a rule does to triplets. Controls change its parts and parameters.
type Panel struct {
	// Rule is the rule at first. Its custom parts can be chosen beside the paper's.
	Rule dmlx.Rule
	// Batch is the batch whose triplets and gradient matrix are shown. If it is empty, it has 8 classes of 4 images, and
	// a slider sets their noise.
	Batch dissect.Embeddings
}

// Run shows the panel until the context ends or End is pressed; the last pictures stay. If no browser answers, as
// when a notebook is executed without one, it shows the first pictures.
func (p Panel) Run(ctx context.Context) error {
	b, err := backend.Go()
	if err != nil {
		return err
	}
	return p.page(b).run(ctx)
}

// Pictures draws what the panel of a rule shows at first: the diagram, one triplet's motion and the gradient matrix.
func Pictures(r dmlx.Rule) ([]*figures.Figure, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	p := Panel{Rule: r}.page(b)
	v := p.draw(p.first())
	var out []*figures.Figure
	for _, name := range p.pictures {
		out = append(out, v.figures[name])
	}
	return out, firstProblem(v)
}

// parts are the parts to choose from.
type parts struct {
	directions []dmlx.Direction
	pairs      []dmlx.PairWeight
	triplets   []dmlx.TripletWeight
	masks      []dmlx.Mask
}

// noMask is the choice without a mask.
const noMask = "none"

// partsWith returns the paper's parts and the custom parts of a rule, which replace parts of the same name.
func partsWith(r dmlx.Rule) parts {
	p := parts{slices.Clone(dmlx.Directions), slices.Clone(dmlx.PairWeights), slices.Clone(dmlx.TripletWeights),
		slices.Clone(dmlx.Masks)}
	if (dmlx.Rule{Direction: r.Direction}).Custom() {
		r.Direction.Name = cmp.Or(r.Direction.Name, "custom")
		p.directions = with(p.directions, r.Direction, directionName)
	}
	if (dmlx.Rule{Pair: r.Pair}).Custom() {
		r.Pair.Name = cmp.Or(r.Pair.Name, "custom")
		p.pairs = with(p.pairs, r.Pair, pairName)
	}
	if (dmlx.Rule{Triplet: r.Triplet}).Custom() {
		r.Triplet.Name = cmp.Or(r.Triplet.Name, "custom")
		p.triplets = with(p.triplets, r.Triplet, tripletName)
	}
	if (dmlx.Rule{Mask: r.Mask}).Custom() {
		r.Mask.Name = cmp.Or(r.Mask.Name, "custom")
		p.masks = with(p.masks, r.Mask, maskName)
	}
	return p
}

func with[T any](in []T, own T, nameOf func(T) string) []T {
	in = slices.DeleteFunc(in, func(x T) bool { return nameOf(x) == nameOf(own) })
	return append(in, own)
}

func directionName(d dmlx.Direction) string   { return d.Name }
func pairName(p dmlx.PairWeight) string       { return p.Name }
func tripletName(t dmlx.TripletWeight) string { return t.Name }
func maskName(m dmlx.Mask) string             { return m.Name }

func names[T any](in []T, nameOf func(T) string) []string {
	out := make([]string, len(in))
	for i, x := range in {
		out[i] = nameOf(x)
	}
	return out
}

func choose[T any](kind, name string, in []T, nameOf func(T) string) (T, error) {
	if i := slices.IndexFunc(in, func(x T) bool { return nameOf(x) == name }); i >= 0 {
		return in[i], nil
	}
	var zero T
	return zero, fmt.Errorf("unknown %s %q; use one of %s", kind, name, strings.Join(names(in, nameOf), ", "))
}

// parameter is an option of a rule with its slider.
type parameter struct {
	name, label    string
	min, max, step float64
	value          func(dmlx.Options) float64
	set            func(*dmlx.Options, *float64)
}

var parameters = []parameter{
	{"tau", "τ", 0, 16, 0.1, dmlx.Options.TauValue, func(o *dmlx.Options, v *float64) { o.Tau = v }},
	{"alpha", "α", 0, 20, 0.1, dmlx.Options.AlphaValue, func(o *dmlx.Options, v *float64) { o.Alpha = v }},
	{"beta", "β", 0, 60, 0.5, dmlx.Options.BetaValue, func(o *dmlx.Options, v *float64) { o.Beta = v }},
	{"lambda", "λ", 0, 1, 0.01, dmlx.Options.LambdaValue, func(o *dmlx.Options, v *float64) { o.Lambda = v }},
	{"epsilon", "ε", 0, 1, 0.01, dmlx.Options.EpsilonValue, func(o *dmlx.Options, v *float64) { o.Epsilon = v }},
}

// controls returns the controls of a rule, with sliders of some parameters.
func (p parts) controls(r dmlx.Rule, sliders []parameter) []control {
	name := func(set bool, name, otherwise string) string {
		if !set {
			return otherwise
		}
		return cmp.Or(name, "custom")
	}
	out := []control{
		{Name: "direction", Label: "direction", Options: names(p.directions, directionName),
			Value: name(r.Direction.Of != nil, r.Direction.Name, dmlx.DirectionCos.Name)},
		{Name: "pair", Label: "pair weight", Options: names(p.pairs, pairName),
			Value: name(r.Pair.Of != nil, r.Pair.Name, dmlx.PairCon.Name)},
		{Name: "triplet", Label: "triplet weight", Options: names(p.triplets, tripletName),
			Value: name(r.Triplet.Of != nil, r.Triplet.Name, dmlx.TripletCon.Name)},
		{Name: "mask", Label: "mask", Options: append([]string{noMask}, names(p.masks, maskName)...),
			Value: name(r.Mask.Of != nil, r.Mask.Name, noMask)},
	}
	for _, k := range sliders {
		out = append(out, slider(k.name, k.label, k.min, k.max, k.step, k.value(r.Options)))
	}
	return out
}

func slider(name, label string, low, high, step, value float64) control {
	return control{Name: name, Label: label, Min: low, Max: high, Step: step,
		Value: strconv.FormatFloat(value, 'g', -1, 64)}
}

// rule returns the rule of the controls' values and the parameters without effect on it. Options without a control are
// those of base.
func (p parts) rule(v values, base dmlx.Options) (r dmlx.Rule, off []string, err error) {
	var e [4]error
	r.Direction, e[0] = choose("direction", v["direction"], p.directions, directionName)
	r.Pair, e[1] = choose("pair weight", v["pair"], p.pairs, pairName)
	r.Triplet, e[2] = choose("triplet weight", v["triplet"], p.triplets, tripletName)
	if v["mask"] != noMask {
		r.Mask, e[3] = choose("mask", v["mask"], p.masks, maskName)
	}
	if err := errors.Join(e[:]...); err != nil {
		return r, nil, err
	}
	r.Options = base
	for _, k := range parameters {
		if _, shown := v[k.name]; !shown {
			continue
		}
		x, err := v.number(k.name)
		if err != nil {
			return r, nil, err
		}
		if !slices.Contains(r.UsedOptions(), k.name) {
			off = append(off, k.name)
			k.set(&r.Options, nil) // Keeps it out of the rule's name.
			continue
		}
		k.set(&r.Options, &x)
	}
	return r, off, nil
}

// shownWeight is a weight for the triplet diagram, from P₊, P₋ and T at each point.
type shownWeight struct {
	name  string
	title figures.Markup
	hue   figures.Hue
	of    func(positive, negative, triplet float32) float32
}

var weightShown = []shownWeight{
	{"P₊ T, the pull", "$P_+ T$", figures.HuePull, func(p, _, t float32) float32 { return p * t }},
	{"P₋ T, the push", "$P_- T$", figures.HuePush, func(_, n, t float32) float32 { return n * t }},
	{"T", "$T$", figures.HueWeight, func(_, _, t float32) float32 { return t }},
}

func shownName(w shownWeight) string { return w.name }

// gridSide is the number of points on each side of the diagram at which weights are computed.
const gridSide = 81

func (p Panel) page(b compute.Backend) page {
	choices, rules := partsWith(p.Rule), compiled{b, make(map[string]*shownRule)}
	shown := names(weightShown, shownName)
	controls := append(choices.controls(p.Rule, parameters),
		control{Name: "show", Label: "diagram", Options: shown, Value: shown[0]},
		slider("sap", "circle: S_ap", -1, 1, 0.01, 0.5), slider("san", "S_an", -1, 1, 0.01, 0.64))
	if p.Batch.N == 0 {
		controls = append(controls, slider("noise", "batch: noise", 0, 3, 0.05, 1))
	}
	return page{title: "a rule's weights, motion and gradient matrix", pictures: []string{"diagram", "motion", "matrix"},
		controls: controls,
		draw: func(e event) view {
			r, off, err := choices.rule(e.Values, p.Rule.Options)
			v := view{Off: off}
			if err == nil {
				v.Note = r.Name()
				var fs map[string]*figures.Figure
				if fs, err = p.figures(rules.of(r), r.Options, e.Values); err == nil {
					err = v.add(fs)
				}
			}
			if err != nil {
				v.Problem, v.Pictures = checkedProblem(b, r, err).Error(), nil
			}
			return v
		}}
}

// checkedProblem returns the sentence of [Check], with the line, if a rule that could not be drawn does not pass it.
func checkedProblem(b compute.Backend, r dmlx.Rule, err error) error {
	if !r.Custom() {
		return err
	}
	if checked, failed := dissect.Check(b, r); failed == nil {
		return cmp.Or(fault(checked), err)
	}
	return err
}

// compiled are the rules that a panel has shown, by name, since the parts of a panel have names of their own.
type compiled struct {
	backend compute.Backend
	rules   map[string]*shownRule
}

// shownRule is a rule without its parameters.
type shownRule struct {
	*dissect.Compiled
	top float64 // The largest magnitude in M so far, so that its colors keep their scale while sliders move.
}

func (c compiled) of(r dmlx.Rule) *shownRule {
	r.Options = dmlx.Options{}
	name := r.Name()
	if c.rules[name] == nil {
		c.rules[name] = &shownRule{Compiled: dissect.Compile(c.backend, r.Traced())}
	}
	return c.rules[name]
}

// figures draws the diagram, the motion and the gradient matrix of a rule.
func (p Panel) figures(r *shownRule, o dmlx.Options, v values) (map[string]*figures.Figure, error) {
	batch := p.Batch
	if batch.N == 0 {
		noise, err := v.number("noise")
		if err != nil {
			return nil, err
		}
		batch = sample.Batch(8, 4, 32, noise, 1)
	}
	d, err := r.Rule(batch, o)
	if err != nil {
		return nil, err
	}
	for _, m := range d.M {
		if x := math.Abs(float64(m)); x > r.top { // Not for NaN, which the figure reports.
			r.top = x
		}
	}
	matrix, err := figures.GradientMatrix(figures.Matrix{Title: "$M$ of the batch, on the widest scale so far",
		Values: d.M, Labels: batch.Labels, Least: r.top})
	if err != nil {
		return nil, err
	}
	diagram, err := diagramOf(r.Compiled, v["show"], d)
	if err != nil {
		return nil, err
	}
	motion, err := motionOf(r.Compiled, o, v)
	if err != nil {
		return nil, err
	}
	return map[string]*figures.Figure{"diagram": diagram, "motion": motion, "matrix": matrix}, nil
}

// diagramOf draws the chosen weight over S_ap × S_an, with a batch's triplets.
func diagramOf(r *dissect.Compiled, show string, d *dissect.Dissection) (*figures.Figure, error) {
	w, err := choose("weight to show", show, weightShown, shownName)
	if err != nil {
		return nil, err
	}
	sap, san := figures.SimilarityGrid(0, 1, gridSide)
	positive, negative, triplet, err := r.Weights(d.Rule.Options, sap, san)
	if err != nil {
		return nil, fmt.Errorf("the diagram shows single triplets without a batch: %w", err)
	}
	field := make([]float32, len(sap))
	for k := range field {
		field[k] = w.of(positive[k], negative[k], triplet[k])
		if x := float64(field[k]); math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("rule %s: %s is %v at S_ap = %.3f, S_an = %.3f; want a finite number", d.Rule.Name(),
				figures.Plain(w.title), x, sap[k], san[k])
		}
	}
	var t figures.Triplets
	for _, x := range d.Triplets {
		t.Sap, t.San = append(t.Sap, x.Sap), append(t.San, x.San)
	}
	return figures.TripletDiagram(figures.Diagram{Field: figures.Field{Title: w.title, Values: field, Hue: w.hue},
		Triplets: t})
}

// motionOf draws how the rule moves one triplet on the unit circle, with the anchor at the top.
func motionOf(r *dissect.Compiled, o dmlx.Options, v values) (*figures.Figure, error) {
	sap, err := v.number("sap")
	if err != nil {
		return nil, err
	}
	san, err := v.number("san")
	if err != nil {
		return nil, err
	}
	at := func(degree float64) [2]float64 { sin, cos := math.Sincos(degree); return [2]float64{sin, cos} }
	points := [][2]float64{at(0), at(math.Acos(min(max(sap, -1), 1))), at(-math.Acos(min(max(san, -1), 1)))}
	e := dissect.Embeddings{N: 3, Dim: 2, Labels: []int64{0, 0, 1},
		Triplets: []dissect.Triplet{{Anchor: 0, Positive: 1, Negative: 2}}}
	for _, x := range points {
		e.Values = append(e.Values, float32(x[0]), float32(x[1]))
	}
	d, err := r.Rule(e, o)
	if err != nil {
		return nil, err
	}
	g := func(i int) [2]float64 { return [2]float64{float64(d.G[2*i]), float64(d.G[2*i+1])} }
	return figures.Motion(figures.TripletMotion{Title: "One triplet on the unit circle", Rule: d.Rule.Name(),
		Anchor: points[0], Positive: points[1], Negative: points[2],
		AnchorGradient: g(0), PositiveGradient: g(1), NegativeGradient: g(2)})
}
