package engine

import (
	"errors"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/pytorch"
)

// examples are rules in formulas to start from.
var examples = [][2]string{
	{"hinge: how far from a margin", "cos/[1, 1]/[max(0, San-Sap+m), m=0.5]"},
	{"margin: all or nothing", "cos/[1, 1]/[where(San-Sap+m > 0, 1, 0), m=0.2]"},
	{"squared similarities", "cos/[pow(1-Sap, 2), pow(max(San, 0), 2)]/[0.5]"},
	{"exponential pair weights", "cos/[exp(-a*Sap), exp(a*(San-1)), a=2]/[0.5]"},
	{"focal: hard triplets, to a power", "cos/[1, 1]/[pow(sigmoid(k*(San-Sap)), g), k=4, g=2]"},
	{"log-ratio of distances", "cos/[1/(Dap+0.1), 1/(Dan+0.1)]/[0.5]"},
	{"temperature by hardness", "cos/[1, 1]/[sigmoid(k*(1+San)*(San-Sap)), k=4]"},
	{"window: semi-hard triplets alone", "cos/[1, 1]/[where(San < Sap && San > Sap-m, 1, 0), m=0.3]"},
	{"softplus: a smooth hinge", "cos-orth/[1-Sap, San]/[softplus(k*(San-Sap))/k, k=8]"},
	{"far positives do not pull", "cos/[1-Sap, San]/[sigmoid(k*(San-Sap)), k=4]+[Sap < far, far=0.2]"},
	{"relative to other pairs", "cos/[1+mean(abs(Sap-Rap), 0), 1+mean(abs(San-Ran), 0)]/[0.5]"},
}

// fields are the formulas of a request, as they are typed, and their own numbers: "k=4, m=0.5".
type fields struct{ Positive, Negative, Triplet, Mask, Numbers string }

// formula reads what is typed as formulas. Faults say which field is wrong and at which character, from 0; without any
// there are the parts, as a rule's name has them.
func (e *Engine) formula(q *request) (Object, error) {
	faults := []Object{}
	f, names := q.Fields, slice.Map(dmlx.Numbers, func(n dmlx.Number) string { return n.Name })
	read := func(field, text string, before int, kind formula.Kind) formula.List {
		l, err := formula.Parse(text, names, kind)
		if wrong, is := errors.AsType[*formula.Error](err); is {
			faults = append(faults, Object{"field": field, "at": max(0, wrong.At-before), "what": wrong.What})
		}
		return l
	}
	var own []formula.Parameter
	at := 0
	for number := range strings.SplitSeq(f.Numbers, ",") {
		if name, _, _ := strings.Cut(number, "="); strings.TrimSpace(name) != "" {
			own = append(own, read("numbers", name+","+number, len(name)+1-at, formula.IsNumber).Own...)
		}
		at += len(number) + 1
	}
	names = append(names, slice.Map(own, func(p formula.Parameter) string { return p.Name })...)
	whole := func(lists ...formula.List) string {
		var all formula.List
		for _, l := range lists {
			all.Exprs = append(all.Exprs, l.Exprs...)
		}
		for _, p := range own {
			if len(all.Reads([]string{p.Name})) > 0 {
				all.Own = append(all.Own, p)
			}
		}
		return "[" + all.String() + "]"
	}
	pair := whole(read("positive", f.Positive, 0, formula.IsNumber), read("negative", f.Negative, 0, formula.IsNumber))
	triplet, mask := whole(read("triplet", f.Triplet, 0, formula.IsNumber)), ""
	if strings.TrimSpace(f.Mask) != "" {
		mask = whole(read("mask", f.Mask, 0, formula.IsCondition))
	}
	return Object{"faults": faults, "pair": pair, "triplet": triplet, "mask": mask}, nil
}

// describeFormulas adds what a rule is as formulas to its description: the fields to type them in, remarks, the loss of
// a triplet alone that it implies, and its code.
func describeFormulas(r dmlx.Rule, out Object) error {
	w, err := r.Bound()
	if err != nil {
		return nil // Of a part that is a function there are none.
	}
	typed, numbers := Object{"mask": ""}, []string{}
	rest := []string{"positive", "negative", "triplet", "mask"}
	for _, l := range []formula.List{r.Pair.Formulas(), r.Triplet.Formulas(), r.Mask.Formulas()} {
		for _, e := range l.Exprs {
			typed[rest[0]], rest = e.Text(formula.Go, nil), rest[1:]
		}
		numbers = slice.AddNew(numbers, slice.Map(l.Own, formula.Parameter.String)...)
	}
	typed["numbers"], out["formulas"] = strings.Join(numbers, ", "), typed
	out["latex"] = strings.Join(r.LaTeX(), "\\\\\n")
	out["remarks"] = append([]string{}, w.Remarks()...)
	loss, err := r.Implied()
	sentence := loss.String()
	if err != nil {
		sentence = "no loss: " + err.Error()
	}
	out["loss"] = strings.ToUpper(sentence[:1]) + sentence[1:] + "."
	if out["pytorch"], err = pytorch.Module(r); err == nil {
		out["jax"], err = pytorch.JAX(r)
	}
	return err
}
