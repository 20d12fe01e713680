package xla

import "github.com/gradient-surgery/dml/dmlx/backend"

// Open is [backend.Open] in a program that has XLA linked, as far as the platform has it. A notebook cell that names it
// links XLA; the cells beside it, which do not, are built in half the time.
func Open() (*backend.Choice, error) { return backend.Open() }
