package search

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// draft is a spec to which a point is being applied, with its rule in parts.
type draft struct {
	spec                     runs.Spec
	direction, pair, triplet string // triplet includes the mask.
	options                  map[string]string
	batch, images            int
}

// parameter is a parameter that a search can apply to a spec.
type parameter struct {
	name, about string
	part        bool     // Whether it is a part of the rule.
	of          string   // The part of the rule that it is an option of: "pair", "triplet", or "".
	in          []string // The names of that part that have the option.
	standard    func(base draft) Parameter
	apply       func(d *draft, value string) error
}

var directions, pairs, triplets = dmlx.PartNames()

// parameters are in the order of a space: parts of the rule precede their options.
var parameters = []parameter{
	{name: "direction", part: true, about: "direction of the gradient", standard: choices(directions...),
		apply: func(d *draft, v string) error { d.direction = v; return nil }},
	{name: "pair", part: true, about: "pair weight", standard: choices(pairs...),
		apply: func(d *draft, v string) error { d.pair = v; return nil }},
	{name: "triplet", part: true, about: "triplet weight, with its mask", standard: choices(triplets...),
		apply: func(d *draft, v string) error { d.triplet = v; return nil }},
	option("tau", "slope τ of T^cos and T^cir", "triplet", logarithmic(0.25, 16)),
	option("alpha", "slope α of P₊^sig", "pair", logarithmic(0.5, 8)),
	option("beta", "slope β of P₋^sig", "pair", logarithmic(2, 50)),
	option("lambda", "threshold λ of P^sig", "pair", linear(0, 1)),
	option("epsilon", "margin ε of the relative pair weights", "pair", logarithmic(0.01, 0.5)),
	{name: "lr", about: "learning rate", standard: func(b draft) Parameter {
		return Parameter{Low: b.spec.LR / 8, High: b.spec.LR * 8, Log: true}
	},
		apply: number(func(d *draft, v float64) { d.spec.LR = v })},
	{name: "decay", about: "share of the epochs after which the learning rate falls to a tenth", standard: linear(0.3, 1),
		apply: number(func(d *draft, v float64) { d.spec.Decay = v })},
	{name: "batch", about: "approximate number of images in a batch; training sees as many images in all",
		standard: func(b draft) Parameter { return Parameter{Choices: around(b.spec.Batch())} },
		apply:    whole(func(d *draft, v int) { d.batch = v })},
	{name: "images", about: "images of a class in a batch",
		standard: func(b draft) Parameter { return Parameter{Choices: around(b.spec.ImagesPerClass)} },
		apply:    whole(func(d *draft, v int) { d.images = v })},
}

// Names returns the names of all parameters that can be searched, with a description of each.
func Names() (names, about []string) {
	for _, p := range parameters {
		names, about = append(names, p.name), append(about, p.about)
	}
	return names, about
}

func choices(names ...string) func(draft) Parameter {
	return func(draft) Parameter { return Parameter{Choices: names} }
}

func linear(low, high float64) func(draft) Parameter {
	return func(draft) Parameter { return Parameter{Low: low, High: high} }
}

func logarithmic(low, high float64) func(draft) Parameter {
	return func(draft) Parameter { return Parameter{Low: low, High: high, Log: true} }
}

// around returns half, once and twice a number as choices, without a half that is not whole or below 2.
func around(n int) []string {
	var out []string
	if n%2 == 0 && n > 2 {
		out = append(out, strconv.Itoa(n/2))
	}
	return append(out, strconv.Itoa(n), strconv.Itoa(2*n))
}

// option is an option of a part of a rule.
func option(name, about, of string, standard func(draft) Parameter) parameter {
	var in []string
	for _, pair := range dmlx.PairWeights {
		if of == "pair" && (dmlx.Rule{Pair: pair}).Uses(name) {
			in = append(in, pair.Name)
		}
	}
	for _, triplet := range dmlx.TripletWeights {
		if of == "triplet" && (dmlx.Rule{Triplet: triplet}).Uses(name) {
			in = append(in, triplet.Name)
		}
	}
	return parameter{name: name, about: about, of: of, in: in, standard: standard,
		apply: func(d *draft, v string) error { d.options[name] = v; return nil }}
}

func number(set func(*draft, float64)) func(*draft, string) error {
	return func(d *draft, text string) error {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return fmt.Errorf("%q is no number", text)
		}
		set(d, v)
		return nil
	}
}

func whole(set func(*draft, int)) func(*draft, string) error {
	return func(d *draft, text string) error {
		v, err := strconv.Atoi(text)
		if err != nil || v < 1 {
			return fmt.Errorf("%q is no whole number above 0", text)
		}
		set(d, v)
		return nil
	}
}

