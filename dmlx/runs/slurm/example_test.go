package slurm_test

import (
	"context"
	"fmt"
	"log"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/runs/slurm"
)

// A notebook that is opened while a cluster works follows what is queued for its store. In place of printing, give the
// status to a progress line: p.Set(s.Fraction, s.String()).
func ExampleWatch() {
	store, err := runs.OpenStore("/shared/runs")
	if err != nil {
		log.Fatal(err)
	}
	if err := slurm.Watch(context.Background(), store, slurm.Options{
		Progress: func(s slurm.Status) { fmt.Println(s) },
	}); err != nil {
		log.Fatal(err)
	}
}
