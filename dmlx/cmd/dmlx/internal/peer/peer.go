// Package peer holds the Python programs that compare this module with PyTorch and JAX. Each script's first lines say
// what it needs and how to run it. What gpu.py, parity.py and photos.py printed is kept in testdata.
package peer

import _ "embed" // The script.

// Bench is the source of bench.py, which "dmlx bench --peer PYTHON" runs.
//
//go:embed bench.py
var Bench string
