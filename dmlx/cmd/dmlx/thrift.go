package main

import (
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/experiment"
)

// thriftFlags add how runs save memory and time.
func thriftFlags(f *pflag.FlagSet, t *experiment.Thrift) {
	f.StringVar(&t.Precision, "precision", "", "of the network while it is trained: bf16, in half the memory (default float32)")
	f.IntVar(&t.Piece, "piece", 0, "images of a batch on the device at a time; triplets are of the whole batch, batch normalisation of a piece")
	f.BoolVar(&t.Recompute, "recompute", false, "keep the inputs of residual blocks alone, and compute the rest again")
}
