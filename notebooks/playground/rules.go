// Package playground shows interactive panels in a notebook's cell, for rules of your own: [Panel] shows at once what a
// change of a gradient rule does, and moves embeddings by it. [Check] checks a rule, and [TryIt] and [Training] train
// it beside others. For the paper's rules there is a page that needs no kernel; nb.Live shows it in place of
// [Pictures].
//
// A panel is that page, too: what it draws is drawn by its own code, and what it asks for is computed by the cell's
// program, which knows your parts. The program runs while its panel is used, until Stop or the panel's End button. Then
// pictures by package figures stay. Outside a notebook, panels print the alternative texts of these pictures.
package playground

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/page"
	"github.com/gradient-surgery/dml/figures"
)

// Panel shows what a rule does to triplets, and moves embeddings by it. Controls change its parts and parameters.
type Panel struct {
	// Rule is the rule at first. Its custom parts can be chosen beside the paper's.
	Rule dmlx.Rule
	// Batch is the batch whose triplets and gradient matrix are shown. If it is empty, it has 8 classes of 4 points on
	// the sphere, and sliders change it.
	Batch dissect.Embeddings
}

// Run shows the panel until the context ends or End is pressed; its last pictures stay. If no browser answers, as
// when a notebook is executed without one, it shows the first pictures.
func (p Panel) Run(ctx context.Context) error {
	shown, err := p.panel()
	if err != nil {
		return err
	}
	return shown.run(ctx)
}

func (p Panel) panel() (panel, error) {
	e, err := newEngine(p.Rule)
	if err != nil {
		return panel{}, err
	}
	answer := func(method string, args []byte, arrays map[string][]byte) (page.Object, error) {
		out, err := e.Answer(method, args, arrays)
		if method == "describe" && err == nil && p.Batch.N > 0 {
			out["batch"] = page.Object{"embeddings": p.Batch.Values, "labels": to[int32](p.Batch.Labels), "n": p.Batch.N,
				"dim": p.Batch.Dim}
		}
		return out, err
	}
	out := panel{title: "a rule's weights, motion, gradient matrix and flow", state: "view=bench&a=" + address(p.Rule),
		answer: answer, names: []string{"views", "flow"},
		still: func(state string) (kept, error) {
			s := still{engine: e, state: read(state), own: p.Batch}
			pictures, err := s.pictures()
			if err == nil {
				err = s.flow(pictures)
			}
			if err == nil {
				pictures["views"] = views(pictures)
			}
			return kept{pictures: pictures, note: strings.Join(append([]string{s.state["a"]}, s.without...), "; ")}, err
		}}
	// A rule that cannot be drawn ends the cell.
	_, err = (&still{engine: e, state: read(out.state), own: p.Batch}).ask("compute", map[string]any{}, nil)
	return out, err
}

// views returns the pictures but the flow beside each other.
func views(pictures map[string]*figures.Figure) *figures.Figure {
	var all []*figures.Figure
	for _, name := range []string{"diagram", "motion", "matrix"} {
		if f := pictures[name]; f != nil {
			all = append(all, f)
		}
	}
	return figures.Beside(all...)
}

// newEngine returns an engine that knows a rule's custom parts. Where they fail, it says what [Check] says, with the
// line.
func newEngine(r dmlx.Rule) (*page.Engine, error) {
	b, err := backend.Go()
	if err != nil {
		return nil, err
	}
	e, err := page.NewEngine(r)
	if err != nil {
		return nil, err
	}
	e.Explain = func(r dmlx.Rule, err error) error {
		if checked, failed := dissect.Check(b, r); failed == nil {
			return cmp.Or(fault(checked), err)
		}
		return err
	}
	return e, nil
}

// Pictures draws what the page shows of a rule at first: the diagram, one triplet's motion and the gradient matrix.
func Pictures(r dmlx.Rule) ([]*figures.Figure, error) {
	e, err := newEngine(r)
	if err != nil {
		return nil, err
	}
	drawn, err := (&still{engine: e, state: read("a=" + address(r))}).pictures()
	return []*figures.Figure{drawn["diagram"], drawn["motion"], drawn["matrix"]}, err
}

