package engine

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/losses"
)

// part is what the page says of a direction, a pair weight, a triplet weight or a mask. One that has no text here
// is called by its name.
type part struct{ title, help string }

var directions = map[string]part{
	"euc": {"Euclidean",
		"Along the straight line between the two embeddings (Eq. 5). It keeps its strength however near they are."},
	"cos": {"cosine",
		"Along the other's embedding (Eq. 6). What is left of it on the sphere vanishes as a pair comes together."},
	"euc-orth": {"Euclidean, orthogonal",
		"Euclidean, with the negative's direction projected so that it is at right angles to the line from anchor to " +
			"positive (Eq. 7)."},
	"cos-orth": {"cosine, orthogonal",
		"Cosine, with the negative's direction projected so that it is at right angles to the line from anchor to " +
			"positive (Eq. 7)."},
}

var pairWeights = map[string]part{
	"con": {"constant", "1 for every pair (Eq. 8)."},
	"euc": {"distance", "The distance of the pair (Eq. 9)."},
	"lin": {"linear", "1 − S for the positive pair, S for the negative one (Eq. 10)."},
	"lin-ms": {"linear, multi-similarity",
		"Linear, times how this pair compares with the anchor's other pairs nearby (Eq. 14)."},
	"sig": {"sigmoid", "A switch at λ: 1/(1 + exp(α(S − λ))) for the positive pair, with β for the negative " +
		"one (Eq. 11)."},
	"sig-ms": {"sigmoid, multi-similarity",
		"The sigmoid, shifted by how this pair compares with the anchor's other pairs nearby (Eq. 13)."},
}

var tripletWeights = map[string]part{
	"con": {"constant", "½ for every triplet (Eq. 15)."},
	"cos": {"cosine", "1/(1 + exp(τ(S_ap − S_an))): hard triplets count more (Eq. 16)."},
	"cir": {"circle", "1/(1 + exp(τ(S_ap(2 − S_ap) − S_an²))): equal on circles about S_ap = 1, S_an = 0 " +
		"(Eq. 17)."},
}

var masks = map[string]part{
	"sc1": {"selectively contrastive", "No pull where the negative is nearer than the positive (Eq. 18)."},
	"sc2": {"selectively contrastive, circle",
		"No pull outside the circle S_ap(2 − S_ap) − S_an² = 0.5, as Figure 3 and the text have it."},
	"sc2-printed": {"selectively contrastive, as printed",
		"No pull inside that circle: the sign as Eq. 19 prints it."},
}

// parts are those of a kind, each with the options that a rule with it uses.
func parts[T any](of []T, about map[string]part, rule func(T) (name string, with dmlx.Rule)) (out []Object) {
	for _, x := range of {
		n, r := rule(x)
		out = append(out, Object{"name": n, "title": cmp.Or(about[n].title, n), "help": about[n].help,
			"uses": append([]string{}, r.UsedOptions()...)})
	}
	return out
}

