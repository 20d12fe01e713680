package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/bench"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func newBench(a *cli.App) *cobra.Command {
	var only []string
	var backendName string
	names := bench.Names()
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of this machine",
		Long: `Measure the speed of this machine. Each line has the median of several repetitions, the range between their
quartiles (spread) and the best of them.

  step    a training step of the quick preset
  resnet  training steps of ResNet-18 and ResNet-50: plain, in micro-batches, recomputed and in bfloat16
  input   photographs decoded into the cache, and batches cut from it
  recall  Recall@K, R-precision and MAP@R of random embeddings

The parts of a step, and other libraries beside all of these, are measured by Go benchmarks in a clone of the
repository: go test ./dmlx/cmd/dmlx -run '^$' -bench Losses -peer PYTHON`,
		Example: "  dmlx bench --only step,recall",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range only {
				if !slices.Contains(names, name) {
					return cli.Usagef("--only %s: want one of %s", name, strings.Join(names, ", "))
				}
			}
			if backendName != "" {
				if err := os.Setenv("GOMLX_BACKEND", backendName); err != nil {
					return err
				}
			}
			c, err := a.Backend()
			if err != nil {
				return err
			}
			var lines []bench.Measurement
			s := bench.Session{Choice: c.Choice, Report: func(m bench.Measurement) {
				lines = append(lines, m)
				if !a.JSON {
					fmt.Fprintln(a.Stdout, m)
				}
			}}
			if err := s.Run(cmd.Context(), only...); err != nil || !a.JSON {
				return err
			}
			return a.Print(benchOutput(c.Choice, lines), "")
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&only, "only", nil, "benchmarks to run: "+strings.Join(names, ", ")+" (default all)")
	f.StringVar(&backendName, "backend", "",
		"backend to measure, as in GOMLX_BACKEND: xla or go (default: the one that dmlx doctor shows)")
	return cmd
}

// benchOutput is the JSON of measurements: the lines and the machine that they are of.
func benchOutput(c *backend.Choice, lines []bench.Measurement) map[string]any {
	return map[string]any{
		"backend": c, "cores": runtime.NumCPU(), "go": runtime.Version(),
		"date": time.Now().UTC().Format(time.DateOnly), "machine": runs.Machine(), "version": runs.Version(),
		"lines": lines,
	}
}
