package embedding

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/shapes"
	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// newWeightsInfo describes the network of an ONNX file.
func newWeightsInfo(a *app.App) *cobra.Command {
	var options train.Options
	var size int
	cmd := &cobra.Command{
		Use:   "info NET.onnx",
		Short: "Describe the network of an ONNX file: its input, weights, what would be trained, and its work",
		Example: "  dmlx weights info vit_small.onnx\n" +
			"  dmlx weights info vit_small.onnx --train-only 'blocks\\.(10|11)\\.|^norm'\n" +
			"  dmlx weights info vit_small.onnx --lora 'attn\\.qkv\\.weight@q,v:8'",
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			n, err := weights.OpenNetwork(args[0])
			if err != nil {
				return err
			}
			trains, err := options.Trains()
			if err != nil {
				return cli.Usage(err)
			}
			p, err := n.Preprocessing()
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			if size == 0 {
				size = n.OpenSize()
			}
			if n, _, err = options.Adapt(n); err != nil {
				return cli.Usage(err)
			}
			flop, err := n.Build([2]int{size, size})
			if err != nil {
				return fmt.Errorf("%s with images of %d pixels: %w", args[0], size, err)
			}
			weights, trained, values, changed := n.Parameters(), 0, 0, 0
			for _, w := range weights {
				count := shapes.Make(0, w.Shape...).Size()
				if values += count; trains(w.Name) {
					trained, changed = trained+1, changed+count
				}
			}
			operators := n.Counts()
			notes := append([]string{}, n.Notes...)
			text := fmt.Sprintf("%s, SHA-256 %s\nimages of %d × %d pixels, mean %v, std %v → %d features, %.0f MFLOP an "+
				"image\n%d parameters in %d tensors, of which %d in %d are trained\noperators: %s", args[0], n.Digest(), size,
				size, p.Mean, p.Std, n.Width, float64(flop)/1e6, values, len(weights), changed, trained,
				strings.Join(operators, ", "))
			for _, note := range notes {
				text += "\n" + note
			}
			return a.Print(map[string]any{"sha256": n.Digest(), "size": size, "mean": p.Mean, "std": p.Std,
				"features": n.Width, "flop": flop, "parameters": values, "trained": changed, "tensors": len(weights),
				"operators": operators, "notes": notes}, text)
		},
	}
	cmd.Flags().StringVar(&options.TrainOnly, "train-only", "", "count what train --set train_only=… would train")
	cmd.Flags().StringVar(&options.Freeze, "freeze", "", "count what train --set freeze=… would leave")
	cmd.Flags().StringVar(&options.LoRA, "lora", "", "also count the matrices that train --set lora=… would train")
	cmd.Flags().IntVar(&size, "size", 0, "side of the images in pixels (default: the file's)")
	return cmd
}
