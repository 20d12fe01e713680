package main

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

// onCPU tells whether a backend computes on the CPU, by XLA or by Go.
func onCPU(c *backend.Choice) bool { return c.Name == "go" || c.Name == "xla:cpu" }

// resNet times training steps of ResNet-18 and ResNet-50, with options that save memory.
func (s *session) resNet(ctx context.Context) error {
	steps := resnetOnCPU
	switch c := s.Choice; {
	case c.Name == "go":
		steps = steps[:1] // The others would take half an hour.
	case !onCPU(c):
		steps = resnetOnGPU
	}
	for _, of := range steps {
		spec, err := someSteps(string(of.arch), 224, of.classes, of.images)
		if err != nil {
			return err
		}
		spec.Memory = of.memory
		times, peak, err := timeSteps(ctx, s.Choice, spec, 2)
		if err != nil {
			return err
		}
		what := stepText(spec)
		s.reportValues("training step", what, "ms", times...)
		s.reportPeak(what, peak)
	}
	return nil
}

// someSteps returns a short run on drawn images of a backbone with random weights, or of the network of an ONNX file.
// Its steps take as long as those of any other run of this size.
func someSteps(arch string, size, classes, images int) (runs.Spec, error) {
	spec, err := benchSpec("quick", "minicar")
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

// stepText returns the settings that determine the time of a step. The rule is left out: it takes a hundredth of a
// step.
func stepText(s runs.Spec) string {
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

// timeSteps trains a run in a new store. It returns the milliseconds of each step, except the first ones, which compile
// and fill the queue, and the peak memory in MB, as [watchPeak] does.
func timeSteps(ctx context.Context, c *backend.Choice, spec runs.Spec, first int) (milliseconds []float64,
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
func (s *session) reportPeak(size string, peak float64) {
	if s.Choice.Name == "xla:cpu" && peak > 0 {
		s.reportValues("peak memory of the process", size, "MB", peak)
	}
}
