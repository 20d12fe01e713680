package scores

import (
	"bytes"
	_ "embed"
	"slices"
	"sync"
)

//go:embed printed.csv
var printedCSV []byte

// PrintedSeeds is the number of runs of the paper's component tables: "we run the test 5 times".
const PrintedSeeds = 5

// PrintedBatch is the batch size of the rows MS* and DR-MS* of Table 5, and the smallest of Ours.
const PrintedBatch = 128

// Printed returns all numbers of the paper's Tables 2 to 8, in its order: those of printed.csv. A number without a
// deviation, as all of Table 5, counts as that of one run.
func Printed() Table { return slices.Clone(printed()) }

var printed = sync.OnceValue(func() Table {
	all, err := Read(bytes.NewReader(printedCSV))
	if err != nil { // Not at all: the file is part of the program, and a test reads it.
		return nil
	}
	for i := range all {
		r := &all[i]
		r.Whose, r.Role, r.Setting, r.Preset = Paper, r.Data, PapersOwn, "paper"
		if r.Value.Std > 0 {
			r.Value.N = PrintedSeeds
		}
		if r.Table == 5 {
			r.Times = r.Batch / PrintedBatch
		}
	}
	return all
})
