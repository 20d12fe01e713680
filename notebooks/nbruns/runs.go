// Package nbruns opens what a notebook's runs need, at the preset and on the run store that "dmlx lab" names: a data set whose
// images have to be decoded first tells of it in the cell, and what it leaves out is said there, once.
package nbruns

import (
	"fmt"
	"os"
	"sync"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/notebooks/nb"
)

// Request is that of a report, whose runs are made on the backend that open opens.
func Request(open func() (*backend.Choice, error), o runs.Options) paper.Request {
	trainer := sync.OnceValues(func() (*train.Trainer, error) {
		choice, err := open()
		if err != nil {
			return nil, err
		}
		return train.New(choice), nil
	})
	return paper.Request{Open: trainer, Preset: Preset(), Store: Store(), Options: o}
}

// Preset is the one that [nb.Preset] names; the cell ends if there is none.
func Preset() presets.Preset {
	p := nb.Must(presets.Parse(nb.Preset()))
	p.DataOptions = opening()
	return p
}

// Photographs is the quick preset with photographs in the place of its fine-grained set: those of 100 of CUB's species that
// photographs.ipynb tells of. Their digest stands for them, so that their shipped runs can be shown where they are not.
func Photographs() presets.Preset {
	p := nb.Must(presets.Parse("quick")).On("CUB", "")
	p.AllowPartial = true
	p.Digests = map[string]string{p.FineGrained: "2a78bac31912945f561ae2794ef30e7e213c596b507b225200a4557fa9b59901"}
	return p
}

// Store is the run store in the folder [nb.Store]; the cell ends if it cannot be opened.
func Store() *runs.Store {
	s := nb.Must(runs.OpenStore(nb.Store()))
	s.DataOptions = opening()
	return s
}

// opening is how a cell opens data sets: Stop ends it.
var opening = sync.OnceValue(func() runs.DataOptions {
	var line *nb.Progress
	var warned sync.Map // A data set is opened for its digest, and again by each run on it.
	return runs.DataOptions{
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
