//go:build cgo && linux

package host

// Go's runtime reserves address space before main and, if ulimit -v does not allow it, ends with a trace of hundreds of
// lines. No Go code runs before that, but C constructors do. With 1.5 GB the command trained on the Go backend, with 1.2
// GB it did not start.

/*
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static const rlim_t needed = 1500000000;

__attribute__((constructor)) static void checkAddressSpace(void) {
	struct rlimit limit;
	if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < needed) {
		fprintf(stderr, "dmlx: ulimit -v allows %.1f GB of address space, and this program needs %.1f GB: "
			"raise the limit, or remove it by ulimit -v unlimited\n", limit.rlim_cur / 1e9, needed / 1e9);
		_exit(1);
	}
}
*/
import "C"
