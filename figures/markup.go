package figures

import (
	"html"
	"strings"
	"unicode"
)

// Markup is a label: plain text in which what stands between dollar signs is a formula, in a small part of LaTeX's
// language: letters are variables, _ and ^ make a subscript and a superscript of the next letter or {group},
// \mathbf{…} and \mathrm{…} set upright, \sqrt{…} is a root, and a few symbols have names (\tau, \perp, \le, …).
// "$\mathbf{e}^{cos}$ of $S_{ap}$" is an example. A backslash before a dollar sign makes it an ordinary one. What
// cannot be parsed stands as it is written: a label is never an error.
type Markup = string

type face uint8

const (
	faceText       face = iota // The surrounding text's own.
	faceMath                   // Upright serif: digits, operators.
	faceMathItalic             // Variables.
	faceMathBold               // Vectors.
)

// atom is a piece of a label in one face, or a root over its children, with what is attached to it.
type atom struct {
	text     string
	face     face
	root     []atom
	sub, sup []atom
}

var symbols = map[string]string{
	"alpha": "α", "beta": "β", "gamma": "γ", "Delta": "Δ", "epsilon": "ε", "lambda": "λ", "mu": "μ", "rho": "ρ",
	"sigma": "σ", "omega": "ω",
	"tau": "τ", "theta": "θ", "perp": "⊥", "parallel": "‖", "partial": "∂", "pm": "±", "cdot": "·",
	"times": "×", "le": "≤",
	"ge": "≥", "ne": "≠", "approx": "≈", "to": "→", "in": "∈", "|": "‖", ",": string(thin), ";": " ",
	"quad": "  ", "&": "&", "%": "%", "_": "_", "{": "{", "}": "}",
}

// thin is the space between an operator and its operands.
const thin = '\u2009'

// spaced are the operators that get room on both sides between two operands.
const spaced = "=<>≤≥≠≈→+−±×"

func parseMarkup(s Markup) []atom {
	var out []atom
	for s != "" {
		before, rest, math := cutDollar(s)
		if before != "" {
			out = append(out, atom{text: strings.ReplaceAll(before, `\$`, "$")})
		}
		if !math {
			break
		}
		formula, after, closed := cutDollar(rest)
		if !closed { // A lone dollar sign is text.
			return append(out, atom{text: "$" + strings.ReplaceAll(rest, `\$`, "$")})
		}
		p := mathParser{in: []rune(formula)}
		out = append(out, p.sequence(faceMathItalic, 0)...)
		s = after
	}
	return out
}

