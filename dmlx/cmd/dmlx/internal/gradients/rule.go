package gradients

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/formula"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/pytorch"
)

// typicalTriplets are S_ap and S_an of triplets that a rule is shown at, with a word for each.
var typicalTriplets = []struct {
	what     string
	sap, san float32
}{
	{"well separated", 0.9, 0.1}, {"separated", 0.7, 0.4}, {"undecided", 0.5, 0.5}, {"violated", 0.4, 0.6},
	{"hard negative", 0.6, 0.9}, {"far positive", 0.1, 0.3},
}

// sampleBatch says what nearestTo's batch is.
const sampleBatch = "a batch of 16 classes of 4 images in 64 dimensions, with some triplets violated"

// nearestTo ranks the other rules and the published losses of pairs by the cosines of their gradients with a rule's.
func nearestTo(r dmlx.Rule) (rules, published []dissect.Near, err error) {
	b, err := backend.Go()
	if err != nil {
		return nil, nil, err
	}
	batch := dissect.Sample(16, 4, 64, 1.5, 1)
	d, err := dissect.Rule(b, batch, r)
	if err != nil {
		return nil, nil, err
	}
	others := slices.DeleteFunc(dmlx.Rules(), func(other dmlx.Rule) bool { return other.Name() == r.Name() })
	if rules, err = dissect.Nearest(batch, d.G, dissect.RuleCandidates(others)); err != nil {
		return nil, nil, err
	}
	published, err = dissect.Nearest(batch, d.G, publishedLosses())
	return rules, published, err
}

// publishedLosses are the losses of pairs and triplets with their published parameters.
func publishedLosses() (out []dissect.Candidate) {
	for _, about := range losses.All() {
		if l, err := losses.Parse(about.Name); err == nil && !about.Proxies {
			out = append(out, dissect.LossCandidate(about.Name, l.Of))
		}
	}
	return out
}

// NewRule shows a rule, or writes it as a module for PyTorch or JAX.
func NewRule(a *app.App) *cobra.Command {
	var asPyTorch, asJAX bool
	var out string
	cmd := &cobra.Command{
		Use:   "rule NAME",
		Short: "Show what a rule is, or write it as a module for PyTorch or JAX",
		Long: `Show what a rule is: its equations, its weights as formulas and for some triplets, and where they are
negative; whether a loss of one triplet has these weights, and which; and the rules and published losses whose gradients
are nearest to the rule's on ` + sampleBatch + `.

A weight or a mask may be a formula in brackets: direction/[P+, P-]/[T]+[mask]. It reads the similarities Sap and San
and the distances Dap and Dan, the numbers tau, alpha, beta, lambda and epsilon, and numbers of its own, whose values
follow it: [sigmoid(k*(San-Sap)), k=4]. Beside + - * / there are comparisons, && || ! and the functions
` + strings.Join(formula.Functions, ", ") + `.
mean(x, y) is the mean of x over the other nearby positives if x reads Rap, or over the other nearby negatives if it
reads Ran; where there are none it is y.

With --pytorch it is written as a module of Python that needs nothing but torch:

    from surgery import Surgery
    loss = Surgery()
    for images, labels in loader:            # several images of each class in a batch
        optimizer.zero_grad()
        loss(network(images), labels).backward()
        optimizer.step()

Its gradient is that of the rule, whose options are arguments, as in Surgery(tau=2.0). It is also
a loss of pytorch-metric-learning; its docstring says how it is used with a memory and in several processes.

With --jax the module needs nothing but jax: jax.grad(lambda w: Surgery()(network(w, images), labels))(w).`,
		Example: "  dmlx rule cos-orth/lin-ms/cir\n  dmlx rule 'cos/[1-Sap, San]/[max(0, San-Sap+m), m=0.5]'\n" +
			"  dmlx rule 'cos/con/[sigmoid((San-Sap)/t+a*San), t=0.02, a=9]'  # LLaVE's weights of hard negatives\n" +
			"  dmlx rule \"cos/lin/cir?tau=2\" --pytorch --out surgery.py",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := dmlx.ParseRule(args[0])
			if err != nil {
				return cli.Usage(err)
			}
			switch {
			case asPyTorch && asJAX:
				return cli.Usagef("--pytorch and --jax are both given: want one of them")
			case !asPyTorch && !asJAX && out != "":
				return cli.Usagef("--out is for a module: add --pytorch or --jax")
			}
			if err := cli.CheckOut(nil, out); err != nil {
				return err
			}
			equations, err := pytorch.Equations(r)
			if err != nil {
				return err
			}
			if asPyTorch || asJAX {
				write, framework := pytorch.Module, "PyTorch"
				if asJAX {
					write, framework = pytorch.JAX, "JAX"
				}
				module, err := write(r)
				if err != nil {
					return err
				}
				text := strings.TrimSuffix(module, "\n")
				if out != "" {
					if err := durable.WriteFile(out, []byte(module), 0o644); err != nil {
						return err
					}
					text = fmt.Sprintf("%s: %s as a module for %s", out, r.Name(), framework)
				}
				return a.Print(map[string]any{"rule": r.Name(), "equations": equations, "module": module, "out": out}, text)
			}
			return showRule(a, r, equations)
		},
	}
	cmd.Flags().BoolVar(&asPyTorch, "pytorch", false, "print the rule as a PyTorch module")
	cmd.Flags().BoolVar(&asJAX, "jax", false, "print the rule as a module for JAX")
	cmd.Flags().StringVar(&out, "out", "", "file for the module (default: standard output)")
	return cmd
}

