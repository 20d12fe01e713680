package train

import (
	"fmt"
)

// Thrift is how a run saves memory and time on its device. Each of it changes a run's numbers, if only by rounding, so it is
// part of the spec; the zero value saves nothing.
type Memory struct {
	// Precision is what the network computes in while it is trained: "" is float32, [BFloat16] keeps weights, batch
	// normalisation, triplets and gradients at the embeddings in float32 and does the rest in half the memory.
	Precision string `json:"precision,omitempty"`
	// Piece, if not 0, is how many images of a batch are on the device at a time; see [pieces].
	MicroBatch int `json:"piece,omitempty"`
	// Recompute keeps between forward and backward pass the inputs of residual blocks alone; see [backbone.Pass].
	Recompute bool `json:"recompute,omitempty"`
}

// BFloat16 is the shorter precision.
const BFloat16 = "bf16"

func (t Memory) validate(batch int) error {
	if t.Precision != "" && t.Precision != BFloat16 {
		return fmt.Errorf("precision %q: want %s, or nothing for float32", t.Precision, BFloat16)
	}
	if t.MicroBatch != 0 && (t.MicroBatch < 2 || batch%t.MicroBatch != 0) {
		return fmt.Errorf("pieces of %d images: want at least 2, and a number that divides the batch of %d", t.MicroBatch, batch)
	}
	return nil
}
