package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/bench"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func newBench(a *app) *cobra.Command {
	var only []string
	var backendName, peer string
	names := bench.Names()
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of this machine",
		Long: `Measure the speed of this machine. A line has the median of several repetitions, their spread (between the
quartiles) and the best.

  surgery      mining, composed gradient and its way back through the normalization, of one batch
  losses       each published loss and its gradient, of one batch
  step         a training step of the quick preset
  resnet       training steps of ResNet-18 and ResNet-50, whole, in micro-batches, recomputed and in bfloat16
  convolution  ResNet-18's convolutions and their gradients, layer by layer
  input        photographs decoded and kept, and batches cut from them
  recall       Recall@K, R-precision and MAP@R of one set
  run          whole runs of the smoke and the quick preset, from nothing
  jobs         several runs one after the other, and two at once in one process and in two
  store        lists and a table from a store of 100,000 runs
  cell         warm notebook cells (sets JupyterLab up if it is not)

--peer PYTHON names an interpreter that has torch, torchvision, pytorch-metric-learning and faiss-cpu. The same is then
measured with them in the same run, with as many threads or on the same GPU, and ratios are printed.`,
		Example: "  dmlx bench --only surgery,step\n" +
			"  dmlx bench --only resnet,input --peer ~/torch/bin/python",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range only {
				if !slices.Contains(names, name) {
					return usagef("--only %s: want one of %s", name, strings.Join(names, ", "))
				}
			}
			if backendName != "" {
				if err := os.Setenv("GOMLX_BACKEND", backendName); err != nil {
					return err
				}
			}
			c, err := a.backend()
			if err != nil {
				return err
			}
			var lines []bench.Measurement
			err = bench.Run(cmd.Context(), bench.Options{
				Choice: c.Choice, Only: only, Peer: peer, Logf: a.logf, Lab: a.lab,
				Report: func(m bench.Measurement) {
					lines = append(lines, m)
					if !a.json {
						fmt.Fprintln(a.stdout, m)
					}
				},
				Spawn: func(ctx context.Context, store *runs.Store, jobs []runs.Job, parallel int) error {
					return a.spawn(ctx, store, jobs, parallel, nil, nil)
				},
				List: func(store *runs.Store) error {
					quiet := *a
					quiet.storeDir, quiet.stdout, quiet.json = store.Dir, io.Discard, false
					return quiet.listRuns()
				},
			})
			if err != nil || !a.json {
				return err
			}
			return a.print(map[string]any{
				"backend": c, "cores": runtime.NumCPU(), "go": runtime.Version(),
				"date": time.Now().UTC().Format(time.DateOnly), "lines": lines,
			}, "")
		},
	}
	cmd.AddCommand(newBenchSlurm(a))
	f := cmd.Flags()
	f.StringSliceVar(&only, "only", nil, "what to measure: "+strings.Join(names, ", ")+" (default all)")
	f.StringVar(&backendName, "backend", "",
		"backend to measure, as in GOMLX_BACKEND: xla or go (default the one doctor names)")
	f.StringVar(&peer, "peer", "",
		"a Python with torch, torchvision, pytorch-metric-learning and faiss-cpu to measure beside")
	return cmd
}

// newBenchSlurm measures how many runs a cluster's queue takes. It is a command of its own because nobody wants a
// thousand jobs on a real cluster by surprise.
func newBenchSlurm(a *app) *cobra.Command {
	var results int
	var on cluster
	cmd := &cobra.Command{
		Use: "slurm", Short: "Send many runs of the smoke preset through Slurm and measure their pace",
		Long: `Send many runs of the smoke preset through Slurm and measure their pace, in a folder of the run store that is
removed again. It fails if a run is missing or was trained twice. Without a cluster at hand, start one on this machine
by dmlx/runs/slurm/slurmtest/slurm.sh.`,
		Example: "  dmlx/runs/slurm/slurmtest/slurm.sh start /tmp/slurm\n" +
			"  SLURM_CONF=/tmp/slurm/slurm.conf dmlx bench slurm --runs 1000\n" +
			"  dmlx/runs/slurm/slurmtest/slurm.sh stop /tmp/slurm",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if results < 1 {
				return usagef("--runs %d: want at least one", results)
			}
			parent, err := a.store()
			if err != nil {
				return err
			}
			lines, err := bench.Slurm(cmd.Context(), parent.Dir, results,
				func(ctx context.Context, store *runs.Store, jobs []runs.Job) error {
					return on.elsewhere(a, store)(ctx, jobs)
				})
			if err != nil {
				return err
			}
			text := make([]string, len(lines))
			for i, l := range lines {
				text[i] = l.String()
			}
			return a.print(map[string]any{"lines": lines}, strings.Join(text, "\n"))
		},
	}
	f := cmd.Flags()
	f.IntVar(&results, "runs", 1000, "how many")
	on.slurmFlags(f)
	return cmd
}
