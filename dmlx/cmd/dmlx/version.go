package main

import (
	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/version"
)

func newVersion(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this program, of Go and of the backends",
		Example: "  dmlx version\n  dmlx version --json",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return printVersion(a) },
	}
}

func printVersion(a *cli.App) error {
	v := version.Get()
	return a.Print(v, v.String())
}
