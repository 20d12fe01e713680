package backbone

import _ "embed" // For the weights.

//go:embed weights/small.safetensors
var pretrained []byte

// Pretrained gives the small network's pretrained weights as a safetensors file, for [DecodeWeights]. Do not change
// them: all calls return the same bytes.
func Pretrained() []byte { return pretrained }
