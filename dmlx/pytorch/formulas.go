package pytorch

import (
	"maps"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/formula"
)

// helper is a function of a module that code may call.
type helper struct{ name, code string }

// helpers are those that the code of formulas calls, beside functions that both frameworks have.
var helpers = []helper{
	{"mean", `def mean(x, others, empty):  # Of each anchor's others; empty if there are none.
    count = others.sum(1)
    return where(count > 0, where(others, x, 0).sum(1) / count.clip(1), empty)`},
	{"softplus", `def softplus(x):
    return where(x > 0, x, 0) + log1p(exp(-abs(x)))`},
	{"minimum", `def minimum(x, y):
    return where(x < y, x, y)`},
	{"maximum", `def maximum(x, y):
    return where(x > y, x, y)`},
}

// nearAndFar are 𝒫 and 𝒩 of Eq. 12 as masks of s.
const nearAndFar = "near = pos & (s < s_an[:, None] + self.eps) & (j != p[:, None])\n" +
	"far = neg & (s > amin(where(pos, s, 4), 1)[:, None] - self.eps) & (j != n[:, None])\n"

// written returns the part of a kind and a name that formulas compute.
func written(kind, name string, l formula.List) part {
	texts := make([]string, len(l.Exprs))
	code := ""
	for i, e := range l.Exprs {
		texts[i] = e.Text(formula.Python, pythonName)
	}
	all := strings.Join(texts, " ")
	if strings.Contains(all, "mean(") {
		code += nearAndFar
	}
	if strings.Contains(all, "d_a") {
		code += "d_ap, d_an = (((f_a - v)**2).sum(1)**0.5 for v in (f_p, f_n))\n"
	}
	equation := func(i int) string {
		return l.Exprs[i].Text(formula.Go, func(name string, _ bool) string {
			if slices.Contains(formula.Variables, name) {
				return name
			}
			return strings.TrimPrefix(pythonName(name, false), "self.")
		})
	}
	equations, assigned := "T = "+equation(0), "t = "+texts[0]
	switch kind {
	case "pair":
		equations, assigned = "P+ = "+equation(0)+"\nP- = "+equation(1), "w_p = "+texts[0]+"\nw_n = "+texts[1]
	case "mask":
		equations, assigned = "P+ = 0 where "+equation(0), "w_p = where("+texts[0]+", 0, w_p)"
	}
	if strings.Contains(all, "mean(") {
		equations += "\nmean(x, y): the mean over other positives with Rap < San + eps, or negatives with " +
			"Ran > min Sap - eps, else y"
	}
	return part{kind, name, equations, code + assigned}
}

// pythonName is how the code of a module calls a variable or a number of a formula. A number of its own is an argument
// of the module; one of several letters ends with _, so that it is no word of Python nor a method of modules.
func pythonName(name string, inMean bool) string {
	switch name {
	case "Sap", "San", "Dap", "Dan":
		name = strings.ToLower(name[:1]) + "_" + name[1:]
		if inMean {
			name += "[:, None]"
		}
		return name
	case "Rap", "Ran":
		return "s"
	case "P":
		return "near"
	case "N":
		return "far"
	}
	for _, n := range dmlx.Numbers {
		if n.Name == name {
			return "self." + n.Python
		}
	}
	return "self." + argument(name)
}

func argument(own string) string {
	if len(own) > 1 {
		return own + "_"
	}
	return own
}

// ownNumbers are the numbers of a rule's formulas' own.
func ownNumbers(r dmlx.Rule) (out []number) {
	for _, name := range slices.Sorted(maps.Keys(r.Numbers())) {
		if !slices.ContainsFunc(dmlx.Numbers, func(n dmlx.Number) bool { return n.Name == name }) {
			out = append(out, number{argument(name), format(r.Numbers()[name])})
		}
	}
	return out
}
