// Package notebooks is the folder of the notebooks. Its tests check the notebooks' files; .ci/run executes them.
package notebooks
