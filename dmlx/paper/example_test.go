package paper_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Table 2 at the quick preset is bundled with the program, so that no backend is opened. With [train.Open] in the place
// of none, missing runs are trained.
func ExampleReproduce() {
	dir, err := os.MkdirTemp("", "runs")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := runs.OpenStore(dir)
	if err != nil {
		log.Fatal(err)
	}
	preset, err := presets.Parse("quick")
	if err != nil {
		log.Fatal(err)
	}
	study, err := paper.ParseStudy("table2")
	if err != nil {
		log.Fatal(err)
	}
	none := func() (*train.Trainer, error) { return nil, errors.New("a run is missing") }
	table, err := paper.Reproduce(context.Background(), none, store, study, preset, runs.Options{})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range table.Cells {
		if c.Data == preset.FineGrained {
			fmt.Println(c.Row, c.Recall(1).Times(100))
		}
	}
	// Output:
	// euc 71.9 ± 1.0
	// cos 77.6 ± 0.8
	// euc-orth 70.5 ± 1.6
	// cos-orth 77.9 ± 0.2
}
