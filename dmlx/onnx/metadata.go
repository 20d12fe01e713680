package onnx

import (
	_ "embed" // For the script.
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
)

// Export is a Python script that exports networks of PyTorch with all that [Read] wants to know.
//
//go:embed export.py
var Export string

// Counts returns the operators of the graph in alphabetical order, with the number of nodes of each: "Conv 20".
func (n *Network) Counts() []string {
	count := map[string]int{}
	for _, node := range n.nodes {
		count[node.op]++
	}
	var out []string
	for name, c := range count {
		out = append(out, fmt.Sprintf("%s %d", name, c))
	}
	slices.Sort(out)
	return out
}

// Preprocessing returns how images are prepared for the network, by the metadata "mean", "std", "size" and
// "interpolation" of the file, which are JSON. What it does not say is ImageNet's, or bilinear, and Crop is 0 without a
// size. It fails if the metadata make no sense.
func (n *Network) Preprocessing() (p backbone.Preprocessing, err error) {
	p = backbone.Preprocessing{Mean: backbone.ImageNetMean, Std: backbone.ImageNetStd}
	for _, f := range []struct {
		key string
		to  *[3]float32
	}{{"mean", &p.Mean}, {"std", &p.Std}} {
		text, there := n.Metadata[f.key]
		if !there {
			continue
		}
		var values []float32
		if err := json.Unmarshal([]byte(text), &values); err != nil || len(values) != 3 {
			return p, fmt.Errorf("the metadata %s is %.60q: want three numbers, as in [0.485, 0.456, 0.406]", f.key, text)
		}
		*f.to = [3]float32(values)
	}
	if !(min(p.Std[0], p.Std[1], p.Std[2]) > 0) {
		return p, fmt.Errorf("the metadata std is %.60q: want deviations above 0", n.Metadata["std"])
	}
	if text, there := n.Metadata["size"]; there {
		if err := json.Unmarshal([]byte(text), &p.Crop); err != nil || p.Crop < 1 || p.Crop > 1<<12 {
			return p, fmt.Errorf("the metadata size is %.60q: want a number of pixels", text)
		}
	}
	if n.Size[0] > 0 {
		p.Crop = n.Size[0]
	}
	p.Resize = p.Crop
	if text, there := n.Metadata["interpolation"]; there {
		if err := json.Unmarshal([]byte(text), &p.Interpolation); err != nil {
			p.Interpolation = text
		}
		if datasets.Filter(p.Interpolation).Check() != nil {
			return p, fmt.Errorf("the metadata interpolation is %.60q: want bilinear or bicubic", text)
		}
		if p.Interpolation == string(datasets.Bilinear) {
			p.Interpolation = ""
		}
	}
	return p, nil
}
