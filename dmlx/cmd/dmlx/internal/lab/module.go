package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

// cellModule is the name of the module that an installed program's cells are compiled in.
const cellModule = "dmlx.local/cells"

// ModuleRoot returns the folder in the cache for the module in which cells are compiled that use a version of this
// module, as Go's module cache has it. [Lab.Setup] writes the module if [Lab].Version is set.
func ModuleRoot(cache, version string) string {
	return filepath.Join(cache, "lab", "module-"+hash([]byte(version)))
}

// setupModule writes a go.mod that requires Version of this module, with the requirements and tools of its own go.mod.
// The module comes from Go's module cache, in which "go install" has put it, or is downloaded.
func (l *Lab) setupModule(ctx context.Context, goTool string) error {
	if l.Version == "" || stamped(l.Root, l.Version) {
		return nil
	}
	end := l.begin(fmt.Sprintf("%s %s for the cells", buildinfo.Module, l.Version))
	env := append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off") // In tmp there is no module.
	if l.Sum != "" {                                              // It is checked below, which needs no network.
		env = append(env, "GONOSUMDB="+buildinfo.Module)
	}
	of := buildinfo.Module + "@" + l.Version
	if _, err := l.command(ctx, l.dir("tmp"), env, goTool, "mod", "download", of); err != nil {
		return fmt.Errorf("cells compile %s, which is not in Go's module cache and could not be downloaded "+
			"(%w): run lab in a checkout, or with a network, or install the program by go install %s/dmlx/cmd/dmlx@%s", of, err,
			buildinfo.Module, l.Version)
	}
	out, err := l.command(ctx, l.dir("tmp"), env, goTool, "mod", "download", "-json", of) // The first tells errors better.
	if err != nil {
		return err
	}
	var got struct{ Dir, Sum, GoModSum string }
	if err := json.Unmarshal(out, &got); err != nil {
		return fmt.Errorf("go mod download: %w", err)
	}
	if l.Sum != "" && got.Sum != l.Sum {
		return fmt.Errorf("%s %s in Go's module cache is not what this program was built from: its sum is %s, not %s",
			buildinfo.Module, l.Version, got.Sum, l.Sum)
	}
	mod, err := os.ReadFile(filepath.Join(got.Dir, "go.mod"))
	if err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(got.Dir, "go.sum"))
	if err != nil {
		return err
	}
	text, found := strings.CutPrefix(string(mod), "module "+buildinfo.Module+"\n")
	if !found {
		return errors.New("the go.mod in Go's module cache is not that of " + buildinfo.Module)
	}
	text = fmt.Sprintf("module %s\n\nrequire %s %s\n%s", cellModule, buildinfo.Module, l.Version, text)
	sums = fmt.Appendf(sums, "%[1]s %[2]s %[3]s\n%[1]s %[2]s/go.mod %[4]s\n", buildinfo.Module, l.Version, got.Sum,
		got.GoModSum)
	err = writeFiles(map[string][]byte{filepath.Join(l.Root, "go.mod"): []byte(text),
		filepath.Join(l.Root, "go.sum"): sums})
	if err != nil {
		return err
	}
	end(nil)
	return stamp(l.Root, l.Version)
}
