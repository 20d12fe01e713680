package train

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/npy"
)

// Epoch is a line of metrics.jsonl: measures of one epoch of training. Means are over the valid triplets.
type Epoch struct {
	Epoch int     `json:"epoch"` // Counted from 1.
	Step  int     `json:"step"`  // Steps done at its end.
	LR    float64 `json:"lr"`    // Of its last step.
	// Triplets is the number of valid triplets, EmptyBatches that of batches without any.
	Triplets     int `json:"triplets"`
	EmptyBatches int `json:"empty_batches"`
	// ViolationRate is the share of the triplets with S_an > S_ap.
	ViolationRate float64 `json:"violation_rate"`
	Sap           float64 `json:"s_ap"`
	San           float64 `json:"s_an"`
	// GradientNorm is the mean length of the gradient of all weights and proxies over the steps.
	GradientNorm float64 `json:"gradient_norm"`
	// Recall is Recall@1, a share, of the held-out classes or else of the test set, where [Training].Every asks for it.
	Recall float64 `json:"recall_at_1,omitempty"`
}

// TripletsDir is the folder of the triplets in the folder of a training.
const TripletsDir = "triplets"

// tracedEpochs is the number of epochs at the end whose triplets are written, for the first column of Figure 5.
const tracedEpochs = 5

// tripletsPath returns the file of the triplets of an epoch: float32 [n, 2] with S_ap and S_an.
func tripletsPath(dir string, epoch int) string {
	return filepath.Join(dir, TripletsDir, fmt.Sprintf("epoch-%03d.npy", epoch))
}

// tally sums up the steps of an epoch.
type tally struct {
	steps, triplets, violations, empty int
	sap, san, norm                     float64
	notFinite                          int // The first step, counted from 1, whose outcome has NaN or Inf; 0 without one.
	trace                              bool
	traced                             []float32 // S_ap, S_an of each triplet.
}

// outcome copies what [compiledStep.run] returns of a step to the host, and frees it. nil is that of no step.
type outcome func() ([]float32, error)

func outcomeOf(t *tensors.Tensor) outcome {
	return func() ([]float32, error) {
		values, err := tensors.CopyFlatData[float32](t)
		return values, errors.Join(err, t.FinalizeAll())
	}
}

// lanesOf returns the rows of an outcome of several trainings, which is copied once.
func lanesOf(out *tensors.Tensor, count int) []outcome {
	all, lanes := sync.OnceValues(outcomeOf(out)), make([]outcome, count)
	for i := range lanes {
		lanes[i] = func() ([]float32, error) {
			values, err := all()
			n := len(values) / count
			return values[i*n : (i+1)*n], err
		}
	}
	return lanes
}

// add adds the outcome of a step.
func (s *tally) add(out outcome) error {
	if out == nil {
		return nil
	}
	values, err := out()
	if err != nil {
		return err
	}
	n := len(values) / 3
	s.steps++
	norm := float64(values[3*n])
	finite := !math.IsNaN(norm) && !math.IsInf(norm, 0)
	found, nonzero := 0, false
	for i := range n {
		if values[2*n+i] == 0 {
			continue
		}
		found++
		p, q := values[i], values[n+i]
		finite = finite && p == p && q == q
		nonzero = nonzero || p != 0 || q != 0
		s.sap += float64(p)
		s.san += float64(q)
		if q > p {
			s.violations++
		}
		if s.trace {
			s.traced = append(s.traced, p, q)
		}
	}
	s.triplets += found
	if found == 0 {
		s.empty++
	}
	s.norm += norm
	// Embeddings whose squares overflow are normalized to zero.
	if found > 0 && !nonzero {
		finite = false
	}
	if !finite && s.notFinite == 0 {
		s.notFinite = s.steps
	}
	return nil
}

func (s *tally) violationRate() float64 { return float64(s.violations) / float64(max(s.triplets, 1)) }

// collapsedAbove is the similarity above which the network counts as collapsed, that is, embeds all images in one
// place: both mean similarities of the last epoch are above it, and at least half of the triplets are violations.
const collapsedAbove = 0.95

// endEpoch writes the triplets of an epoch and, if it is to save, the metrics and the checkpoint.
func (s *session) endEpoch(ctx context.Context, epoch int, sum *tally, save bool) error {
	mean := func(v float64, n int) float64 { return v / float64(max(n, 1)) }
	e := Epoch{
		Epoch: epoch, Step: epoch * s.StepsPerEpoch, LR: s.RateAt(epoch*s.StepsPerEpoch - 1),
		Triplets: sum.triplets, EmptyBatches: sum.empty, ViolationRate: sum.violationRate(),
		Sap: mean(sum.sap, sum.triplets), San: mean(sum.san, sum.triplets), GradientNorm: mean(sum.norm, sum.steps),
	}
	switch {
	case sum.notFinite > 0:
		s.state.Diverged = fmt.Sprintf("not finite from step %d on", e.Step-s.StepsPerEpoch+sum.notFinite)
		e.Sap, e.San, e.GradientNorm = 0, 0, 0 // JSON has no NaN.
	case epoch == s.Epochs && e.Sap > collapsedAbove && e.San > collapsedAbove && e.ViolationRate >= 0.5:
		s.state.Diverged = fmt.Sprintf("collapsed: mean S_ap %.3f, S_an %.3f in the last epoch", e.Sap, e.San)
	}
	if s.measures(epoch) && sum.notFinite == 0 {
		var err error
		if e.Recall, err = s.recallNow(ctx); err != nil {
			return err
		}
	}
	if sum.trace && sum.notFinite == 0 {
		if err := os.MkdirAll(filepath.Join(s.Dir, TripletsDir), 0o777); err != nil {
			return err
		}
		if err := npy.WriteFloat32(tripletsPath(s.Dir, epoch), sum.traced, len(sum.traced)/2, 2); err != nil {
			return err
		}
		if err := s.state.addTriplets(s.Dir, epoch); err != nil {
			return err
		}
	}
	s.state.Devices = s.state.withDevices(s.trainer.DeviceCount())
	s.state.Epoch = epoch
	s.state.Epochs = append(s.state.Epochs, e)
	s.state.Seconds += time.Since(s.started).Seconds()
	s.started = time.Now()
	if !save {
		return nil
	}
	return s.save()
}
