package dmlx

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Rule says what a batch does to its embeddings: in which direction each member of a triplet moves, how strongly each
// pair pulls or pushes, and how much the triplet counts. The zero value is the paper's baseline cos/con/con.
//
// Each part is one of the variables of this package or a literal with the user's own graph function:
//
//	rule := dmlx.Rule{
//		Direction: dmlx.DirectionCosOrth,
//		Pair: dmlx.PairWeight{Name: "square", Of: func(b *dmlx.Batch) (positive, negative *graph.Node) {
//			return graph.Square(graph.OneMinus(b.Sap)), graph.Square(b.San)
//		}},
//		Triplet: dmlx.TripletCir,
//		Options: dmlx.Options{Tau: new(2.0)},
//	}
type Rule struct {
	Direction Direction     // Zero: DirectionCos.
	Pair      PairWeight    // Zero: PairCon.
	Triplet   TripletWeight // Zero: TripletCon.
	Mask      Mask          // Zero: no mask.
	Options   Options
}

type alias struct{ name, rule string }

// aliases are the losses of Table 1 as rules, and the paper's best rule, "Ours" in its Table 5. A name starts with
// table1- if the loss as published, which has the name without it in package losses or none there, has another
// gradient.
var aliases = []alias{
	{"triplet-euc", "euc/euc/con"},
	{"triplet-cos", "cos/con/cos"},
	{"table1-circle", "cos/lin/cir"},
	{"table1-binomial", "cos/sig/con"},
	{"table1-ms", "cos/sig-ms/con"},
	{"table1-dr-ms", "cos-orth/sig-ms/con"},
	{"table1-sct", "cos/con/cos+sc1"},
	{"ours", "cos-orth/lin-ms/cir"},
}

// Aliases lists the names of losses that [ParseRule] reads, in the order of Table 1, and "ours".
func Aliases() []string { return slice.Map(aliases, func(a alias) string { return a.name }) }

// ParseRule reads a rule's name: direction/pair/triplet[+mask], as in "cos-orth/lin-ms/cir" or "cos/con/cos+sc1", or a
// loss of Table 1 (see [Aliases]), either with options behind it: "cos/lin/cir?tau=2&sum". A weight or a mask may be a
// formula in brackets: "cos/[1-Sap, San]/[max(0, San-Sap+m)]+[San > Sap]". An option without an effect is an error.
func ParseRule(name string) (Rule, error) { return PartsWith().Parse(name) }

// ParseRecorded reads the name of a rule that was trained. It is [ParseRule], but for options without an effect, which
// were no error before: they stay in the rule's name.
func ParseRecorded(name string) (Rule, error) { return PartsWith().parse(name, true) }

// Parts are what rules are put together from.
type Parts struct {
	Directions []Direction
	Pairs      []PairWeight
	Triplets   []TripletWeight
	Masks      []Mask
}

// PartsWith returns the parts that have a name and the custom parts of rules, which replace those of the same name. A
// custom part without a name is called "custom".
func PartsWith(rules ...Rule) Parts {
	p := Parts{slices.Clone(Directions), slices.Clone(PairWeights), slices.Clone(TripletWeights), slices.Clone(Masks)}
	for _, r := range rules {
		p.Directions = with(p.Directions, r.Direction, func(d *Direction) *string { return &d.Name })
		p.Pairs = with(p.Pairs, r.Pair, func(w *PairWeight) *string { return &w.Name })
		p.Triplets = with(p.Triplets, r.Triplet, func(t *TripletWeight) *string { return &t.Name })
		p.Masks = with(p.Masks, r.Mask, func(m *Mask) *string { return &m.Name })
	}
	return p
}

// with returns parts with a custom one behind the others; any other part is among them.
func with[T interface{ Custom() bool }](in []T, own T, name func(*T) *string) []T {
	if !own.Custom() {
		return in
	}
	*name(&own) = partName(*name(&own))
	return append(slices.DeleteFunc(in, func(x T) bool { return *name(&x) == *name(&own) }), own)
}

// Parse reads a rule's name, as [ParseRule] does, with these parts.
func (p Parts) Parse(name string) (Rule, error) { return p.parse(name, false) }

