// Package notebooks holds the notebooks, so that an installed program can open them. Its tests check the notebooks'
// files; .ci/run executes them.
package notebooks

import "embed"

// Files are the notebooks with their outputs, *.ipynb.
//
//go:embed *.ipynb
var Files embed.FS
