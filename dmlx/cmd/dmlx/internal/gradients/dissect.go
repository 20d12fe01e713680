// Package gradients has the commands about the gradient of a batch: gradient, dissect and rule.
package gradients

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// NewDissect computes the pair and triplet weights that a loss implies.
func NewDissect(a *cli.App) *cobra.Command {
	var loss, miner, embeddings, labels, proxies, classes, matrix, pairs string
	var listed bool
	var given autograd
	cmd := &cobra.Command{
		Use:   "dissect {--loss NAME | --gradient G.npy} --embeddings E.npy --labels L.npy",
		Short: "Compute the pair and triplet weights that a loss or a given gradient implies for a batch",
		Long: `Compute the pair and triplet weights that a loss implies for a batch. The results are the gradient matrix M, so
that M f is the gradient with respect to the normalized embeddings f; the triplet weight T of each anchor and the
weights P+ and P- of its pairs; and the residual, the share of the gradient that these weights do not explain. The pair
weights of an anchor sum to 2, like the constant weights 1 and 1.

E.npy holds the embeddings [B, D], not necessarily normalized; L.npy the labels, integers [B]. A loss with proxies needs
--proxies P.npy [C, D] and --classes C.npy [C], by default 0, 1, 2, … Files may hold any numeric type.

` + autogradHelp + `

Losses (--list describes them):
` + text.Wrap(losses.Names()),
		Example: `  dmlx dissect --list
  dmlx dissect --loss "circle?gamma=64" --embeddings E.npy --labels L.npy --matrix M.npy --pairs pairs.csv
  dmlx dissect --gradient G.npy --at raw --embeddings E.npy --labels L.npy --loss ms --out pictures
  dmlx dissect --gradient G.npy --embeddings E.npy --labels L.npy --nearest 10
  dmlx dissect --similarity-gradient W.npy --embeddings E.npy --labels L.npy --pairs pairs.csv`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if listed {
				return a.Print(map[string]any{"losses": losses.All()}, listOfLosses())
			}
			if loss == "" && !given.given() || embeddings == "" || labels == "" {
				return cli.Usagef("want --loss NAME or --gradient G.npy, --embeddings E.npy and --labels L.npy, or --list")
			}
			if err := given.check(loss, miner); err != nil {
				return err
			}
			sources := []string{embeddings, labels, proxies, classes, given.gradient, given.similarity}
			if err := cli.CheckOut(sources, matrix, pairs); err != nil {
				return err
			}
			if err := a.CheckStyle(given.out); err != nil {
				return err
			}
			if err := cli.CheckOutDir(given.out); err != nil {
				return err
			}
			var l *losses.Named
			var p dissect.Proxies
			if loss != "" {
				var err error
				if l, err = losses.Parse(loss); err != nil {
					return cli.Usage(err)
				}
				if miner != "" { // Before any file is read.
					if err := losses.CheckMined(l); err != nil {
						return cli.Usagef("--miner %s: %w", miner, err)
					}
				}
				if p, err = files.ReadProxies(l, proxies, classes); err != nil {
					return err
				}
			} else if proxies != "" || classes != "" {
				return cli.Usagef("--proxies and --classes belong to a --loss that has proxies")
			}
			batch, err := files.ReadBatch(embeddings, labels)
			if err != nil {
				return err
			}
			files.SayZero(a.Logf, &batch, embeddings, nil)
			if given.given() {
				return dissectAutograd(a, given, batch, l, miner, matrix, pairs, p)
			}
			of := l.Of
			if miner != "" {
				m, err := miners.Parse(miner)
				if err != nil {
					return cli.Usage(err)
				}
				of = miners.With(m, of)
			}
			c, err := a.Backend()
			if err != nil {
				return err
			}
			d, err := dissect.Loss(c.Backend, batch, p, of)
			if err != nil {
				return fmt.Errorf("loss %s: %w", l, err)
			}
			if err := writeDissected(matrix, d.M, d.N+d.Proxies, pairs, d.Implied); err != nil {
				return err
			}
			return a.Print(dissected(l, miner, c.Name, d), dissectedText(l, d))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&loss, "loss", "", `loss; parameters that differ from the published ones follow a "?": "ms?beta=40"`)
	flags.BoolVar(&listed, "list", false, "list the losses with their sources and formulas")
	flags.StringVar(&miner, "miner", "",
		"miner of the pairs or triplets: "+strings.Join(miners.Names(), ", ")+" (default all)")
	flags.StringVar(&embeddings, "embeddings", "", "embeddings [B, D] (.npy)")
	flags.StringVar(&labels, "labels", "", "labels, integers [B] (.npy)")
	flags.StringVar(&given.gradient, "gradient", "", "gradient to dissect, ∂L/∂embeddings [B, D] (.npy)")
	flags.StringVar(&given.at, "at", "",
		"embeddings at which --gradient was taken: normalized or raw (default: normalized, if that fits)")
	flags.StringVar(&given.similarity, "similarity-gradient", "", "∂L/∂S [B, B], to dissect or beside --gradient (.npy)")
	flags.StringVar(&given.rule, "rule", "", "rule to compare a given gradient with, as dmlx gradient takes it")
	flags.IntVar(&given.nearest, "nearest", 0,
		"number of rules and losses to print, ranked by the cosine of their gradient with the given one")
	flags.StringVar(&given.out, "out", "", "folder for pictures of a given gradient, as SVG, PDF and PNG")
	a.AddStyle(flags)
	flags.StringVar(&proxies, "proxies", "", "proxies, for a loss that has them [C, D] (.npy)")
	flags.StringVar(&classes, "classes", "", "labels of the proxies, integers [C] (.npy)")
	flags.StringVar(&matrix, "matrix", "", "output: M, float32 [B+C, B+C] (.npy)")
	flags.StringVar(&pairs, "pairs", "", "output: pairs with S, P+ or P- and the anchor's T (.csv)")
	return cmd
}

