//go:build cgo && !noxla && ((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64))

// Package xla links GoMLX's XLA backend (go-xla, PJRT) into a program that imports it for its side effect.
//
// Linking it takes about half a second of build time, so only programs that train import it; a notebook cell that draws
// a rule runs on the Go backend. The package is empty without cgo or with the build tag noxla, so that a machine
// without a C compiler builds everything else.
package xla

import (
	"os"

	"github.com/gomlx/go-xla/compute/xla"
	_ "github.com/gomlx/go-xla/compute/xla/autoinstall" // What backend.AutoInstall fetches the plugin by.

	"github.com/gradient-surgery/dml/dmlx/backend"
)

func init() {
	backend.AutoInstall = xla.EnableAutoInstall
	// The CPU plugin writes notes about these options to standard error if they are on. It computes the same, bit for
	// bit, without.
	if _, there := os.LookupEnv("TF_ENABLE_ONEDNN_OPTS"); !there {
		_ = os.Setenv("TF_ENABLE_ONEDNN_OPTS", "0")
	}
}
