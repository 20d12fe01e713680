package pytorch

import (
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
)

// directions are the paper's, with the switches of a rule's options. The other parts are formulas.
func directions(o dmlx.Options) []part {
	// Of the directions e_n and e_an, those that are projected.
	project := func(equation, code, u string) (string, string) {
		which, names := "e_n and e_an are", "e_n, e_an"
		if o.NegativeOnly {
			which, names = "e_n is", "e_n"
		}
		equation += "\n" + which + " then projected to be orthogonal to u = (f_a - f_p) / |f_a - f_p|"
		rest := "v - (v * " + u + ").sum(1, keepdims=True) * " + u
		if !o.KeepLength {
			equation += ", and of length 1"
			rest = "unit(" + rest + ")"
		}
		if o.NegativeOnly {
			return equation, code + "e_n = " + strings.ReplaceAll(rest, "v", "e_n")
		}
		return equation, code + names + " = (" + rest + " for v in (" + names + "))"
	}
	euc := part{"direction", "euc", "e_p = -e_ap = (f_p - f_a) / |f_p - f_a|,  e_n = -e_an = (f_a - f_n) / |f_a - f_n|",
		"e_p, e_n = unit(f_p - f_a), unit(f_a - f_n)\ne_ap, e_an = -e_p, -e_n"}
	cos := part{"direction", "cos", "e_p = -f_a,  e_n = f_a,  e_ap = -f_p,  e_an = f_n",
		"e_p, e_n, e_ap, e_an = -f_a, f_a, -f_p, f_n"}
	eucOrth, cosOrth := euc, cos
	eucOrth.Name, cosOrth.Name = "euc-orth", "cos-orth"
	eucOrth.Equation, eucOrth.Code = project(euc.Equation, euc.Code+"\n", "e_p")
	cosOrth.Equation, cosOrth.Code = project(cos.Equation, cos.Code+"\nu = unit(f_a - f_p)\n", "u")

	return []part{euc, cos, eucOrth, cosOrth}
}
