// Package pytorch writes rules as modules of Python, for PyTorch and for JAX.
package pytorch

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// part is a part of a rule as text: its equation, and its code in Python. Code has s [B, R], the similarities of the
// batch with what it is compared with; pos and neg, which of them are positive and negative pairs; the columns j [R];
// and of each anchor's triplet the columns p and n, the similarities s_ap and s_an, all [B], and the vectors f_a, f_p
// and f_n [B, D]. It may use the function unit, the rows of a matrix divided by their lengths, and the numbers of
// [dmlx.Options] as self.tau, self.alpha, self.beta, self.lam and self.eps. Code for both frameworks calls the
// functions that both have: amin, exp, ones_like, where and sigmoid. It assigns
//
//	e_p, e_n, e_ap, e_an   a direction, [B, D] each
//	w_p, w_n               a pair weight P+ and P-, [B] each
//	t                      a triplet weight, [B]
//	w_p                    a mask, which changes it
type part struct {
	Kind     string // direction, pair, triplet or mask.
	Name     string // As the rule has it.
	Equation string // Lines with line feeds between them.
	Code     string // Lines with line feeds between them.
}

// functions are those of PyTorch and JAX that parts' code may call.
var functions = []string{"amin", "exp", "full_like", "log", "log1p", "ones_like", "sqrt", "tanh", "where", "sigmoid"}

// number is a number of a rule as the module has it.
type number struct{ Name, Value string }

// partsOf returns the parts of a rule: direction, pair weight, triplet weight and mask, if it has one.
func partsOf(r dmlx.Rule) ([]part, error) {
	r = r.WithDefaults()
	type wanted struct {
		kind, name string
		formulas   formula.List
	}
	all := []wanted{
		{"direction", r.Direction.Name, r.Direction.Formulas()},
		{"pair", r.Pair.Name, r.Pair.Formulas()},
		{"triplet", r.Triplet.Name, r.Triplet.Formulas()},
	}
	if r.Mask.Of != nil {
		all = append(all, wanted{"mask", r.Mask.Name, r.Mask.Formulas()})
	}
	var out []part
	for _, w := range all {
		if len(w.formulas.Exprs) > 0 {
			out = append(out, written(w.kind, w.name, w.formulas))
			continue
		}
		from := directions(r.Options)
		i := slices.IndexFunc(from, func(p part) bool { return p.Kind == w.kind && p.Name == w.name })
		if i < 0 {
			hint := "write it as a formula in brackets"
			if w.kind == "direction" {
				hint = "directions of your own have code in Go alone"
			}
			return nil, errs.Invalid(fmt.Errorf("rule %s: there is no Python code for its %s %q: %s", r.Name(), w.kind, w.name,
				hint))
		}
		out = append(out, from[i])
	}
	return out, nil
}

// Equations returns the equations of a rule's parts, a line or some each: its directions, pair weights, triplet weight
// and mask, and the values of their numbers. It is an error if a part of the user's own is no formula.
func Equations(r dmlx.Rule) ([]string, error) {
	of, err := partsOf(r)
	lines, code := texts(of)
	var where []string
	for _, n := range used(r, code) {
		where = append(where, n.Name+" = "+strings.TrimSuffix(n.Value, ".0"))
	}
	if len(where) > 0 {
		lines = append(lines, strings.Join(where, ", "))
	}
	return lines, err
}

// texts returns the lines of the equations and of the code of parts.
func texts(of []part) (equations, code []string) {
	for _, p := range of {
		equations = append(equations, strings.Split(p.Equation, "\n")...)
		code = append(code, strings.Split(p.Code, "\n")...)
	}
	return equations, code
}

// used returns the numbers that code reads, with their values in a rule.
func used(r dmlx.Rule, code []string) (out []number) {
	for _, n := range dmlx.Numbers {
		if strings.Contains(strings.Join(code, "\n"), "self."+n.Python) {
			out = append(out, number{n.Python, format(r.Numbers()[n.Name])})
		}
	}
	return append(out, ownNumbers(r)...)
}

// Module returns a PyTorch module for a rule: a file of Python with a class Surgery, which needs nothing but torch. It
// is called with embeddings [B, D] and labels [B], and its gradient at the embeddings is the rule's, as [dmlx.Surgery]
// has it. It is an error if a part of the user's own is no formula.
func Module(r dmlx.Rule) (string, error) { return torch.write(r) }

// JAX returns a module as [Module] does, which needs nothing but jax.
func JAX(r dmlx.Rule) (string, error) { return jax.write(r) }

func (f form) write(r dmlx.Rule) (string, error) {
	r = r.WithDefaults()
	of, err := partsOf(r)
	if err != nil {
		return "", err
	}
	equations, code := texts(of)
	text := strings.Join(code, "\n")
	var called []string
	if strings.Contains(text, "unit(") {
		called = append(called, f.unit) // Which calls the framework's functions by their whole names.
	}
	for _, h := range helpers {
		if strings.Contains(text, h.name+"(") {
			called, text = append(called, h.code), text+"\n"+h.code
		}
	}
	names := slices.DeleteFunc(slices.Clone(functions), func(f string) bool { return !strings.Contains(text, f+"(") })
	return f.fill(content{r.Name(), equations, code, names, called, used(r, code), r.Options.Sum,
		r.Options.SkipDuplicates}), nil
}

// format returns a number as Python reads it, as a float.
func format(v float64) string {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}
