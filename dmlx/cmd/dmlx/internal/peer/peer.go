// Package peer holds the Python programs that compare this module with PyTorch and JAX. The first lines of each script
// say how to run it. The folder testdata has the outputs of ddp.py, exported.py, gpu.py, options.py,
// parity.py and photos.py.
package peer

import _ "embed" // The script.

// Bench is the source of bench.py, which "dmlx bench --peer PYTHON" runs.
//
//go:embed bench.py
var Bench string
