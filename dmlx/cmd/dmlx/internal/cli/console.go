// Package cli is what all commands share: outputs, common flags, errors of the command line and exit codes. It links
// nothing that computes, so that the command lab alone is compiled in seconds.
package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/checkout"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/progress"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
)

// Console has the outputs of a command, and the flags about them and the store.
type Console struct {
	StoreDir string // "" if not given.
	JSON     bool

	Stdout, Stderr io.Writer
	Line           *progress.Line // On Stderr.

	out *checkedWriter // Stdout.
}

// NewConsole returns the console of a command that prints to these writers.
func NewConsole(stdout, stderr io.Writer) *Console {
	out := &checkedWriter{Writer: text.Cleaner{Writer: stdout}}
	return &Console{Stdout: out, Stderr: text.Cleaner{Writer: stderr}, Line: progress.New(stderr), out: out}
}

// AddJSON adds the flag of JSON.
func (c *Console) AddJSON(f *pflag.FlagSet) {
	f.BoolVar(&c.JSON, "json", false, "print the result as one JSON object")
}

// AddStore adds the flag of the store of runs.
func (c *Console) AddStore(f *pflag.FlagSet) {
	f.StringVar(&c.StoreDir, "store", "", "folder of the runs (default: DMLX_STORE, else runs/ in the repository)")
}

// Logf prints a line on standard error.
func (c *Console) Logf(format string, args ...any) {
	fmt.Fprintf(c.Stderr, format+"\n", args...)
}

// Note prints a line on standard error, and ends that of the progress.
func (c *Console) Note(text string) {
	c.Line.End()
	c.Logf("%s", text)
}

// Print prints a result: v as one JSON object with --json, else text.
func (c *Console) Print(v any, body string) error {
	if !c.JSON {
		_, err := fmt.Fprintln(c.Stdout, body)
		return err
	}
	enc := json.NewEncoder(c.Stdout)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// StorePath returns the folder of the run store: --store, else DMLX_STORE, else runs/ in this repository, else runs/ in
// the working directory.
func (c *Console) StorePath() string {
	if dir := cmp.Or(c.StoreDir, os.Getenv("DMLX_STORE")); dir != "" {
		return dir
	}
	if root, err := checkout.Root(); err == nil {
		return filepath.Join(root, "runs")
	}
	return "runs"
}
