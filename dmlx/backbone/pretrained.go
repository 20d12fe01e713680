package backbone

import "embed"

// The folder's own README.md lets it be embedded before there are weights in it.
//
//go:embed weights
var weights embed.FS

// Pretrained gives the small network's pretrained weights as a safetensors file, for [DecodeWeights], if this build has
// them.
func Pretrained() (data []byte, ok bool) {
	data, err := weights.ReadFile("weights/small.safetensors")
	return data, err == nil
}
