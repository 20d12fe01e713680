package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/jobs"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// smallSpecs returns two runs that take seconds.
func smallSpecs(t *testing.T) []runs.Spec {
	t.Helper()
	p, err := presets.Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	p.Size = 16
	var out []runs.Spec
	for seed := range uint64(2) {
		s, err := p.Spec("minicar", dmlx.Rule{}, seed+1)
		if err == nil {
			s.Config, err = s.WithStart("", train.Random)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.ClassesPerBatch, s.ImagesPerClass, s.StepsPerEpoch, s.Dim = 2, 2, 2, 8
		out = append(out, s)
	}
	return out
}

func opened(t *testing.T, dir string) *runs.Store {
	t.Helper()
	s, err := runs.OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Runs in processes of their own write the same files, bit by bit, as runs in this process.
func TestRunsApart(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	dir := atWork(t)
	specs := smallSpecs(t)
	here, there := opened(t, dir+"-here"), opened(t, dir+"-there")
	want, ran, err := runs.RunAll(t.Context(), train.Open, here, specs, runs.Options{})
	if err != nil || ran != 2 {
		t.Fatal(ran, err)
	}
	var steps atomic.Int32
	o := runs.Options{Jobs: 2, RunProcess: jobs.Process(there, 2, nil), Progress: func(p runs.Progress) {
		if p.Runs == 2 && p.Steps == 4 {
			steps.Add(1)
		}
	}}
	none := func() (*train.Trainer, error) { return nil, errors.New("this process needs no backend") }
	got, ran, err := runs.RunAll(t.Context(), none, there, specs, o)
	if err != nil || ran != 2 {
		t.Fatal(ran, err)
	}
	for i := range want {
		for name, sum := range want[i].Files {
			if got[i].Files[name] != sum {
				t.Errorf("run %s: %s differs", want[i].Hash, name)
			}
		}
		if len(want[i].Files) < 3 {
			t.Errorf("files %v", want[i].Files)
		}
	}
	if steps.Load() == 0 {
		t.Error("no progress was shown")
	}

	// The errors are an interrupt, and the other process's own.
	ctx, stop := context.WithCancel(t.Context())
	stop()
	long := specs[0]
	long.Epochs = 1000
	if err := o.RunProcess(ctx, runs.Job{Spec: long}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	bad := specs[0]
	bad.ClassesPerBatch = 100
	if err := o.RunProcess(t.Context(), runs.Job{Spec: bad}, nil); err == nil ||
		!strings.HasPrefix(err.Error(), "minicar: a batch of 100 classes needs") {
		t.Errorf("%v", err)
	}
}

// A process that trains runs for another stops when that one is gone.
func TestJobStopsWithItsParent(t *testing.T) {
	store := atWork(t)
	long := smallSpecs(t)[0]
	long.Epochs = 100000
	raw, err := json.Marshal([]runs.Job{{Spec: long}})
	if err != nil {
		t.Fatal(err)
	}
	for want, in := range map[string]string{"context canceled": string(raw) + "\n",
		"no list of jobs on standard input": "", "is no list of jobs": "x\n"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "job", "--store", store)
		var stderr bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(in), &stderr
		if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v, %q, want …%s…", err, stderr.String(), want)
		}
	}
}

func TestJobsOutOfRange(t *testing.T) {
	for _, n := range []int{-1, 9999999999999999} {
		_, _, stderr := invoke(t, "train", "--store", t.TempDir(), "--jobs", fmt.Sprint(n))
		if !strings.Contains(stderr, fmt.Sprintf("--jobs %d: want a number of runs", n)) {
			t.Error(stderr)
		}
	}
}
