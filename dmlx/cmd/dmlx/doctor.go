package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/doctor"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/notebook"
)

func newDoctor(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Show the backend that computes here, versions and folders, and what is missing",
		Long: `Show what this machine offers: the backend that computes here and the reason for it, versions, compilers,
Python, JupyterLab, and the folders of the cache and the runs. The last lines name what is missing and how to get it.`,
		Example: "  dmlx doctor\n  dmlx doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, _ := notebook.Lab(a.Console) // Nil if cells could not be compiled here.
			r := doctor.Examine(cmd.Context(), a.StorePath(), l)
			if err := a.Print(r, strings.TrimRight(r.Text(), "\n")); err != nil {
				return err
			}
			if r.Backend == nil {
				return fmt.Errorf("no backend computes here: %s", r.Error)
			}
			return nil
		},
	}
}
