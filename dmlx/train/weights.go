package train

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	"github.com/gradient-surgery/dml/dmlx/internal/brief"
	"github.com/gradient-surgery/dml/dmlx/internal/durable"
)

// How a backbone starts.
const (
	Pretrained = "pretrained"
	Random     = "random"
)

// WithStart is the spec with another backbone or start of it, where they are not empty. The start is [Pretrained],
// [Random], or the path of a safetensors file with PyTorch's names, whose head is left out.
func (c Config) WithStart(arch, weights string) (Config, error) {
	if arch != "" {
		c.Arch = arch
	}
	switch weights {
	case "":
	case Pretrained, Random:
		c.Weights, c.weightsFile = weights, ""
	default:
		c.Weights, c.weightsFile = Pretrained, weights
	}
	a, err := backbone.ParseArch(c.Arch)
	if err != nil {
		return c, err
	}
	c.Arch, c.WeightsDigest = string(a), ""
	if c.weightsFile != "" {
		if _, _, err := readWeights(c.weightsFile, a); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				err = fmt.Errorf("weights %q: no such file; there are %s, %s, or the path of a safetensors file", weights, Pretrained, Random)
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

// WeightsPath returns the path of the weights given to [Config.WithStart], "" if they are not of a file.
func (c Config) WeightsPath() string { return c.weightsFile }

// StartDigest returns the digest of the weights that the config starts from now; it tells them apart.
func (c Config) StartDigest() (string, error) {
	key := digestKey{arch: c.Arch, path: c.weightsFile}
	if _, embedded := backbone.Pretrained(); key.path == "" && !(c.Arch == string(backbone.Small) && embedded) {
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

// digests remembers those of weight files: each spec of a table asks for one.
var digestCache sync.Map // digestKey → string

type digestKey struct {
	arch, path string
	size       int64
	changed    time.Time
}

// pretrained gives the weights that a spec with [Pretrained] starts from, as a safetensors file.
func (c Config) pretrained() (raw []byte, err error) {
	a := backbone.Arch(c.Arch)
	path := c.weightsFile
	if path == "" {
		if raw, ok := backbone.Pretrained(); a == backbone.Small && ok {
			return raw, nil
		}
		if path, err = WeightsFile(a); err != nil {
			return nil, err
		}
	}
	raw, err = os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && c.weightsFile == "" {
		return nil, fmt.Errorf("no pretrained weights of %s here: `dmlx weights get %s` downloads those of ImageNet to %s; "+
			"--weights takes a safetensors file of your own, or %q", a, a, path, Random)
	}
	return raw, err
}

// PretrainedWeights are the published weights of a network, a safetensors file: the small network's are part of the program,
// others have to be at [WeightsFile].
func PretrainedWeights(a backbone.Arch) ([]byte, error) { return Config{Arch: string(a)}.pretrained() }

// WeightsFile is where a network's pretrained weights are looked for, whether or not they are there: resnet18.safetensors
// in the folder weights of [datasets.CacheDir]. The small network's are part of the program.
func WeightsFile(a backbone.Arch) (string, error) {
	dir, err := datasets.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "weights", string(a)+".safetensors"), nil
}

// published is where the weights are that networks start from and this program does not bring: torchvision's
// IMAGENET1K_V1, as timm publishes them on the Hugging Face hub.
var publishedWeights = map[backbone.Arch]string{
	backbone.ResNet18: "timm/resnet18.tv_in1k",
	backbone.ResNet50: "timm/resnet50.tv_in1k",
}

// FetchWeights downloads a network's published weights to [WeightsFile] and gives the path; if they are there it only
// looks at them. The download goes through the Hugging Face cache, and on where it was stopped.
func FetchWeights(ctx context.Context, a backbone.Arch) (path string, err error) {
	source, ok := publishedWeights[a]
	if !ok {
		return "", fmt.Errorf("no published weights of %s: there are those of %s and %s", a, backbone.ResNet18, backbone.ResNet50)
	}
	path, err = WeightsFile(a)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		_, _, err := readWeights(path, a)
		return path, err
	}
	repo := hub.New(source).WithProgressBar(false)
	repo.Verbosity = 0
	file, err := repo.DownloadFileCtx(ctx, "model.safetensors")
	if err != nil {
		return "", fmt.Errorf("%s cannot be downloaded (%w): put its model.safetensors at %s by other means", source, brief.Error(err), path)
	}
	raw, _, err := readWeights(file, a)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return path, durable.WriteFile(path, raw, 0o644)
}

// readWeights reads a safetensors file with its digest, and checks that it has the network's tensors in front of the head.
func readWeights(path string, a backbone.Arch) (raw []byte, digest string, err error) {
	raw, err = os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	store := model.NewStore()
	defer store.Finalize()
	if _, err := backbone.DecodeWeights(raw, store, backbone.LoadOptions{Arch: a, WithoutHead: true}); err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return raw, DigestOf(raw), nil
}

// digestOf is the first digits of a file's SHA-256.
func DigestOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])[:12]
}
