package training

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/pretrain"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// NewPretrain trains the weights that the small network starts from.
func NewPretrain(a *cli.App) *cobra.Command {
	var out string
	var o pretrain.Options
	cmd := &cobra.Command{
		Use:   "pretrain",
		Short: "Train the weights that the small network starts from",
		Long: `Train the small network by cross-entropy on drawn classes that are in no data set, and write its weights.
Without flags this command trains the weights that are part of the program.`,
		Example: "  dmlx pretrain --out small.safetensors",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if out == "" {
				root, err := checkout.Root()
				if err != nil {
					return fmt.Errorf("%w: add --out FILE", err)
				}
				out = filepath.Join(root, "dmlx", "backbone", "weights", "small.safetensors")
			}
			if o.Epochs < 1 || o.Batch < 1 {
				return cli.Usagef("--epochs %d, --batch %d: want at least 1", o.Epochs, o.Batch)
			}
			if err := cli.CheckOut(nil, out); err != nil {
				return err
			}
			choice, err := a.Backend()
			if err != nil {
				return err
			}
			o.Progress = func(p train.Progress) {
				a.Line.Show("epoch %d/%d  %s  error %.1f %%  %s left", p.Epoch, p.Epochs, p.Speed(), 100*p.ViolationRate,
					p.Left)
			}
			r, err := pretrain.Weights(cmd.Context(), choice.Choice, o)
			a.Line.End()
			if err != nil {
				return err
			}
			summary := struct {
				Out     string             `json:"out"`
				Bytes   int                `json:"bytes"`
				Error   float64            `json:"error"`
				Seconds float64            `json:"seconds"`
				Recall  map[string]float64 `json:"recall_at_1"`
			}{out, len(r.Weights), r.Error, r.Seconds, map[string]float64{}}
			for _, data := range []string{"minicar", "minishop"} {
				if summary.Recall[data], err = pretrain.FeatureRecall(cmd.Context(), choice.Choice, r.Weights, data); err != nil {
					return err
				}
			}
			if err := durable.WriteFile(out, r.Weights, 0o644); err != nil {
				return err
			}
			return a.Print(summary, fmt.Sprintf("%s: %d bytes, %.1f s; training error %.1f %%; Recall@1 of the "+
				"features: minicar %.1f, minishop %.1f", out, summary.Bytes, r.Seconds, 100*r.Error,
				100*summary.Recall["minicar"], 100*summary.Recall["minishop"]))
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "safetensors file to write (default: the file that is built into the program)")
	f.IntVar(&o.Epochs, "epochs", 26, "number of epochs")
	f.IntVar(&o.Batch, "batch", 128, "images per batch")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of weights, order and augmentation")
	return cmd
}
