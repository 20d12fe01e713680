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

// published is where the weights are that networks start from and this program does not bring: torchvision's
// IMAGENET1K_V1, as timm publishes them on the Hugging Face hub.
var published = map[backbone.Arch]string{
	backbone.ResNet18: "timm/resnet18.tv_in1k",
	backbone.ResNet50: "timm/resnet50.tv_in1k",
}

// WeightsFile is where a network's pretrained weights are looked for, whether or not they are there: resnet18.safetensors
// in the folder weights of [datasets.CacheDir]. The small network's are part of the program.
func WeightsFile(a backbone.Arch) (string, error) {
	dir, err := datasets.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "weights", string(a)+".safetensors"), nil
}

// FetchWeights downloads a network's published weights to [WeightsFile] and gives the path; if they are there it only
// looks at them. The download goes through the Hugging Face cache, and on where it was stopped.
func FetchWeights(ctx context.Context, a backbone.Arch) (path string, err error) {
	source, ok := published[a]
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

// PretrainedWeights are the published weights of a network, a safetensors file: the small network's are part of the program,
// others have to be at [WeightsFile].
func PretrainedWeights(a backbone.Arch) ([]byte, error) { return Config{Arch: string(a)}.pretrained() }

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

// digests remembers those of weight files: each spec of a table asks for one.
var digests sync.Map // digestKey → string

type digestKey struct {
	arch, path string
	size       int64
	changed    time.Time
}

// StartDigest returns the digest of the weights that the config starts from now; it tells them apart.
func (c Config) StartDigest() (string, error) {
	key := digestKey{arch: c.Arch, path: c.weightsFile}
	if _, embedded := backbone.Pretrained(); key.path == "" && !(c.Arch == string(backbone.Small) && embedded) {
		key.path, _ = WeightsFile(backbone.Arch(c.Arch))
	}
	if info, err := os.Stat(key.path); err == nil {
		key.size, key.changed = info.Size(), info.ModTime()
	}
	if digest, known := digests.Load(key); known {
		return digest.(string), nil
	}
	raw, err := c.pretrained()
	if err != nil {
		return "", err
	}
	digest := DigestOf(raw)
	digests.Store(key, digest)
	return digest, nil
}
