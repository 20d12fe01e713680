package pytorch

import (
	_ "embed"
	"slices"
	"strings"
)

// form is how modules are written for a framework. Its module is filled by replacement: text/template would keep the
// linker from leaving methods out, and the page's program be by half as large again.
type form struct {
	module string
	unit   string // The function unit.
	super  string // What __init__ begins with.
	share  string // What makes a mean of a sum over triplets.
	from   map[string]string
	usual  string // The module of Python that has the functions which from does not have elsewhere.
}

//go:embed torch.py.tmpl
var torchModule string

//go:embed jax.py.tmpl
var jaxModule string

var torch = form{module: torchModule, unit: `def unit(x):  # A row too short to have a direction becomes zero.
    length = x.norm(dim=1, keepdim=True)
    return x / length.masked_fill(length <= 1e-5, torch.inf)`,
	super: "        super().__init__()\n", share: " / valid.sum().clamp(min=1)", usual: "torch"}

var jax = form{module: jaxModule, unit: `def unit(x):  # A row too short to have a direction becomes zero.
    length = jnp.sqrt((x * x).sum(1, keepdims=True))
    return x / jnp.where(length > 1e-5, length, jnp.inf)`,
	share: " / valid.sum().clip(1)", from: map[string]string{"sigmoid": "jax.nn"}, usual: "jax.numpy"}

// gradient is the part of the docstring that says what the gradient is, and check what refuses a bad batch.
const (
	gradient = "embeddings are [B, D], labels integers [B]. The gradient at the L2-normalized embeddings f is " +
		"composed, see Xuan and\n" +
		`Pless, "Dissecting the impact of different loss functions with gradient surgery". Each anchor a, with its nearest
positive p and negative n by S = f f^T, adds T P+ e_p at p, T P- e_n at n and T (P+ e_ap + P- e_an) at a: a `
	check = `        if embeddings.ndim != 2 or labels.shape != embeddings.shape[:1] or len(labels) == 0:
            raise ValueError(f"want embeddings [B, D] and labels [B], not {[*embeddings.shape]}, {[*labels.shape]}")`
)

// content is what a module is filled with.
type content struct {
	rule                string
	equations, code     []string
	functions, helpers  []string
	options             []number
	sum, skipDuplicates bool
}

func (f form) fill(c content) string {
	of, share := "mean", f.share
	if c.sum {
		of, share = "sum", ""
	}
	positives := "labels[:, None] == ref_labels"
	if c.skipDuplicates {
		positives = "(" + positives + ") & (s <= 0.9999)"
	}
	return strings.NewReplacer("{{rule}}", c.rule, "{{check}}", check, "{{positives}}", positives, "{{share}}", share,
		"{{gradient}}", gradient+of+".\n\n    "+strings.Join(c.equations, "\n    ")+"\n",
		"{{imports}}", f.imports(c.functions), "{{init}}", f.init(c.options),
		"{{helpers}}", each("\n\n", c.helpers, "\n"), "{{code}}", each("\n        ", c.code, ""),
	).Replace(f.module)
}

// each joins lines with something before and behind each of them.
func each(before string, lines []string, behind string) string {
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(before + line + behind)
	}
	return out.String()
}

// imports are lines that import functions, of each module of Python in one.
func (f form) imports(functions []string) string {
	var out strings.Builder
	last := ""
	for _, name := range functions {
		from := f.usual
		if elsewhere, is := f.from[name]; is {
			from = elsewhere
		}
		if from == last {
			out.WriteString(", " + name)
		} else {
			out.WriteString("\nfrom " + from + " import " + name)
		}
		last = from
	}
	return out.String()
}

// init is the method that takes the numbers of a rule; a module without any has none.
func (f form) init(options []number) string {
	if len(options) == 0 {
		return ""
	}
	var arguments, fields, names []string
	for _, o := range options {
		arguments, fields = append(arguments, o.Name+"="+o.Value), append(fields, "self."+o.Name)
		names = append(names, o.Name)
	}
	return "\n    def __init__(" + strings.Join(slices.Concat([]string{"self"}, arguments), ", ") + "):\n" + f.super +
		"        " + strings.Join(fields, ", ") + " = " + strings.Join(names, ", ") + "\n"
}
