package figures

import (
	"html"
	"strings"
	"sync"
	"unicode"
)

// Markup is a label: plain text with formulas between dollar signs, in a small subset of LaTeX. Letters are
// variables; _ and ^ make a subscript and a superscript of the next letter or {group}; \mathbf{…} and \mathrm{…}
// set upright letters; \sqrt{…} is a root; some symbols have names, such as \tau, \perp and \le. An example is
// "$\mathbf{e}^{cos}$ of $S_{ap}$". A backslash before a dollar sign makes it an ordinary one. Markup that cannot be
// parsed is shown as written: a label is never an error.
type Markup = string

type face uint8

const (
	faceText       face = iota // The surrounding text's own.
	faceMath                   // Upright serif: digits, operators.
	faceMathItalic             // Variables.
	faceMathBold               // Vectors.
)

// atom is a part of a label in one face, or a root over its children, with its subscript and superscript.
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

// spaced are the operators that get a space on both sides when they stand between two operands.
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

// cutDollar cuts s around its first dollar sign without a backslash.
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

// sequence parses up to the closing rune and consumes it. A closing rune of 0 means the end of the input.
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

// argument parses the operand of a script or a command: a group in braces or the next atom.
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

// space puts thin spaces around operators between two operands. A sign before one operand gets none. In a name, such
// as e^{cos-orth}, it turns the minus sign back into a hyphen.
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

// isName reports whether atoms are a name such as cos-orth or sig-ms: letters and inner hyphens, with at least two
// letters on each side.
func isName(atoms []atom) bool {
	run := 0
	for i, a := range atoms {
		letter := bare(a) && (len(a.text) == 1 && unicode.IsLetter(rune(a.text[0])) || a.text == "…")
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

// Plain returns the label as plain text: "e^cos of S_ap".
func Plain(m Markup) string {
	var b strings.Builder
	writePlain(&b, parseMarkup(m))
	return Printable(b.String())
}

// Printable replaces control characters, with which names of strangers could steer a terminal or end a comment, and
// those that turn the direction of text, by spaces.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || '\u202a' <= r && r <= '\u202e' || '\u2066' <= r && r <= '\u2069' {
			return ' '
		}
		return r
	}, s)
}

func writePlain(b *strings.Builder, atoms []atom) {
	script := func(mark string, of []atom) {
		if of != nil {
			b.WriteString(mark)
			writePlain(b, of)
		}
	}
	for _, a := range atoms {
		b.WriteString(strings.ReplaceAll(a.text, string(thin), " "))
		if a.root != nil {
			script("√(", a.root)
			b.WriteString(")")
		}
		script("_", a.sub)
		if len(a.sup) == 1 && a.sup[0].text == "2" {
			b.WriteString("²")
		} else {
			script("^", a.sup)
		}
	}
}

// Markdown returns the label as Markdown without HTML, pictures from elsewhere and control characters. Formulas stay.
func Markdown(m Markup) string {
	return strings.NewReplacer("<", "&lt;", "![", `!\[`).Replace(Printable(m))
}

// HTML returns the label as escaped HTML.
func HTML(m Markup) string {
	var b strings.Builder
	writeHTML(&b, parseMarkup(m))
	return b.String()
}

func writeHTML(b *strings.Builder, atoms []atom) {
	enclosed := func(before string, of []atom, after string) {
		if of != nil {
			b.WriteString(before)
			writeHTML(b, of)
			b.WriteString(after)
		}
	}
	tags := map[face]string{faceMathItalic: "i", faceMathBold: "b"}
	for _, a := range joined(atoms) { // One tag for several atoms.
		text := html.EscapeString(a.text)
		if tag, ok := tags[a.face]; ok && text != "" {
			text = "<" + tag + ">" + text + "</" + tag + ">"
		}
		b.WriteString(text)
		enclosed("√(", a.root, ")")
		enclosed("<sub>", a.sub, "</sub>")
		enclosed("<sup>", a.sup, "</sup>")
	}
}

func bare(a atom) bool { return a.root == nil && a.sub == nil && a.sup == nil }

