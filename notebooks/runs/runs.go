// Package runs opens what a notebook's runs need, at the preset and on the run store that "dmlx lab" names: a data set whose
// images have to be decoded first tells of it in the cell, and what it leaves out is said there, once.
package runs

import (
	"fmt"
	"os"
	"sync"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/experiment"
	"github.com/gradient-surgery/dml/dmlx/experiment/report"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// Request is that of a report, whose runs are made on the backend that open opens.
func Request(open func() (*backend.Choice, error), o experiment.Options) report.Request {
	trainer := sync.OnceValues(func() (*experiment.Trainer, error) {
		choice, err := open()
		if err != nil {
			return nil, err
		}
		return experiment.NewTrainer(choice), nil
	})
	return report.Request{Open: trainer, Preset: Preset(), Store: Store(), Options: o}
}

// Preset is the one that [nb.Preset] names; the cell ends if there is none.
func Preset() experiment.Preset {
	p := nb.Must(experiment.ParsePreset(nb.Preset()))
	p.Opening = opening()
	return p
}

// Photographs is the quick preset with photographs in the place of its fine-grained set: those of 100 of CUB's species that
// photographs.ipynb tells of. Their digest stands for them, so that their shipped runs can be shown where they are not.
func Photographs() experiment.Preset {
	p := nb.Must(experiment.ParsePreset("quick")).On("CUB", "")
	p.AllowPartial = true
	p.Digests = map[string]string{p.FineGrained: "2a78bac31912945f561ae2794ef30e7e213c596b507b225200a4557fa9b59901"}
	return p
}

// Store is the run store in the folder [nb.Store]; the cell ends if it cannot be opened.
func Store() *experiment.Store {
	s := nb.Must(experiment.OpenStore(nb.Store()))
	s.Opening = opening()
	return s
}

// opening is how a cell opens data sets: Stop ends it.
var opening = sync.OnceValue(func() experiment.Opening {
	var line *nb.Progress
	var warned sync.Map // A data set is opened for its digest, and again by each run on it.
	return experiment.Opening{
		Context: nb.Context(),
		Decoded: func(data string, done, total int) {
			if line == nil {
				line = nb.NewProgress("Decoding the images of " + data)
			}
			line.Set(float64(done)/float64(max(total, 1)), fmt.Sprintf("%d of %d", done, total))
			if done == total {
				line.Done("")
				line = nil
			}
		},
		Warn: func(message string) {
			if _, said := warned.LoadOrStore(message, true); !said {
				fmt.Fprintln(os.Stderr, "warning:", message)
			}
		},
	}
})
