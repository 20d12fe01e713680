package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/npy"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// newEmbed embeds a folder of images with a network from a file.
func newEmbed(a *app) *cobra.Command {
	var arch, weights, images, features, out string
	var resize, crop int
	cmd := &cobra.Command{
		Use:   "embed --weights W.safetensors --images DIR --out F.npy",
		Short: "Embed a folder of images with a network's weights",
		Long: `Embed all images of a folder and of the folders in it, in the lexical order of their paths, and write a row of
float32 for each. The weights are a safetensors file with torchvision's names, or "pretrained": the published weights of
--arch, which dmlx weights get downloads.

The features gap are the output of the average pooling. The features embedding are that through the file's linear layer
"fc", scaled to length 1. Images are prepared as the file's metadata say; the checkpoints of dmlx train have them.
Without metadata, images are normalized by ImageNet's mean and standard deviation. For a ResNet the shorter side is then
scaled to 256 pixels and the middle square of 224 is taken, as in torchvision's evaluation; for small both are 32.`,
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
			raw, err := startingWeights(arch, weights)
			if err != nil {
				return err
			}
			net, prepare, err := networkOf(arch, weights, raw)
			if err != nil {
				return err
			}
			if cmd.Flags().Changed("resize") {
				prepare.Resize = resize
			}
			if cmd.Flags().Changed("crop") {
				prepare.Crop = crop
			}
			if prepare.Crop < 1 || prepare.Crop > maxCrop || prepare.Resize < prepare.Crop ||
				prepare.Resize > datasets.MaxResize {
				return usagef("--crop %d of --resize %d: want 1 to %d pixels, of no fewer and at most %d", prepare.Crop,
					prepare.Resize, maxCrop, datasets.MaxResize)
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
			files, err := imageFiles(images)
			if err != nil {
				return err
			}
			choice, err := a.backend()
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
			values, err := embedFiles(exec, files, prepare.Resize, prepare.Crop, width, func(done int) error {
				line.show("%d of %d images", done, len(files))
				return cmd.Context().Err()
			})
			line.end()
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
	f.StringVar(&weights, "weights", "", "safetensors file with torchvision's names, or pretrained")
	f.StringVar(&images, "images", "", "folder of JPEG and PNG files")
	f.StringVar(&features, "features", "embedding", "gap or embedding")
	f.StringVar(&out, "out", "", "NumPy file to write, float32 [N, D]")
	f.IntVar(&resize, "resize", 0, "pixels of the shorter side (default: the file's, else 32 for small, 256 for a ResNet)")
	f.IntVar(&crop, "crop", 0, "pixels of the square that is cut out (default: the file's, else 32 for small, 224 for "+
		"a ResNet)")
	for _, name := range []string{"weights", "images", "out"} {
		_ = cmd.MarkFlagRequired(name) // Fails for a flag that is not there.
	}
	return cmd
}

// startingWeights are those that --weights names: pretrained ones of a network, by default resnet18's, or a file's.
func startingWeights(arch, weights string) ([]byte, error) {
	if weights != train.Pretrained {
		return os.ReadFile(weights)
	}
	net, err := backbone.ParseArch(cmp.Or(arch, string(backbone.ResNet18)))
	if err != nil {
		return nil, err
	}
	return train.PretrainedWeights(net)
}

// archFlag is the flag for the network that a weight file is of.
func archFlag(cmd *cobra.Command, arch *string) {
	cmd.Flags().StringVar(arch, "arch", "",
		"network: "+strings.Join(backbone.Arches(), ", ")+" (default: the weights' metadata, or resnet18)")
}

// networkOf tells of which network the bytes of a weight file are and how images are prepared for it: the network as
// given, the rest by the file's metadata, and where they say nothing, resnet18 and the network's own preprocessing.
func networkOf(arch, path string, raw []byte) (backbone.Arch, backbone.Preprocessing, error) {
	fail := func(err error) (backbone.Arch, backbone.Preprocessing, error) {
		return "", backbone.Preprocessing{}, fmt.Errorf("%s: %w", path, err)
	}
	meta, err := backbone.Metadata(raw)
	if err != nil {
		return fail(err)
	}
	net := backbone.ResNet18
	if saved, ok := meta["arch"]; ok && arch == "" {
		if net, err = backbone.ParseArch(saved); err != nil {
			return fail(fmt.Errorf("metadata arch: %w", err))
		}
	} else if arch != "" {
		if net, err = backbone.ParseArch(arch); err != nil {
			return "", backbone.Preprocessing{}, err
		}
	}
	prepare, found, err := backbone.PreprocessingOf(meta)
	if err != nil {
		return fail(err)
	}
	if !found {
		prepare = net.Preprocessing()
	}
	return net, prepare, nil
}

// imageFiles lists the images of a folder and the folders in it, in lexical order of their paths. Links are followed,
// but not up.
func imageFiles(dir string) ([]string, error) {
	var files []string
	var walk func(path string, above []os.FileInfo) error
	walk = func(path string, above []os.FileInfo) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if !info.IsDir() {
			if slices.Contains([]string{".jpg", ".jpeg", ".png"}, strings.ToLower(filepath.Ext(path))) {
				files = append(files, path)
			}
			return nil
		}
		if slices.ContainsFunc(above, func(folder os.FileInfo) bool { return os.SameFile(folder, info) }) {
			return nil
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if err := walk(filepath.Join(path, e.Name()), append(slices.Clone(above), info)); err != nil {
				return err
			}
		}
		return nil
	}
	err := walk(dir, nil)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no JPEG or PNG files in %s", dir)
	}
	slices.Sort(files) // By the whole path: ReadDir sorts within a folder.
	return files, err
}

const (
	// embedRows is how many images a graph is compiled for.
	embedRows = 16
	// maxCrop bounds the memory for their pixels, to 0.8 GB.
	maxCrop = 4096
)

// embedFiles runs a network on images, a batch at a time: pixels in, [embedRows, width] out.
func embedFiles(exec *model.Exec, files []string, resize, crop, width int, progress func(done int) error) ([]float32,
	error) {
	one := crop * crop * 3
	values := make([]float32, 0, len(files)*width)
	pixels := make([]uint8, embedRows*one)
	for start := 0; start < len(files); start += embedRows {
		batch := files[start:min(start+embedRows, len(files))]
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i, file := range batch {
			group.Go(func() error {
				img, err := datasets.ReadImage(file)
				if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				square, err := img.Square(resize, crop)
				copy(pixels[i*one:], square)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, err
		}
		in := tensors.FromFlatDataAndDimensions(pixels, embedRows, crop, crop, 3)
		result, err := exec.Call1(in)
		if err != nil {
			return nil, err
		}
		rows, err := tensors.CopyFlatData[float32](result)
		if err := errors.Join(err, in.FinalizeAll(), result.FinalizeAll()); err != nil {
			return nil, err
		}
		for i, v := range rows[:len(batch)*width] {
			if v-v != 0 {
				return nil, fmt.Errorf("%s: its embedding is not finite: are the weights damaged?", batch[i/width])
			}
		}
		values = append(values, rows[:len(batch)*width]...)
		if err := progress(start + len(batch)); err != nil {
			return nil, err
		}
	}
	return values, nil
}