// address is a rule's name in a state.
func address(r dmlx.Rule) string { return strings.ReplaceAll(r.Name(), "&", "%26") }

// read reads a state of the page.
func read(state string) map[string]string {
	out := map[string]string{"batch": "8x4x3,0.7,1", "triplet": "0,60.2,-50.4", "show": "pull"}
	for _, field := range strings.Split(state, "&") {
		name, value, _ := strings.Cut(field, "=")
		if text, err := url.PathUnescape(value); err == nil {
			value = text
		}
		out[name] = value
	}
	return out
}

// still draws what stays of the page in a state.
type still struct {
	engine  *page.Engine
	state   map[string]string
	own     dissect.Embeddings
	first   page.Object // What "compute" has answered.
	without []string    // Why pictures are missing.
}

// ask has the engine answer a request about the state's rule or loss: by default about its batch.
func (s *still) ask(method string, args map[string]any, arrays map[string][]byte) (page.Object, error) {
	if text, isLoss := strings.CutPrefix(s.state["a"], "loss:"); isLoss {
		args["loss"] = text
	} else {
		args["rule"] = text
	}
	if s.own.N > 0 && arrays == nil {
		args["n"], args["dim"] = s.own.N, s.own.Dim
		arrays = map[string][]byte{"embeddings": raw(s.own.Values), "labels": raw(to[int32](s.own.Labels))}
	} else if method != "diagram" && arrays == nil {
		var b struct {
			classes, images, dim int
			noise                float64
			seed                 uint64
		}
		if _, err := fmt.Sscanf(s.state["batch"], "%dx%dx%d,%g,%d", &b.classes, &b.images, &b.dim, &b.noise,
			&b.seed); err != nil {
			return nil, fmt.Errorf("batch %q: %w", s.state["batch"], err)
		}
		args["sample"] = map[string]any{"classes": b.classes, "images": b.images, "dim": b.dim, "noise": b.noise,
			"seed": b.seed}
	}
	text, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return s.engine.Answer(method, text, arrays)
}

// shownWeights are the titles and hues of what the diagram can show.
var shownWeights = map[string]struct {
	title figures.Markup
	hue   figures.Hue
}{"pull": {"$P_+ T$", figures.HuePull}, "push": {"$P_- T$", figures.HuePush}, "weight": {"$T$", figures.HueWeight},
	"pairPositive": {"$P_+$", figures.HuePull}, "pairNegative": {"$P_-$", figures.HuePush}}

// pictures draws the diagram, the motion and the matrix. A loss, and a rule that depends on the whole batch, may have
// no diagram and no motion.
func (s *still) pictures() (map[string]*figures.Figure, error) {
	batch, err := s.ask("compute", map[string]any{}, nil)
	if err != nil {
		return nil, err
	}
	s.first = batch
	out := make(map[string]*figures.Figure)
	if out["matrix"], err = figures.GradientMatrix(figures.Matrix{Title: "$M$ of the batch",
		Values: batch["M"].([]float32), Labels: to[int64](batch["labels"].([]int32))}); err != nil {
		return nil, err
	}
	for name, draw := range map[string]func() (*figures.Figure, error){"diagram": s.diagram, "motion": s.motion} {
		if out[name], err = draw(); err != nil {
			s.without = append(s.without, fmt.Sprintf("no %s: %v", name, err))
		}
	}
	return out, nil
}

func (s *still) diagram() (*figures.Figure, error) {
	w, is := shownWeights[s.state["show"]]
	if !is {
		return nil, fmt.Errorf("show %q; want one of %s", s.state["show"],
			strings.Join(slices.Sorted(maps.Keys(shownWeights)), ", "))
	}
	d, err := s.ask("diagram", map[string]any{}, nil)
	if err != nil {
		return nil, err
	}
	all := s.first["triplets"].(page.Object)
	return figures.TripletDiagram(figures.Diagram{
		Field:    figures.Field{Title: w.title, Values: d[s.state["show"]].([]float32), Hue: w.hue},
		Triplets: figures.Triplets{Sap: all["sap"].([]float32), San: all["san"].([]float32)}})
}

