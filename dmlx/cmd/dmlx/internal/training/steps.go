package training

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/embedding"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// newTrainSteps trains on the batches of a file, so that parity.py can compare each step with PyTorch's.
func newTrainSteps(a *cli.App) *cobra.Command {
	var (
		arch, start, pixels, labels, rule, loss, precision, out string
		tf                                                      trainingFlags
		lr                                                      float64
		mean, std                                               []float32
	)
	cmd := &cobra.Command{
		Use:   "steps --weights W.safetensors --pixels P.npy --labels L.npy --rule RULE --lr X --out DIR",
		Short: "Train on the batches of a file, one step each, to compare with another program",
		Long: `Train a network from given weights on given batches, with one step each, to compare the steps with another
program's; dmlx/cmd/dmlx/internal/peer/parity.py compares them with PyTorch's. The learning rate is constant unless a
schedule is given, for which each step is an epoch. --augment has no effect on given batches and is rejected.

P.npy holds the batches, uint8 [K, B, H, H, 3]; L.npy the labels, int64 [K, B]. The weights are a safetensors file with
torchvision's names and a linear layer "fc" of the embedding's size. The command writes to DIR embeddings.npy, float32
[K, B, D], the L2-normalized embeddings of each batch before its step, with batch normalization in training mode, and
weights.safetensors, the weights and running averages after the last step.

--arch NET.onnx takes the network of a file (see dmlx help onnx). The weights then have the names of the file's, beside
"fc", and mean and deviation of colors are by default the file's.`,
		Example: "  dmlx train steps --weights W.safetensors --pixels P.npy --labels L.npy --rule cos-orth/lin-ms/cir " +
			"--lr 0.1 --out DIR",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if loss != "" && cmd.Flags().Changed("rule") {
				return cli.Usagef("--rule and --loss are both given: want one of them")
			}
			given := objectiveFlags{rules: []string{rule}}
			if loss != "" {
				given = objectiveFlags{losses: []string{loss}}
			}
			all, err := given.parse(false)
			if err != nil {
				return err
			}
			if len(all) > 1 {
				return cli.Usagef("%s has several values of a parameter: want one", cmp.Or(loss, rule))
			}
			o, err := all[0].WithMiner(cmp.Or(tf.miner, all[0].Miner))
			if err != nil {
				return cli.Usage(err)
			}
			options, err := tf.changed(train.Options{}, lr)
			if err != nil {
				return cli.Usage(err)
			}
			raw, err := backbone.ReadFile(start)
			if err != nil {
				return err
			}
			s := train.Steps{Weights: raw, Objective: o, LR: lr, Options: options, Precision: precision}
			var net string
			var prepare backbone.Preprocessing
			if weights.IsNetwork(arch) {
				s.Network, net = arch, filepath.Base(arch)
				n, err := weights.OpenNetwork(arch)
				if err != nil {
					return err
				}
				if prepare, err = n.Preprocessing(); err != nil {
					return fmt.Errorf("%s: %w", arch, err)
				}
			} else {
				if s.Arch, prepare, err = embedding.Network(arch, start, raw); err != nil {
					return err
				}
				net = string(s.Arch)
			}
			for _, color := range []struct {
				flag  string
				given []float32
				to    *[3]float32
			}{{"mean", mean, &prepare.Mean}, {"std", std, &prepare.Std}} {
				if !cmd.Flags().Changed(color.flag) {
					continue
				}
				if len(color.given) != 3 {
					return cli.Usagef("--%s: %d numbers, want three: red, green, blue", color.flag, len(color.given))
				}
				*color.to = [3]float32(color.given)
			}
			s.Mean, s.Std = prepare.Mean, prepare.Std
			if err := files.ReadSteps(&s, pixels, labels); err != nil {
				return err
			}
			if err := cli.CheckOutDir(out); err != nil {
				return err
			}
			embeddingsFile := filepath.Join(out, train.EmbeddingsFile)
			weightsFile := filepath.Join(out, "weights.safetensors")
			if _, err := os.Stat(out); err == nil { // A new folder has no input files.
				if err := cli.CheckOut([]string{start, pixels, labels, s.Network}, embeddingsFile, weightsFile); err != nil {
					return err
				}
			}
			choice, err := a.Backend()
			if err != nil {
				return err
			}
			end, err := s.Take(cmd.Context(), choice.Choice)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if err := npy.WriteFloat32(embeddingsFile, end.Embeddings, s.Count, s.Batch, end.Dim); err != nil {
				return err
			}
			if err := durable.WriteFile(weightsFile, end.Weights, 0o644); err != nil {
				return err
			}
			summary := map[string]any{
				"arch": net, "rule": o.Rule, "lr": lr, "steps": s.Count, "batch": s.Batch, "size": s.Size,
				"dim": end.Dim, "backend": choice.Name, "out": out,
			}
			if !o.IsRule() {
				delete(summary, "rule")
				summary["loss"] = o.Loss
			}
			return a.Print(summary, fmt.Sprintf("%d steps of %s by %s in %s", s.Count, net, cmp.Or(o.Loss, o.Rule), out))
		},
	}
	f := cmd.Flags()
	embedding.ArchFlag(cmd, &arch)
	f.StringVar(&start, "weights", "",
		"initial weights: a .safetensors or .pth file with torchvision's names, or a .safetensors file with the names of "+
			"NET.onnx")
	f.StringVar(&pixels, "pixels", "", "batches of images, uint8 [K, B, H, H, 3] (.npy)")
	f.StringVar(&labels, "labels", "", "labels of the batches, int64 [K, B] (.npy)")
	f.StringVar(&rule, "rule", "cos/con/con", "gradient rule")
	f.StringVar(&loss, "loss", "", "loss without proxies, instead of a rule")
	f.Float64Var(&lr, "lr", 0, "learning rate")
	tf.add(f)
	f.StringVar(&precision, "precision", "", "precision of the network: bf16 (default float32)")
	f.Float32SliceVar(&mean, "mean", nil,
		"mean of the colors, on the scale 0..1 (default: the weights' metadata, or ImageNet's)")
	f.Float32SliceVar(&std, "std", nil,
		"standard deviation of the colors (default: the weights' metadata, or ImageNet's)")
	f.StringVar(&out, "out", "", "folder to write to")
	cli.Require(cmd, "weights", "pixels", "labels", "lr", "out")
	return cmd
}
