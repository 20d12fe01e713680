// Package embedding has the commands about networks and what they embed: embed, recall and weights.
package embedding

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// NewEmbed embeds the images of a folder.
func NewEmbed(a *app.App) *cobra.Command {
	var arch, weights, images, features, out, names, labels string
	var resize, crop, devices int
	var skipBad bool
	cmd := &cobra.Command{
		Use:   "embed --weights W.safetensors --images DIR --out F.npy",
		Short: "Embed the images of a folder with trained or pretrained weights",
		Long: `Embed all JPEG and PNG images of a folder and write a row of float32 for each, in the order of torchvision's
ImageFolder: the sub-folders are the classes, sorted; within a class images are sorted by folder and by name. Images
that are left out are counted and listed. Beside F.npy are written F.names.txt, the path of each row's image, and, if
there are classes, F.labels.npy; a file --labels that ends in .txt gets the classes' names. dmlx recall and dmlx train
--features take them.

The weights are a safetensors file, or a checkpoint of torch.save (.pth, .ckpt), in which the network is
found by torchvision's names under any prefix; or "pretrained": the published weights of --arch; or the ONNX file of a
network (dmlx help onnx), of which the output is written as it is.

--features gap writes the output of the average pooling. --features embedding writes the output of the file's linear
layer "fc", scaled to length 1. The file's metadata tell how images are prepared; the checkpoints of dmlx train have
metadata. Without them, images are normalized by ImageNet's mean and standard deviation, the shorter side is scaled to
256 pixels and the middle square of 224 is cut out, as in torchvision's evaluation; for small both are 32.

--features X.npy in place of --images embeds features [N, F] with a head that was trained on such features; the weights
may then be a run's name or its first digits. The rows keep their order, and the names and labels beside X.npy.

To search F.npy by a folder of photographs, embed it, too, to Q.npy. In Python, with FAISS:

    F, Q = numpy.load("F.npy"), numpy.load("Q.npy")
    index = faiss.IndexFlatIP(F.shape[1]); faiss.normalize_L2(F); faiss.normalize_L2(Q); index.add(F)
    similarity, row = index.search(Q, 10)                    # row i is line i + 1 of F.names.txt`,
		Example: "  dmlx embed --arch resnet18 --weights pretrained --images photos --features gap --out F.npy\n" +
			"  dmlx embed --features new.npy --weights 077c9a --out E.npy",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if filepath.Ext(features) == ".npy" {
				for _, name := range []string{"images", "arch", "names", "labels", "skip-bad", "resize", "crop", "devices"} {
					if cmd.Flags().Changed(name) {
						return cli.Usagef("--%s belongs to images, and --features %s has none", name, features)
					}
				}
				return embedFeatures(cmd.Context(), a, features, weights, out)
			}
			if images == "" {
				return cli.Usagef("--images is missing: want a folder of images, or --features X.npy")
			}
			names = cmp.Or(names, files.Beside(out, files.NamesFile))
			labels = cmp.Or(labels, files.Beside(out, files.LabelsFile))
			if of := filepath.Ext(labels); of != ".npy" && of != ".txt" {
				return cli.Usagef("--labels %s: want a file that ends in .npy, for integers, or .txt, for names", labels)
			}
			if err := cli.CheckOut([]string{weights, arch}, out, names, labels); err != nil {
				return err
			}
			list, err := listImages(a, images)
			if err != nil {
				return err
			}
			net, err := openNetwork(a, arch, weights, features)
			if err != nil {
				return err
			}
			defer net.Close()
			prepare := &net.Prepare
			if cmd.Flags().Changed("resize") {
				prepare.Resize = resize
			}
			if cmd.Flags().Changed("crop") {
				prepare.Crop = crop
			}
			if prepare.Crop < 1 || prepare.Crop > maxCrop || prepare.Resize < prepare.Crop ||
				prepare.Resize > datasets.MaxResize {
				return cli.Usagef("--crop %d of --resize %d: want a crop of 1 to %d pixels, and a side of at least the crop and "+
					"at most %d", prepare.Crop, prepare.Resize, maxCrop, datasets.MaxResize)
			}
			values, skipped, err := embedFolder(cmd.Context(), a, net, list, devices, skipBad)
			if err != nil {
				return err
			}
			with := []files.Output{written(names, durable.JoinNames(list.Paths))}
			if filepath.Ext(labels) == ".txt" && list.Labels != nil {
				of := slice.Map(list.Labels, func(label int64) string { return list.Classes[label] })
				with = append(with, written(labels, durable.JoinNames(of)))
			} else if list.Labels != nil {
				with = append(with, files.Output{Path: labels, Write: func(path string) error {
					return npy.WriteInt64(path, list.Labels, len(list.Labels))
				}})
			}
			if err := writeRows(a, out, values, net.Width, with...); err != nil {
				return err
			}
			text := fmt.Sprintf("%d images, %d values each, in %s; their names in %s", len(list.Paths), net.Width, out, names)
			printed := map[string]any{"images": len(list.Paths), "dim": net.Width, "out": out, "names": names,
				"classes": len(list.Classes), "left_out": list.LeftOut, "skipped": skipped}
			if list.Classes != nil {
				text += fmt.Sprintf(", the labels of %d classes in %s", len(list.Classes), labels)
				printed["labels"] = labels
			}
			return a.Print(printed, text)
		},
	}
	f := cmd.Flags()
	ArchFlag(cmd, &arch)
	f.StringVar(&weights, "weights", "",
		".safetensors, .pth or .ckpt file with torchvision's names, .onnx file, or pretrained")
	f.StringVar(&images, "images", "", "folder of JPEG and PNG files, or of a folder of them for each class")
	f.StringVar(&features, "features", "embedding", "gap or embedding; or features [N, F] (.npy) to embed with a head")
	f.StringVar(&out, "out", "", "NumPy file to write, float32 [N, D]")
	f.StringVar(&names, "names", "", "text file to write: the path of each row's image (default: F.names.txt)")
	f.StringVar(&labels, "labels", "", "file to write: each row's class, as int64 [N], or as names if it ends in .txt "+
		"(default: F.labels.npy)")
	f.BoolVar(&skipBad, "skip-bad", false, "leave out images that cannot be read")
	f.IntVar(&resize, "resize", 0, "pixels of the shorter side (default: the metadata's, else 32 for small, 256 for "+
		"a ResNet)")
	f.IntVar(&crop, "crop", 0, "pixels of the square that is cut out (default: the metadata's, else 32 for small, "+
		"224 for a ResNet)")
	app.AddDevices(f, &devices)
	cli.Require(cmd, "weights", "out")
	return cmd
}

// ArchFlag adds the flag for the network of a weight file.
func ArchFlag(cmd *cobra.Command, arch *string) {
	cmd.Flags().StringVar(arch, "arch", "",
		"network: "+strings.Join(backbone.Arches(), ", ")+", or the ONNX file that the weights were trained from "+
			"(default: the one that the weights are of)")
}