// motion draws the step of the lone triplet.
func (s *still) motion() (*figures.Figure, error) {
	var degrees [3]float64
	if _, err := fmt.Sscanf(s.state["triplet"], "%g,%g,%g", &degrees[0], &degrees[1], &degrees[2]); err != nil {
		return nil, fmt.Errorf("triplet %q: %w", s.state["triplet"], err)
	}
	var points, gradients [3][2]float64
	var values []float32
	for i, d := range degrees {
		sin, cos := math.Sincos(d * math.Pi / 180)
		points[i] = [2]float64{sin, cos}
		values = append(values, float32(sin), float32(cos))
	}
	arrays := map[string][]byte{"embeddings": raw(values), "labels": raw([]int32{0, 0, 1})}
	if !strings.HasPrefix(s.state["a"], "loss:") { // A loss finds its own.
		arrays["triplets"] = raw([]int32{0, 1, 2})
	}
	lone, err := s.ask("compute", map[string]any{"n": 3, "dim": 2}, arrays)
	if err != nil {
		return nil, err
	}
	for i := range gradients {
		for j := range 2 {
			gradients[i][j] = float64(lone["G"].([]float32)[2*i+j])
		}
	}
	return figures.Motion(figures.TripletMotion{Title: "One triplet on the unit circle", Rule: s.state["a"],
		Anchor: points[0], Positive: points[1], Negative: points[2],
		AnchorGradient: gradients[0], PositiveGradient: gradients[1], NegativeGradient: gradients[2]})
}

// Steps that are drawn of a flow that was not played, the number of earlier frames in a path, and of all frames.
const summaryFirst, summaryLast, trail, mostFrames = 25, 250, 14, 600

// flow adds the picture of the flow, of embeddings on a circle or sphere: its start, and where it has come.
func (s *still) flow(out map[string]*figures.Figure) error {
	dim, n := s.first["dim"].(int), s.first["n"].(int)
	if dim != 2 && dim != 3 {
		return nil
	}
	at := []int{summaryFirst, summaryLast}
	if steps := parameter(s.state, "steps", 0); steps >= 1 {
		at = []int{int(min(steps, 1e4))}
	}
	last := at[len(at)-1]
	stride := 1 + (last-1)/mostFrames
	moved, err := s.ask("flow", map[string]any{"frames": last / stride, "steps": stride,
		"rate": parameter(s.state, "rate", 0.03)}, nil)
	if err != nil {
		return err
	}
	size, positions, labels := n*dim, moved["F"].([]float32), to[int64](s.first["labels"].([]int32)[:n])
	frame := func(k int) []float32 { // After k·stride steps.
		if k == 0 {
			return s.first["f"].([]float32)[:size]
		}
		return positions[(k-1)*size : k*size]
	}
	mean := func(of string) (sum float64) {
		all := s.first["triplets"].(page.Object)[of].([]float32)
		for _, x := range all {
			sum += float64(x) / float64(len(all))
		}
		return sum
	}
	history := figures.History{Steps: []int{0}, Sap: []float64{mean("sap")}, San: []float64{mean("san")}}
	for i, sap := range moved["sap"].([]float32) {
		history.Steps, history.Sap = append(history.Steps, (i+1)*stride), append(history.Sap, float64(sap))
		history.San = append(history.San, float64(moved["san"].([]float32)[i]))
	}
	var swarms []figures.Swarm
	for _, step := range append([]int{0}, at...) {
		k := step / stride
		w := figures.Swarm{Title: fmt.Sprintf("step %d", k*stride), Dim: dim, Points: frame(k), Labels: labels, Turn: 20}
		for before := max(0, k-trail); before < k; before++ {
			w.Before = append(w.Before, frame(before))
		}
		swarms = append(swarms, w)
	}
	out["flow"], err = figures.Flow(history, swarms...)
	return err
}

// raw is an array as a request has it.
func raw(of any) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, of) // Slices of numbers always write.
	return b.Bytes()
}

func to[T, F int32 | int64](x []F) []T {
	out := make([]T, len(x))
	for i, v := range x {
		out[i] = T(v)
	}
	return out
}
