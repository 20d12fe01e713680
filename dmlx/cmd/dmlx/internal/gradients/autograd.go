package gradients

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// autogradHelp says how PyTorch makes the files of a gradient, and what can be found in it.
const autogradHelp = `A loss of your own, in any framework: --gradient G.npy is ∂L/∂embeddings as autograd computes it,
with --at raw at the embeddings in E.npy, with --at normalized at their L2-normalized rows f. In PyTorch:

    import numpy as np, torch
    from pytorch_metric_learning import distances, losses
    class Cosine(distances.CosineSimilarity):                # keeps S = f fᵀ, for W.npy
        def compute_mat(self, *x):
            self.S = super().compute_mat(*x); self.S.retain_grad(); return self.S
    e, cosine = embeddings.detach().requires_grad_(), Cosine()
    losses.MultiSimilarityLoss(distance=cosine)(e, labels).backward()     # or a function of your own
    for name, x in ("E", e), ("L", labels), ("G", e.grad), ("W", cosine.S.grad):
        np.save(name + ".npy", x.detach().cpu().numpy())

    dmlx dissect --embeddings E.npy --labels L.npy --gradient G.npy --at raw --loss ms --matrix M.npy

If the loss reads the embeddings through S alone, G = M f with a symmetric M on the sphere; what no such M gives is "not
through S". M is unique if the batch has no more embeddings than dimensions (B ≤ D). Otherwise many M give the same
gradient: the least one is taken, which spreads the weights over all pairs, and the output says how many numbers are
free. Three things make M unique: a batch of at most D embeddings; --miner, which restricts M to the pairs of a miner
(easy-positive for the triplets of rules; the rest of the gradient is then "not of these pairs"); or
--similarity-gradient W.npy, ∂L/∂S [B, B], with which M = W + Wᵀ is exact. W also says which image of a pair is the
anchor. With --loss or --rule the command compares the gradient with that of a loss or rule.`

// check names what is wrong with the flags of a given gradient.
func (d *dissection) check() error {
	switch given := d.given(); {
	case d.at != "" && d.at != "normalized" && d.at != "raw":
		return cli.Usagef("--at %q: want normalized or raw", d.at)
	case d.nearest < 0:
		return cli.Usagef("--nearest %d: want how many rules and losses to rank, at least 1", d.nearest)
	case !given && d.nearest > 0:
		return cli.Usagef("--nearest ranks rules beside a given gradient: add --gradient G.npy")
	case !given && d.rule != "":
		return cli.Usagef("--rule compares a rule with a given gradient: add --gradient G.npy")
	case given && d.rule != "" && d.loss != "":
		return cli.Usagef("--rule and --loss: a gradient is compared with one of them at a time")
	case d.similarity != "" && d.miner != "":
		return cli.Usagef("--miner selects the pairs of --gradient, and --similarity-gradient already says which they are: " +
			"leave out --miner")
	}
	return nil
}

// read reads the files of a gradient at a batch.
func (d *dissection) read(e dissect.Embeddings) (a dissect.Autograd, err error) {
	a.Raw = d.at == "raw"
	for _, f := range []struct {
		path string
		to   *[]float32
		want [2]int
	}{{d.gradient, &a.Gradient, [2]int{e.N, e.Dim}}, {d.similarity, &a.Similarity, [2]int{e.N, e.N}}} {
		if f.path == "" {
			continue
		}
		values, shape, err := npy.ReadFloat32(f.path)
		if err != nil {
			return a, err
		}
		if len(shape) != 2 || [2]int(shape) != f.want {
			return a, fmt.Errorf("%s: shape %v, want %v for embeddings [%d, %d]", f.path, shape, f.want, e.N, e.Dim)
		}
		*f.to = values
	}
	return a, nil
}

