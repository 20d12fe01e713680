// Package embedding has the commands about networks and what they embed: embed, gallery, recall and weights.
package embedding

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// NewEmbed embeds the images of a folder.
func NewEmbed(a *cli.App) *cobra.Command {
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

The weights are a safetensors file or its index, or a checkpoint of torch.save (.pth, .ckpt), in which the network is
found by torchvision's names under any prefix; or "pretrained": the published weights of --arch, which dmlx weights get
downloads; or the ONNX file of a network (dmlx help onnx), of which the output is written as it is.

--features gap writes the output of the average pooling. --features embedding writes the output of the file's linear
layer "fc", scaled to length 1. The file's metadata tell how images are prepared; the checkpoints of dmlx train have
metadata. Without them, images are normalized by ImageNet's mean and standard deviation, the shorter side is scaled to
256 pixels and the middle square of 224 is cut out, as in torchvision's evaluation; for small both are 32.

--features X.npy in place of --images embeds features [N, F] with a head that was trained on such features; the weights
may then be a run's name or its first digits. The rows keep their order.`,
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
			if err := cli.CheckOut([]string{weights}, out, names, labels); err != nil {
				return err
			}
			store := model.NewStore()
			defer store.Finalize()
			net, err := loadEmbedder(a, store, arch, weights, features)
			if err != nil {
				return err
			}
			prepare := &net.prepare
			if cmd.Flags().Changed("resize") {
				prepare.Resize = resize
			}
			if cmd.Flags().Changed("crop") {
				prepare.Crop = crop
			}
			if prepare.Crop < 1 || prepare.Crop > MaxCrop || prepare.Resize < prepare.Crop ||
				prepare.Resize > datasets.MaxResize {
				return cli.Usagef("--crop %d of --resize %d: want a crop of 1 to %d pixels, and a side of at least the crop and "+
					"at most %d", prepare.Crop, prepare.Resize, MaxCrop, datasets.MaxResize)
			}
			list, values, skipped, err := embedFolder(cmd.Context(), a, store, net, images, devices, skipBad)
			if err != nil {
				return err
			}
			if err := npy.WriteFloat32(out, values, len(list.Paths), net.width); err != nil {
				return err
			}
			if err := writeRows(list, names, labels); err != nil {
				return err
			}
			text := fmt.Sprintf("%d images, %d values each, in %s; their names in %s", len(list.Paths), net.width, out, names)
			printed := map[string]any{"images": len(list.Paths), "dim": net.width, "out": out, "names": names,
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
	cli.AddDevices(f, &devices)
	cli.Require(cmd, "weights", "out")
	return cmd
}

// checkFeatures checks --features of images.
func checkFeatures(features string) error {
	if features != "gap" && features != "embedding" {
		return cli.Usagef("--features %q: want gap or embedding", features)
	}
	return nil
}

// embedFolder embeds the images of a folder. It says which are left out; skipped is how many of them are damaged.
func embedFolder(ctx context.Context, a *cli.App, store *model.Store, net *embedder, dir string, devices int,
	skip bool) (list *datasets.ImageList, values []float32, skipped int, err error) {
	if list, err = datasets.ListImages(dir); err != nil {
		return nil, nil, 0, err
	}
	for _, left := range list.LeftOut {
		a.Logf("left out, %s", left)
	}
	choice, err := a.BackendOn(devices)
	if err != nil {
		return nil, nil, 0, err
	}
	values, damaged, warnings, err := embedFiles(ctx, a, choice.Backend, choice.DeviceCount(), store, net,
		inDir(dir, list.Paths), skip)
	if err != nil {
		return nil, nil, 0, err
	}
	warned := datasets.Warned(list.Paths, warnings)
	text, err := leaveOut(list, damaged, skip)
	if err != nil {
		return nil, nil, 0, err
	}
	if text != "" {
		a.Logf("left out, unreadable: %s", text)
	}
	if warned != "" {
		a.Logf("%s", warned)
	}
	return list, values, len(damaged), nil
}

// embedFeatures embeds the features of a file with the head of a weight file or of a run.
func embedFeatures(ctx context.Context, a *cli.App, features, weights, out string) error {
	if err := cli.CheckOut([]string{features, weights}, out); err != nil {
		return err
	}
	f, err := openFeatures(a, features, weights)
	if err != nil {
		return err
	}
	embedded, err := f.all(ctx)
	if err != nil {
		return err
	}
	if err := npy.WriteFloat32(out, embedded, f.rows, f.width); err != nil {
		return err
	}
	return a.Print(map[string]any{"rows": f.rows, "dim": f.width, "out": out},
		fmt.Sprintf("%d rows, %d values each, in %s", f.rows, f.width, out))
}

// leaveOut takes damaged images off a list and names them; without skip they are an error.
func leaveOut(l *datasets.ImageList, damaged []Damaged, skip bool) (string, error) {
	const most = 100
	var texts []string
	bad := map[int]bool{}
	for _, d := range damaged {
		if bad[d.Index] = true; len(texts) < most {
			texts = append(texts, fmt.Sprintf("%s: %v", filepath.Join(l.Dir, filepath.FromSlash(l.Paths[d.Index])), d.Err))
		}
	}
	if more := len(damaged) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(texts, "; ")
	switch {
	case len(damaged) == 0:
		return "", nil
	case !skip:
		return "", fmt.Errorf("%d of %d images cannot be read; --skip-bad leaves them out: %s", len(damaged), len(l.Paths),
			text)
	case len(damaged) == len(l.Paths):
		return "", fmt.Errorf("no image of %s can be read: %s", l.Dir, text)
	}
	var paths []string
	var labels []int64
	for i, name := range l.Paths {
		if !bad[i] {
			paths = append(paths, name)
			if l.Labels != nil {
				labels = append(labels, l.Labels[i])
			}
		}
	}
	l.Paths, l.Labels = paths, labels
	return text, nil
}

// writeRows writes the names of the rows, and their labels if they have classes.
func writeRows(l *datasets.ImageList, names, labels string) error {
	if err := files.WriteNames(names, l.Paths); err != nil {
		return err
	}
	switch {
	case l.Classes == nil:
		return nil
	case filepath.Ext(labels) != ".txt":
		return npy.WriteInt64(labels, l.Labels, len(l.Labels))
	}
	classes := make([]string, len(l.Labels))
	for i, label := range l.Labels {
		classes[i] = l.Classes[label]
	}
	return files.WriteNames(labels, classes)
}

// embedder is a network as embed computes it, from pixels, uint8 [N, crop, crop, 3], to [N, width].
type embedder struct {
	prepare backbone.Preprocessing
	width   int
	graph   func(scope *model.Scope, pixels *graph.Node) *graph.Node
}

// loadEmbedder reads weights of a file or a run, or the network of an ONNX file, into a store.
func loadEmbedder(a *cli.App, store *model.Store, arch, weights, features string) (*embedder, error) {
	if err := checkFeatures(features); err != nil {
		return nil, err
	}
	var raw []byte
	var err error
	if train.IsNetworkFile(weights) {
		n, err := train.OpenNetwork(weights)
		if err != nil {
			return nil, err
		}
		return networkEmbedder(store, weights, n)
	} else if weights == train.Pretrained {
		raw, err = Pretrained(arch)
	} else {
		raw, weights, err = weightsOf(a, weights)
	}
	if err != nil {
		return nil, err
	}
	if file, network, _, _, err := trainedNetwork(a, arch, weights, raw, features); err != nil {
		return nil, err
	} else if file != nil {
		n, err := onnx.Read(file)
		if err != nil {
			return nil, err
		}
		return networkEmbedder(store, network, n)
	}
	o, prepare, width, err := loadNetwork(store, arch, weights, raw, features)
	if err != nil {
		return nil, err
	}
	return &embedder{prepare, width, func(scope *model.Scope, pixels *graph.Node) *graph.Node {
		x := backbone.Normalized(pixels, prepare.Mean, prepare.Std)
		if o.WithoutHead {
			return o.Arch.Features(scope, x, backbone.Pass{})
		}
		return dmlx.Normalize(o.Arch.Embed(scope, x, o.Dim, backbone.Pass{}))
	}}, nil
}

// loadNetwork reads the weights of a network on images into a store. Its output has width values.
func loadNetwork(store *model.Store, arch, name string, raw []byte, features string) (o backbone.LoadOptions,
	prepare backbone.Preprocessing, width int, err error) {
	net, prepare, err := Network(arch, name, raw)
	if err != nil {
		return o, prepare, 0, err
	}
	o, width = backbone.LoadOptions{Arch: net, WithoutHead: features == "gap"}, net.Width()
	if !o.WithoutHead {
		if o.Dim, err = backbone.HeadDim(raw); err != nil {
			return o, prepare, 0, fmt.Errorf("%s: %w", name, err)
		}
		width = o.Dim
	}
	if _, err = backbone.DecodeWeights(raw, store, o); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return o, prepare, width, err
}

// ArchFlag adds the flag for the network of a weight file.
func ArchFlag(cmd *cobra.Command, arch *string) {
	cmd.Flags().StringVar(arch, "arch", "",
		"network: "+strings.Join(backbone.Arches(), ", ")+", or the ONNX file that the weights were trained from "+
			"(default: the one that the weights are of)")
}
