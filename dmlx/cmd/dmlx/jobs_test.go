package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// smallSpecs are two runs of seconds.
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
			s, err = s.WithStart("", train.Random)
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

// Runs in processes of their own leave, bit by bit, what runs in this one do.
func TestRunsApart(t *testing.T) {
	dir := atWork(t)
	specs := smallSpecs(t)
	here, there := opened(t, dir+"-here"), opened(t, dir+"-there")
	want, ran, err := runs.RunAll(t.Context(), train.Open, here, specs, runs.Options{})
	if err != nil || ran != 2 {
		t.Fatal(ran, err)
	}
	a := &app{}
	var steps atomic.Int32
	o := runs.Options{Jobs: 2, RunProcess: a.process(there, 2, nil), Progress: func(p runs.Progress) {
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
		t.Error("no progress was told")
	}

	// Stopped, it says so; and what is wrong is told in the other process's words.
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

// A process that makes runs for another stops when that one has gone, since nobody may wait for it any more.
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

func TestMachineJobs(t *testing.T) {
	const gb = 1 << 30
	for _, c := range []struct {
		cores  int
		memory uint64
		gpus   int
		want   int
	}{{2, 0, 0, 1}, {1, 16 * gb, 0, 1}, {16, 64 * gb, 0, 8}, {16, 3*gb + 1, 0, 3}, {8, 1, 0, 1}, {16, 64 * gb, 1,
		1}, {16, 64 * gb, 4, 4}} {
		if got := machineJobs(c.cores, c.memory, c.gpus); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
	a := &app{stderr: os.Stderr}
	for _, jobs := range []int{-1, 9999999999999999} {
		if err := a.apart(&runs.Options{Jobs: jobs}, nil); err == nil ||
			!strings.Contains(err.Error(), fmt.Sprint("--jobs ", jobs)) {
			t.Error(err)
		}
	}
	t.Setenv("GOMLX_BACKEND", "go")
	o := runs.Options{Jobs: 1}
	if err := a.apart(&o, opened(t, filepath.Join(t.TempDir(), "runs"))); err != nil || o.RunProcess != nil {
		t.Error("one run at a time is made apart", err)
	}
	if visibleGPUs() != nil {
		t.Error("the Go backend on a GPU")
	}
}