// against compares a gradient with that of the loss or rule that is named.
func (d *dissection) against(x *dissect.AutogradDissection, b compute.Backend, e dissect.Embeddings,
	p dissect.Proxies) (*dissect.Near, error) {
	if d.of == nil && d.rule == "" || files.IsZero(x.G) {
		return nil, nil // There is nothing to compare, and the output says why.
	}
	var matrix, gradient []float32
	var name string
	if d.of == nil {
		rule, err := dissect.Rule(b, e, d.with)
		if err != nil {
			return nil, err
		}
		name, gradient, matrix = d.with.Name(), rule.G, rule.M
	} else {
		name = d.of.String()
		loss, err := d.dissectLoss(b, e, p)
		if err != nil {
			return nil, err
		}
		gradient = loss.G[:e.N*e.Dim]
		for i := range e.N { // Without the rows of the proxies.
			matrix = append(matrix, loss.M[i*(e.N+p.N):i*(e.N+p.N)+e.N]...)
		}
	}
	k, err := x.Against(gradient, matrix)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &dissect.Near{Name: name, Constant: k.Constant, Error: k.Error, Cosine: k.Cosine}, nil
}

// autograd dissects a given gradient at a batch, and writes and prints what is found.
func (d *dissection) autograd(a *app.App, e dissect.Embeddings, p dissect.Proxies) error {
	of, err := d.read(e)
	if err != nil {
		return err
	}
	var b compute.Backend // The gradient alone needs none.
	backend := ""
	if d.by != nil || d.of != nil || d.rule != "" {
		c, err := a.Backend()
		if err != nil {
			return err
		}
		b, backend = c.Backend, c.Name
	}
	if d.by != nil {
		if of.Pairs, err = dissect.MinedPairs(b, e, d.by.Mine); err != nil {
			return fmt.Errorf("miner %s: %w", d.miner, err)
		}
	}
	x, err := dissect.FromAutograd(e, of)
	if err != nil {
		return err
	}
	if d.at == "" { // Not given: as it fits.
		if d.at = "normalized"; d.gradient != "" && x.Coordinates > 1e-3 {
			of.Raw = true
			raw, err := dissect.FromAutograd(e, of)
			if err != nil {
				return err
			}
			if raw.Coordinates < x.Coordinates/10 {
				a.Logf("the gradient was taken at the embeddings as given: at their normalized rows %.3g %% of it would not "+
					"come through S, so --at raw is assumed; --at normalized overrides it", 100*x.Coordinates)
				d.at, x = "raw", raw
			}
		}
	}
	near, err := d.nearestTo(e, x.G)
	if err != nil {
		return err
	}
	k, err := d.against(x, b, e, p)
	if err != nil {
		return err
	}
	if err := d.write(x.M, x.N, x.Implied); err != nil {
		return err
	}
	v := impliedJSON(x.Implied)
	v["gradient"], v["similarity_gradient"], v["at"], v["miner"], v["backend"] = d.gradient, d.similarity, d.at, d.miner,
		backend
	v["rows"], v["dim"], v["coordinates"], v["outside"], v["lengths"] = x.N, x.Dim, x.Coordinates, x.Outside, x.Lengths
	v["ambiguity"], v["compared"] = x.Ambiguity, k
	v["nearest_rules"], v["nearest_losses"], v["share_of_mined_triplet"], v["share_of_pairs"] = near.rules, near.losses,
		near.mined, near.pairs
	return a.Print(v, d.autogradText(x, k)+near.text())
}

// neighbors are the rules and losses whose gradients are nearest to a given one, arrays in JSON even if empty, and the
// shares of its square that the pairs of rules' miner and all pairs make up.
type neighbors struct {
	rules, losses []dissect.Near
	rule          *dmlx.Rule // The nearest; nil if there is none.
	mined, pairs  float64
}