func (p Parts) parse(name string, recorded bool) (Rule, error) {
	fail := func(format string, args ...any) (Rule, error) {
		return Rule{}, errs.Invalid(fmt.Errorf("rule %q: %s", name, fmt.Sprintf(format, args...)))
	}
	if err := formula.Closed(name); err != nil {
		return fail("%v", err)
	}
	body, text, hasOptions := strings.Cut(name, "?")
	for _, a := range aliases {
		if body == a.name {
			body = a.rule
		}
	}
	parts := formula.Split(body, "/")
	if len(parts) != 3 {
		const want = "want direction/pair/triplet[+mask][?option=value&…] or one of"
		near := errs.Nearest(body, Aliases())
		if slices.Contains(Aliases(), "table1-"+body) {
			near = "table1-" + body
		}
		if near != "" {
			return fail("did you mean %s? Else %s %s", near, want, strings.Join(Aliases(), ", "))
		}
		return fail("%s %s", want, strings.Join(Aliases(), ", "))
	}
	triplet := formula.Split(parts[2], "+")
	var r Rule
	var err error
	if r.Direction, err = find("direction", parts[0], p.Directions,
		func(d Direction) string { return d.Name }); err != nil {
		return fail("%v", err)
	}
	if r.Pair, err = partNamed("pair weight", parts[1], p.Pairs, func(p PairWeight) string { return p.Name },
		PairFormula); err != nil {
		return fail("%v", err)
	}
	if r.Triplet, err = partNamed("triplet weight", triplet[0], p.Triplets,
		func(t TripletWeight) string { return t.Name }, TripletFormula); err != nil {
		return fail("%v", err)
	}
	if len(triplet) > 1 {
		if r.Mask, err = partNamed("mask", strings.Join(triplet[1:], "+"), p.Masks, func(m Mask) string { return m.Name },
			MaskFormula); err != nil {
			return fail("%v", err)
		}
	}
	switch {
	case !hasOptions:
	case recorded:
		err = query.Read("option", text, r.settings())
	default:
		err = r.readOptions(text)
	}
	if err != nil {
		return fail("%v", err)
	}
	return r, nil
}

func find[T any](kind, name string, in []T, nameOf func(T) string) (T, error) {
	names := make([]string, len(in))
	for i, x := range in {
		if names[i] = nameOf(x); names[i] == name {
			return x, nil
		}
	}
	var zero T
	return zero, errs.NoSuch(fmt.Sprintf("no %s %q", kind, name), name, names)
}

// WithDefaults returns the rule with the parts that are left out, name and function: cos/con/con.
func (r Rule) WithDefaults() Rule {
	if r.Direction.Of == nil && r.Direction.Name == "" {
		r.Direction = DirectionCos
	}
	if r.Pair.Of == nil && r.Pair.Name == "" {
		r.Pair = PairCon
	}
	if r.Triplet.Of == nil && r.Triplet.Name == "" {
		r.Triplet = TripletCon
	}
	return r
}

// Validate returns an error for a part that has a name but no function.
func (r Rule) Validate() error {
	for _, part := range []struct {
		of, name string
		there    bool
	}{{"direction", r.Direction.Name, r.Direction.Of != nil}, {"pair weight", r.Pair.Name, r.Pair.Of != nil},
		{"triplet weight", r.Triplet.Name, r.Triplet.Of != nil}, {"mask", r.Mask.Name, r.Mask.Of != nil}} {
		if part.name != "" && !part.there {
			return errs.Invalid(fmt.Errorf("rule %s: the %s %q has no function: set its Of, or leave out its Name too for the "+
				"default", r.Name(), part.of, part.name))
		}
	}
	return nil
}

// Name is the rule's canonical name: [ParseRule] reads it back, if all parts have a name. Options are listed where
// they differ from the default, in alphabetical order.
func (r Rule) Name() string {
	r = r.WithDefaults()
	name := partName(r.Direction.Name) + "/" + partName(r.Pair.Name) + "/" + partName(r.Triplet.Name)
	if r.Mask.Of != nil || r.Mask.Name != "" {
		name += "+" + partName(r.Mask.Name)
	}
	var fields []string
	for _, n := range Numbers {
		if v := n.In(r.Options); v != n.Default {
			fields = append(fields, query.Number(n.Name, v))
		}
	}
	for _, s := range Switches {
		if s.On(r.Options) {
			fields = append(fields, s.Name)
		}
	}
	slices.Sort(fields) // Alphabetical, since no name begins with another.
	return query.Join(name, fields)
}

func partName(name string) string { return cmp.Or(name, "custom") }

// String is Name.
func (r Rule) String() string { return r.Name() }

// Custom tells whether a part of the rule is the user's own.
func (r Rule) Custom() bool {
	return r.Direction.Custom() || r.Pair.Custom() || r.Triplet.Custom() || r.Mask.Custom()
}

// PartNames lists the names of the directions, the pair weights and the triplet weights, as a rule's name has them: a
// triplet weight also with each mask. [TripletCon] stands without masks, and [SC2Printed] nowhere, as in the paper.
func PartNames() (directions, pairs, triplets []string) {
	directions = slice.Map(Directions, func(d Direction) string { return d.Name })
	pairs = slice.Map(PairWeights, func(p PairWeight) string { return p.Name })
	for _, t := range TripletWeights {
		triplets = append(triplets, t.Name)
		for _, m := range Masks {
			if t.Name != TripletCon.Name && m.Name != SC2Printed.Name {
				triplets = append(triplets, t.Name+"+"+m.Name)
			}
		}
	}
	return directions, pairs, triplets
}

// Rules lists all combinations of [PartNames] with their default options.
func Rules() []Rule {
	var out []Rule
	directions, pairs, triplets := PartNames()
	for _, d := range directions {
		for _, p := range pairs {
			for _, t := range triplets {
				r, _ := ParseRule(d + "/" + p + "/" + t) // All are known.
				out = append(out, r)
			}
		}
	}
	return out
}
