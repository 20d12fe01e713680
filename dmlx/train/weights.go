package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gomlx/go-huggingface/hub"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// The values of [Config].Weights.
const (
	Pretrained = "pretrained" // ImageNet or bundled weights, or those of a file; the last layer is random.
	Random     = "random"     // All layers are random.
)

// WithStart returns the config with another backbone and other initial weights; "" leaves either as it is. weights is
// [Pretrained], [Random], or the path of a file with PyTorch's names, safetensors or a state dict (.pth), whose last
// layer is ignored. It reads the weights to set WeightsDigest.
//
// An arch that ends in .onnx is the path of a network; see [Config.WithNetwork].
func (c Config) WithStart(arch, weights string) (Config, error) {
	switch {
	case IsNetworkFile(arch):
		var err error
		if c, err = c.WithNetwork(arch); err != nil {
			return c, err
		}
		arch = ""
	case arch != "":
		c = c.withoutNetwork()
		c.Arch = arch
	}
	switch weights {
	case "":
	case Pretrained, Random:
		c.Weights, c.weightsFile = weights, ""
	default:
		c.Weights, c.weightsFile = Pretrained, weights
	}
	if c.NetworkFile != "" {
		return c.withNetworkWeights()
	}
	if c.Model != "" {
		return c.withModelWeights()
	}
	if c.Head != "" {
		return c, c.validateModel()
	}
	a, err := backbone.ParseArch(c.Arch)
	if err != nil {
		return c, err
	}
	c.Arch, c.WeightsDigest = string(a), ""
	if c.weightsFile != "" {
		if _, err := readWeights(c.weightsFile, a); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = missingFile(fmt.Sprintf("weights %q: no such file; use %s, %s, or the path of a .safetensors or .pth file",
					weights, Pretrained, Random))
			}
			return c, err
		}
	}
	if c.Weights == Pretrained {
		if c.WeightsDigest, err = c.StartDigest(); err != nil {
			return c, err
		}
	}
	return c, nil
}

// withModelWeights checks the initial weights of a model of the user's own and sets WeightsDigest.
func (c Config) withModelWeights() (Config, error) {
	c.WeightsDigest = ""
	if err := c.validateModel(); err != nil || c.Weights == Random {
		return c, err
	}
	if c.weightsFile == "" {
		return c, fmt.Errorf("there are no pretrained weights of the model %s: use %s, or the path of a safetensors file",
			c.Model, Random)
	}
	return c.withWeightsFile(func(raw []byte, store *model.Store) error { return c.model.decode(raw, store, 0) })
}

// withWeightsFile checks a file of initial weights and sets WeightsDigest.
func (c Config) withWeightsFile(decode func(raw []byte, store *model.Store) error) (Config, error) {
	raw, err := backbone.ReadFile(c.weightsFile)
	if err != nil {
		return c, err
	}
	store := model.NewStore()
	defer store.Finalize()
	if err := decode(raw, store); err != nil {
		return c, fmt.Errorf("%s: %w", c.weightsFile, err)
	}
	c.WeightsDigest = DigestOf(raw)
	return c, nil
}

// withNetworkWeights checks the initial weights of the network of a file and sets WeightsDigest.
func (c Config) withNetworkWeights() (Config, error) {
	n, err := c.opened()
	if err != nil {
		return c, err
	}
	if c.WeightsDigest = n.Digest()[:12]; c.weightsFile == "" {
		return c, c.validateNetwork()
	}
	return c.withWeightsFile(func(raw []byte, store *model.Store) error {
		if err := n.Init(store, nil); err != nil {
			return err
		}
		return backbone.DecodeVariables(raw, store, n.Variables(), 0, 0)
	})
}

// WeightsPath returns the path of the file given to [Config.WithStart], or "" without one.
func (c Config) WeightsPath() string { return c.weightsFile }

// StartDigest returns the digest of the pretrained weights that the config starts from, as they are on this machine
// now.
func (c Config) StartDigest() (string, error) {
	key := digestKey{arch: c.Arch, path: cmp.Or(c.weightsFile, c.NetworkFile)}
	if key.path == "" && c.Arch != string(backbone.Small) {
		key.path, _ = WeightsFile(backbone.Arch(c.Arch))
	}
	if info, err := os.Stat(key.path); err == nil {
		key.size, key.changed = info.Size(), info.ModTime()
	}
	if digest, known := digestCache.Load(key); known {
		return digest.(string), nil
	}
	raw, err := c.pretrained()
	if err != nil {
		return "", err
	}
	digest := DigestOf(raw)
	digestCache.Store(key, digest)
	return digest, nil
}

// digestCache remembers the digests of files, since each of the hundreds of specs of a table asks for one. A file
// that has changed has another key.
var digestCache sync.Map // digestKey → string

type digestKey struct {
	arch, path string
	size       int64
	changed    time.Time
}

// pretrained returns the weights that a config with [Pretrained] starts from, as a safetensors file.
func (c Config) pretrained() (raw []byte, err error) {
	a := backbone.Arch(c.Arch)
	path := cmp.Or(c.weightsFile, c.NetworkFile)
	if path == "" {
		if a == backbone.Small {
			return backbone.Pretrained(), nil
		}
		if path, err = WeightsFile(a); err != nil {
			return nil, err
		}
	}
	raw, err = backbone.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && c.weightsFile == "" {
		return nil, fmt.Errorf("no pretrained weights of %s: `dmlx weights get %s` downloads ImageNet weights to %s; "+
			"or give --weights a .safetensors or .pth file of your own or %q", a, a, path, Random)
	}
	return raw, err
}

// PretrainedWeights returns the pretrained weights of a network as a safetensors file. Those of the small network are
// part of the program; others are read from [WeightsFile].
func PretrainedWeights(a backbone.Arch) ([]byte, error) { return Config{Arch: string(a)}.pretrained() }

// WeightsFile returns the path where the pretrained weights of a network belong, whether or not the file exists:
// weights/resnet18.safetensors in [datasets.CacheDir], for example.
func WeightsFile(a backbone.Arch) (string, error) {
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

// FetchWeights downloads the published weights of a network to [WeightsFile] and returns the path. It only checks a
// file that exists. The download goes through the Hugging Face cache and resumes after an interruption.
func FetchWeights(ctx context.Context, a backbone.Arch) (path string, err error) {
	source, ok := publishedWeights[a]
	if !ok {
		return "", fmt.Errorf("no published weights of %s: only %s and %s have some", a, backbone.ResNet18, backbone.ResNet50)
	}
	path, err = WeightsFile(a)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		_, err := readWeights(path, a)
		return path, err
	}
	repo := hub.New(source).WithProgressBar(false)
	repo.Verbosity = 0
	file, err := repo.DownloadFileCtx(ctx, "model.safetensors")
	if err != nil {
		return "", fmt.Errorf("%s cannot be downloaded (%w): put its model.safetensors at %s by other means",
			source, errs.Error(err), path)
	}
	raw, err := readWeights(file, a)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, raw, 0o644)
}

// readWeights reads a weight file and checks that it has all tensors of the network but those of the last layer.
func readWeights(path string, a backbone.Arch) (raw []byte, err error) {
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
