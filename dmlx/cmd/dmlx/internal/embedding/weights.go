package embedding

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/heads"
)

// NewWeights exports trained weights and describes networks.
func NewWeights(a *app.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "weights",
		Short: "Export trained networks to ONNX, and describe ONNX files",
		Example: "  dmlx weights info net.onnx\n" +
			"  dmlx weights onnx 077c9a --out net.onnx",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWeightsONNX(a), newWeightsInfo(a))
	return cmd
}

// newWeightsONNX exports a network to ONNX.
func newWeightsONNX(a *app.App) *cobra.Command {
	var arch, features, out string
	cmd := &cobra.Command{
		Use:   "onnx {FILE | RUN} --out NET.onnx",
		Short: "Export a trained network to ONNX, for ONNX Runtime and other programs",
		Long: `Export a network to ONNX (opset 17), for ONNX Runtime and other programs. FILE is a safetensors file or a state
dict of torch.save (.pth) with torchvision's names; RUN is a finished run's name or its first digits. A network that
came from an ONNX file leaves as that file, with its names and the new weights, low-rank matrices (--set lora=…) merged
into them: give the file as --arch if it has moved.

The model's input is "images", float32 [N, 3, H, W]: RGB on the scale 0 to 1, minus the mean and divided by the
standard deviation in the model's metadata, which also give the size ("resize" and "crop"). Its output is "embeddings",
float32 [N, D], scaled to length 1, or with --features gap "features", the output of the average pooling. In Python:

    import onnxruntime
    net = onnxruntime.InferenceSession("net.onnx")
    prepare = net.get_modelmeta().custom_metadata_map        # resize, crop, mean, std
    embeddings, = net.run(None, {"images": images})

Of a head on features the input is "features", float32 [N, F], as they were given to the training. The same in PyTorch:

    f = safetensors.safe_open("weights.safetensors", "pt")   # of a run: checkpoint/weights-N.safetensors
    mean, std = json.loads(f.metadata()["feature_mean"]), float(f.metadata()["feature_std"])
    x = (features - torch.tensor(mean)) / std
    x = torch.nn.functional.linear(x, f.get_tensor("fc.weight"), f.get_tensor("fc.bias"))
    embeddings = torch.nn.functional.normalize(x)            # mlp: fc(x) + fc2(relu(fc1(x))), or the last alone`,
		Example: "  dmlx weights onnx 077c9a --out net.onnx\n" +
			"  dmlx weights onnx 3f21d0 --out trained.onnx\n" +
			"  dmlx weights onnx resnet18.pth --features gap --out resnet18.onnx",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckOut([]string{args[0], arch}, out); err != nil {
				return err
			}
			of, err := source(a, arch, args[0], features)
			if err != nil {
				return err
			}
			raw, name, err := of.Read()
			if err != nil {
				return err
			}
			trained, err := of.Trained(raw, name)
			if err != nil {
				return err
			} else if trained != nil {
				return writeONNX(a, trained.Encoded, out, filepath.Base(trained.File), name, trained.Dim, trained.Crop)
			}
			head, err := heads.Read(raw)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if head != nil {
				if arch != "" || cmd.Flags().Changed("features") {
					return cli.Usagef("%s is a head on features: leave out --arch and --features", name)
				}
				encoded, err := head.ONNX()
				if err != nil {
					return err
				}
				if err := durable.WriteFile(out, encoded, 0o644); err != nil {
					return err
				}
				return a.Print(map[string]any{"arch": "head", "dim": head.Dim, "out": out, "features": head.Features},
					fmt.Sprintf("head of %s, from %d features to %d values, in %s", name, head.Features, head.Dim, out))
			}
			net, err := of.Backbone(raw, name)
			if err != nil {
				return err
			}
			defer net.Store.Finalize()
			encoded, err := backbone.EncodeONNX(net.Store, net.Arch, net.Dim, net.Prepare.Metadata())
			if err != nil {
				return err
			}
			return writeONNX(a, encoded, out, string(net.Arch), name, net.Width, net.Prepare.Crop)
		},
	}
	ArchFlag(cmd, &arch)
	cmd.Flags().StringVar(&features, "features", "embedding", "gap or embedding")
	cmd.Flags().StringVar(&out, "out", "", "ONNX file to write")
	cli.Require(cmd, "out")
	return cmd
}

// writeONNX writes an ONNX file and says what it has.
func writeONNX(a *app.App, encoded []byte, out, arch, of string, dim, crop int) error {
	if err := durable.WriteFile(out, encoded, 0o644); err != nil {
		return err
	}
	return a.Print(map[string]any{"arch": arch, "dim": dim, "out": out, "crop": crop},
		fmt.Sprintf("%s of %s, %d values an image of %d pixels, in %s", arch, of, dim, crop, out))
}

// weightsOf reads the weights of a file or of a finished run, and returns what to call them in errors.
func weightsOf(a *app.App, fileOrRun string) (raw []byte, name string, err error) {
	s, err := source(a, "", fileOrRun, "embedding")
	if err != nil {
		return nil, "", err
	}
	return s.Read()
}
