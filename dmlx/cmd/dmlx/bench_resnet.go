package main

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/experiment"
)

// resnetStep is a training step to measure: classes × images of 224 × 224 pixels.
type resnetStep struct {
	arch            backbone.Arch
	classes, images int
	thrift          experiment.Thrift
}

// What a CPU does in minutes, and what the paper's setting asks of a GPU.
var (
	resnetOnCPU = []resnetStep{
		{backbone.ResNet18, 4, 4, experiment.Thrift{}},
		{backbone.ResNet18, 4, 4, experiment.Thrift{Piece: 4}},
		{backbone.ResNet18, 4, 4, experiment.Thrift{Recompute: true}},
		{backbone.ResNet18, 4, 4, experiment.Thrift{Precision: experiment.BFloat16}},
		{backbone.ResNet50, 4, 4, experiment.Thrift{}},
		{backbone.ResNet50, 4, 4, experiment.Thrift{Recompute: true}},
	}
	resnetOnGPU = []resnetStep{
		{backbone.ResNet18, 8, 16, experiment.Thrift{}},
		{backbone.ResNet18, 8, 16, experiment.Thrift{Precision: experiment.BFloat16}},
		{backbone.ResNet50, 8, 16, experiment.Thrift{}},
		{backbone.ResNet50, 8, 16, experiment.Thrift{Precision: experiment.BFloat16}},
		{backbone.ResNet50, 8, 16, experiment.Thrift{Precision: experiment.BFloat16, Recompute: true}},
		{backbone.ResNet50, 32, 16, experiment.Thrift{Precision: experiment.BFloat16, Piece: 64}},
	}
)

func benchResNet(ctx context.Context, _ *app, c *backend.Choice, _ []measurement, report func(measurement)) error {
	steps := resnetOnCPU
	switch {
	case c.Name == "go":
		steps = steps[:1] // The others would take half an hour.
	case c.Name != "xla:cpu":
		steps = resnetOnGPU
	}
	for _, s := range steps {
		spec, err := benchSpec("quick", "minicar")
		if err != nil {
			return err
		}
		if spec, err = spec.WithStart(string(s.arch), experiment.Random); err != nil {
			return err
		}
		spec.Size, spec.TrainClasses, spec.TestClasses = 224, s.classes, 2
		spec.ClassesPerBatch, spec.ImagesPerClass = s.classes, s.images
		spec.Epochs, spec.StepsPerEpoch, spec.Thrift = 1, 7, s.thrift
		spec.LR = 1e-3 // From random weights, a step of any length is as fast.
		var times []float64
		var last time.Time
		var watched func() float64
		peak := 0.
		if err := inEmptyStore(ctx, c, spec, func(p experiment.Progress) {
			now := time.Now()
			switch {
			case p.Step == 2: // The first one compiles.
				watched = watchPeak()
			case p.Step > 2:
				times = append(times, float64(now.Sub(last).Microseconds())/1000)
			}
			if p.Step == spec.Steps() {
				peak = watched()
			}
			last = now
		}); err != nil {
			return err
		}
		what := fmt.Sprintf("%s, B=%d, 224 px", s.arch, spec.Batch())
		if t := s.thrift; t != (experiment.Thrift{}) {
			if t.Precision != "" {
				what += ", " + t.Precision
			}
			if t.Piece > 0 {
				what += fmt.Sprintf(", pieces of %d", t.Piece)
			}
			if t.Recompute {
				what += ", recomputed"
			}
		}
		report(measured("training step", what, "ms", times...))
		reportPeak(c, what, peak, report)
	}
	return nil
}

// watchPeak begins to watch this process's memory: peak is the most that it has held since, in MB, or 0 where that cannot be told,
// which is anywhere but on Linux.
func watchPeak() (peak func() float64) {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return func() float64 { return 0 }
	}
	return func() float64 { return float64(memoryOf("self/status", "VmHWM")) / (1 << 20) }
}

// reportPeak reports what [watchPeak] saw. Of another device than the CPU the process's memory says nothing.
func reportPeak(c *backend.Choice, size string, peak float64, report func(measurement)) {
	if c.Name == "xla:cpu" && peak > 0 {
		report(measured("the process's memory at most", size, "MB", peak))
	}
}
