// Command lab opens the notebooks of this repository in JupyterLab:
//
//	go run ./dmlx/cmd/dmlx/lab
//
// It is the command "dmlx lab" without the rest of dmlx, which Go compiles in a quarter of the time: what whoever opens
// the notebooks for the first time waits for. Only dmlx knows the presets, and so has --preset.
package main

import (
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/notebook"
)

func main() { cli.Main(run) }

// run runs the command and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c := cli.NewConsole(stdout, stderr)
	cmd := notebook.NewLab(c, func() (string, error) { return "", nil })
	c.AddJSON(cmd.Flags())
	c.AddStore(cmd.Flags())
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if strings.HasPrefix(err.Error(), "unknown flag: --preset") {
			return cli.Usagef("%w of this command: want dmlx lab --preset, or go run ./dmlx/cmd/dmlx lab --preset", err)
		}
		return cli.FlagError(cmd, err)
	})
	return c.Run(ctx, cmd, args)
}
