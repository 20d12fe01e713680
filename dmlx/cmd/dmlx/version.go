package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/backend"
)

// version is what "dmlx version" prints; its JSON is the command's.
type version struct {
	Module       string   `json:"module"`
	Version      string   `json:"version"`            // Of the module, "(devel)" if built in a checkout.
	Revision     string   `json:"revision,omitempty"` // Of git, "+changes" if there were some, if Go has stamped it.
	Go           string   `json:"go"`
	Platform     string   `json:"platform"`
	Backends     []string `json:"backends"`
	GOEXPERIMENT string   `json:"goexperiment,omitempty"`
}

// programVersion returns what the Go toolchain has stamped on this program.
func programVersion() version {
	v := version{Module: modulePath, Version: "unknown", Go: runtime.Version(),
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

func (v version) String() string {
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

func (a *app) printVersion() error {
	v := programVersion()
	return a.print(v, v.String())
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program, its Go, its backends and its GOEXPERIMENT",
		Example: "  dmlx version\n  dmlx version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.printVersion() },
	}
}
