package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// measurement is one line of the benchmark: several repetitions of one thing.
type measurement struct {
	Name   string  `json:"name"`
	Size   string  `json:"size"`
	Value  float64 `json:"value"` // The median, in Unit.
	Unit   string  `json:"unit"`
	Spread float64 `json:"spread"` // From the first to the third quartile.
	Best   float64 `json:"best"`
	Times  int     `json:"times"` // The number of repetitions.
	// Values are the repetitions, in order of size.
	Values []float64 `json:"-"`
}

// measured returns the measurement of one or more values.
func measured(name, size, unit string, values ...float64) measurement {
	values = slices.Sorted(slices.Values(values))
	quantile := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, values, nil) }
	best := values[0]
	if strings.HasSuffix(unit, "/s") {
		best = values[len(values)-1]
	}
	return measurement{name, size, quantile(0.5), unit, quantile(0.75) - quantile(0.25), best, len(values), values}
}

func (s *session) reportValues(name, size, unit string, values ...float64) {
	s.report(measured(name, size, unit, values...))
}

// repeatCalls times f for about two seconds and at least five times, after a first call that does not count. If the
// session is small, or the first call takes more than ten seconds, it is the only one and counts.
func (s *session) repeatCalls(ctx context.Context, f func() error) (milliseconds []float64, err error) {
	first := time.Now()
	if err := f(); err != nil {
		return nil, err
	}
	if took := time.Since(first); s.Small || took > 10*time.Second {
		return []float64{float64(took.Microseconds()) / 1000}, nil
	}
	for begin := time.Now(); len(milliseconds) < 5 || time.Since(begin) < 2*time.Second; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		milliseconds = append(milliseconds, float64(time.Since(start).Microseconds())/1000)
	}
	return milliseconds, nil
}

// gaussian returns a batch of n random embeddings in classes of 8.
func gaussian(n, dim int) (values []float32, labels []int64) {
	rng := rand.New(rand.NewPCG(1, 1))
	values, labels = make([]float32, n*dim), make([]int64, n)
	for i := range values {
		values[i] = float32(rng.NormFloat64())
	}
	for i := range labels {
		labels[i] = int64(i / 8)
	}
	return values, labels
}

// benchSpec returns a run of a preset by the paper's best rule.
func benchSpec(preset, data string) (runs.Spec, error) {
	p, err := presets.Parse(preset)
	if err != nil {
		return runs.Spec{}, err
	}
	rule, err := dmlx.ParseRule("ours")
	if err != nil {
		return runs.Spec{}, err
	}
	return p.Spec(data, rule, 1)
}

// step times training steps of the quick preset.
func (s *session) step(ctx context.Context) error {
	spec, err := benchSpec("quick", "minicar")
	if err != nil {
		return err
	}
	spec.Epochs, spec.StepsPerEpoch = 1, 120
	times, _, err := timeSteps(ctx, s.Choice, spec, 10)
	if err != nil {
		return err
	}
	s.reportValues("training step", fmt.Sprintf("quick minicar, B=%d, %d px", spec.Batch(), spec.Size), "ms", times...)
	return nil
}

// recall times Recall@K, R-precision and MAP@R of random embeddings.
func (s *session) recall(ctx context.Context) error {
	sizes := [][2]int{{1000, 32}, {10000, 512}, {60502, 512}} // The last is Stanford Online Products.
	if s.Small {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		values, labels := gaussian(size[0], size[1])
		e := &retrieval.Embeddings{Values: values, Dim: size[1], Labels: labels}
		peak := watchPeak()
		times, err := s.repeatCalls(ctx, func() error {
			_, err := retrieval.Evaluate(ctx, s.Choice.Backend, e, nil, []int{1, 2, 4, 8})
			return err
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("N=%d D=%d", size[0], size[1])
		s.reportValues("recall, R-precision and MAP@R", what, "ms", times...)
		s.reportPeak(what, peak())
	}
	return nil
}