// Symbols are characters that TeX's text font lacks, with their formulas.
var Symbols = map[string]string{
	"α": `$\alpha$`, "β": `$\beta$`, "γ": `$\gamma$`, "δ": `$\delta$`, "Δ": `$\Delta$`, "θ": `$\theta$`,
	"λ": `$\lambda$`, "Σ": `$\Sigma$`, "ρ": `$\rho$`, "τ": `$\tau$`, "⊥": `$\perp$`,
	"∥": `$\parallel$`, "≤": `$\le$`, "≥": `$\ge$`,
	"≈": `$\approx$`, "→": `$\to$`, "√": `$\surd$`, "₊": "$_+$", "₋": "$_-$", "𝒩": `$\mathcal{N}$`, "𝒫": `$\mathcal{P}$`,
}

// latexText escapes text for LaTeX, and latexMath are the commands of characters in its formulas.
var latexText, latexMath = sync.OnceValue(func() *strings.Replacer {
	pairs := []string{`\`, `\textbackslash{}`, "&", `\&`, "%", `\%`, "#", `\#`, "_", `\_`, "{", `\{`, "}", `\}`, "$", `\$`,
		"~", `\textasciitilde{}`, "\u00a0", "~", "^", `\textasciicircum{}`, "±", `$\pm$`, "×", `$\times$`, "·", `$\cdot$`,
		"–", "--", "−", `$-$`, "†", `$\dagger$`, "\n", " "}
	for symbol, formula := range Symbols {
		pairs = append(pairs, symbol, formula)
	}
	return strings.NewReplacer(pairs...)
}), sync.OnceValue(func() *strings.Replacer {
	pairs := []string{"−", "-", "‖", `\|`, `\`, `\backslash `, "#", `\#`, "$", `\$`, "^", `\hat{}`, "~", `\sim `, "…",
		`\ldots `}
	for name, symbol := range symbols {
		if name = `\` + name; unicode.IsLetter(rune(name[1])) {
			name += " "
		}
		pairs = append(pairs, symbol, name)
	}
	for _, operator := range spaced { // TeX spaces them.
		of := string(operator)
		pairs = append([]string{string(thin) + of + string(thin), strings.NewReplacer(pairs...).Replace(of)}, pairs...)
	}
	return strings.NewReplacer(pairs...)
})

// latex returns the label as LaTeX. Nothing of it is written as it is: names of strangers could read and write files.
func latex(m Markup) string {
	var b strings.Builder
	math := false
	for _, a := range joined(parseMarkup(Printable(m))) {
		if formula := a.face != faceText; formula != math {
			b.WriteString("$")
			math = formula
		}
		if math {
			writeLatex(&b, []atom{a})
		} else {
			b.WriteString(latexText().Replace(a.text))
		}
	}
	if math {
		b.WriteString("$")
	}
	return b.String()
}

// writeLatex writes a formula.
func writeLatex(b *strings.Builder, atoms []atom) {
	enclosed := func(before string, of []atom) {
		if of != nil {
			b.WriteString(before + "{")
			writeLatex(b, of)
			b.WriteString("}")
		}
	}
	for _, a := range joined(atoms) {
		text := latexMath().Replace(a.text)
		switch letters := strings.ContainsFunc(a.text, unicode.IsLetter); {
		case a.face == faceMathBold:
			text = `\mathbf{` + text + "}"
		case a.face == faceMath && letters:
			text = `\mathrm{` + text + "}"
		}
		b.WriteString(text)
		enclosed(`\sqrt`, a.root)
		enclosed("_", a.sub)
		enclosed("^", a.sup)
	}
}

// joined returns atoms of which neighbors in one face are one.
func joined(atoms []atom) (out []atom) {
	for i := 0; i < len(atoms); i++ {
		a := atoms[i]
		for bare(a) && i+1 < len(atoms) && atoms[i+1].face == a.face && atoms[i+1].root == nil {
			i++
			next := atoms[i]
			next.text = a.text + next.text
			a = next
		}
		out = append(out, a)
	}
	return out
}
