// Package gradients has the commands about the gradient of a batch: gradient, dissect and rule.
package gradients

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// dissection is a call of dissect: its flags, and what they name.
type dissection struct {
	loss, miner, rule, embeddings, labels, proxies, classes, matrix, pairs string

	gradient, at, similarity string // Of a given gradient.
	nearest                  int    // How many rules and losses to rank.
	listed, court            bool
	picture                  string

	of   *losses.Named // Nil if none is named; set by parse, as what follows.
	by   miners.Miner  // Nil if none is named.
	with dmlx.Rule     // Of --rule.
}

// NewDissect computes the pair and triplet weights that a loss implies.
func NewDissect(a *app.App) *cobra.Command {
	var d dissection
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
  dmlx dissect --court --map court.svg
  dmlx dissect --loss "circle?gamma=64" --embeddings E.npy --labels L.npy --matrix M.npy --pairs pairs.csv
  dmlx dissect --gradient G.npy --at raw --embeddings E.npy --labels L.npy --loss ms --matrix M.npy
  dmlx dissect --gradient G.npy --embeddings E.npy --labels L.npy --nearest 10
  dmlx dissect --similarity-gradient W.npy --embeddings E.npy --labels L.npy --pairs pairs.csv`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return d.run(a) },
	}
	flags := cmd.Flags()
	flags.StringVar(&d.loss, "loss", "", `loss; parameters that differ from the published ones follow a "?": "ms?beta=40"`)
	flags.BoolVar(&d.listed, "list", false, "list the losses with their sources and formulas")
	flags.StringVar(&d.picture, "map", "", "output of --court: how alike losses are, with groups (.svg, .png or .pdf)")
	flags.BoolVar(&d.court, "court", false,
		"compare the gradients of all losses, on drawn batches or on that of --embeddings and --labels")
	flags.StringVar(&d.miner, "miner", "",
		"miner of the pairs or triplets: "+strings.Join(miners.Names(), ", ")+" (default all)")
	flags.StringVar(&d.embeddings, "embeddings", "", "embeddings [B, D] (.npy)")
	flags.StringVar(&d.labels, "labels", "", "labels, integers [B] (.npy)")
	flags.StringVar(&d.gradient, "gradient", "", "gradient to dissect, ∂L/∂embeddings [B, D] (.npy)")
	flags.StringVar(&d.at, "at", "",
		"embeddings at which --gradient was taken: normalized or raw (default: normalized, if that fits)")
	flags.StringVar(&d.similarity, "similarity-gradient", "", "∂L/∂S [B, B], to dissect or beside --gradient (.npy)")
	flags.StringVar(&d.rule, "rule", "", "rule to compare a given gradient with: "+
		"direction/pair/triplet[+mask][?option=value&…] or a named rule")
	flags.IntVar(&d.nearest, "nearest", 0,
		"number of rules, and of losses, to print, ranked by the cosine of their gradient with the given one")
	flags.StringVar(&d.proxies, "proxies", "", "proxies, for a loss that has them [C, D] (.npy)")
	flags.StringVar(&d.classes, "classes", "", "labels of the proxies, integers [C] (.npy)")
	flags.StringVar(&d.matrix, "matrix", "", "output: M, float32 [B+C, B+C] (.npy)")
	flags.StringVar(&d.pairs, "pairs", "", "output: pairs with S, P+ or P- and the anchor's T (.csv)")
	return cmd
}

// given tells whether there is a gradient to dissect.
func (d *dissection) given() bool { return d.gradient != "" || d.similarity != "" }

// run dissects a loss or a gradient, and writes and prints what is found.
func (d *dissection) run(a *app.App) error {
	if d.listed {
		return a.Print(map[string]any{"losses": losses.All()}, listOfLosses())
	}
	if d.picture != "" && !d.court {
		return cli.Usagef("--map is a picture of --court")
	}
	if d.court {
		return d.holdCourt(a)
	}
	if d.loss == "" && !d.given() || d.embeddings == "" || d.labels == "" {
		return cli.Usagef("want --loss NAME or --gradient G.npy, --embeddings E.npy and --labels L.npy, or --list or --court")
	}
	read := []string{d.embeddings, d.labels, d.proxies, d.classes, d.gradient, d.similarity}
	if err := cmp.Or(d.check(), cli.CheckOut(read, d.matrix, d.pairs), d.parse()); err != nil {
		return err
	}
	var proxies dissect.Proxies
	var err error
	if d.of != nil {
		proxies, err = files.ReadProxies(d.of, d.proxies, d.classes)
	} else if d.proxies != "" || d.classes != "" {
		err = cli.Usagef("--proxies and --classes belong to a --loss that has proxies")
	}
	if err != nil {
		return err
	}
	batch, err := files.ReadBatch(d.embeddings, d.labels)
	if err != nil {
		return err
	}
	files.SayOdd(a.Logf, &batch, d.embeddings, nil, true)
	if d.given() {
		return d.autograd(a, batch, proxies)
	}
	c, err := a.Backend()
	if err != nil {
		return err
	}
	x, err := d.dissectLoss(c.Backend, batch, proxies)
	if err != nil {
		return err
	}
	if err := d.write(x.M, x.N+x.Proxies, x.Implied); err != nil {
		return err
	}
	v := impliedJSON(x.Implied)
	v["loss"], v["source"], v["miner"], v["backend"] = d.of.String(), d.of.Source, d.miner, c.Name
	v["value"], v["rows"], v["proxies"], v["coordinates"], v["lengths"] = x.Value, x.N, x.Proxies, x.Coordinates, x.Lengths
	return a.Print(v, dissectedText(d.of, x))
}

// parse reads the names of the loss, the miner and the rule.
func (d *dissection) parse() (err error) {
	if d.loss != "" {
		if d.of, err = losses.Parse(d.loss); err != nil {
			return cli.Usage(err)
		}
		if d.miner != "" {
			if err := losses.CheckMined(d.of); err != nil {
				return cli.Usagef("--miner %s: %w", d.miner, err)
			}
		}
	}
	if d.miner != "" {
		d.by, err = miners.Parse(d.miner)
	}
	if err == nil && d.rule != "" {
		d.with, err = dmlx.ParseRule(d.rule)
	}
	return cli.Usage(err)
}

// dissectLoss dissects the loss on the pairs of the miner, if one is named.
func (d *dissection) dissectLoss(b compute.Backend, e dissect.Embeddings, p dissect.Proxies) (*dissect.LossDissection,
	error) {
	of := d.of.Of
	if d.by != nil {
		of = miners.With(d.by, of)
	}
	x, err := dissect.Loss(b, e, p, of)
	if err != nil {
		return nil, fmt.Errorf("loss %s: %w", d.of, err)
	}
	return x, nil
}

// write writes the matrix m [n, n] and the pairs to the files that are named.
func (d *dissection) write(m []float32, n int, implied *dissect.Implied) (err error) {
	if d.matrix != "" {
		err = npy.WriteFloat32(d.matrix, m, n, n)
	}
	if err == nil && d.pairs != "" {
		err = files.WritePairs(d.pairs, implied)
	}
	return err
}

func listOfLosses() string {
	var out strings.Builder
	for _, l := range losses.All() {
		fmt.Fprintf(&out, "%-15s %s. %s\n%15s %s\n%15s PyTorch Metric Learning: %s.\n", l.Name, l.Title, l.Source, "",
			l.Text, "", l.Peer)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// impliedJSON returns the parts that a gradient implies.
func impliedJSON(implied *dissect.Implied) map[string]any {
	anchors := []map[string]any{} // An array in JSON, even if empty.
	for _, a := range implied.Anchors {
		anchors = append(anchors, map[string]any{
			"anchor": a.Anchor, "triplet_weight": a.Weight, "pair_positive": a.PairPositive, "pair_negative": a.PairNegative,
			"positives": len(a.Positives), "negatives": len(a.Negatives), "direction": a.Direction,
		})
	}
	return map[string]any{"anchors": anchors, "residual": implied.Residual, "lone": implied.Lone,
		"against": implied.Against}
}

func percent(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }

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
			x := slice.Map(implied.Anchors, of)
			slices.Sort(x)
			fmt.Fprintf(&out, "%-25s %.4g (%.4g to %.4g)\n", name, stat.Quantile(0.5, stat.LinInterp, x, nil), x[0], x[len(x)-1])
		}
		line("T, median over anchors", func(a dissect.ImpliedAnchor) float64 { return a.Weight })
		line("sum of P+", func(a dissect.ImpliedAnchor) float64 { return a.PairPositive })
		line("sum of P-", func(a dissect.ImpliedAnchor) float64 { return a.PairNegative })
	}
	fmt.Fprintf(&out, "residual of the gradient  %s", percent(implied.Residual))
	if implied.Lone > 0 {
		fmt.Fprintf(&out, "\n  from anchors without a positive or a negative %s", percent(implied.Lone))
	}
	if implied.Against > 0 {
		fmt.Fprintf(&out, "\nweights of the wrong sign %s", percent(implied.Against))
	}
	return out.String()
}
