package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// peerProcess is a process that bench.py has forked, which measures other libraries whenever it is asked.
type peerProcess struct {
	ask    io.Writer
	answer *json.Decoder
	stop   func() // What it holds keeps bench.py alive, if this process started that.
}

// startPeer starts bench.py by a Python interpreter, which loads its libraries once for all processes that connect to a
// Unix socket. It ends with this process, or by the function that is returned.
func startPeer(python string) (socket string, stop func(), err error) {
	dir := os.TempDir()
	if len(dir) > 80 { // A socket's path has 108 bytes at most.
		dir = "/tmp"
	}
	if dir, err = os.MkdirTemp(dir, "dmlx-peer-"); err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "socket")
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		return "", nil, err
	}
	listener.SetUnlinkOnClose(false) // Python listens from here on.
	defer listener.Close()
	file, err := listener.File()
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	cmd := exec.Command(python, filepath.Join("internal", "peer", "bench.py"), socket)
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{file}
	caller, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("-peer: %w", err), os.RemoveAll(dir))
	}
	return socket, func() {
		_ = errors.Join(caller.Close(), cmd.Process.Kill(), cmd.Wait(), os.RemoveAll(dir))
	}, nil
}

// openPeer connects to the socket of bench.py that is -peer, or starts it by the Python interpreter of this name. It
// waits until the libraries are loaded: that takes seconds, and would slow what is measured meanwhile.
var openPeer = sync.OnceValues(func() (*peerProcess, error) {
	choice, err := openBench()
	if err != nil {
		return nil, err
	}
	p, socket := &peerProcess{}, *benchPeer
	if info, err := os.Stat(socket); err != nil || info.Mode().Type() != fs.ModeSocket {
		if socket, p.stop, err = startPeer(*benchPeer); err != nil {
			return nil, err
		}
	}
	connection, err := net.Dial("unix", socket)
	if err == nil {
		device, size := "cuda", "whole"
		if onCPU(choice) {
			device = "cpu"
		}
		if testing.Short() {
			size = "small"
		}
		p.ask, p.answer = connection, json.NewDecoder(connection)
		_, err = p.measure(fmt.Sprintf("begin %s %s %d", device, size, os.Getpid()))
	}
	if err != nil {
		if p.stop != nil {
			p.stop()
		}
		err = fmt.Errorf("%w; it needs torch, torchvision, pytorch-metric-learning and faiss-cpu", err)
	}
	return p, err
})

// peerAnswer is what bench.py answers.
type peerAnswer struct {
	Lines []struct {
		Name, Size string
		Ours       string // The name of this module's line to compare with.
		Times      []float64
		Peak       float64 // GB of the device's memory, or 0.
	}
	Missing []string // What could not be measured, and why.
	Result  map[string]any
	Error   string
}

// measure returns what bench.py answers to the name of a section and its arguments.
func (p *peerProcess) measure(section string) (a peerAnswer, err error) {
	if _, err = fmt.Fprintln(p.ask, section); err == nil {
		err = p.answer.Decode(&a)
	}
	if err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	for _, l := range a.Lines {
		if err == nil && len(l.Times) == 0 {
			err = fmt.Errorf("no times for %s", l.Name)
		}
	}
	if err != nil {
		return a, fmt.Errorf("bench.py %s: %w", section, err)
	}
	for _, m := range a.Missing {
		fmt.Fprintln(os.Stderr, m)
	}
	return a, nil
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
	var theirs []measurement
	type line struct{ name, size string }
	beside := make(map[line]string) // The names of this module's lines.
	for range rounds {
		// Before this module, which keeps the memory that it takes of a device; PyTorch gives its own back.
		answer, err := python.measure(name)
		if err != nil {
			return err
		}
		for _, l := range answer.Lines {
			theirs = append(theirs, measured(l.Name, l.Size, "ms", l.Times...))
			if l.Peak > 0 {
				theirs = append(theirs, measured("memory of "+l.Name, l.Size, "GB", l.Peak))
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
			s.report(measured(ratio, m.Size, "×", m.Value/p.Value))
			if m.Times > 1 && p.Times > 1 {
				s.report(measured(ratio+", bests", m.Size, "×", m.Best/p.Best))
			}
			for _, products := range own {
				if least := s.least[m.Name]; least != "" && products.Name == least && products.Unit == m.Unit &&
					strings.HasSuffix(products.Size, m.Size) {
					s.report(measured(ratio+", products alone", m.Size, "×", products.Value/p.Value))
				}
			}
		}
	}
	return nil
}
