// Package weights has the files that trainings start from: the pretrained weights of backbones, and networks of ONNX
// files. Package train says which of them a config has.
package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
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
	raw, err = durable.ReadFile(path)
	switch {
	case !errors.Is(err, fs.ErrNotExist):
	case own:
		err = missingFile(fmt.Sprintf("weights %q: no such file; use pretrained, random, or the path of a .safetensors or "+
			".pth file", path))
	default:
		err = fmt.Errorf("no pretrained weights of %s: `curl -L --create-dirs -o '%s' %s` downloads ImageNet weights; "+
			"or give --weights a .safetensors or .pth file of your own or %q", a, path, address(a), "random")
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

// address returns where torchvision's IMAGENET1K_V1 of a network are, as timm publishes them.
func address(a backbone.Arch) string {
	return fmt.Sprintf("https://huggingface.co/timm/%s.tv_in1k/resolve/main/model.safetensors", a)
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