// cutDollar cuts s around its first dollar sign that no backslash precedes.
func cutDollar(s string) (before, after string, found bool) {
	for i := range len(s) {
		if s[i] == '$' && (i == 0 || s[i-1] != '\\') {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

type mathParser struct {
	in []rune
	at int
}

// sequence parses up to the closing rune, which it consumes; 0 is the end.
func (p *mathParser) sequence(variables face, closing rune) []atom {
	var out []atom
	for p.at < len(p.in) && p.in[p.at] != closing {
		switch p.in[p.at] {
		case ' ':
			p.at++
		case '_', '^':
			up := p.in[p.at] == '^'
			p.at++
			script := p.argument(variables)
			if len(out) == 0 {
				out = append(out, atom{face: faceMath})
			}
			if last := &out[len(out)-1]; up {
				last.sup = append(last.sup, script...)
			} else {
				last.sub = append(last.sub, script...)
			}
		default:
			out = append(out, p.one(variables)...)
		}
	}
	p.at++
	return space(out)
}

// argument is what a script or a command takes: a group in braces or the next atom. The letters of a group of several,
// as in S_{ap} or e^{cos}, are a word.
func (p *mathParser) argument(variables face) []atom {
	if p.at < len(p.in) && p.in[p.at] == '{' {
		p.at++
		return p.sequence(variables, '}')
	}
	if p.at >= len(p.in) {
		return nil
	}
	return p.one(variables)
}

func (p *mathParser) one(variables face) []atom {
	r := p.in[p.at]
	p.at++
	switch {
	case r == '{':
		return p.sequence(variables, '}')
	case r == '}':
		return nil
	case r == '\\':
		return p.command(variables)
	case r == '-':
		return []atom{{text: "−", face: faceMath}}
	case r == '*':
		return []atom{{text: "·", face: faceMath}}
	case unicode.IsLetter(r):
		return []atom{{text: string(r), face: variables}}
	}
	return []atom{{text: string(r), face: faceMath}}
}

func (p *mathParser) command(variables face) []atom {
	start := p.at
	for p.at < len(p.in) && unicode.IsLetter(p.in[p.at]) {
		p.at++
	}
	if p.at == start && p.at < len(p.in) {
		p.at++
	}
	name := string(p.in[start:p.at])
	switch name {
	case "mathbf":
		return p.argument(faceMathBold)
	case "mathrm", "text":
		return p.argument(faceMath)
	case "sqrt":
		return []atom{{root: p.argument(variables), face: faceMath}}
	case "left", "right":
		return nil
	}
	if s, ok := symbols[name]; ok {
		f := faceMath
		if unicode.IsLetter([]rune(s)[0]) && variables == faceMathItalic && unicode.IsLower([]rune(s)[0]) {
			f = faceMathItalic
		}
		return []atom{{text: s, face: f}}
	}
	return []atom{{text: `\` + name, face: faceMath}}
}

// space puts thin spaces around operators that stand between two operands; a sign before one operand gets none. The
// hyphen in a name, as in e^{cos-orth}, is one again.
func space(atoms []atom) []atom {
	if len(atoms) > 2 && isName(atoms) {
		for i := range atoms {
			if atoms[i].text == "−" {
				atoms[i].text = "-"
			}
		}
		return atoms
	}
	for i := 1; i+1 < len(atoms); i++ {
		a := &atoms[i]
		if a.text != "" && strings.Contains(spaced, a.text) && !strings.HasSuffix(atoms[i-1].text, string(thin)) &&
			atoms[i-1].text != "(" {
			a.text = string(thin) + a.text + string(thin)
		}
	}
	return atoms
}

// isName tells words such as cos-orth or sig-ms: letters and inner hyphens, and at least two letters on each side.
func isName(atoms []atom) bool {
	run := 0
	for i, a := range atoms {
		letter := a.root == nil && a.sub == nil && a.sup == nil && len(a.text) == 1 && unicode.IsLetter(rune(a.text[0]))
		switch {
		case letter:
			run++
		case a.text == "−" && run >= 2 && i+2 < len(atoms):
			run = 0
		default:
			return false
		}
	}
	return run >= 2
}

// Plain is the label as ordinary text: "e^cos of S_ap".
func Plain(m Markup) string {
	var b strings.Builder
	writePlain(&b, parseMarkup(m))
	return b.String()
}

func writePlain(b *strings.Builder, atoms []atom) {
	for _, a := range atoms {
		b.WriteString(strings.ReplaceAll(a.text, string(thin), " "))
		if a.root != nil {
			b.WriteString("√(")
			writePlain(b, a.root)
			b.WriteString(")")
		}
		for _, script := range []struct {
			mark  string
			atoms []atom
		}{{"_", a.sub}, {"^", a.sup}} {
			if script.atoms == nil {
				continue
			}
			if script.mark == "^" && len(script.atoms) == 1 && script.atoms[0].text == "2" {
				b.WriteString("²")
				continue
			}
			b.WriteString(script.mark)
			writePlain(b, script.atoms)
		}
	}
}

// HTML is the label in HTML, escaped.
func HTML(m Markup) string {
	var b strings.Builder
	writeHTML(&b, parseMarkup(m))
	return b.String()
}

func writeHTML(b *strings.Builder, atoms []atom) {
	tags := map[face]string{faceMathItalic: "i", faceMathBold: "b"}
	for i := 0; i < len(atoms); i++ {
		a := atoms[i]
		text := a.text
		for bare(a) && i+1 < len(atoms) && atoms[i+1].face == a.face && atoms[i+1].root == nil { // One tag for a run.
			i++
			a = atoms[i]
			text += a.text
		}
		tag, ok := tags[a.face]
		if ok && text != "" {
			b.WriteString("<" + tag + ">" + html.EscapeString(text) + "</" + tag + ">")
		} else {
			b.WriteString(html.EscapeString(text))
		}
		if a.root != nil {
			b.WriteString("√(")
			writeHTML(b, a.root)
			b.WriteString(")")
		}
		if a.sub != nil {
			b.WriteString("<sub>")
			writeHTML(b, a.sub)
			b.WriteString("</sub>")
		}
		if a.sup != nil {
			b.WriteString("<sup>")
			writeHTML(b, a.sup)
			b.WriteString("</sup>")
		}
	}
}

func bare(a atom) bool { return a.root == nil && a.sub == nil && a.sup == nil }

// latex is the label as LaTeX: formulas stay as they are, text is escaped.
func latex(m Markup) string {
	escape := strings.NewReplacer(`\$`, `\$`, `\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "#", `\#`, "_", `\_`, "{",
		`\{`, "}", `\}`,
		"~", `\textasciitilde{}`, "\u00a0", "~", "^", `\textasciicircum{}`, "±", `$\pm$`, "×", `$\times$`, "·", `$\cdot$`,
		"≈", `$\approx$`, "–", "--", "−", `$-$`, "†", `$\dagger$`, "τ", `$\tau$`, "ρ", `$\rho$`, "→", `$\to$`,
		"≤", `$\le$`)
	var b strings.Builder
	for m != "" {
		before, rest, math := cutDollar(m)
		b.WriteString(escape.Replace(before))
		if !math {
			break
		}
		formula, after, closed := cutDollar(rest)
		if !closed {
			b.WriteString(`\$` + escape.Replace(rest))
			break
		}
		b.WriteString("$" + formula + "$")
		m = after
	}
	return b.String()
}
