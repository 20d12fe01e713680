package main

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/npy"
)

// newGradient composes the gradient of a batch in files.
func newGradient(a *app) *cobra.Command {
	var embeddings, labels, rule, at, out, triplets string
	cmd := &cobra.Command{
		Use:   "gradient --embeddings E.npy --labels L.npy --rule RULE --out G.npy",
		Short: "Compose the gradient of a batch under a rule",
		Long: `Compose the gradient of a batch under a rule, and list the triplets that it was composed from.

E.npy holds the embeddings before normalization, float32 [B, D]; L.npy the labels, int64 [B]. G.npy gets the gradient,
float32 [B, D]: with --at normalized at the L2-normalized embeddings, with --at raw at the embeddings in E.npy, behind
the Jacobian of the normalization. Each anchor's triplet has its nearest positive and its nearest negative in the batch;
the gradient is the mean over the triplets. A batch without triplets has a zero gradient.`,
		Example: "  dmlx gradient --embeddings E.npy --labels L.npy --rule cos-orth/lin-ms/cir --out G.npy\n" +
			"  dmlx gradient --embeddings E.npy --labels L.npy --rule ours --at raw --out G.npy --triplets T.csv",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if at != "normalized" && at != "raw" {
				return usagef("--at %q: want normalized or raw", at)
			}
			if out == "" && triplets == "" {
				return usagef("nothing to write: want --out G.npy, --triplets T.csv or both")
			}
			if err := checkOut([]string{embeddings, labels}, out, triplets); err != nil {
				return err
			}
			r, err := a.rule(rule)
			if err != nil {
				return usage(err)
			}
			batch, err := readBatch(embeddings, labels)
			if err != nil {
				return err
			}
			b, err := a.backend()
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
				if err := writeTriplets(triplets, d.Triplets); err != nil {
					return err
				}
			}
			text := fmt.Sprintf("%s at the %s embeddings [%d, %d]: %d triplets", r, at, d.N, d.Dim, len(d.Triplets))
			if len(d.Triplets) == 0 {
				text += ", so the gradient is zero: it takes two images of a class and two classes"
			}
			return a.print(map[string]any{
				"rule": r.Name(), "at": at, "shape": []int{d.N,
					d.Dim}, "triplets": len(d.Triplets), "backend": b.Name, "out": out, "triplets_out": triplets,
			}, text)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&embeddings, "embeddings", "", "embeddings, float32 [B, D] (.npy)")
	flags.StringVar(&labels, "labels", "", "labels, int64 [B] (.npy)")
	flags.StringVar(&rule, "rule", "cos/con/con",
		"the rule: direction/pair/triplet[+mask][?option=value&…] or a loss's name")
	flags.StringVar(&at, "at", "normalized", "where the gradient is taken: normalized or raw")
	flags.StringVar(&out, "out", "", "file for the gradient, float32 [B, D] (.npy)")
	flags.StringVar(&triplets, "triplets", "", "file for the triplets with S_ap, S_an, P+, P- and T (.csv)")
	_ = cmd.MarkFlagRequired("embeddings") // Fails on an unknown flag alone.
	_ = cmd.MarkFlagRequired("labels")
	return cmd
}

// readBatch reads embeddings [N, D] and labels [N] that belong together.
func readBatch(embeddings, labels string) (dissect.Embeddings, error) {
	values, shape, err := npy.ReadFloat32(embeddings)
	if err != nil {
		return dissect.Embeddings{}, err
	}
	if len(shape) != 2 {
		return dissect.Embeddings{}, fmt.Errorf("%s: shape %v, want [N, D]", embeddings, shape)
	}
	classes, labelShape, err := npy.ReadInt64(labels)
	if err != nil {
		return dissect.Embeddings{}, err
	}
	if len(labelShape) != 1 || labelShape[0] != shape[0] {
		return dissect.Embeddings{}, fmt.Errorf("%s: shape %v, want [%d] for the %d rows of %s", labels, labelShape, shape[0],
			shape[0], embeddings)
	}
	return dissect.Embeddings{Values: values, N: shape[0], Dim: shape[1], Labels: classes}, nil
}

func writeTriplets(path string, triplets []dissect.Triplet) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write([]string{"anchor", "positive", "negative", "S_ap", "S_an", "P+", "P-", "T"}) // To a buffer.
	for _, t := range triplets {
		row := []string{strconv.Itoa(t.Anchor), strconv.Itoa(t.Positive), strconv.Itoa(t.Negative)}
		for _, v := range []float32{t.Sap, t.San, t.PairPositive, t.PairNegative, t.Weight} {
			row = append(row, strconv.FormatFloat(float64(v), 'g', -1, 32))
		}
		_ = w.Write(row)
	}
	w.Flush()
	return durable.WriteFile(path, out.Bytes(), 0o644)
}
