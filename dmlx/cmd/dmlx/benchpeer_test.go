package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/bench"
)

// peerProcess is bench.py, which measures other libraries whenever it is asked. It ends with this process.
type peerProcess struct {
	ask    io.Writer
	answer *json.Decoder
}

// openPeer starts bench.py by a Python interpreter, and waits until it has loaded its libraries: that takes seconds,
// and would slow what is measured meanwhile.
var openPeer = sync.OnceValues(func() (*peerProcess, error) {
	choice, err := openBench()
	if err != nil {
		return nil, err
	}
	device := "cuda"
	if bench.OnCPU(choice) {
		device = "cpu"
	}
	cmd := exec.Command(*benchPeer, filepath.Join("internal", "peer", "bench.py"), device)
	if testing.Short() {
		cmd.Args = append(cmd.Args, "small")
	}
	cmd.Stderr = os.Stderr
	p := &peerProcess{}
	if p.ask, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answer = json.NewDecoder(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var ready string
	if err := p.answer.Decode(&ready); err != nil {
		return nil, fmt.Errorf("bench.py does not start: %w; it needs torch, torchvision, pytorch-metric-learning and "+
			"faiss-cpu", err)
	}
	return p, nil
})

// peerLine is a measurement of bench.py.
type peerLine struct {
	Name, Size string
	Ours       string // The name of this module's line to compare with.
	Times      []float64
	Peak       float64 // GB of the device's memory, or 0.
}

// measure returns what bench.py measures under a benchmark's name.
func (p *peerProcess) measure(name string) (lines []peerLine, err error) {
	if _, err := fmt.Fprintln(p.ask, name); err != nil {
		return nil, err
	}
	if err := p.answer.Decode(&lines); err != nil {
		return nil, fmt.Errorf("bench.py %s: %w", name, err)
	}
	for _, l := range lines {
		if len(l.Times) == 0 {
			return nil, fmt.Errorf("bench.py printed no times for %s", l.Name)
		}
	}
	return lines, nil
}

// inTurn measures a benchmark and other libraries at the same sizes on the same kind of device, several times in turn,
// so that whatever else the machine does slows both. It reports the times of all rounds and their ratios: of the
// medians, of the bests, and, for losses and convolutions, of the time of the products that they need: no loss built
// from S takes less.
func (s *session) inTurn(ctx context.Context, name string, rounds int,
	run func(*session, context.Context) error) error {
	python, err := openPeer()
	if err != nil {
		return err
	}
	var theirs []bench.Measurement
	type line struct{ name, size string }
	beside := make(map[line]string) // The names of this module's lines.
	for range rounds {
		// Before this module, which keeps the memory that it takes of a device; PyTorch gives its own back.
		lines, err := python.measure(name)
		if err != nil {
			return err
		}
		for _, l := range lines {
			theirs = append(theirs, bench.Measured(l.Name, l.Size, "ms", l.Times...))
			if l.Peak > 0 {
				theirs = append(theirs, bench.Measured("memory of "+l.Name, l.Size, "GB", l.Peak))
			}
			beside[line{l.Name, l.Size}] = l.Ours
		}
		if err := run(s, ctx); err != nil {
			return err
		}
	}
	own := merged(s.lines)
	s.lines = own
	for _, p := range merged(theirs) {
		s.report(p)
		for _, m := range own {
			if m.Name != beside[line{p.Name, p.Size}] || !strings.HasSuffix(m.Size, p.Size) {
				continue
			}
			ratio := "ratio to " + p.Name
			s.report(bench.Measured(ratio, m.Size, "×", m.Value/p.Value))
			if m.Times > 1 && p.Times > 1 {
				s.report(bench.Measured(ratio+", bests", m.Size, "×", m.Best/p.Best))
			}
			for _, products := range own {
				if least := s.least[m.Name]; least != "" && products.Name == least && products.Unit == m.Unit &&
					strings.HasSuffix(products.Size, m.Size) {
					s.report(bench.Measured(ratio+", products alone", m.Size, "×", products.Value/p.Value))
				}
			}
		}
	}
	return nil
}