// describe says what there is to choose from.
func (e *Engine) describe(*request) (Object, error) {
	rules := slice.Map(dmlx.Rules(), dmlx.Rule.Name)
	var options, toggles, aliases, list []Object
	for _, k := range dmlx.Numbers {
		options = append(options, Object{"name": k.Name, "symbol": k.Symbol, "title": k.Title, "help": k.Help, "min": k.Min,
			"max": k.Max, "step": k.Step, "default": k.Default})
	}
	for _, k := range dmlx.Switches {
		toggles = append(toggles, Object{"name": k.Name, "title": k.Title, "help": k.Help})
	}
	for _, a := range dmlx.Aliases() {
		r, err := dmlx.ParseRule(a)
		if err != nil {
			return nil, err
		}
		aliases = append(aliases, Object{"name": a, "rule": r.Name()})
	}
	all := slices.Clone(e.own)
	for _, about := range losses.All() {
		l, err := losses.Parse(about.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	for _, l := range all {
		parameters := []Object{}
		for _, p := range l.Parameters() {
			low, high, step := slider(p)
			parameters = append(parameters, Object{"name": p.Name, "default": p.Value, "min": low, "max": high, "step": step,
				"switch": p.Switch, "want": p.Want})
		}
		list = append(list, Object{"name": l.Name, "title": l.Title, "source": l.Source, "formula": l.Text,
			"parameters": parameters})
	}
	return Object{
		"directions": parts(e.parts.Directions, directions,
			func(d dmlx.Direction) (string, dmlx.Rule) { return d.Name, dmlx.Rule{Direction: d} }),
		"pairs": parts(e.parts.Pairs, pairWeights,
			func(p dmlx.PairWeight) (string, dmlx.Rule) { return p.Name, dmlx.Rule{Pair: p} }),
		"triplets": parts(e.parts.Triplets, tripletWeights,
			func(t dmlx.TripletWeight) (string, dmlx.Rule) { return t.Name, dmlx.Rule{Triplet: t} }),
		"masks":   parts(e.parts.Masks, masks, func(m dmlx.Mask) (string, dmlx.Rule) { return m.Name, dmlx.Rule{Mask: m} }),
		"options": options, "switches": toggles, "aliases": aliases, "rules": rules, "losses": list,
		"examples": slice.Map(examples, func(x [2]string) Object { return Object{"title": x[0], "rule": x[1]} })}, nil
}

// slider suggests a range for a loss's parameter: from 0, or from well below the default where 0 is not allowed, to
// some multiple of it.
func slider(p losses.Setting) (low, high, step float64) {
	switch p.Want {
	case "1 or 2":
		return 1, 2, 1
	case "a whole number, 1 or more":
		return 1, 2 * p.Value, 1
	case "an angle from 0 up to π":
		return 0, 3, 0.01
	}
	high = round(4 * math.Abs(p.Value))
	if p.Value == 0 {
		high = 2
	}
	if p.Name == "margin" || p.Name == "positive-margin" {
		high = max(high, 2)
	}
	step = high / 200
	if p.Want != "" { // A positive number.
		low = step
	}
	if p.Value < 0 {
		low = -high
	}
	return low, high, step
}

// round is the next of 1, 2, 5, 10, … times a power of ten.
func round(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// parse gives a subject in all its forms.
func (e *Engine) parse(q *request) (Object, error) {
	s, err := q.subject()
	if err != nil {
		return nil, err
	}
	if s.loss != nil {
		parameters := Object{}
		for _, p := range s.loss.Parameters() {
			if p.Switch {
				parameters[p.Name] = p.On
			} else {
				parameters[p.Name] = p.Value
			}
		}
		name := s.loss.String()
		out := Object{"kind": "loss", "name": name, "loss": Object{"name": s.loss.Name, "parameters": parameters}}
		if !slices.Contains(e.own, s.loss) { // The code of one's own is the user's.
			out["literal"], out["command"] = lossLiteral(s.loss), command("--loss", name)
		}
		return out, nil
	}
	r := s.rule.WithDefaults()
	options := Object{}
	for _, k := range dmlx.Numbers {
		options[k.Name] = k.In(r.Options)
	}
	for _, k := range dmlx.Switches {
		options[k.Name] = k.On(r.Options)
	}
	out := Object{"kind": "rule", "name": r.Name(), "rule": Object{"direction": r.Direction.Name, "pair": r.Pair.Name,
		"triplet": r.Triplet.Name, "mask": r.Mask.Name, "options": options},
		"uses": append([]string{}, r.UsedOptions()...)}
	if r.Custom() { // The code of a custom part is the user's.
		return out, nil
	}
	out["literal"], out["command"] = fmt.Sprintf("dmlx.ParseRule(%q)", r.Name()), command("--rule", r.Name())
	return out, describeFormulas(r, out)
}

// command is the one that trains a subject.
func command(flag, name string) string {
	if strings.ContainsAny(name, "?&[") {
		name = "'" + name + "'"
	}
	return "dmlx train --data " + exampleData + " " + flag + " " + name
}

// lossLiteral is a loss as Go.
func lossLiteral(l *losses.Named) string {
	v := reflect.Indirect(reflect.ValueOf(l.Loss))
	var fields []string
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() {
			fields = append(fields, fmt.Sprintf("%s: %v", f.Name, v.Field(i)))
		}
	}
	return "&" + lossRoot + v.Type().Name() + "{" + strings.Join(fields, ", ") + "}"
}
