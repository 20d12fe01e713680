package embedding

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"

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

// Pretrained returns the published weights of a network, by default resnet18's, as the bytes of their file.
func Pretrained(arch string) ([]byte, error) {
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

const (
	// batchSize is the number of images of a device for which the graph is compiled.
	batchSize = 16
	// MaxCrop limits the memory for the pixels of a device to 0.8 GB.
	MaxCrop = 4096
)

// Damaged is an image that cannot be read: its index, and why.
type Damaged struct {
	Index int
	Err   error
}

// Files returns the embeddings of images, [len(files), width], without the rows of those that cannot be read, which it
// lists, and the [datasets.Raster].Warning of each. exec maps pixels, uint8 [n, crop, crop, 3], to float32 [n, width],
// where n is 16 for each device; Files divides the rows among the devices. progress is called after each batch; its
// error ends the work. Unless skip is set, nothing is embedded after the first image that cannot be read, but all
// others are still tried.
func Files(b compute.Backend, devices *mesh.Mesh, exec *model.Exec, files []string,
	prepare backbone.Preprocessing, width int, skip bool, progress func(done int) error) (values []float32,
	damaged []Damaged, warnings []string, err error) {
	devices.Shard(exec, []mesh.Layout{mesh.Rows}, []mesh.Layout{mesh.Rows})
	crop := prepare.Crop
	one, rows := crop*crop*3, batchSize*devices.Size()
	values, warnings = make([]float32, 0, min(len(files), 1<<16)*width), make([]string, len(files))
	pixels := make([]uint8, rows*one)
	for start := 0; start < len(files); start += rows {
		batch := files[start:min(start+rows, len(files))]
		bad := make([]error, len(batch))
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i, file := range batch {
			group.Go(func() error {
				img, err := datasets.ReadImage(file)
				if err != nil {
					bad[i] = err
					return nil
				}
				warnings[start+i] = img.Warning
				square, err := img.Square(prepare.Resize, crop, datasets.Filter(prepare.Interpolation))
				copy(pixels[i*one:], square)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, nil, nil, err
		}
		for i, err := range bad {
			if err != nil {
				damaged = append(damaged, Damaged{start + i, err})
			}
		}
		if err := progress(start + len(batch)); err != nil {
			return nil, nil, nil, err
		}
		if len(damaged) > 0 && !skip {
			continue
		}
		in, err := devices.CopyRows(b, shapes.Make(dtypes.Uint8, rows, crop, crop, 3), pixels)
		if err != nil {
			return nil, nil, nil, err
		}
		out, err := devices.Call(exec, in)
		in.Free()
		if err != nil {
			return nil, nil, nil, err
		}
		embedded, err := mesh.TakeRows(out[0])
		if err != nil {
			return nil, nil, nil, err
		}
		for i := range batch {
			row := embedded[i*width : (i+1)*width]
			if bad[i] != nil {
				continue
			}
			if slices.ContainsFunc(row, func(v float32) bool { return v-v != 0 }) {
				return nil, nil, nil, fmt.Errorf("%s: the embedding is not finite; the weights may be damaged", batch[i])
			}
			values = append(values, row...)
		}
	}
	return values, damaged, warnings, nil
}
