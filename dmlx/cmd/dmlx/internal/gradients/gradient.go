package gradients

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// NewGradient composes the gradient of a batch in files.
func NewGradient(a *cli.App) *cobra.Command {
	var embeddings, labels, rule, at, out, triplets string
	cmd := &cobra.Command{
		Use:   "gradient --embeddings E.npy --labels L.npy --rule RULE --out G.npy",
		Short: "Compose the gradient of a batch by a rule",
		Long: `Compose the gradient of a batch by a rule, and list its triplets.

E.npy holds the embeddings before normalization [B, D]; L.npy the labels, integers [B]. G.npy gets the gradient,
float32 [B, D], with respect to the L2-normalized embeddings (--at normalized) or to the embeddings in E.npy (--at raw,
through the Jacobian of the normalization). Each anchor's triplet has its nearest positive and its nearest negative in
the batch. The gradient is the mean over the triplets, and zero for a batch without triplets.`,
		Example: "  dmlx gradient --embeddings E.npy --labels L.npy --rule cos-orth/lin-ms/cir --out G.npy\n" +
			"  dmlx gradient --embeddings E.npy --labels L.npy --rule ours --at raw --out G.npy --triplets T.csv",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != "normalized" && at != "raw" {
				return cli.Usagef("--at %q: want normalized or raw", at)
			}
			if out == "" && triplets == "" {
				return cli.Usagef("no output: want --out G.npy, --triplets T.csv or both")
			}
			if err := cli.CheckOut([]string{embeddings, labels}, out, triplets); err != nil {
				return err
			}
			r, err := dmlx.ParseRule(rule)
			if err != nil {
				return cli.Usage(err)
			}
			batch, err := files.ReadBatch(embeddings, labels)
			if err != nil {
				return err
			}
			files.SayOdd(a.Logf, &batch, embeddings, nil, true)
			b, err := a.Backend()
			if err != nil {
				return err
			}
			d, err := dissect.Rule(b.Backend, batch, r)
			if err != nil {
				return err
			}
			gradient := d.G
			if at == "raw" {
				gradient = d.Raw
			}
			if out != "" {
				if err := npy.WriteFloat32(out, gradient, d.N, d.Dim); err != nil {
					return err
				}
			}
			if triplets != "" {
				if err := files.WriteTriplets(triplets, d.Triplets); err != nil {
					return err
				}
			}
			text := fmt.Sprintf("%s at the %s embeddings [%d, %d]: %d triplets", r, at, d.N, d.Dim, len(d.Triplets))
			if len(d.Triplets) == 0 {
				text += ", so the gradient is zero: a triplet needs two images of a class and one of another class"
			}
			return a.Print(map[string]any{
				"rule": r.Name(), "at": at, "shape": []int{d.N, d.Dim}, "triplets": len(d.Triplets), "backend": b.Name,
				"out": out, "triplets_out": triplets,
			}, text)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&embeddings, "embeddings", "", "embeddings [B, D] (.npy)")
	flags.StringVar(&labels, "labels", "", "labels, integers [B] (.npy)")
	flags.StringVar(&rule, "rule", "cos/con/con",
		"gradient rule: direction/pair/triplet[+mask][?option=value&…] or a named rule")
	flags.StringVar(&at, "at", "normalized", "embeddings with respect to which the gradient is taken: normalized or raw")
	flags.StringVar(&out, "out", "", "output: gradient, float32 [B, D] (.npy)")
	flags.StringVar(&triplets, "triplets", "", "output: triplets with S_ap, S_an, P+, P- and T (.csv)")
	cli.Require(cmd, "embeddings", "labels")
	return cmd
}
