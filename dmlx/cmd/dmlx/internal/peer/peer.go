// Package peer holds the Python programs that compare this module with PyTorch and JAX. The first lines of each script
// say how to run it. The folder testdata has the outputs of ddp.py, exported.py, gpu.py, options.py,
// parity.py and photos.py.
package peer

import "embed"

// Bench is bench.py, which "dmlx bench --peer PYTHON" runs, with what it imports.
//
//go:embed bench.py small.py
var Bench embed.FS
