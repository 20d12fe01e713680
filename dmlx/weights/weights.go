// Package weights has the files that trainings start from: the pretrained weights of backbones, and networks of ONNX
// files. Package train says which of them a config has.
package weights

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/go-huggingface/hub"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/onnx"
)

// Read returns the weights of a file, safetensors or a state dict (.pth), as a safetensors file. Without a path they
// are the pretrained ones of a backbone: those of the small one are part of the program, others are read from [Path].
func Read(a backbone.Arch, path string) (raw []byte, err error) {
	own := path != ""
	if !own {
		if a == backbone.Small {
			return backbone.Pretrained(), nil
		}
		if path, err = Path(a); err != nil {
			return nil, err
		}
	}
	raw, err = backbone.ReadFile(path)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case own:
		err = missingFile(fmt.Sprintf("weights %q: no such file; use pretrained, random, or the path of a .safetensors or "+
			".pth file", path))
	default:
		err = fmt.Errorf("no pretrained weights of %s: `dmlx weights get %s` downloads ImageNet weights to %s; "+
			"or give --weights a .safetensors or .pth file of your own or %q", a, a, path, "random")
	}
	return raw, err
}

// Digest returns the [DigestOf] of what [Read] returns now.
func Digest(a backbone.Arch, path string) (string, error) {
	key := fileKey{arch: a, path: path}
	if path == "" && a != backbone.Small {
		key.path, _ = Path(a)
	}
	if info, err := os.Stat(key.path); err == nil {
		key.size, key.changed = info.Size(), info.ModTime()
	}
	if digest, known := digests.Load(key); known {
		return digest.(string), nil
	}
	raw, err := Read(a, path)
	if err != nil {
		return "", err
	}
	digest := DigestOf(raw)
	digests.Store(key, digest)
	return digest, nil
}

// A table has hundreds of specs, each of which asks for a digest or a network. A file that has changed has another key.
var digests, networks sync.Map // fileKey → string, *onnx.Network

type fileKey struct {
	arch    backbone.Arch
	path    string
	size    int64
	changed time.Time
}

// Path returns the path where the pretrained weights of a network belong, whether or not the file exists:
// weights/resnet18.safetensors in [datasets.CacheDir], for example.
func Path(a backbone.Arch) (string, error) {
	dir, err := datasets.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "weights", string(a)+".safetensors"), nil
}

// publishedWeights are the repositories of weights that are not part of the program: torchvision's IMAGENET1K_V1, as
// timm publishes them on the Hugging Face hub.
var publishedWeights = map[backbone.Arch]string{
	backbone.ResNet18: "timm/resnet18.tv_in1k",
	backbone.ResNet50: "timm/resnet50.tv_in1k",
}

// Fetch downloads the published weights of a network to [Path] and returns the path. It only checks a
// file that exists. The download goes through the Hugging Face cache and resumes after an interruption.
func Fetch(ctx context.Context, a backbone.Arch) (path string, err error) {
	source, ok := publishedWeights[a]
	if !ok {
		return "", fmt.Errorf("no published weights of %s: only %s and %s have some", a, backbone.ResNet18, backbone.ResNet50)
	}
	path, err = Path(a)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		_, err := readFor(path, a)
		return path, err
	}
	repo := hub.New(source).WithProgressBar(false)
	repo.Verbosity = 0
	file, err := repo.DownloadFileCtx(ctx, "model.safetensors")
	if err != nil {
		return "", fmt.Errorf("%s cannot be downloaded (%w): put its model.safetensors at %s by other means",
			source, errs.Error(err), path)
	}
	raw, err := readFor(file, a)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, raw, 0o644)
}

// readFor reads a weight file and checks that it has all tensors of the network but those of the last layer.
func readFor(path string, a backbone.Arch) (raw []byte, err error) {
	raw, err = backbone.ReadFile(path)
	if err != nil {
		return nil, err
	}
	store := model.NewStore()
	defer store.Finalize()
	if _, err := backbone.DecodeWeights(raw, store, backbone.LoadOptions{Arch: a, WithoutHead: true}); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return raw, nil
}

// DigestOf returns the digest that identifies a weight file: the first 12 hexadecimal digits of its SHA-256.
func DigestOf(raw []byte) string {
	return durable.Sum(raw)[:12]
}

// missingFile is the text of an error about a file that is not there.
type missingFile string

func (e missingFile) Error() string { return string(e) }

func (e missingFile) Is(target error) bool { return target == fs.ErrNotExist }

// IsNetwork reports whether the name of a network is that of an ONNX file.
func IsNetwork(arch string) bool { return strings.EqualFold(filepath.Ext(arch), ".onnx") }

// OpenNetwork reads a network of an ONNX file. Networks stay in memory until their files change.
func OpenNetwork(path string) (*onnx.Network, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, missingFile(fmt.Sprintf("network %q: no such file", path))
	}
	key := fileKey{path: path, size: info.Size(), changed: info.ModTime()}
	if n, known := networks.Load(key); known {
		return n.(*onnx.Network), nil
	}
	raw, err := durable.ReadFile(path)
	if err != nil {
		return nil, err
	}
	n, err := onnx.Read(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	networks.Store(key, n)
	return n, nil
}

// ExportNetwork returns the ONNX file of a network with the weights of a training, in safetensors: the same graph with
// the same names, low-rank matrices merged, and with head the last layer behind it, whose output is scaled to length 1.
// dim is the number of values that it gives for an image, and crop the side of an image in pixels.
func ExportNetwork(path string, weights []byte, head bool) (file []byte, dim, crop int, err error) {
	n, err := OpenNetwork(path)
	if err != nil {
		return nil, 0, 0, err
	}
	if weights, err = backbone.MergeLowRank(weights); err != nil {
		return nil, 0, 0, err
	}
	meta, err := backbone.Metadata(weights)
	if err != nil {
		return nil, 0, 0, err
	}
	if of := meta["model"]; !strings.Contains(of, n.Digest()) {
		return nil, 0, 0, fmt.Errorf("the weights are of %q, not of %s with the SHA-256 %s", of, path, n.Digest())
	}
	prepare, found, err := backbone.PreprocessingOf(meta)
	if err != nil || !found {
		return nil, 0, 0, errors.Join(err, errors.New("the weights do not say how images are prepared"))
	}
	if dim, err = backbone.HeadDim(weights); err != nil {
		return nil, 0, 0, err
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := errors.Join(n.Init(store, nil), backbone.InitLinear(store, "fc", n.Width, dim, 0)); err != nil {
		return nil, 0, 0, err
	}
	const bias, weight = "/fc/bias", "/fc/weight"
	paths := append(n.Variables(), bias, weight)
	if err := backbone.DecodeVariables(weights, store, paths, 0, 0); err != nil {
		return nil, 0, 0, err
	}
	var layer *onnx.Linear
	if head {
		value := func(path string) []float32 {
			return tensors.MustCopyFlatData[float32](store.GetVariable(path).MustValue())
		}
		layer = &onnx.Linear{Name: "fc", Weight: value(weight), Bias: value(bias)}
	} else {
		dim = n.Width
	}
	file, err = n.Write(store, layer, map[string]string{"run": meta["run"], "data": meta["data"],
		"size": strconv.Itoa(prepare.Crop)})
	return file, dim, prepare.Crop, err
}
