package onnx

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backbone"
)

func TestInterpolation(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{`"bicubic"`: "bicubic", "bicubic": "bicubic", `"bilinear"`: "", "": ""} {
		n := &Network{Metadata: map[string]string{"interpolation": text}}
		if text == "" {
			n.Metadata = nil
		}
		if p, err := n.Preprocessing(); err != nil || p.Interpolation != want {
			t.Errorf("%s: %q, %v; want %q", text, p.Interpolation, err, want)
		}
	}
	for want, meta := range map[string][2]string{
		"want bilinear or bicubic": {"interpolation", `"nearest"`},
		"want three numbers":       {"mean", "[0.1, 0.2]"},
		"scale 0 to 1":             {"mean", "[123.675, 116.28, 103.53]"},
		"and at most 1":            {"std", "[58.395, 57.12, 57.375]"},
		"want three deviations":    {"std", "[1, 0, 1]"},
		"want a number of pixels":  {"size", "-1"},
	} {
		n := &Network{Metadata: map[string]string{meta[0]: meta[1]}}
		if _, err := n.Preprocessing(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", meta, err)
		}
	}
	n := &Network{Metadata: map[string]string{"mean": "[0.1, 0.2, 0.3]"}}
	if p, err := n.Preprocessing(); err != nil || p.Mean != [3]float32{0.1, 0.2, 0.3} || p.Std != backbone.ImageNetStd ||
		backbone.ImageNetMean[0] == 0.1 {
		t.Errorf("%+v, %v", p, err)
	}
}
