//go:build !(cgo && !noxla && linux)

package main

func hugePages() {}
