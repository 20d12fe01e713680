// Package version tells from what this program was built.
package version

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

// Version is what "dmlx version" prints; its JSON is the command's. "dmlx doctor" tells the versions of its modules.
type Version struct {
	Module   string   `json:"module"`
	Version  string   `json:"version"`          // Of the module, "(devel)" if built from sources in a folder.
	Commit   string   `json:"commit,omitempty"` // Of git; left out if it is not known.
	Dirty    bool     `json:"dirty"`            // Files differed from the commit.
	Recorded string   `json:"recorded"`         // As new runs record the version.
	Go       string   `json:"go"`
	Platform string   `json:"platform"`
	Backends []string `json:"backends"`
	SIMD     bool     `json:"simd"` // The Go backend has SIMD kernels.
}

// Get returns the version of this program.
func Get() Version {
	info := buildinfo.Get()
	v := Version{Module: buildinfo.Module, Version: info.Version, Commit: info.Commit, Dirty: info.Dirty,
		Recorded: info.String(), Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, SIMD: backend.SIMD}
	for _, name := range []string{"go", "xla"} {
		if backend.Linked(name) {
			v.Backends = append(v.Backends, name)
		}
	}
	return v
}

// String returns the version on a few lines.
func (v Version) String() string {
	simd := "without SIMD"
	if v.SIMD {
		simd = "with SIMD"
	}
	backends := strings.Replace(strings.Join(v.Backends, ", "), "go", "go "+simd, 1)
	return fmt.Sprintf("dmlx %s\nrecorded  %s\nbuilt by  %s, %s\nbackends  %s", v.Version, v.Recorded,
		v.Go, v.Platform, backends)
}
