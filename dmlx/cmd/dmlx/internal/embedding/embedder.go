package embedding

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/embed"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/train"
)

const (
	// batchSize is the number of images of a device for which the graph is compiled.
	batchSize = 16
	// maxCrop limits the memory for the pixels of a device to 0.8 GB.
	maxCrop = 4096
)

// embedFiles returns the embeddings of images, [len(paths), width], without the rows of those that cannot be read; and
// of each image why it cannot be read, or nil, and the [datasets.Raster].Warning. The rows are divided among the
// trainer's devices. Unless skip is set, nothing is embedded after the first image that cannot be read, but all others
// are still tried.
func embedFiles(ctx context.Context, a *app.App, net *embed.Network, on *train.Trainer, paths []string, skip bool) (
	values []float32, damaged []error, warnings []string, err error) {
	devices, err := mesh.New(on.DeviceCount())
	if err != nil {
		return nil, nil, nil, err
	}
	exec, err := model.NewExec(on.Backend, net.Store, net.Graph)
	if err != nil {
		return nil, nil, nil, err
	}
	defer exec.Finalize()
	defer a.Line.End()
	devices.Shard(exec, []mesh.Layout{mesh.Rows}, []mesh.Layout{mesh.Rows})
	crop := net.Prepare.Crop
	one, rows := crop*crop*3, batchSize*devices.Size()
	values, damaged, warnings = make([]float32, 0, min(len(paths), 1<<16)*net.Width), make([]error, len(paths)),
		make([]string, len(paths))
	pixels := make([]uint8, rows*one)
	for start := 0; start < len(paths); start += rows {
		batch := paths[start:min(start+rows, len(paths))]
		var group errgroup.Group
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i, file := range batch {
			group.Go(func() error {
				img, err := datasets.ReadImage(file)
				if err != nil {
					damaged[start+i] = err
					return nil
				}
				warnings[start+i] = img.Warning
				square, err := img.Square(net.Prepare.Resize, crop, datasets.Filter(net.Prepare.Interpolation))
				copy(pixels[i*one:], square)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return nil, nil, nil, err
		}
		a.Line.Show("%d of %d images", start+len(batch), len(paths))
		if err := ctx.Err(); err != nil {
			return nil, nil, nil, err
		}
		if !skip && errors.Join(damaged...) != nil {
			continue
		}
		in, err := devices.CopyRows(on.Backend, shapes.Make(dtypes.Uint8, rows, crop, crop, 3), pixels)
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
			row := embedded[i*net.Width : (i+1)*net.Width]
			if damaged[start+i] != nil {
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

// source says which network a command embeds by.
func source(a *app.App, arch, weights, features string) (embed.Source, error) {
	s := embed.Source{Weights: weights, Arch: arch, Features: features == "gap"}
	if features != "gap" && features != "embedding" {
		return s, cli.Usagef("--features %q: want gap or embedding", features)
	}
	store, err := a.ReadStore()
	if err == nil {
		s.Store = store
	} else if _, missing := os.Stat(weights); errors.Is(missing, fs.ErrNotExist) && weights != train.Pretrained {
		return s, fmt.Errorf("%s is no file, and %w", weights, err)
	}
	return s, nil
}

// openNetwork reads the network that a command embeds by. Close it after use.
func openNetwork(a *app.App, arch, weights, features string) (*embed.Network, error) {
	s, err := source(a, arch, weights, features)
	if err != nil {
		return nil, err
	}
	net, err := s.Open()
	if err != nil || net.ONNX == nil {
		return net, err
	}
	on, err := a.Backend()
	if err == nil {
		err = a.SayNetwork(net.ONNXFile, net.ONNX, on)
	}
	return net, err
}

// listImages lists the images of a folder, and says which are left out.
func listImages(a *app.App, dir string) (*datasets.ImageList, error) {
	list, err := datasets.ListImages(dir)
	if errors.As(err, new(*fs.PathError)) {
		return nil, fmt.Errorf("%w: want a folder of JPEG and PNG files", err)
	} else if err != nil {
		return nil, err
	}
	for _, left := range list.LeftOut {
		a.Logf("left out, %s", left)
	}
	return list, nil
}

// embedFolder embeds the images of a list, and takes damaged ones off it; skipped is how many these are.
func embedFolder(ctx context.Context, a *app.App, net *embed.Network, list *datasets.ImageList, devices int,
	skip bool) (values []float32, skipped int, err error) {
	on, err := a.BackendOn(devices, false)
	if err != nil {
		return nil, 0, err
	}
	paths := slice.Map(list.Paths, func(name string) string { return filepath.Join(list.Dir, filepath.FromSlash(name)) })
	values, damaged, warnings, err := embedFiles(ctx, a, net, on, paths, skip)
	if err != nil {
		return nil, 0, err
	}
	warned := datasets.Warned(list.Paths, warnings)
	if skipped, err = leaveOut(a, list, damaged, skip); err == nil && warned != "" {
		a.Logf("%s", warned)
	}
	return values, skipped, err
}

// leaveOut takes damaged images off a list, says so, and counts them; without skip they are an error.
func leaveOut(a *app.App, l *datasets.ImageList, damaged []error, skip bool) (n int, err error) {
	const most = 100
	var texts, paths []string
	var labels []int64
	for i, name := range l.Paths {
		if damaged[i] == nil {
			if paths = append(paths, name); l.Labels != nil {
				labels = append(labels, l.Labels[i])
			}
		} else if n++; n <= most {
			texts = append(texts, fmt.Sprintf("%s: %v", filepath.Join(l.Dir, filepath.FromSlash(name)), damaged[i]))
		}
	}
	if n > most {
		texts = append(texts, fmt.Sprintf("and %d more", n-most))
	}
	text := strings.Join(texts, "; ")
	switch {
	case n == 0:
		return 0, nil
	case !skip:
		return n, fmt.Errorf("%d of %d images cannot be read; --skip-bad leaves them out: %s", n, len(l.Paths), text)
	case paths == nil:
		return n, fmt.Errorf("no image of %s can be read: %s", l.Dir, text)
	}
	l.Paths, l.Labels = paths, labels
	a.Logf("left out, unreadable: %s", text)
	return n, nil
}
