package onnx

import (
	"strings"
	"testing"
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
	n := &Network{Metadata: map[string]string{"interpolation": `"nearest"`}}
	if _, err := n.Preprocessing(); err == nil || !strings.Contains(err.Error(), "want bilinear or bicubic") {
		t.Errorf("nearest: %v", err)
	}
}
