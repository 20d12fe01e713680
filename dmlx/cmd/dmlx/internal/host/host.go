// Package host reads the memory of this machine and its settings from Linux.
package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Memory returns a line of a file below /proc in bytes, such as "MemAvailable" of meminfo (the machine) or "VmHWM" of
// self/status (this process). It returns 0 if there is no such line, as on any other system.
func Memory(file, line string) uint64 {
	raw, _ := os.ReadFile(filepath.Join("/proc", file))
	for text := range strings.Lines(string(raw)) {
		var kilobytes uint64
		if n, _ := fmt.Sscanf(text, line+": %d kB", &kilobytes); n == 1 {
			return kilobytes << 10
		}
	}
	return 0
}
