// Package version tells from what this program was built.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

// Version is what "dmlx version" prints; its JSON is the command's.
type Version struct {
	Module  string `json:"module"`
	Version string `json:"version"`          // Of the module, "(devel)" if built from sources in a folder.
	Commit  string `json:"commit,omitempty"` // Of git; left out if it is not known.
	Dirty   bool   `json:"dirty"`            // Files differed from the commit.
	// CommitFrom is "build" for a commit that the Go toolchain has stamped on the program, and "checkout" for one that git
	// told now, of the sources' folder.
	CommitFrom string `json:"commit_from,omitempty"`
	// Newer is set if sources were changed after the build, so that Commit may not be what the program was built from.
	Newer        bool              `json:"sources_newer,omitempty"`
	Source       string            `json:"source,omitempty"` // The folder of the sources, if it is still there.
	Recorded     string            `json:"recorded"`         // As new runs record the version.
	Go           string            `json:"go"`
	Platform     string            `json:"platform"`
	Modules      map[string]string `json:"modules"` // The versions of GoMLX and its backends.
	Backends     []string          `json:"backends"`
	SIMD         bool              `json:"simd"` // The Go backend has SIMD kernels.
	GOEXPERIMENT string            `json:"goexperiment,omitempty"`
}

// modules are the modules whose versions are told, in the order of printing.
var modules = []struct{ path, name string }{
	{"github.com/gomlx/gomlx", "gomlx"}, {"github.com/gomlx/compute", "compute"}, {"github.com/gomlx/go-xla", "go-xla"},
}

// Get returns the version of this program.
func Get() Version {
	info := buildinfo.Get()
	v := Version{Module: buildinfo.Module, Version: info.Version, Commit: info.Commit, Dirty: info.Dirty,
		Newer: info.Newer, Source: info.Source, Recorded: info.String(), Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Modules: map[string]string{}, SIMD: backend.SIMD}
	if info.Commit != "" {
		v.CommitFrom = "build"
	}
	if info.Asked {
		v.CommitFrom = "checkout"
	}
	for _, name := range []string{"go", "xla"} {
		if backend.Linked(name) {
			v.Backends = append(v.Backends, name)
		}
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "GOEXPERIMENT" {
				v.GOEXPERIMENT = s.Value
			}
		}
		for _, dep := range build.Deps {
			for _, m := range modules {
				if dep.Path == m.path {
					v.Modules[m.name] = dep.Version
				}
			}
		}
	}
	return v
}

// String returns the version on a few lines.
func (v Version) String() string {
	commit := cmp.Or(v.Commit, "not known: the build has no stamp, and git tells none")
	if v.Dirty {
		commit += ", with changes"
	}
	switch {
	case v.Newer:
		commit += fmt.Sprintf(" (of %s now; sources were changed after the build)", v.Source)
	case v.CommitFrom == "checkout":
		commit += fmt.Sprintf(" (of %s now; the build has no stamp)", v.Source)
	}
	commit = "\ncommit    " + commit
	if v.Commit == "" && strings.HasPrefix(v.Version, "v") {
		commit = "" // The version names it.
	}
	var list []string
	for _, m := range modules {
		if version := v.Modules[m.name]; version != "" {
			list = append(list, m.name+" "+version)
		}
	}
	golang := v.Go + ", " + v.Platform
	if v.GOEXPERIMENT != "" {
		golang += ", GOEXPERIMENT=" + v.GOEXPERIMENT
	}
	simd := "without SIMD"
	if v.SIMD {
		simd = "with SIMD"
	}
	backends := strings.Replace(strings.Join(v.Backends, ", "), "go", "go "+simd, 1)
	return fmt.Sprintf("dmlx %s%s\nbuilt by  %s\nmodules   %s\nbackends  %s", v.Version, commit, golang,
		strings.Join(list, ", "), backends)
}