// showRule prints what a rule is.
func showRule(a *app.App, r dmlx.Rule, equations []string) error {
	b, err := backend.Go()
	if err != nil {
		return err
	}
	var sap, san []float32
	for _, t := range typicalTriplets {
		sap, san = append(sap, t.sap), append(san, t.san)
	}
	positive, negative, triplet, err := dissect.Weights(b, r, sap, san)
	if err != nil {
		return err
	}
	rules, published, err := nearestTo(r)
	if err != nil {
		return err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n\n", r)
	for _, line := range equations {
		fmt.Fprintf(&text, "  %s\n", line)
	}
	latex := r.LaTeX()
	fmt.Fprintf(&text, "\nin LaTeX\n  %s\n", strings.Join(latex, "\n  "))
	remarks, loss, of := impliedBy(r)
	for _, line := range append(remarks, loss) {
		fmt.Fprintf(&text, "\n%s\n", line)
	}
	text.WriteString("\nweights of one triplet alone, without other positives and negatives\n")
	fmt.Fprintf(&text, "%-15s %6s %6s %7s %7s %7s", "", "S_ap", "S_an", "T", "P+", "P-")
	if of.L != nil {
		fmt.Fprintf(&text, " %7s", "L")
	}
	weights := []map[string]any{}
	for i, t := range typicalTriplets {
		fmt.Fprintf(&text, "\n%-15s %6g %6g %7.3f %7.3f %7.3f", t.what, t.sap, t.san, triplet[i], positive[i], negative[i])
		weights = append(weights, map[string]any{"s_ap": t.sap, "s_an": t.san, "triplet_weight": triplet[i],
			"pair_positive": positive[i], "pair_negative": negative[i]})
		if of.L != nil {
			l := of.At(float64(t.sap), float64(t.san)) - of.At(float64(typicalTriplets[0].sap), float64(typicalTriplets[0].san))
			fmt.Fprintf(&text, " %7.3f", l)
			weights[i]["loss"] = l
		}
	}
	fmt.Fprintf(&text, "\n\nnearest gradients on %s\n", sampleBatch)
	text.WriteString(rankedText("published losses", published[:min(3, len(published))]) + "\n" +
		rankedText("other rules", rules[:min(3, len(rules))]))
	return a.Print(map[string]any{"rule": r.Name(), "equations": equations, "weights": weights,
		"latex": latex, "remarks": remarks, "implied_loss": loss,
		"nearest_losses": published, "nearest_rules": rules}, text.String())
}

// impliedBy says where a rule's weights are negative or not finite, and what loss of a triplet alone they are of.
func impliedBy(r dmlx.Rule) (remarks []string, loss string, of formula.Implied) {
	w, err := r.Bound()
	if err != nil {
		return nil, "no loss is looked for: " + err.Error(), of
	}
	if of, err = r.Implied(); err != nil {
		return w.Remarks(), "no loss: " + err.Error(), formula.Implied{}
	}
	return w.Remarks(), of.String(), of
}

// rankedText prints a ranking, a line each. A gradient is nearest to so many times the named one's, and so much is left
// of it, as a share of its largest value.
func rankedText(of string, ranked []dissect.Near) string {
	lines := []string{fmt.Sprintf("%-28s %8s %12s %14s", of, "cosine", "times", "largest rest")}
	for _, n := range ranked {
		lines = append(lines, fmt.Sprintf("%-28s %8.4f %12.4g %14.2g", n.Name, n.Cosine, n.Constant, n.Error))
	}
	return strings.Join(lines, "\n")
}
