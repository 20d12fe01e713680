package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// newDissect computes the pair and triplet weights that a loss implies.
func newDissect(a *app) *cobra.Command {
	var loss, miner, embeddings, labels, proxies, classes, matrix, pairs string
	var listed bool
	cmd := &cobra.Command{
		Use:   "dissect --loss NAME --embeddings E.npy --labels L.npy",
		Short: "Compute the pair and triplet weights that a loss implies for a batch",
		Long: `Compute the pair and triplet weights that a loss implies for a batch. The results are the gradient matrix M, so
that M f is the gradient with respect to the normalized embeddings f; the triplet weight T of each anchor and the
weights P+ and P- of its pairs; and the residual, the share of the gradient that these weights do not explain. The pair
weights of an anchor sum to 2, like the constant weights 1 and 1.

E.npy holds the embeddings, float32 [B, D], not necessarily normalized; L.npy the labels, int64 [B]. A loss with proxies
needs --proxies P.npy, float32 [C, D], and --classes C.npy, int64 [C], by default 0, 1, 2, …

Losses (--list describes them):
` + text.Wrap(losses.Names()),
		Example: `  dmlx dissect --list
  dmlx dissect --loss "circle?gamma=64" --embeddings E.npy --labels L.npy --matrix M.npy --pairs pairs.csv`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if listed {
				return a.print(map[string]any{"losses": losses.All()}, listOfLosses())
			}
			if loss == "" || embeddings == "" || labels == "" {
				return usagef("want --loss NAME, --embeddings E.npy and --labels L.npy, or --list")
			}
			if err := checkOut([]string{embeddings, labels, proxies, classes}, matrix, pairs); err != nil {
				return err
			}
			l, err := losses.Parse(loss)
			if err != nil {
				return usage(err)
			}
			of := l.Of
			if miner != "" {
				m, err := miners.Parse(miner)
				if err != nil {
					return usage(err)
				}
				if err := losses.CheckMined(l); err != nil {
					return usagef("--miner %s: %w", miner, err)
				}
				of = miners.With(m, of)
			}
			batch, err := files.ReadBatch(embeddings, labels)
			if err != nil {
				return err
			}
			p, err := files.ReadProxies(l, proxies, classes)
			if err != nil {
				return err
			}
			c, err := a.backend()
			if err != nil {
				return err
			}
			d, err := dissect.Loss(c.Backend, batch, p, of)
			if err != nil {
				return fmt.Errorf("loss %s: %w", l, err)
			}
			if matrix != "" {
				n := d.N + d.Proxies
				if err := npy.WriteFloat32(matrix, d.M, n, n); err != nil {
					return err
				}
			}
			if pairs != "" {
				if err := files.WritePairs(pairs, d.Implied); err != nil {
					return err
				}
			}
			return a.print(dissected(l, miner, c.Name, d), dissectedText(l, d))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&loss, "loss", "", `loss; parameters that differ from the published ones follow a "?": "ms?beta=40"`)
	flags.BoolVar(&listed, "list", false, "list the losses with their sources and formulas")
	flags.StringVar(&miner, "miner", "",
		"miner of the pairs or triplets: "+strings.Join(miners.Names(), ", ")+" (default all)")
	flags.StringVar(&embeddings, "embeddings", "", "embeddings, float32 [B, D] (.npy)")
	flags.StringVar(&labels, "labels", "", "labels, int64 [B] (.npy)")
	flags.StringVar(&proxies, "proxies", "", "proxies, for a loss that has them, float32 [C, D] (.npy)")
	flags.StringVar(&classes, "classes", "", "labels of the proxies, int64 [C] (.npy)")
	flags.StringVar(&matrix, "matrix", "", "output: M, float32 [B+C, B+C] (.npy)")
	flags.StringVar(&pairs, "pairs", "", "output: pairs with S, P+ or P- and the anchor's T (.csv)")
	return cmd
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
	anchors := []map[string]any{} // An array in JSON, even if empty.
	for _, a := range d.Implied.Anchors {
		anchors = append(anchors, map[string]any{
			"anchor": a.Anchor, "triplet_weight": a.Weight, "pair_positive": a.PairPositive, "pair_negative": a.PairNegative,
			"positives": len(a.Positives), "negatives": len(a.Negatives), "direction": a.Direction,
		})
	}
	return map[string]any{
		"loss": l.String(), "source": l.Source, "miner": miner, "backend": backend,
		"value": d.Value, "rows": d.N, "proxies": d.Proxies,
		"anchors": anchors, "residual": d.Implied.Residual, "lone": d.Implied.Lone, "against": d.Implied.Against,
		"coordinates": d.Coordinates, "lengths": d.Lengths,
	}
}

func dissectedText(l *losses.Named, d *dissect.LossDissection) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s\n%s\n\n", l, l.Title, l.Text)
	fmt.Fprintf(&out, "value                     %.6g\n", d.Value)
	rows := fmt.Sprintf("%d of %d rows", len(d.Implied.Anchors), d.N+d.Proxies)
	if d.Proxies > 0 {
		rows += fmt.Sprintf(", %d of which are proxies", d.Proxies)
	}
	fmt.Fprintf(&out, "anchors with weights      %s\n", rows)
	if len(d.Implied.Anchors) > 0 {
		line := func(name string, of func(a dissect.ImpliedAnchor) float64) {
			var x []float64
			for _, a := range d.Implied.Anchors {
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
	fmt.Fprintf(&out, "residual of the gradient  %s", percent(d.Implied.Residual))
	if d.Implied.Lone > 0 {
		fmt.Fprintf(&out, "\n  from anchors without a positive or a negative %s", percent(d.Implied.Lone))
	}
	if err := d.OnS(); err != nil {
		fmt.Fprintf(&out, "\n  %v", err)
	}
	if d.Implied.Against > 0 {
		fmt.Fprintf(&out, "\nweights of the wrong sign %s", percent(d.Implied.Against))
	}
	return out.String()
}
