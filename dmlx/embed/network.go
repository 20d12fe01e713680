package embed

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/onnx"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// Source says which network embeds.
type Source struct {
	// Weights is a file of weights, safetensors or a checkpoint of torch.save; the ONNX file of a network, of which the
	// output is taken as it is; [train.Pretrained]; or the name of a run of Store, or its first digits.
	Weights string
	// Arch is the network of the weights, by default the one that they say, or resnet18. Of weights that were trained from
	// an ONNX file it is that file, if it has moved.
	Arch string
	// Features takes what a network gives before its last layer, in place of its embeddings.
	Features bool
	// Store has the runs. Without it Weights is a file.
	Store *runs.Store
}

// Network is a network on images as it embeds.
type Network struct {
	// Prepare is how an image becomes its input: as when it was trained. Set its Crop and Resize where a file of any size
	// of images does not say them, and they are 0.
	Prepare backbone.Preprocessing
	Width   int // Of a row.
	// ONNX is the network of the file ONNXFile; nil for a backbone.
	ONNX     *onnx.Network
	ONNXFile string

	// Graph embeds pixels, uint8 [N, Crop, Crop, 3], as float32 [N, Width], by the weights in Store.
	Graph func(scope *model.Scope, pixels *graph.Node) *graph.Node
	Store *model.Store
}

// Close frees the weights.
func (n *Network) Close() { n.Store.Finalize() }

// Open reads a network. Close it after use.
func (s Source) Open() (*Network, error) {
	if weights.IsNetwork(s.Weights) {
		n, err := weights.OpenNetwork(s.Weights)
		if err != nil {
			return nil, err
		}
		return ofONNX(s.Weights, n)
	}
	raw, name, err := s.Read()
	if err != nil {
		return nil, err
	}
	t, err := s.Trained(raw, name)
	if err != nil {
		return nil, err
	}
	if t != nil {
		n, err := onnx.Read(t.Encoded)
		if err != nil {
			return nil, err
		}
		return ofONNX(t.File, n)
	}
	b, err := s.Backbone(raw, name)
	if err != nil {
		return nil, err
	}
	return &Network{Prepare: b.Prepare, Width: b.Width, Store: b.Store, Graph: b.embed}, nil
}

// ofONNX returns the network of an ONNX file.
func ofONNX(path string, n *onnx.Network) (*Network, error) {
	p, err := n.Preprocessing()
	if err == nil && n.Metadata["resize"] != "" && n.Metadata["crop"] != "" { // Written by dmlx weights onnx.
		p, _, err = backbone.PreprocessingOf(n.Metadata)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	store := model.NewStore()
	return &Network{Prepare: p, Width: n.Width, ONNX: n, ONNXFile: path, Store: store,
		Graph: func(scope *model.Scope, pixels *graph.Node) *graph.Node {
			return n.Features(scope, backbone.Normalized(pixels, p.Mean, p.Std), backbone.Pass{})
		}}, n.Init(store, nil)
}

// Read returns the weights as the bytes of their file, and what errors call them.
func (s Source) Read() (raw []byte, name string, err error) {
	if s.Weights == train.Pretrained {
		net, err := backbone.ParseArch(cmp.Or(s.Arch, string(backbone.ResNet18)))
		if err == nil {
			raw, err = weights.Read(net, "")
		}
		return raw, s.Weights, err
	}
	raw, err = durable.ReadFile(s.Weights)
	if !errors.Is(err, fs.ErrNotExist) || s.Store == nil {
		return raw, s.Weights, err
	}
	hash, err := s.Store.Find(s.Weights)
	if err != nil {
		return nil, "", fmt.Errorf("%s is no file, and %w", s.Weights, err)
	}
	raw, err = s.Store.Weights(hash)
	return raw, "run " + hash, err
}

// TrainedNetwork is a network of an ONNX file with weights that were trained from it.
type TrainedNetwork struct {
	Encoded   []byte // An ONNX file.
	File      string // The one that it came from.
	Dim, Crop int
}

// Trained returns the network of weights that were trained from an ONNX file: from Arch, or from the file that they or
// their run name. It returns nil for other weights.
func (s Source) Trained(raw []byte, name string) (*TrainedNetwork, error) {
	meta, _ := backbone.Metadata(raw) // Who reads other weights reports the error.
	file, digest, _ := strings.Cut(meta["model"], "#")
	t := &TrainedNetwork{File: s.Arch}
	if !weights.IsNetwork(s.Arch) {
		if !weights.IsNetwork(file) {
			return nil, nil
		}
		t.File = file
		if s.Store != nil {
			if r, err := s.Store.Get(meta["run"]); err == nil {
				t.File = r.Spec.NetworkFile
			}
		}
		if n, err := weights.OpenNetwork(t.File); err != nil || !strings.HasPrefix(digest, n.Digest()) {
			return nil, fmt.Errorf("%s: trained from the network %s with the SHA-256 %.64s, which %s is not: name that "+
				"file as Arch (--arch)", name, file, digest, t.File)
		}
	}
	var err error
	if t.Encoded, t.Dim, t.Crop, err = weights.ExportNetwork(t.File, raw, !s.Features); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// Backbone is a backbone with its weights.
type Backbone struct {
	backbone.LoadOptions
	Prepare backbone.Preprocessing
	Width   int
	Store   *model.Store // Finalize it after use.
}

func (b *Backbone) embed(scope *model.Scope, pixels *graph.Node) *graph.Node {
	x := backbone.Normalized(pixels, b.Prepare.Mean, b.Prepare.Std)
	if b.WithoutHead {
		return b.Arch.Features(scope, x, backbone.Pass{})
	}
	return dmlx.Normalize(b.Arch.Embed(scope, x, b.Dim, backbone.Pass{}))
}

// Backbone reads the weights of a backbone: Arch, else the one in the metadata of their file, else the one whose
// tensors the file has, else resnet18. How images are prepared is in the metadata, else it is the backbone's own.
func (s Source) Backbone(raw []byte, name string) (*Backbone, error) {
	fail := func(err error) (*Backbone, error) { return nil, fmt.Errorf("%s: %w", name, err) }
	meta, err := backbone.Metadata(raw)
	if err != nil {
		return fail(err)
	}
	b := &Backbone{LoadOptions: backbone.LoadOptions{Arch: backbone.ResNet18, WithoutHead: s.Features},
		Store: model.NewStore()}
	if saved, ok := meta["arch"]; ok && s.Arch == "" {
		if b.Arch, err = backbone.ParseArch(saved); err != nil {
			return fail(fmt.Errorf("metadata arch: %w", err))
		}
	} else if looks, ok := backbone.ArchOf(raw); ok && s.Arch == "" {
		b.Arch = looks
	} else if s.Arch != "" {
		if b.Arch, err = backbone.ParseArch(s.Arch); err != nil {
			return nil, err
		}
	}
	found := false
	if b.Prepare, found, err = backbone.PreprocessingOf(meta); err != nil {
		return fail(err)
	}
	if !found {
		b.Prepare = b.Arch.Preprocessing()
	}
	if b.Width = b.Arch.Width(); !s.Features {
		if b.Dim, err = backbone.HeadDim(raw); err != nil {
			return fail(err)
		}
		b.Width = b.Dim
	}
	if _, err = backbone.DecodeWeights(raw, b.Store, b.LoadOptions); err != nil {
		return fail(err)
	}
	return b, nil
}
