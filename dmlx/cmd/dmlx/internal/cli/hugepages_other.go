//go:build !(cgo && !noxla && linux)

package cli

// HugePages does nothing: only glibc has the setting.
func HugePages() {}
