// Package notebooks holds the notebooks. Its tests check the notebooks' files; .ci/run executes them.
package notebooks
