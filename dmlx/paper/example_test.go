package paper_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
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
	// euc 71.0 ± 0.5
	// cos 76.9 ± 0.2
	// euc-orth 71.1 ± 1.0
	// cos-orth 78.8 ± 0.4
}

// A loss stands beside the paper's rows of Table 3, where the paper has no number for it. The rows of a request are
// values: objectives.ByRule and objectives.ByLoss return one with functions of one's own. Here the runs are bundled
// with the program.
func ExampleMake() {
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
	loss, err := objectives.ParseLoss("ms, miner ms")
	if err != nil {
		log.Fatal(err)
	}
	made, err := paper.Make(context.Background(), "table3", report.Request{
		Open: train.Open, Store: store, Preset: preset,
		Rows: []presets.Objective{{Objective: loss, Label: "MS loss"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	text, err := figures.Bytes(made.Part(""), "md")
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "MS loss") {
			fmt.Print(line)
		}
	}
	// Output:
	// |  | MS loss¹ | 81.6 ± 0.3 | 81.6 ± 0.3 | – | – |
	// |  | MS loss¹ | 85.6 ± 1.0 | 85.6 ± 1.0 | – | – |
}