// parseDraft splits a spec into its parts.
func parseDraft(base runs.Spec) (draft, error) {
	rule, err := base.ParsedRule()
	if err != nil {
		return draft{}, err
	}
	if rule.Custom() {
		return draft{}, fmt.Errorf("rule %s has a custom part, which a search cannot store: search around a rule with "+
			"the paper's parts", rule)
	}
	name, options, _ := strings.Cut(rule.Name(), "?")
	parts := strings.Split(name, "/")
	d := draft{spec: base, direction: parts[0], pair: parts[1], triplet: parts[2], options: make(map[string]string),
		batch: base.Batch(), images: base.ImagesPerClass}
	keys, values, _ := query.Fields(options)
	for i, key := range keys {
		if key != "" {
			d.options[key] = values[i]
		}
	}
	return d, nil
}

// part returns the name of the pair weight or the triplet weight.
func (d draft) part(of string) string {
	if of == "pair" {
		return d.pair
	}
	return d.triplet
}

// containsPart reports whether a list contains the name of a part, which may have a mask.
func containsPart(list []string, name string) bool {
	name, _, _ = strings.Cut(name, "+")
	return slices.Contains(list, name)
}

// Apply returns the base spec with the values of a point.
func Apply(base runs.Spec, space Space, at Point) (runs.Spec, error) {
	d, err := parseDraft(base)
	if err != nil {
		return base, err
	}
	for _, p := range space {
		v, there := at[p.Name]
		if !there {
			continue
		}
		k, err := named(p.Name)
		if err != nil {
			return base, err
		}
		if err := k.apply(&d, v); err != nil {
			return base, fmt.Errorf("parameter %s: %w", p.Name, err)
		}
	}
	return d.build()
}

// build returns the spec. With another batch size, the number of steps changes so that training sees the same number of
// images.
func (d draft) build() (runs.Spec, error) {
	name := d.direction + "/" + d.pair + "/" + d.triplet
	var fields []string
	for _, p := range parameters {
		if v, there := d.options[p.name]; there && (p.of == "" || containsPart(p.in, d.part(p.of))) {
			fields = append(fields, p.name+"="+v)
		}
	}
	for key, v := range d.options { // Keep the flags of the base rule.
		if v == "" {
			fields = append(fields, key)
		}
	}
	spec := d.spec
	o, err := objectives.Parse(query.Join(name, fields))
	if err == nil {
		spec.Objective, err = o.WithMiner(spec.Miner)
	}
	if err != nil {
		return d.spec, err
	}
	if d.batch == spec.Batch() && d.images == spec.ImagesPerClass {
		return spec, nil
	}
	seen := float64(spec.StepsPerEpoch * spec.Batch())
	spec.ImagesPerClass = d.images
	spec.ClassesPerBatch = max(1, int(math.Round(float64(d.batch)/float64(d.images))))
	spec.StepsPerEpoch = max(1, int(math.Round(seen/float64(spec.Batch()))))
	return spec, nil
}

// named returns the parameter with a name.
func named(name string) (parameter, error) {
	if i := slices.IndexFunc(parameters, func(k parameter) bool { return k.name == name }); i >= 0 {
		return parameters[i], nil
	}
	names, _ := Names()
	return parameter{}, errs.NoSuch(fmt.Sprintf("no parameter %q", name), name, names)
}

// NewSpace returns the space of the given parameters around a spec, which has the values of all others. Each parameter
// is given as "name" with its default range, "name=low..high" or "name=a,b,…". Default choices that cannot be trained
// on the data set are left out. Without any, the space has all parameters that apply to the rule of the spec.
func NewSpace(base runs.Spec, given ...string) (Space, error) {
	b, err := parseDraft(base)
	if err != nil {
		return nil, err
	}
	all := len(given) == 0
	if all {
		given, _ = Names()
	}
	wanted, usual := make(map[string]Parameter), make(map[string]bool)
	for _, text := range given {
		p, err := parse(b, text)
		if err != nil {
			return nil, err
		}
		if _, twice := wanted[p.Name]; twice {
			return nil, fmt.Errorf("parameter %s is given twice", p.Name)
		}
		wanted[p.Name], usual[p.Name] = p, !strings.Contains(text, "=")
	}
	var space Space
	for _, k := range parameters {
		p, there := wanted[k.name]
		if !there {
			continue
		}
		if k.of != "" {
			if p, err = k.tie(p, b, space); err != nil {
				if all {
					continue
				}
				return nil, err
			}
		}
		if usual[k.name] && (k.name == "batch" || k.name == "images") {
			p.Choices = slices.DeleteFunc(p.Choices, func(v string) bool {
				return checkBatchValue(base, append(slices.Clone(space), p), k.name, v) != nil
			})
			if len(p.Choices) < 2 {
				if all {
					continue
				}
				return nil, fmt.Errorf("parameter %s: no other default value can be trained on the data set: give values, as "+
					"in %s=A,B", k.name, k.name)
			}
		}
		space = append(space, p)
	}
	if err := space.Check(); err != nil {
		return nil, err
	}
	return space, Feasible(base, space)
}

