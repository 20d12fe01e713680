//go:build !unix

package durable

import "io/fs"

const nonBlocking = 0

// Owner returns -1, as [os.Getuid] does where users have no numbers.
func Owner(fs.FileInfo) int { return -1 }
