package embedding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
	"golang.org/x/sync/errgroup"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// pretrained returns the published weights of a network, by default resnet18's, as the bytes of their file.
func pretrained(arch string) ([]byte, error) {
	net, err := backbone.ParseArch(cmp.Or(arch, string(backbone.ResNet18)))
	if err != nil {
		return nil, err
	}
	return weights.Read(net, "")
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
	// maxCrop limits the memory for the pixels of a device to 0.8 GB.
	maxCrop = 4096
)

// files returns the embeddings of images, [len(paths), width], without the rows of those that cannot be read; and of
// each image why it cannot be read, or nil, and the [datasets.Raster].Warning. The rows are divided among the trainer's
// devices. Unless skip is set, nothing is embedded after the first image that cannot be read, but all others are still
// tried.
func (net *embedder) files(ctx context.Context, a *cli.App, on *train.Trainer, paths []string, skip bool) (
	values []float32, damaged []error, warnings []string, err error) {
	devices, err := mesh.New(on.DeviceCount())
	if err != nil {
		return nil, nil, nil, err
	}
	exec, err := model.NewExec(on.Backend, net.store, net.graph)
	if err != nil {
		return nil, nil, nil, err
	}
	defer exec.Finalize()
	defer a.Line.End()
	devices.Shard(exec, []mesh.Layout{mesh.Rows}, []mesh.Layout{mesh.Rows})
	crop := net.prepare.Crop
	one, rows := crop*crop*3, batchSize*devices.Size()
	values, damaged, warnings = make([]float32, 0, min(len(paths), 1<<16)*net.width), make([]error, len(paths)),
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
				square, err := img.Square(net.prepare.Resize, crop, datasets.Filter(net.prepare.Interpolation))
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
			row := embedded[i*net.width : (i+1)*net.width]
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

// embedder is a network as embed computes it, from pixels, uint8 [N, crop, crop, 3], to [N, width].
type embedder struct {
	prepare backbone.Preprocessing
	width   int
	store   *model.Store
	graph   func(scope *model.Scope, pixels *graph.Node) *graph.Node
}

// loadEmbedder reads weights of a file or a run, or the network of an ONNX file. Finalize its store after use.
func loadEmbedder(a *cli.App, arch, path, features string) (*embedder, error) {
	if err := checkFeatures(features); err != nil {
		return nil, err
	}
	var raw []byte
	var err error
	if weights.IsNetwork(path) {
		n, err := weights.OpenNetwork(path)
		if err != nil {
			return nil, err
		}
		return networkEmbedder(a, path, n)
	} else if path == train.Pretrained {
		raw, err = pretrained(arch)
	} else {
		raw, path, err = weightsOf(a, path)
	}
	if err != nil {
		return nil, err
	}
	if file, network, _, _, err := trainedNetwork(a, arch, path, raw, features); err != nil {
		return nil, err
	} else if file != nil {
		n, err := onnx.Read(file)
		if err != nil {
			return nil, err
		}
		return networkEmbedder(a, network, n)
	}
	store := model.NewStore()
	o, prepare, width, err := loadNetwork(store, arch, path, raw, features)
	if err != nil {
		return nil, err
	}
	return &embedder{prepare, width, store, func(scope *model.Scope, pixels *graph.Node) *graph.Node {
		x := backbone.Normalized(pixels, prepare.Mean, prepare.Std)
		if o.WithoutHead {
			return o.Arch.Features(scope, x, backbone.Pass{})
		}
		return dmlx.Normalize(o.Arch.Embed(scope, x, o.Dim, backbone.Pass{}))
	}}, nil
}

// listImages lists the images of a folder, and says which are left out.
func listImages(a *cli.App, dir string) (*datasets.ImageList, error) {
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

// folder embeds the images of a list, and takes damaged ones off it; skipped is how many these are.
func (net *embedder) folder(ctx context.Context, a *cli.App, list *datasets.ImageList, devices int, skip bool) (
	values []float32, skipped int, err error) {
	on, err := a.BackendOn(devices, false)
	if err != nil {
		return nil, 0, err
	}
	paths := slice.Map(list.Paths, func(name string) string { return filepath.Join(list.Dir, filepath.FromSlash(name)) })
	values, damaged, warnings, err := net.files(ctx, a, on, paths, skip)
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
func leaveOut(a *cli.App, l *datasets.ImageList, damaged []error, skip bool) (n int, err error) {
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

// checkFeatures checks --features of images.
func checkFeatures(features string) error {
	if features != "gap" && features != "embedding" {
		return cli.Usagef("--features %q: want gap or embedding", features)
	}
	return nil
}

// networkEmbedder returns the network of an ONNX file, of which embed writes the output.
func networkEmbedder(a *cli.App, path string, n *onnx.Network) (*embedder, error) {
	p, err := n.Preprocessing()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	on, err := a.Backend()
	if err != nil {
		return nil, err
	}
	if err := a.SayNetwork(path, n, on); err != nil {
		return nil, err
	}
	store := model.NewStore()
	return &embedder{p, n.Width, store, func(scope *model.Scope, pixels *graph.Node) *graph.Node {
		return n.Features(scope, backbone.Normalized(pixels, p.Mean, p.Std), backbone.Pass{})
	}}, n.Init(store, nil)
}

// trainedNetwork returns the ONNX file of weights that were trained from one: from arch, or from the file that their
// run names. network is its path, and "" for other weights. name is what errors call the weights.
func trainedNetwork(a *cli.App, arch, name string, raw []byte, features string) (encoded []byte, network string, dim,
	crop int, err error) {
	meta, _ := backbone.Metadata(raw) // Who reads other weights reports the error.
	file, digest, _ := strings.Cut(meta["model"], "#")
	if network = arch; !weights.IsNetwork(arch) {
		if !weights.IsNetwork(file) {
			return nil, "", 0, 0, nil
		}
		network = file
		if store, err := a.ReadStore(); err == nil {
			if r, err := store.Get(meta["run"]); err == nil {
				network = r.Spec.NetworkFile
			}
		}
		if n, err := weights.OpenNetwork(network); err != nil || !strings.HasPrefix(digest, n.Digest()) {
			return nil, "", 0, 0, fmt.Errorf("%s: trained from the network %s with the SHA-256 %.64s, which %s is not: name "+
				"the file by --arch", name, file, digest, network)
		}
	}
	if encoded, dim, crop, err = weights.ExportNetwork(network, raw, features == "embedding"); err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return encoded, network, dim, crop, err
}