// Around returns the space around another spec, without the parts of the rule and without options that its rule does
// not have. It is nil if nothing remains.
func (s Space) Around(base runs.Spec) (Space, error) {
	b, err := parseDraft(base)
	if err != nil {
		return nil, err
	}
	var out Space
	for _, p := range s {
		k, err := named(p.Name)
		if err != nil {
			return nil, err
		}
		if k.part || k.of != "" && !containsPart(k.in, b.part(k.of)) {
			continue
		}
		p.Of, p.In = "", nil
		out = append(out, p)
	}
	if out == nil {
		return nil, nil
	}
	return out, Feasible(base, out)
}

// parse reads a parameter in the syntax of [NewSpace].
func parse(base draft, text string) (Parameter, error) {
	name, values, given := strings.Cut(text, "=")
	k, err := named(name)
	if err != nil {
		return Parameter{}, err
	}
	p := k.standard(base)
	p.Name = name
	if !given {
		return p, nil
	}
	if p.Choices == nil {
		if low, high, ok := strings.Cut(values, ".."); ok {
			l, errL := strconv.ParseFloat(low, 64)
			h, errH := strconv.ParseFloat(high, 64)
			if errL != nil || errH != nil {
				return p, fmt.Errorf("parameter %s: %q: want two numbers, as in %s", name, values, p)
			}
			p.Low, p.High = l, h
			return p, Space{p}.Check()
		}
	}
	p.Low, p.High, p.Log = 0, 0, false
	usual := p.Choices
	p.Choices = strings.Split(values, ",")
	for _, c := range p.Choices {
		switch _, err := strconv.ParseFloat(c, 64); {
		case usual == nil && err != nil:
			return p, fmt.Errorf("parameter %s: %q: want low..high, or numbers separated by commas", name, values)
		case usual != nil && !slices.Contains(usual, c) && name != "batch" && name != "images":
			return p, fmt.Errorf("parameter %s has no choice %q; there are %s", name, c, strings.Join(usual, ", "))
		}
	}
	return p, Space{p}.Check()
}

// tie restricts an option to the values of its part that have it. It returns an error if none has.
func (k parameter) tie(p Parameter, base draft, space Space) (Parameter, error) {
	i := space.index(k.of)
	if i < 0 {
		if !containsPart(k.in, base.part(k.of)) {
			return p, fmt.Errorf("parameter %s: rule %s does not have it: search over %s too, or around a rule with one of %s",
				k.name, base.spec.Rule, k.of, strings.Join(k.in, ", "))
		}
		return p, nil
	}
	var in []string
	for _, c := range space[i].Choices {
		if containsPart(k.in, c) {
			in = append(in, c)
		}
	}
	switch len(in) {
	case 0:
		return p, fmt.Errorf("parameter %s: none of %s has it: it belongs to %s", k.name, space[i], strings.Join(k.in, ", "))
	case len(space[i].Choices):
		return p, nil
	}
	p.Of, p.In = k.of, in
	return p, nil
}

// checkBatchValue returns an error if a value of the batch size or of the images per class cannot be trained with some
// other value of the space.
func checkBatchValue(base runs.Spec, space Space, name, value string) error {
	for _, p := range space {
		if p.Name == "batch" && name != "batch" { // Every batch size must work with this value.
			for _, c := range p.Choices {
				if err := checkPoint(base, space, Point{"batch": c, name: value}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return checkPoint(base, space, Point{name: value})
}

func checkPoint(base runs.Spec, space Space, at Point) error {
	spec, err := Apply(base, space, at)
	if err != nil {
		return err
	}
	if err = cmp.Or(spec.HasTriplets(), runs.Feasible(spec)); err != nil && len(at) > 0 {
		err = fmt.Errorf("%s: %w", space.Text(at), err)
	}
	return err
}

// Feasible returns an error if a point of a space cannot be trained on its data set, before anything is trained. It
// tries all batches, and the ends of all ranges and all choices one at a time.
func Feasible(base runs.Spec, space Space) error {
	batches, images := []string{""}, []string{""}
	for _, p := range space {
		switch p.Name {
		case "batch":
			batches = p.Choices
		case "images":
			images = p.Choices
		}
	}
	if len(batches) == 0 || len(images) == 0 {
		return errors.New("batch and images must be lists of choices, as in batch=32,64, not ranges")
	}
	for _, b := range batches {
		for _, n := range images {
			at := make(Point)
			for name, v := range map[string]string{"batch": b, "images": n} {
				if v != "" {
					at[name] = v
				}
			}
			if err := checkPoint(base, space, at); err != nil {
				return err
			}
		}
	}
	// The ends of each range, and each choice of the rule, one at a time.
	for _, p := range space {
		values := p.Choices
		if values == nil {
			values = []string{p.value(0), p.value(1)}
		}
		for _, v := range values {
			if p.Name == "batch" || p.Name == "images" {
				continue
			}
			spec, err := Apply(base, space, Point{p.Name: v})
			if err == nil {
				err = spec.Validate()
			}
			if err != nil {
				return fmt.Errorf("parameter %s: %w", p.Name, err)
			}
		}
	}
	return nil
}
