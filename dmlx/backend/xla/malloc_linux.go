//go:build cgo && !noxla && linux && (amd64 || arm64)

package xla

/*
#include <malloc.h>

static void keepMemory(void) {
#ifdef __GLIBC__
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 2147483647);
	mallopt(M_TOP_PAD, 1 << 28);
#endif
}
*/
import "C"

// The memory that a step of XLA frees is kept for the next one. By default glibc gives blocks of that size back to the
// system, which has to fill them with zeros for the next step: a fifth of the time of a step on a CPU. Blocks of more
// than 64 MiB, as large networks take, are given back all the same, unless the first thread allocates them: for these
// the dmlx command asks for huge pages.
func init() { C.keepMemory() }
