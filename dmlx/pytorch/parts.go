package pytorch

import (
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
)

// parts are the paper's, with the switches of a rule's options.
func parts(o dmlx.Options) []Part {
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
	euc := Part{"direction", "euc", "e_p = -e_ap = (f_p - f_a) / |f_p - f_a|,  e_n = -e_an = (f_a - f_n) / |f_a - f_n|",
		"e_p, e_n = unit(f_p - f_a), unit(f_a - f_n)\ne_ap, e_an = -e_p, -e_n"}
	cos := Part{"direction", "cos", "e_p = -f_a,  e_n = f_a,  e_ap = -f_p,  e_an = f_n",
		"e_p, e_n, e_ap, e_an = -f_a, f_a, -f_p, f_n"}
	eucOrth, cosOrth := euc, cos
	eucOrth.Name, cosOrth.Name = "euc-orth", "cos-orth"
	eucOrth.Equation, eucOrth.Code = project(euc.Equation, euc.Code+"\n", "e_p")
	cosOrth.Equation, cosOrth.Code = project(cos.Equation, cos.Code+"\nu = unit(f_a - f_p)\n", "u")

	// 𝒫 and 𝒩 of Eq. 12, and the means of two functions of S over them: 0 over the empty set.
	sets := func(p, n, empty string) string {
		return "m+ is the mean of " + p + " over other positives with S < S_an + eps, " + empty + " if there are none\n" +
			"m- is the mean of " + n + " over other negatives with S > min S_ap - eps, " + empty + " if there are none"
	}
	mean := func(p, n string) string {
		return nearAndFar + "m_p, m_n = " + p + ", " + n + "\n" +
			"m_p, m_n = (where(k, m, 0).sum(1) / k.sum(1).clip(1) for k, m in ((near, m_p), (far, m_n)))\n"
	}
	circle := "S_ap (2 - S_ap) - S_an^2"
	return []Part{
		euc, cos, eucOrth, cosOrth,
		{"pair", "con", "P+ = 1,  P- = 1", "w_p, w_n = ones_like(s_ap), ones_like(s_an)"},
		{"pair", "euc", "P+ = |f_a - f_p|,  P- = |f_a - f_n|", "w_p, w_n = (((f_a - v)**2).sum(1)**0.5 for v in (f_p, f_n))"},
		{"pair", "lin", "P+ = 1 - S_ap,  P- = S_an", "w_p, w_n = 1 - s_ap, s_an"},
		{"pair", "lin-ms", "P+ = (1 - m+) (1 - S_ap),  P- = (1 + m-) S_an\n" + sets("S_ap - S", "S_an - S", "0"),
			mean("s_ap[:, None] - s", "s_an[:, None] - s") + "w_p, w_n = (1 - m_p) * (1 - s_ap), (1 + m_n) * s_an"},
		{"pair", "sig", "P+ = 1 / (1 + exp(alpha (S_ap - lam))),  P- = 1 / (1 + exp(-beta (S_an - lam)))",
			"w_p, w_n = sigmoid(self.alpha * (self.lam - s_ap)), sigmoid(self.beta * (s_an - self.lam))"},
		{"pair", "sig-ms", "P+ = 1 / (m+ + exp(alpha (S_ap - lam))),  P- = 1 / (m- + exp(-beta (S_an - lam)))\n" +
			sets("exp(alpha (S_ap - S))", "exp(-beta (S_an - S))", "1"),
			mean("exp(self.alpha * (s_ap[:, None] - s))", "exp(self.beta * (s - s_an[:, None]))") +
				"m_p, m_n = m_p + ~near.any(1), m_n + ~far.any(1)\n" +
				"w_p, w_n = 1 / (m_p + exp(self.alpha * (s_ap - self.lam))), " +
				"1 / (m_n + exp(self.beta * (self.lam - s_an)))"},
		{"triplet", "con", "T = 0.5", "t = 0.5 * ones_like(s_ap)"},
		{"triplet", "cos", "T = 1 / (1 + exp(tau (S_ap - S_an)))", "t = sigmoid(self.tau * (s_an - s_ap))"},
		{"triplet", "cir", "T = 1 / (1 + exp(tau (" + circle + ")))",
			"t = sigmoid(self.tau * (s_an**2 - s_ap * (2 - s_ap)))"},
		{"mask", "sc1", "P+ = 0 where S_an > S_ap", "w_p = where(s_an <= s_ap, w_p, 0)"},
		{"mask", "sc2", "P+ = 0 where " + circle + " < 0.5", "w_p = where(s_ap * (2 - s_ap) - s_an**2 >= 0.5, w_p, 0)"},
		{"mask", "sc2-printed", "P+ = 0 where " + circle + " > 0.5",
			"w_p = where(s_ap * (2 - s_ap) - s_an**2 <= 0.5, w_p, 0)"},
	}
}
