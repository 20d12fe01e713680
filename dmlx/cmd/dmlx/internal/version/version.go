// Package version tells from what this program was built.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
)

// Version is what "dmlx version" prints; its JSON is the command's.
type Version struct {
	Module       string   `json:"module"`
	Version      string   `json:"version"`            // Of the module, "(devel)" if built in a checkout.
	Revision     string   `json:"revision,omitempty"` // Of git, with "+changes" if files were changed.
	Go           string   `json:"go"`
	Platform     string   `json:"platform"`
	Backends     []string `json:"backends"`
	GOEXPERIMENT string   `json:"goexperiment,omitempty"`
}

// Get returns the version of this program, from the build information that the Go toolchain has put into it.
func Get() Version {
	v := Version{Module: checkout.Module, Version: "unknown", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	for _, name := range []string{"go", "xla"} {
		if backend.Linked(name) {
			v.Backends = append(v.Backends, name)
		}
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Version = info.Main.Version
	setting := func(key string) string {
		for _, s := range info.Settings {
			if s.Key == key {
				return s.Value
			}
		}
		return ""
	}
	v.Revision, v.GOEXPERIMENT = setting("vcs.revision"), setting("GOEXPERIMENT")
	if setting("vcs.modified") == "true" {
		v.Revision += "+changes"
	}
	return v
}

// String returns the version on a few lines.
func (v Version) String() string {
	text := fmt.Sprintf("dmlx %s", v.Version)
	if v.Revision != "" {
		text += ", revision " + v.Revision
	}
	text += fmt.Sprintf("\n%s, %s", v.Go, v.Platform)
	if v.GOEXPERIMENT != "" {
		text += ", GOEXPERIMENT=" + v.GOEXPERIMENT
	}
	return text + "\nbackends: " + strings.Join(v.Backends, ", ")
}
