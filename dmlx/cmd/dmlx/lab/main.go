// Command lab opens the notebooks of this repository in JupyterLab:
//
//	go run ./dmlx/cmd/dmlx/lab
//
// It is the command "dmlx lab" without the rest of dmlx. Whoever opens the notebooks for the first time waits until it
// is compiled, which takes a quarter of the time that dmlx takes. It does not know the presets, so it has no --preset.
package main

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
		if unknown, is := errors.AsType[*pflag.NotExistError](err); is && unknown.GetSpecifiedName() == "preset" {
			return cli.Usagef("%w; want dmlx lab --preset, as in go run ./dmlx/cmd/dmlx lab --preset smoke", err)
		}
		return cli.FlagError(cmd, err)
	})
	return c.Run(ctx, cmd, args)
}
