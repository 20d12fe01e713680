package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/peer"
)

// peerProcess is bench.py, which measures other libraries whenever it is asked.
type peerProcess struct {
	cmd    *exec.Cmd
	ask    io.WriteCloser
	answer *json.Decoder
	dir    string
}

// startPeer starts bench.py by a Python interpreter, and waits until it has loaded its libraries: that takes seconds,
// and would slow what is measured meanwhile.
func startPeer(ctx context.Context, python string, cpu bool) (*peerProcess, error) {
	dir, err := os.MkdirTemp("", "dmlx-bench-")
	if err != nil {
		return nil, err
	}
	p := &peerProcess{dir: dir}
	if err := os.CopyFS(dir, peer.Bench); err != nil {
		return nil, p.failed(err)
	}
	device := "cuda"
	if cpu {
		device = "cpu"
	}
	p.cmd = exec.CommandContext(ctx, python, filepath.Join(dir, "bench.py"), device)
	p.cmd.Stderr = os.Stderr
	if p.ask, err = p.cmd.StdinPipe(); err != nil {
		return nil, p.failed(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, p.failed(err)
	}
	p.answer = json.NewDecoder(out)
	if err := p.cmd.Start(); err != nil {
		return nil, p.failed(err)
	}
	var ready string
	if err := p.answer.Decode(&ready); err != nil {
		return nil, p.failed(fmt.Errorf("bench.py does not start: %w", err))
	}
	return p, nil
}

// failed ends the process and returns why.
func (p *peerProcess) failed(err error) error {
	if ended := p.close(); ended != nil {
		err = fmt.Errorf("%w: %w", err, ended)
	}
	return fmt.Errorf("%w; it needs torch, torchvision, pytorch-metric-learning and faiss-cpu", err)
}

func (p *peerProcess) close() error {
	defer os.RemoveAll(p.dir)
	if p.cmd == nil || p.cmd.Process == nil {
		return nil
	}
	p.ask.Close()
	return p.cmd.Wait()
}

// peerLine is a measurement of bench.py.
type peerLine struct {
	Name, Size string
	Ours       string // The name of this module's line to compare with.
	Times      []float64
}

// measure returns what bench.py measures under a benchmark's name.
func (p *peerProcess) measure(name string) ([]peerLine, error) {
	if _, err := fmt.Fprintln(p.ask, name); err != nil {
		return nil, p.failed(err)
	}
	var lines []peerLine
	if err := p.answer.Decode(&lines); err != nil {
		return nil, p.failed(fmt.Errorf("bench.py %s: %w", name, err))
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
func (b *session) inTurn(ctx context.Context, of benchmark, python *peerProcess) error {
	before, report := len(b.lines), b.Report
	if of.rounds > 1 {
		b.Report = func(Measurement) {}
		defer func() { b.Report = report }()
	}
	var theirs []Measurement
	type line struct{ name, size string }
	beside := make(map[line]string) // The names of this module's lines.
	for round := range of.rounds {
		if of.rounds > 1 {
			b.Logf("%s: round %d of %d", of.name, round+1, of.rounds)
		}
		if err := of.run(b, ctx); err != nil {
			return err
		}
		lines, err := python.measure(of.name)
		if err != nil {
			return err
		}
		for _, l := range lines {
			theirs = append(theirs, measured(l.Name, l.Size, "ms", l.Times...))
			beside[line{l.Name, l.Size}] = l.Ours
		}
	}
	own := b.lines[before:]
	if of.rounds > 1 {
		own = merged(own)
		b.Report, b.lines = report, b.lines[:before]
		for _, m := range own {
			b.report(m)
		}
	}
	for _, p := range merged(theirs) {
		b.report(p)
		name := beside[line{p.Name, p.Size}]
		for _, m := range own {
			if m.Name != name || !strings.HasSuffix(m.Size, p.Size) {
				continue
			}
			ratio := "ratio to " + p.Name
			b.report(measured(ratio, m.Size, "×", m.Value/p.Value))
			if m.Times > 1 && p.Times > 1 {
				b.report(measured(ratio+", bests", m.Size, "×", m.Best/p.Best))
			}
			for _, products := range own {
				if least := b.least[m.Name]; least != "" && products.Name == least && products.Unit == m.Unit &&
					strings.HasSuffix(products.Size, m.Size) {
					b.report(measured(ratio+", products alone", m.Size, "×", products.Value/p.Value))
				}
			}
		}
	}
	return nil
}
