// Package bench measures the speed of this machine: training steps, images and recall. What only a change of this
// module can make quicker or slower is measured by Go benchmarks, see bench_test.go of the command.
package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

// Measurement is one line of the benchmark: several repetitions of one thing.
type Measurement struct {
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

// String returns the measurement as one line of text.
func (m Measurement) String() string {
	line := fmt.Sprintf("%-36s %-34s %9.4g %s", m.Name, m.Size, m.Value, m.Unit)
	if m.Times > 1 {
		line += fmt.Sprintf("   spread %.3g, best %.4g of %d", m.Spread, m.Best, m.Times)
	}
	return line
}

// Measured returns the measurement of one or more values.
func Measured(name, size, unit string, values ...float64) Measurement {
	values = slices.Sorted(slices.Values(values))
	quantile := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, values, nil) }
	best := values[0]
	if strings.HasSuffix(unit, "/s") {
		best = values[len(values)-1]
	}
	return Measurement{name, size, quantile(0.5), unit, quantile(0.75) - quantile(0.25), best, len(values), values}
}

// Session is a call of [Run], or of one of the Go benchmarks.
type Session struct {
	// Choice is the backend to measure.
	Choice *backend.Choice
	// Small measures the smallest sizes alone, once, as for a rehearsal.
	Small bool
	// Report is called with each line as soon as it is measured.
	Report func(Measurement)
}

func (b *Session) report(name, size, unit string, values ...float64) {
	b.Report(Measured(name, size, unit, values...))
}

// benchmarks lists what is measured, in the order of [Run].
var benchmarks = []struct {
	name string
	run  func(*Session, context.Context) error
}{
	{"step", (*Session).Step},
	{"resnet", (*Session).ResNet},
	{"input", (*Session).Input},
	{"recall", (*Session).Recall},
}

// Names returns the names of the benchmarks, in the order in which they run.
func Names() []string {
	names := make([]string, len(benchmarks))
	for i, b := range benchmarks {
		names[i] = b.name
	}
	return names
}

// Run runs the benchmarks with these names, or all. It stops at the first that fails; its error names the benchmark.
func (b *Session) Run(ctx context.Context, only ...string) error {
	for _, of := range benchmarks {
		if len(only) > 0 && !slices.Contains(only, of.name) {
			continue
		}
		if err := of.run(b, ctx); err != nil {
			return fmt.Errorf("bench %s: %w", of.name, err)
		}
	}
	return nil
}

// Repeat times f for about two seconds and at least five times, after a first call that does not count. If the session
// is small, or the first call takes more than ten seconds, it is the only one and counts.
func (b *Session) Repeat(ctx context.Context, f func() error) (milliseconds []float64, err error) {
	first := time.Now()
	if err := f(); err != nil {
		return nil, err
	}
	if took := time.Since(first); b.Small || took > 10*time.Second {
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

// Gaussian returns a batch of n random embeddings in classes of 8.
func Gaussian(n, dim int) (values []float32, labels []int64) {
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

// Spec returns a run of a preset by the paper's best rule.
func Spec(preset, data string) (runs.Spec, error) {
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

// Step times training steps of the quick preset.
func (b *Session) Step(ctx context.Context) error {
	spec, err := Spec("quick", "minicar")
	if err != nil {
		return err
	}
	spec.Epochs, spec.StepsPerEpoch = 1, 120
	times, _, err := TimeSteps(ctx, b.Choice, spec, 10)
	if err != nil {
		return err
	}
	b.report("training step", fmt.Sprintf("quick minicar, B=%d, %d px", spec.Batch(), spec.Size), "ms", times...)
	return nil
}

// Recall times Recall@K, R-precision and MAP@R of random embeddings.
func (b *Session) Recall(ctx context.Context) error {
	sizes := [][2]int{{1000, 32}, {10000, 512}, {60502, 512}} // The last is Stanford Online Products.
	if b.Small {
		sizes = sizes[:1]
	}
	for _, size := range sizes {
		values, labels := Gaussian(size[0], size[1])
		e := &retrieval.Embeddings{Values: values, Dim: size[1], Labels: labels}
		peak := watchPeak()
		times, err := b.Repeat(ctx, func() error {
			_, err := retrieval.Evaluate(ctx, b.Choice.Backend, e, nil, []int{1, 2, 4, 8})
			return err
		})
		if err != nil {
			return err
		}
		what := fmt.Sprintf("N=%d D=%d", size[0], size[1])
		b.report("recall, R-precision and MAP@R", what, "ms", times...)
		b.reportPeak(what, peak())
	}
	return nil
}
