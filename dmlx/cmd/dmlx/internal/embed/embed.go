// Package embed embeds image files with a network.
package embed

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Weights returns the bytes of a weight file, or for "pretrained" the published weights of a network, by default
// resnet18's.
func Weights(arch, weights string) ([]byte, error) {
	if weights != train.Pretrained {
		return backbone.ReadFile(weights)
	}
	net, err := backbone.ParseArch(cmp.Or(arch, string(backbone.ResNet18)))
	if err != nil {
		return nil, err
	}
	return train.PretrainedWeights(net)
}

// Network returns the network of a weight file and the preprocessing of its images. arch overrides the network in the
// file's metadata. Without metadata it is the network whose tensors the file has, or resnet18, with the network's own
// preprocessing. raw is the file's content; path is named in errors.
func Network(arch, path string, raw []byte) (backbone.Arch, backbone.Preprocessing, error) {
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
	} else if looks, ok := backbone.ArchOf(raw); ok && arch == "" {
		net = looks
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

// ImageFiles returns the JPEG and PNG files of a folder and of the folders in it, in the lexical order of their paths.
// Symbolic links are followed, except to a folder above.
func ImageFiles(dir string) ([]string, error) {
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
	// batchSize is the number of images of a device for which the graph is compiled.
	batchSize = 16
	// MaxCrop limits the memory for the pixels of a device to 0.8 GB.
	MaxCrop = 4096
)

// Files returns the embeddings of images, [len(files), width]. exec maps pixels, uint8 [n, crop, crop, 3], to float32
// [n, width], where n is 16 for each device; Files divides the rows among the devices. progress is called after each
// batch; its error ends the work.
func Files(b compute.Backend, devices *mesh.Mesh, exec *model.Exec, files []string, resize, crop, width int,
	progress func(done int) error) ([]float32, error) {
	devices.Shard(exec, []mesh.Layout{mesh.Rows}, []mesh.Layout{mesh.Rows})
	one, rows := crop*crop*3, batchSize*devices.Size()
	values := make([]float32, 0, len(files)*width)
	pixels := make([]uint8, rows*one)
	for start := 0; start < len(files); start += rows {
		batch := files[start:min(start+rows, len(files))]
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
		in, err := devices.CopyRows(b, shapes.Make(dtypes.Uint8, rows, crop, crop, 3), pixels)
		if err != nil {
			return nil, err
		}
		out, err := devices.Call(exec, in)
		in.Free()
		if err != nil {
			return nil, err
		}
		embedded, err := mesh.TakeRows(out[0])
		if err != nil {
			return nil, err
		}
		for i, v := range embedded[:len(batch)*width] {
			if v-v != 0 {
				return nil, fmt.Errorf("%s: the embedding is not finite; the weights may be damaged", batch[i/width])
			}
		}
		values = append(values, embedded[:len(batch)*width]...)
		if err := progress(start + len(batch)); err != nil {
			return nil, err
		}
	}
	return values, nil
}
