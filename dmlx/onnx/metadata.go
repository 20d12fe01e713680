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
	mean, std := slices.Clone(backbone.ImageNetMean[:]), slices.Clone(backbone.ImageNetStd[:])
	for _, f := range []struct {
		key, want string
		to        any
		fits      func() bool
	}{
		{"mean", "three numbers on the scale 0 to 1, as in [0.485, 0.456, 0.406]; divide those of 0 to 255 by 255", &mean,
			func() bool { return len(mean) == 3 && slices.Max(mean) <= 1 }},
		{"std", "three deviations above 0 and at most 1", &std,
			func() bool { return len(std) == 3 && slices.Min(std) > 0 && slices.Max(std) <= 1 }},
		{"size", "a number of pixels", &p.Crop, func() bool { return p.Crop > 0 && p.Crop <= 1<<12 }},
	} {
		text, there := n.Metadata[f.key]
		if there && (json.Unmarshal([]byte(text), f.to) != nil || !f.fits()) {
			return p, fmt.Errorf("the metadata %s is %.60q: want %s", f.key, text, f.want)
		}
	}
	p.Mean, p.Std = [3]float32(mean), [3]float32(std)
	if n.Size[0] > 0 {
		p.Crop = n.Size[0]
	}
	p.Resize = p.Crop
	if text, there := n.Metadata["interpolation"]; there {
		if json.Unmarshal([]byte(text), &p.Interpolation) != nil {
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
