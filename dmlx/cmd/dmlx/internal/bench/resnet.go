package bench

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/host"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// resnetStep is a training step to measure: classes × images of 224 × 224 pixels.
type resnetStep struct {
	arch            backbone.Arch
	classes, images int
	memory          train.Memory
}

// The steps that take minutes on a CPU, and those of the paper's setting on a GPU.
var (
	resnetOnCPU = []resnetStep{
		{backbone.ResNet18, 4, 4, train.Memory{}},
		{backbone.ResNet18, 4, 4, train.Memory{MicroBatch: 4}},
		{backbone.ResNet18, 4, 4, train.Memory{Recompute: true}},
		{backbone.ResNet18, 4, 4, train.Memory{Precision: train.BFloat16}},
		{backbone.ResNet50, 4, 4, train.Memory{}},
		{backbone.ResNet50, 4, 4, train.Memory{Recompute: true}},
	}
	resnetOnGPU = []resnetStep{
		{backbone.ResNet18, 8, 16, train.Memory{}},
		{backbone.ResNet18, 8, 16, train.Memory{Precision: train.BFloat16}},
		{backbone.ResNet50, 8, 16, train.Memory{}},
		{backbone.ResNet50, 8, 16, train.Memory{Precision: train.BFloat16}},
		{backbone.ResNet50, 8, 16, train.Memory{Precision: train.BFloat16, Recompute: true}},
		{backbone.ResNet50, 32, 16, train.Memory{Precision: train.BFloat16, MicroBatch: 64}},
	}
)

// OnCPU tells whether a backend computes on the CPU, by XLA or by Go.
func OnCPU(c *backend.Choice) bool { return c.Name == "go" || c.Name == "xla:cpu" }

// ResNet times training steps of ResNet-18 and ResNet-50, with options that save memory.
func (b *Session) ResNet(ctx context.Context) error {
	steps := resnetOnCPU
	switch c := b.Choice; {
	case c.Name == "go":
		steps = steps[:1] // The others would take half an hour.
	case !OnCPU(c):
		steps = resnetOnGPU
	}
	for _, s := range steps {
		spec, err := SomeSteps(string(s.arch), 224, s.classes, s.images)
		if err != nil {
			return err
		}
		spec.Memory = s.memory
		times, peak, err := TimeSteps(ctx, b.Choice, spec, 2)
		if err != nil {
			return err
		}
		what := StepText(spec)
		b.report("training step", what, "ms", times...)
		b.reportPeak(what, peak)
	}
	return nil
}

// SomeSteps returns a short run on drawn images of a backbone with random weights, or of the network of an ONNX file.
// Its steps take as long as those of any other run of this size.
func SomeSteps(arch string, size, classes, images int) (runs.Spec, error) {
	spec, err := Spec("quick", "minicar")
	if err != nil {
		return spec, err
	}
	start := train.Random
	if weights.IsNetwork(arch) {
		start = ""
	}
	if spec.Config, err = spec.WithStart(arch, start); err != nil {
		return spec, err
	}
	spec.Size, spec.TrainClasses, spec.TestClasses = size, classes, 2
	spec.ClassesPerBatch, spec.ImagesPerClass = classes, images
	spec.Epochs, spec.StepsPerEpoch, spec.LR = 1, 14, 1e-3
	return spec, nil
}

// StepText returns the settings that determine the time of a step. The rule is left out: it takes a hundredth of a
// step.
func StepText(s runs.Spec) string {
	arch := cmp.Or(s.Arch, strings.TrimSuffix(filepath.Base(s.NetworkFile), ".onnx"))
	text := fmt.Sprintf("%s, B=%d, %d px", arch, s.Batch(), s.Size)
	if s.Precision != "" {
		text += ", " + s.Precision
	}
	if s.MicroBatch > 0 {
		text += fmt.Sprintf(", micro-batches of %d", s.MicroBatch)
	}
	if s.Recompute {
		text += ", recomputed"
	}
	return text
}

// StepTime returns the median time in milliseconds of a few training steps of the size of a run's.
func StepTime(ctx context.Context, c *backend.Choice, spec runs.Spec) (float64, error) {
	s, err := SomeSteps(cmp.Or(spec.NetworkFile, spec.Arch), spec.Size, spec.ClassesPerBatch, spec.ImagesPerClass)
	if err != nil {
		return 0, err
	}
	s.Pad, s.Dim, s.Memory = spec.Pad, spec.Dim, spec.Memory
	s.TrainOnly, s.Freeze, s.LoRA, s.FreezeBN = spec.TrainOnly, spec.Freeze, spec.LoRA, spec.FreezeBN
	s.StepsPerEpoch = 5 // A step of the paper preset takes half a minute on a CPU.
	times, _, err := TimeSteps(ctx, c, s, 2)
	if err != nil {
		return 0, err
	}
	return Measured("", "", "", times...).Value, nil
}

// TimeSteps trains a run in a new store. It returns the milliseconds of each step, except the first ones, which compile
// and fill the queue, and the peak memory in MB, as [watchPeak] does.
func TimeSteps(ctx context.Context, c *backend.Choice, spec runs.Spec, first int) (milliseconds []float64,
	peak float64, err error) {
	dir, err := os.MkdirTemp("", "dmlx-bench-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(dir)
	store, err := runs.OpenStore(dir)
	if err != nil {
		return nil, 0, err
	}
	var last time.Time
	var watched func() float64
	_, err = runs.Run(ctx, train.New(c), store, spec, func(p runs.Progress) {
		if p.OnImages() != "" {
			return
		}
		now := time.Now()
		switch {
		case p.Step == first:
			watched = watchPeak()
		case p.Step > first:
			milliseconds = append(milliseconds, float64(now.Sub(last).Microseconds())/1000)
		}
		if p.Step == spec.Steps() {
			peak = watched()
		}
		last = now
	})
	return milliseconds, peak, err
}

// watchPeak starts to watch this process's memory. peak returns the peak since then in MB, or 0 on any system other
// than Linux.
func watchPeak() (peak func() float64) {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return func() float64 { return 0 }
	}
	return func() float64 { return float64(host.Memory("self/status", "VmHWM")) / (1 << 20) }
}

// reportPeak reports the result of [watchPeak] if the backend computes on the CPU, since a GPU's memory is not the
// process's.
func (b *Session) reportPeak(size string, peak float64) {
	if b.Choice.Name == "xla:cpu" && peak > 0 {
		b.report("peak memory of the process", size, "MB", peak)
	}
}
