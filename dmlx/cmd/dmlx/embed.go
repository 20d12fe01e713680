package main

import (
	"fmt"
	"strings"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/embed"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// newEmbed embeds the images of a folder.
func newEmbed(a *app) *cobra.Command {
	var arch, weights, images, features, out string
	var resize, crop, devices int
	cmd := &cobra.Command{
		Use:   "embed --weights W.safetensors --images DIR --out F.npy",
		Short: "Embed the images of a folder with trained or pretrained weights",
		Long: `Embed all images of a folder and its subfolders, in the lexical order of their paths, and write a row of
float32 for each. The weights are a safetensors file or a state dict of torch.save (.pth) with torchvision's names, or
"pretrained": the published weights of --arch, which dmlx weights get downloads.

--features gap writes the output of the average pooling. --features embedding writes the output of the file's linear
layer "fc", scaled to length 1. The file's metadata tell how images are prepared; the checkpoints of dmlx train have
metadata. Without them, images are normalized by ImageNet's mean and standard deviation, the shorter side is scaled to
256 pixels and the middle square of 224 is cut out, as in torchvision's evaluation; for small both are 32.`,
		Example: "  dmlx embed --arch resnet18 --weights pretrained --images photos --features gap --out F.npy",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if features != "gap" && features != "embedding" {
				return usagef("--features %q: want gap or embedding", features)
			}
			if out == "" {
				return usagef("--out is empty: want the file to write")
			}
			if err := checkOut([]string{weights}, out); err != nil {
				return err
			}
			raw, err := embed.Weights(arch, weights)
			if err != nil {
				return err
			}
			net, prepare, err := embed.Network(arch, weights, raw)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("resize") {
				prepare.Resize = resize
			}
			if cmd.Flags().Changed("crop") {
				prepare.Crop = crop
			}
			if prepare.Crop < 1 || prepare.Crop > embed.MaxCrop || prepare.Resize < prepare.Crop ||
				prepare.Resize > datasets.MaxResize {
				return usagef("--crop %d of --resize %d: want a crop of 1 to %d pixels, and a side of at least the crop and "+
					"at most %d", prepare.Crop, prepare.Resize, embed.MaxCrop, datasets.MaxResize)
			}
			o := backbone.LoadOptions{Arch: net, WithoutHead: features == "gap"}
			width := net.Width()
			if !o.WithoutHead {
				if o.Dim, err = backbone.HeadDim(raw); err != nil {
					return fmt.Errorf("%s: %w", weights, err)
				}
				width = o.Dim
			}
			store := model.NewStore()
			defer store.Finalize()
			if _, err := backbone.DecodeWeights(raw, store, o); err != nil {
				return fmt.Errorf("%s: %w", weights, err)
			}
			files, err := embed.ImageFiles(images)
			if err != nil {
				return err
			}
			choice, err := a.backendOn(devices)
			if err != nil {
				return err
			}
			on, err := mesh.New(choice.DeviceCount())
			if err != nil {
				return err
			}
			exec, err := model.NewExec(choice.Backend, store, func(scope *model.Scope, pixels *graph.Node) *graph.Node {
				x := backbone.Normalized(pixels, prepare.Mean, prepare.Std)
				if o.WithoutHead {
					return net.Features(scope, x, backbone.Pass{})
				}
				return dmlx.Normalize(net.Embed(scope, x, o.Dim, backbone.Pass{}))
			})
			if err != nil {
				return err
			}
			defer exec.Finalize()
			line := a.line
			progress := func(done int) error {
				line.Show("%d of %d images", done, len(files))
				return cmd.Context().Err()
			}
			values, err := embed.Files(choice.Backend, on, exec, files, prepare.Resize, prepare.Crop, width, progress)
			line.End()
			if err != nil {
				return err
			}
			if err := npy.WriteFloat32(out, values, len(files), width); err != nil {
				return err
			}
			return a.print(map[string]any{"images": len(files), "dim": width, "out": out},
				fmt.Sprintf("%d images, %d values each, in %s", len(files), width, out))
		},
	}
	f := cmd.Flags()
	archFlag(cmd, &arch)
	f.StringVar(&weights, "weights", "", ".safetensors or .pth file with torchvision's names, or pretrained")
	f.StringVar(&images, "images", "", "folder of JPEG and PNG files")
	f.StringVar(&features, "features", "embedding", "gap or embedding")
	f.StringVar(&out, "out", "", "NumPy file to write, float32 [N, D]")
	f.IntVar(&resize, "resize", 0, "pixels of the shorter side (default: the metadata's, else 32 for small, 256 for "+
		"a ResNet)")
	f.IntVar(&crop, "crop", 0, "pixels of the square that is cut out (default: the metadata's, else 32 for small, "+
		"224 for a ResNet)")
	addDevices(f, &devices)
	for _, name := range []string{"weights", "images", "out"} {
		_ = cmd.MarkFlagRequired(name) // It fails only for an unknown flag.
	}
	return cmd
}

// archFlag adds the flag for the network of a weight file.
func archFlag(cmd *cobra.Command, arch *string) {
	cmd.Flags().StringVar(arch, "arch", "",
		"network: "+strings.Join(backbone.Arches(), ", ")+" (default: the one that the weights are of)")
}