// nearestTo finds the neighbors of a gradient, as many as are asked for.
func (d *dissection) nearestTo(e dissect.Embeddings, g []float32) (*neighbors, error) {
	n := &neighbors{rules: []dissect.Near{}, losses: []dissect.Near{}}
	if d.nearest == 0 || files.IsZero(g) {
		return n, nil
	}
	rules, err := dissect.Nearest(e, g, dissect.RuleCandidates(dmlx.Rules()))
	if err != nil {
		return nil, err
	}
	losses, err := dissect.Nearest(e, g, publishedLosses())
	if err != nil {
		return nil, err
	}
	n.rules, n.losses = append(n.rules, rules[:min(d.nearest, len(rules))]...),
		append(n.losses, losses[:min(d.nearest, len(losses))]...)
	if len(rules) == 0 {
		return n, nil
	}
	rule, err := dmlx.ParseRule(rules[0].Name)
	if err != nil {
		return nil, err
	}
	n.rule = &rule
	n.mined, n.pairs, err = dissect.MinedShare(e, g)
	return n, err
}

// text prints neighbors, and says part by part what the nearest rule is.
func (n *neighbors) text() (out string) {
	if r := n.rule; r != nil {
		out += fmt.Sprintf("\n\n%s\n\nTimes is the factor by which a rule's gradient comes nearest to yours, largest rest "+
			"the largest value that\nis then left, over your largest. The first rule has the direction %s, the pair weight %s "+
			"and the triplet\nweight %s. Rules mine the nearest positive and the nearest negative of each anchor: such pairs "+
			"make up\n%s of the square of your gradient, all pairs %s",
			rankedText("nearest rules", n.rules), r.Direction.Name, r.Pair.Name, r.Triplet.Name, percent(n.mined),
			percent(n.pairs))
		if n.mined < n.pairs/2 {
			out += ": most of it is at pairs that\nrules leave out"
		}
		out += "."
	}
	if len(n.losses) > 0 {
		out += "\n\n" + rankedText("nearest losses", n.losses)
	}
	return out
}

// autogradText prints a dissected gradient, and the loss or rule that it is compared with.
func (d *dissection) autogradText(x *dissect.AutogradDissection, k *dissect.Near) string {
	var out strings.Builder
	fmt.Fprintf(&out, "gradient of %d embeddings in %d dimensions, from %s\n\n", x.N, x.Dim,
		cmp.Or(d.gradient, d.similarity))
	if files.IsZero(x.G) {
		return out.String() + "the gradient is zero: this batch gives the loss nothing to do"
	}
	switch {
	case d.similarity != "":
		fmt.Fprintf(&out, "%-25s %s\n", "matrix M", "exact, W + Wᵀ")
	case x.Ambiguity == 0 && d.miner != "":
		fmt.Fprintf(&out, "%-25s of the pairs of the miner %s alone\n", "matrix M", d.miner)
	case x.Ambiguity == 0:
		fmt.Fprintf(&out, "%-25s unique, since there are no more embeddings than dimensions\n", "matrix M")
	default:
		fmt.Fprintf(&out, "%-25s ambiguous: %d of its numbers are free, since there are more embeddings\n%26sthan "+
			"dimensions. This is the least one, which spreads weights over all\n%26spairs, so do not read single weights. "+
			"--help has three ways out\n", "matrix M", x.Ambiguity, "", "")
	}
	if d.gradient != "" {
		rest := "not through S"
		if d.miner != "" {
			rest = "not of these pairs"
		}
		fmt.Fprintf(&out, "%-25s %s", rest, percent(x.Coordinates))
		if x.Outside > 1e-5 {
			fmt.Fprintf(&out, ", of which %s in directions that no embedding of the batch has", percent(x.Outside))
		}
		fmt.Fprintln(&out)
		if x.Lengths > 1e-5 {
			fmt.Fprintf(&out, "%-25s %s of the gradient at the embeddings as given\n", "along their lengths",
				percent(x.Lengths))
		}
	}
	out.WriteString(impliedText(x.Implied, fmt.Sprintf("%d of %d rows", len(x.Implied.Anchors), x.N)))
	if k != nil {
		fmt.Fprintf(&out, "\n%-25s %.6g times its gradient, within %.2g of the largest value; cosine %.7g", k.Name,
			k.Constant, k.Error, k.Cosine)
	}
	return out.String()
}
