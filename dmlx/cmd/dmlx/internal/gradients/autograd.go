package gradients

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"

	"github.com/gomlx/compute"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/figures"
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

    dmlx dissect --embeddings E.npy --labels L.npy --gradient G.npy --at raw --loss ms --out pictures

If the loss reads the embeddings through S alone, G = M f with a symmetric M on the sphere; what no such M gives is "not
through S". M is unique if the batch has no more embeddings than dimensions (B ≤ D). Otherwise many M give the same
gradient: the least one is taken, which spreads the weights over all pairs, and the output says how many numbers are
free. Three things make M unique: a batch of at most D embeddings; --miner, which restricts M to the pairs of a miner
(easy-positive for the triplets of rules; the rest of the gradient is then "not of these pairs"); or
--similarity-gradient W.npy, ∂L/∂S [B, B], with which M = W + Wᵀ is exact. W also says which image of a pair is the
anchor. With --loss or --rule the command compares the gradient with that of a loss or rule.`

// autograd dissects a gradient from files.
type autograd struct {
	gradient, at, similarity, rule, out string // Flags beside those of newDissect.
	nearest                             int    // How many rules and losses to rank.
}

// given tells whether there is a gradient to dissect.
func (g autograd) given() bool { return g.gradient != "" || g.similarity != "" }

// check names what is wrong with the flags.
func (g autograd) check(loss, miner string) error {
	switch {
	case g.at != "" && g.at != "normalized" && g.at != "raw":
		return cli.Usagef("--at %q: want normalized or raw", g.at)
	case g.nearest < 0:
		return cli.Usagef("--nearest %d: want how many rules and losses to rank, at least 1", g.nearest)
	case !g.given() && g.nearest > 0:
		return cli.Usagef("--nearest ranks rules beside a given gradient: add --gradient G.npy")
	case !g.given() && (g.rule != ""):
		return cli.Usagef("--rule compares a rule with a given gradient: add --gradient G.npy")
	case g.given() && g.rule != "" && loss != "":
		return cli.Usagef("--rule and --loss: a gradient is compared with one of them at a time")
	case g.similarity != "" && miner != "":
		return cli.Usagef("--miner selects the pairs of --gradient, and --similarity-gradient already says which they are: " +
			"leave out --miner")
	}
	return nil
}

// read reads the files of a gradient at a batch.
func (g autograd) read(e dissect.Embeddings) (a dissect.Autograd, err error) {
	a.Raw = g.at == "raw"
	for _, f := range []struct {
		path string
		to   *[]float32
		want [2]int
	}{{g.gradient, &a.Gradient, [2]int{e.N, e.Dim}}, {g.similarity, &a.Similarity, [2]int{e.N, e.N}}} {
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

// compared is a named loss or rule beside a gradient.
type compared struct {
	Name     string  `json:"name"`
	Constant float64 `json:"constant"` // The gradient is nearest to this many times the named one's.
	Error    float64 `json:"error"`    // The largest difference from that, over the gradient's largest value.
	Cosine   float64 `json:"cosine"`
}

// against compares a gradient with that of a loss, or of a rule if l is nil.
func against(d *dissect.AutogradDissection, b compute.Backend, e dissect.Embeddings, r dmlx.Rule, l *losses.Named,
	m miners.Miner, p dissect.Proxies) (*compared, error) {
	if files.IsZero(d.G) {
		return nil, nil // There is nothing to compare, and the output says why.
	}
	var matrix, gradient []float32
	var name string
	if l == nil {
		of, err := dissect.Rule(b, e, r)
		if err != nil {
			return nil, err
		}
		name, gradient, matrix = r.Name(), of.G, of.M
	} else {
		of := l.Of
		if m != nil {
			of = miners.With(m, of)
		}
		name = l.String()
		loss, err := dissect.Loss(b, e, p, of)
		if err != nil {
			return nil, fmt.Errorf("loss %s: %w", l, err)
		}
		gradient = loss.G[:e.N*e.Dim]
		for i := range e.N { // Without the rows of the proxies.
			matrix = append(matrix, loss.M[i*(e.N+p.N):i*(e.N+p.N)+e.N]...)
		}
	}
	k, err := d.Against(gradient, matrix)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &compared{Name: name, Constant: k.Constant, Error: k.Error, Cosine: k.Cosine}, nil
}

// dissectAutograd dissects a gradient, and writes and prints what is found.
func dissectAutograd(a *cli.App, g autograd, e dissect.Embeddings, l *losses.Named, miner, matrix, pairs string,
	p dissect.Proxies) error {
	var m miners.Miner
	var err error
	if miner != "" {
		if m, err = miners.Parse(miner); err != nil {
			return cli.Usage(err)
		}
	}
	var r dmlx.Rule
	if g.rule != "" {
		if r, err = dmlx.ParseRule(g.rule); err != nil {
			return cli.Usage(err)
		}
	}
	of, err := g.read(e)
	if err != nil {
		return err
	}
	var b compute.Backend // The gradient alone needs none.
	backend := ""
	if m != nil || l != nil || g.rule != "" {
		c, err := a.Backend()
		if err != nil {
			return err
		}
		b, backend = c.Backend, c.Name
	}
	if m != nil {
		if of.Pairs, err = dissect.MinedPairs(b, e, m.Mine); err != nil {
			return fmt.Errorf("miner %s: %w", miner, err)
		}
	}
	d, err := dissect.FromAutograd(e, of)
	if err != nil {
		return err
	}
	if g.at == "" { // Not given: as it fits.
		if g.at = "normalized"; g.gradient != "" && d.Coordinates > 1e-3 {
			of.Raw = true
			raw, err := dissect.FromAutograd(e, of)
			if err != nil {
				return err
			}
			if raw.Coordinates < d.Coordinates/10 {
				a.Logf("the gradient was taken at the embeddings as given: at their normalized rows %.3g %% of it would not "+
					"come through S, so --at raw is assumed; --at normalized overrides it", 100*d.Coordinates)
				g.at, d = "raw", raw
			}
		}
	}
	var ranked []dissect.Near
	if g.nearest > 0 && !files.IsZero(d.G) {
		ranked, err = dissect.Nearest(e, d.G, append(dissect.RuleCandidates(dmlx.Rules()), publishedLosses()...))
		if err != nil {
			return err
		}
		ranked = ranked[:min(g.nearest, len(ranked))]
	}
	var k *compared
	if l != nil || g.rule != "" {
		if k, err = against(d, b, e, r, l, m, p); err != nil {
			return err
		}
	}
	if err := writeDissected(matrix, d.M, d.N, pairs, d.Implied); err != nil {
		return err
	}
	var saved []string
	if g.out != "" {
		if saved, err = autogradPictures(a, d, g.out); err != nil {
			return err
		}
	}
	v := map[string]any{
		"gradient": g.gradient, "similarity_gradient": g.similarity, "at": g.at, "miner": miner, "backend": backend,
		"rows": d.N, "dim": d.Dim, "anchors": impliedAnchors(d.Implied), "residual": d.Implied.Residual,
		"lone": d.Implied.Lone, "against": d.Implied.Against, "coordinates": d.Coordinates, "outside": d.Outside,
		"lengths": d.Lengths, "ambiguity": d.Ambiguity, "compared": k, "files": append([]string{}, saved...),
		"nearest": append([]dissect.Near{}, ranked...),
	}
	body := autogradText(g, d, miner, k)
	if len(ranked) > 0 {
		body += "\n\n" + rankedText("nearest rules and losses", ranked)
	}
	return a.Print(v, body+cli.FilesText(saved))
}

func autogradText(g autograd, d *dissect.AutogradDissection, miner string, k *compared) string {
	var out strings.Builder
	percent := func(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }
	source := g.gradient
	if source == "" {
		source = g.similarity
	}
	fmt.Fprintf(&out, "gradient of %d embeddings in %d dimensions, from %s\n\n", d.N, d.Dim, source)
	if files.IsZero(d.G) {
		return out.String() + "the gradient is zero: this batch gives the loss nothing to do"
	}
	switch {
	case g.similarity != "":
		fmt.Fprintf(&out, "%-25s %s\n", "matrix M", "exact, W + Wᵀ")
	case d.Ambiguity == 0 && miner != "":
		fmt.Fprintf(&out, "%-25s of the pairs of the miner %s alone\n", "matrix M", miner)
	case d.Ambiguity == 0:
		fmt.Fprintf(&out, "%-25s unique, since there are no more embeddings than dimensions\n", "matrix M")
	default:
		fmt.Fprintf(&out, "%-25s ambiguous: %d of its numbers are free, since there are more embeddings\n%26sthan "+
			"dimensions. This is the least one, which spreads weights over all\n%26spairs, so do not read single weights. "+
			"--help has three ways out\n", "matrix M", d.Ambiguity, "", "")
	}
	if g.gradient != "" {
		rest := "not through S"
		if miner != "" {
			rest = "not of these pairs"
		}
		fmt.Fprintf(&out, "%-25s %s", rest, percent(d.Coordinates))
		if d.Outside > 1e-5 {
			fmt.Fprintf(&out, ", of which %s in directions that no embedding of the batch has", percent(d.Outside))
		}
		fmt.Fprintln(&out)
		if d.Lengths > 1e-5 {
			fmt.Fprintf(&out, "%-25s %s of the gradient at the embeddings as given\n", "along their lengths",
				percent(d.Lengths))
		}
	}
	out.WriteString(impliedText(d.Implied, fmt.Sprintf("%d of %d rows", len(d.Implied.Anchors), d.N)))
	if k != nil {
		fmt.Fprintf(&out, "\n%-25s %.6g times its gradient, within %.2g of the largest value; cosine %.7g", k.Name,
			k.Constant, k.Error, k.Cosine)
	}
	return out.String()
}

// autogradPictures writes the gradient matrix and the weights of the pairs to a folder.
func autogradPictures(a *cli.App, d *dissect.AutogradDissection, dir string) ([]string, error) {
	matrix, err := figures.GradientMatrix(figures.Matrix{Title: "$M$ of the given gradient", Values: d.M,
		Labels: d.Labels})
	if err != nil {
		return nil, err
	}
	sides := make([]figures.WeightedPairs, 2)
	for _, anchor := range d.Implied.Anchors {
		for k, pairs := range [][]dissect.ImpliedPair{anchor.Positives, anchor.Negatives} {
			for _, p := range pairs {
				sides[k].S = append(sides[k].S, float64(p.S))
				sides[k].Weight = append(sides[k].Weight, anchor.Weight*p.Weight)
			}
		}
	}
	provenance := fmt.Sprintf("a given gradient of %d embeddings in %d dimensions", d.N, d.Dim)
	if d.Ambiguity > 0 {
		provenance += fmt.Sprintf("; M is ambiguous in %d numbers", d.Ambiguity)
	}
	matrix.Provenance = provenance
	saved, err := a.SaveAll(matrix, filepath.Join(dir, "gradient-matrix"))
	if err != nil {
		return nil, err
	}
	if len(sides[0].S)+len(sides[1].S) == 0 {
		return saved, nil
	}
	weights, err := figures.PairWeights(provenance, "the given gradient", sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	paths, err := a.SaveAll(weights, filepath.Join(dir, "gradient-weights"))
	return append(saved, paths...), err
}
