package train

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/gradient-surgery/dml/dmlx/internal/npy"
)

// Epoch is a line of metrics.jsonl: what one epoch of training was like. Means are over its valid triplets.
type Epoch struct {
	Epoch int     `json:"epoch"` // From 1.
	Step  int     `json:"step"`  // Steps done at its end.
	LR    float64 `json:"lr"`
	// Triplets counts the valid ones; EmptyBatches the batches that had none and so moved nothing.
	Triplets     int `json:"triplets"`
	EmptyBatches int `json:"empty_batches"`
	// ViolationRate is the share of triplets with S_an > S_ap.
	ViolationRate float64 `json:"violation_rate"`
	Sap           float64 `json:"s_ap"`
	San           float64 `json:"s_an"`
	// GradientNorm is the mean over steps of the length of the gradient of all weights.
	GradientNorm float64 `json:"gradient_norm"`
}

const TripletsDir = "triplets"

// tracedEpochs is how many of the last epochs keep their triplets: Figure 5's first column.
const tracedEpochs = 5

// tracePath is the file of an epoch's triplets: float32 [n, 2], S_ap and S_an.
func tripletsPath(dir string, epoch int) string {
	return filepath.Join(dir, TripletsDir, fmt.Sprintf("epoch-%03d.npy", epoch))
}

// tally adds up the steps of an epoch.
type tally struct {
	steps, triplets, violations, empty int
	sap, san, norm                     float64
	notFinite                          int // The first step, from 1, whose outcome is not finite; 0 if all are.
	trace                              bool
	traced                             []float32 // S_ap, S_an of each triplet.
}

// add reads a step's outcome, as the graph of [training] returns it; nil is no step.
func (s *tally) add(out *tensors.Tensor) error {
	if out == nil {
		return nil
	}
	values, err := tensors.CopyFlatData[float32](out)
	if err := errors.Join(err, out.FinalizeAll()); err != nil {
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
	// Embeddings so long that their squares are infinite are normalised to zero.
	if found > 0 && !nonzero {
		finite = false
	}
	if !finite && s.notFinite == 0 {
		s.notFinite = s.steps
	}
	return nil
}

func (s *tally) violationRate() float64 { return float64(s.violations) / float64(max(s.triplets, 1)) }

// A last epoch in which both mean similarities are above collapsedAbove and a negative is nearer than the positive for
// at least half of the anchors has collapsed: the network embeds everything in one place.
const collapsedAbove = 0.95

// endEpoch writes the epoch's metrics, triplets and checkpoint. From then on it is not lost.
func (s *session) endEpoch(epoch int, sum *tally) error {
	mean := func(v float64, n int) float64 { return v / float64(max(n, 1)) }
	e := Epoch{
		Epoch: epoch, Step: epoch * s.StepsPerEpoch, LR: s.Rate(epoch - 1),
		Triplets: sum.triplets, EmptyBatches: sum.empty, ViolationRate: sum.violationRate(),
		Sap: mean(sum.sap, sum.triplets), San: mean(sum.san, sum.triplets), GradientNorm: mean(sum.norm, sum.steps),
	}
	switch {
	case sum.notFinite > 0:
		s.state.Diverged = fmt.Sprintf("not finite from step %d on", e.Step-s.StepsPerEpoch+sum.notFinite)
		e.Sap, e.San, e.GradientNorm = 0, 0, 0 // JSON has no NaN, and they mean nothing.
	case epoch == s.Epochs && e.Sap > collapsedAbove && e.San > collapsedAbove && e.ViolationRate >= 0.5:
		s.state.Diverged = fmt.Sprintf("collapsed: mean S_ap %.3f, S_an %.3f in the last epoch", e.Sap, e.San)
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
	s.state.Epoch = epoch
	s.state.Epochs = append(s.state.Epochs, e)
	s.state.Seconds += time.Since(s.started).Seconds()
	s.started = time.Now()
	return s.save()
}
