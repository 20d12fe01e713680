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
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/jobs"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func newBench(a *app) *cobra.Command {
	var only []string
	var backendName, peer string
	names := bench.Names()
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of this machine",
		Long: `Measure the speed of this machine. Each line has the median of several repetitions, the range between their
quartiles (spread) and the best of them.

  surgery      mining, composed gradient and backward pass through the normalization, for one batch
  losses       each published loss and its gradient, for one batch, and the matrix products that they need
  step         a training step of the quick preset
  resnet       training steps of ResNet-18 and ResNet-50: plain, in micro-batches, recomputed and in bfloat16
  convolution  ResNet-18's convolutions and their gradients, layer by layer
  input        photographs decoded into the cache, and batches cut from it
  recall       Recall@K, R-precision and MAP@R of random embeddings
  run          whole runs of the smoke and quick presets, in new processes
  jobs         several runs one after the other, two at a time in one process, and two at a time in two processes
  store        lists and a table of a store with 100,000 runs
  cell         notebook cells with a warm build cache (sets up JupyterLab if necessary)

--peer PYTHON names an interpreter with torch, torchvision, pytorch-metric-learning and faiss-cpu. The command then also
measures these libraries, with as many threads or on the same GPU: in turn with this program, losses in three rounds and
steps in five. It prints the ratios of the medians and of the bests of our times and theirs. For losses it also prints
the least ratio, if our time were that of the matrix products alone: a loss that is built from all similarities cannot
be quicker.`,
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
				Spawn: func(ctx context.Context, store *runs.Store, list []runs.Job, parallel int) error {
					return jobs.Spawn(ctx, store, list, parallel, nil, nil)
				},
				List: func(store *runs.Store) error {
					quiet := *a
					quiet.storeDir, quiet.stdout, quiet.json = store.Dir, io.Discard, false
					return quiet.listRuns(false)
				},
			})
			if err != nil || !a.json {
				return err
			}
			return a.print(map[string]any{
				"backend": c, "cores": runtime.NumCPU(), "go": runtime.Version(),
				"date": time.Now().UTC().Format(time.DateOnly), "machine": runs.Machine(), "version": runs.Version(),
				"lines": lines,
			}, "")
		},
	}
	cmd.AddCommand(newBenchSlurm(a))
	f := cmd.Flags()
	f.StringSliceVar(&only, "only", nil, "benchmarks to run: "+strings.Join(names, ", ")+" (default all)")
	f.StringVar(&backendName, "backend", "",
		"backend to measure, as in GOMLX_BACKEND: xla or go (default: the one that dmlx doctor shows)")
	f.StringVar(&peer, "peer", "",
		"Python interpreter with torch, torchvision, pytorch-metric-learning and faiss-cpu, for comparison")
	return cmd
}

// newBenchSlurm measures the throughput of a cluster. It is a command of its own so that dmlx bench never sends a
// thousand jobs to a real cluster.
func newBenchSlurm(a *app) *cobra.Command {
	var results int
	var on cluster
	cmd := &cobra.Command{
		Use: "slurm", Short: "Measure the throughput of Slurm with many runs of the smoke preset",
		Long: `Measure the throughput of Slurm with many runs of the smoke preset, in a temporary folder of the run store. The
command fails if a run is missing or was trained twice. dmlx/runs/slurm/slurmtest/slurm.sh starts a small cluster on
this machine.`,
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
	f.IntVar(&results, "runs", 1000, "number of runs")
	on.slurmFlags(f)
	return cmd
}
