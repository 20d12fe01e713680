//go:build !(cgo && !noxla && ((linux && (amd64 || arm64)) || (darwin && arm64) || (windows && amd64)))

// Package xla is empty in this build: it has no cgo, or the tag noxla, or a platform without PJRT.
package xla