// writeDissected writes a matrix [n, n] and the pairs to the files that are named.
func writeDissected(matrix string, m []float32, n int, pairs string, implied *dissect.Implied) error {
	if matrix != "" {
		if err := npy.WriteFloat32(matrix, m, n, n); err != nil {
			return err
		}
	}
	if pairs == "" {
		return nil
	}
	return files.WritePairs(pairs, implied)
}

func listOfLosses() string {
	var out strings.Builder
	for _, l := range losses.All() {
		fmt.Fprintf(&out, "%-15s %s. %s\n%15s %s\n%15s PyTorch Metric Learning: %s.\n", l.Name, l.Title, l.Source, "",
			l.Text, "", l.Peer)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

func dissected(l *losses.Named, miner, backend string, d *dissect.LossDissection) map[string]any {
	return map[string]any{
		"loss": l.String(), "source": l.Source, "miner": miner, "backend": backend,
		"value": d.Value, "rows": d.N, "proxies": d.Proxies,
		"anchors": impliedAnchors(d.Implied), "residual": d.Implied.Residual, "lone": d.Implied.Lone,
		"against": d.Implied.Against, "coordinates": d.Coordinates, "lengths": d.Lengths,
	}
}

// impliedAnchors are the anchors' parts for JSON.
func impliedAnchors(implied *dissect.Implied) []map[string]any {
	anchors := []map[string]any{} // An array in JSON, even if empty.
	for _, a := range implied.Anchors {
		anchors = append(anchors, map[string]any{
			"anchor": a.Anchor, "triplet_weight": a.Weight, "pair_positive": a.PairPositive, "pair_negative": a.PairNegative,
			"positives": len(a.Positives), "negatives": len(a.Negatives), "direction": a.Direction,
		})
	}
	return anchors
}

func dissectedText(l *losses.Named, d *dissect.LossDissection) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n%s\n\n", l, l.Title, l.Text)
	fmt.Fprintf(&out, "value                     %.6g\n", d.Value)
	rows := fmt.Sprintf("%d of %d rows", len(d.Implied.Anchors), d.N+d.Proxies)
	if d.Proxies > 0 {
		rows += fmt.Sprintf(", %d of which are proxies", d.Proxies)
	}
	out.WriteString(impliedText(d.Implied, rows))
	if err := d.OnS(); err != nil {
		fmt.Fprintf(&out, "\n%v", err)
	}
	return out.String()
}

// impliedText prints the parts that a gradient implies; rows says how many rows are anchors.
func impliedText(implied *dissect.Implied, rows string) string {
	var out strings.Builder
	fmt.Fprintf(&out, "anchors with weights      %s\n", rows)
	if len(implied.Anchors) > 0 {
		line := func(name string, of func(a dissect.ImpliedAnchor) float64) {
			var x []float64
			for _, a := range implied.Anchors {
				x = append(x, of(a))
			}
			slices.Sort(x)
			fmt.Fprintf(&out, "%-25s %.4g (%.4g to %.4g)\n", name, stat.Quantile(0.5, stat.LinInterp, x, nil), x[0], x[len(x)-1])
		}
		line("T, median over anchors", func(a dissect.ImpliedAnchor) float64 { return a.Weight })
		line("sum of P+", func(a dissect.ImpliedAnchor) float64 { return a.PairPositive })
		line("sum of P-", func(a dissect.ImpliedAnchor) float64 { return a.PairNegative })
	}
	percent := func(x float64) string { return fmt.Sprintf("%.3g %%", 100*x) }
	fmt.Fprintf(&out, "residual of the gradient  %s", percent(implied.Residual))
	if implied.Lone > 0 {
		fmt.Fprintf(&out, "\n  from anchors without a positive or a negative %s", percent(implied.Lone))
	}
	if implied.Against > 0 {
		fmt.Fprintf(&out, "\nweights of the wrong sign %s", percent(implied.Against))
	}
	return out.String()
}
