package xla

import "github.com/gradient-surgery/dml/dmlx/backend"

// Open is [backend.Open] in a program with XLA, if the platform has it. A notebook cell that calls it links XLA; other
// cells do not, and are built in half the time.
func Open() (*backend.Choice, error) { return backend.Open() }
