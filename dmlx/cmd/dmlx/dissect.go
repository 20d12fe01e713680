package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/npy"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
)

// newDissect takes a loss apart at a batch in files.
func newDissect(a *app) *cobra.Command {
	var loss, miner, embeddings, labels, proxies, classes, matrix, pairs string
	var list bool
	cmd := &cobra.Command{
		Use:   "dissect --loss NAME --embeddings E.npy --labels L.npy",
		Short: "Take a loss apart: the pair and triplet weights it implies at a batch",
		Long: `Take a loss apart at a batch. The result is its gradient matrix M, with which the gradient at the normalized
embeddings f is M f; the triplet weight T of each anchor and the weights P+ and P- of its pairs that the loss implies;
and the share of the gradient that is not of that form. The pair weights of an anchor sum to 2, as the constant weights
1 and 1 do.

E.npy holds the embeddings, float32 [B, D], of any length; L.npy the labels, int64 [B]. A loss with proxies needs them
in P.npy, float32 [C, D], and their labels in C.npy, int64 [C]. Without C.npy the labels are 0, 1, 2, …

Losses (--list says more): ` + strings.Join(losses.Names(), ", ") + `.`,
		Example: `  dmlx dissect --loss "circle?gamma=64" --embeddings E.npy --labels L.npy --matrix M.npy --pairs pairs.csv`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if list {
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
			batch, err := readBatch(embeddings, labels)
			if err != nil {
				return err
			}
			p, err := readProxies(l, proxies, classes)
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
				if err := writePairs(pairs, d.Implied); err != nil {
					return err
				}
			}
			return a.print(dissected(l, miner, c.Name, d), dissectedText(l, d))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&loss, "loss", "", `the loss, with parameters behind it that are not the published ones: "ms?beta=40"`)
	flags.BoolVar(&list, "list", false, "list the losses with their sources and formulas")
	flags.StringVar(&miner, "miner", "",
		"what chooses the pairs or triplets: "+strings.Join(miners.Names(), ", ")+" (default all)")
	flags.StringVar(&embeddings, "embeddings", "", "embeddings, float32 [B, D] (.npy)")
	flags.StringVar(&labels, "labels", "", "labels, int64 [B] (.npy)")
	flags.StringVar(&proxies, "proxies", "", "proxies of a loss that has them, float32 [C, D] (.npy)")
	flags.StringVar(&classes, "classes", "", "labels of the proxies, int64 [C] (.npy)")
	flags.StringVar(&matrix, "matrix", "", "file for M, float32 [B+C, B+C] (.npy)")
	flags.StringVar(&pairs, "pairs", "", "file for the pairs with S, P+ or P- and the anchor's T (.csv)")
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

// readProxies reads the proxies of a loss that has them.
func readProxies(l *losses.Named, proxies, classes string) (dissect.Proxies, error) {
	perClass := losses.PerClass(l)
	switch {
	case perClass == 0 && (proxies != "" || classes != ""):
		return dissect.Proxies{}, fmt.Errorf("loss %s has no proxies; leave --proxies and --classes away", l)
	case perClass == 0:
		return dissect.Proxies{}, nil
	case proxies == "":
		return dissect.Proxies{}, fmt.Errorf("loss %s has proxies, %d a class: want --proxies P.npy", l, perClass)
	}
	if classes != "" {
		e, err := readBatch(proxies, classes)
		if err == nil {
			if err = losses.CheckClasses(l, e.Labels); err != nil {
				err = fmt.Errorf("%s: %w", classes, err)
			}
		}
		return dissect.Proxies{Values: e.Values, N: e.N, Dim: e.Dim, Classes: e.Labels}, err
	}
	values, shape, err := npy.ReadFloat32(proxies)
	if err != nil {
		return dissect.Proxies{}, err
	}
	if len(shape) != 2 {
		return dissect.Proxies{}, fmt.Errorf("%s: shape %v, want [C, D]", proxies, shape)
	}
	p := dissect.Proxies{Values: values, N: shape[0], Dim: shape[1]}
	for i := range p.N {
		p.Classes = append(p.Classes, int64(i/perClass))
	}
	return p, nil
}

func dissected(l *losses.Named, miner, backend string, d *dissect.LossDissection) map[string]any {
	anchors := []map[string]any{} // Not null where there are none.
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
	fmt.Fprintf(&out, "anchors that move a pair  %s\n", rows)
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
	fmt.Fprintf(&out, "left over of the gradient %s", percent(d.Implied.Residual))
	if d.Implied.Lone > 0 {
		fmt.Fprintf(&out, "\n  of anchors without a positive or a negative %s", percent(d.Implied.Lone))
	}
	if err := d.OnS(); err != nil {
		fmt.Fprintf(&out, "\n  %v", err)
	}
	if d.Implied.Against > 0 {
		fmt.Fprintf(&out, "\nweights of the wrong sign %s", percent(d.Implied.Against))
	}
	return out.String()
}

func writePairs(path string, parts *dissect.Implied) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{"anchor", "other", "kind", "S", "P", "T"}) // A bytes.Buffer does not fail.
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }
	for _, a := range parts.Anchors {
		rows := func(kind string, pairs []dissect.ImpliedPair) {
			for _, p := range pairs {
				_ = w.Write([]string{strconv.Itoa(a.Anchor), strconv.Itoa(p.Other), kind, number(float64(p.S)), number(p.Weight),
					number(a.Weight)})
			}
		}
		rows("positive", a.Positives)
		rows("negative", a.Negatives)
	}
	w.Flush()
	return durable.WriteFile(path, out.Bytes(), 0o644)
}
