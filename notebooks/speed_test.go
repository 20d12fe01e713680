package notebooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// speedFile has the outputs of benchmarks, one after the other, that speedPage shows.
const (
	speedFile = "dmlx/cmd/dmlx/testdata/speed.json"
	speedPage = "dmlx/cmd/dmlx/SPEED.md"
)

// recordedBench is what a call of the benchmarks records.
type recordedBench struct {
	Date, Machine, Version string
	Backend                struct {
		Name string
		SIMD bool
	}
	Lines []benchLine
}

type benchLine struct {
	Name, Size  string
	Value, Best float64
	Unit        string
	Times       int
}

// recordedSpeed returns the recorded outputs. They must be of one backend, and those of a machine follow each other.
func recordedSpeed(t *testing.T) (all []recordedBench) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(read(t, speedFile)))
	for {
		var b recordedBench
		if err := decoder.Decode(&b); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%s: %v", speedFile, err)
		}
		if b.Machine == "" || b.Version == "" || len(b.Lines) == 0 {
			t.Fatalf("%s: output %d names no machine, no version or no lines", speedFile, len(all)+1)
		}
		all = append(all, b)
	}
	if len(all) == 0 {
		t.Fatalf("%s is empty", speedFile)
	}
	seen := map[string]bool{}
	for i, b := range all {
		if b.Backend.Name != all[0].Backend.Name {
			t.Fatalf("%s: outputs of %s and of %s", speedFile, all[0].Backend.Name, b.Backend.Name)
		}
		if seen[b.Machine] && all[i-1].Machine != b.Machine {
			t.Fatalf("%s: an output of %s after those of %s", speedFile, b.Machine, all[i-1].Machine)
		}
		seen[b.Machine] = true
	}
	return all
}

// TestSpeed checks that the page about speed is what the recorded outputs say. With -regen it is written anew. To
// record a machine:
//
//	f=$PWD/dmlx/cmd/dmlx/testdata/speed.json; rm $f
//	go test ./dmlx/cmd/dmlx -run '^$' -bench 'Step|Run|Surgery|Losses|Convolution|ResNet|Input' -peer PYTHON \
//		-record $f -timeout 3h
//	go test ./notebooks -run 'Speed|Results' -regen
func TestSpeed(t *testing.T) {
	want := speedText(recordedSpeed(t))
	if *cmpimg.GenerateTestData {
		if err := durable.WriteFile(filepath.Join("..", speedPage), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have := strings.Split(read(t, speedPage), "\n")
	for i, line := range strings.Split(want, "\n") {
		if i >= len(have) || have[i] != line {
			t.Fatalf("%s, line %d is not what %s says; if that is right: go test ./notebooks -run Speed -regen\nwant %s",
				speedPage, i+1, speedFile, line)
		}
	}
	if n := strings.Count(want, "\n") + 1; len(have) != n {
		t.Errorf("%s has %d lines, want %d", speedPage, len(have), n)
	}
}

// speedText writes the page from the recorded outputs.
func speedText(all []recordedBench) string {
	var s strings.Builder
	file := strings.TrimPrefix(speedFile, "dmlx/cmd/dmlx/")
	fmt.Fprintf(&s, `# Speed

Measured on shared virtual machines, backend %s. Each table is one call of the benchmarks, whose output is
[recorded](%s): medians of several repetitions, with the best in parentheses. Other
programs on the host move medians by some tens of percent, bests by less, and on some days all times by a factor of two
or three: compare times within a table alone.

`+"`dmlx`"+` runs compiled graphs. The libraries beside it run eagerly where they do not say compiled, with as many
threads, in turn with `+"`dmlx`"+`. A ratio is our median over theirs, and then our best over theirs: below 1, ours is
quicker.

The limit is the time of matrix products, over theirs. For a loss, they are those that it takes here: all losses are
built from the similarities of all pairs of a batch, or of a batch and proxies, and no loss that is built so has a lower
ratio. For a convolution, they take as many operations as it and its gradients do: the backend's convolutions are as
quick as its products, which are slower than PyTorch's convolutions.

A smoke run is one on the Go backend; "smoke run, xla", and "smoke run" before commit db78395, is the same on XLA.
Since commit b145db8 both sides have huge pages of memory where Linux gives them on demand
([environment](../../../environment.md)).
`, all[0].Backend.Name, file)
	for i, b := range all {
		if i == 0 || b.Machine != all[i-1].Machine {
			fmt.Fprintf(&s, "\n## %s\n", b.Machine)
		}
		built := ""
		if b.Backend.SIMD {
			built = ", built with `GOEXPERIMENT=simd`"
		}
		fmt.Fprintf(&s, "\nOn %s, of commit %s%s:\n\n"+
			"| what | | time | beside it, in the same run | time | ratio | of bests | limit |\n"+
			"|:--|:--|:--|:--|:--|:--|:--|:--|\n", b.Date, b.Version[max(0, len(b.Version)-12):], built)
		for i, l := range b.Lines {
			if isPeer(b.Lines, i) || strings.HasPrefix(l.Name, "ratio to ") {
				continue
			}
			beside := besides(b.Lines, l)
			if len(beside) == 0 {
				fmt.Fprintf(&s, "| %s | %s | %s | | | | | |\n", l.Name, l.Size, l.times())
			}
			for _, p := range beside {
				fmt.Fprintf(&s, "| %s | %s | %s | %s | %s | %.2g | %s | %s |\n", l.Name, l.Size, l.times(), p.Name,
					p.times(), l.Value/p.Value, ratio(b.Lines, l, p, ", bests"), ratio(b.Lines, l, p, ", products alone"))
			}
		}
	}
	s.WriteString(`
## Measure your machine

In a clone of the repository, ` + "`go test ./dmlx/cmd/dmlx -run '^$' -bench 'Step|ResNet|Input|Recall'`" + `
measures steps, images and recall, and
` + "`go test ./dmlx/cmd/dmlx -run '^$' -bench 'Losses|Step' -peer PYTHON`" + ` measures what the tables above
have, beside the libraries of a Python interpreter. Other benchmarks:

- ` + "`go test ./dmlx/cmd/dmlx -run '^$' -bench 'Jobs|Store|Cell'`" + `: several runs at a time, a store
  with 100,000 runs, a notebook's cell;
- ` + "`go test ./dmlx/train -run '^$' -bench 'TenSeeds|ChosenHead'`" + `: ten seeds of heads, together and apart;
- ` + "`DMLX_PLAYWRIGHT=PYTHON go test ./dmlx/page ./notebooks/playground -run InBrowser -v`" + `: panels and the page.

Two runs at a time, each in a process with a core of its own, would finish more runs an hour. ` + "`dmlx`" + ` does
not pin processes, because XLA's sums on one thread and on two differ in their last bits: a run's numbers would depend
on how many were trained beside it.
`)
	return s.String()
}

// isPeer reports whether a line is of another library: lines with ratios to it follow.
func isPeer(lines []benchLine, i int) bool {
	for _, l := range lines[i+1:] {
		if l.Name == "ratio to "+lines[i].Name {
			return true
		}
	}
	return false
}

// besides returns the lines of other libraries that a line has ratios to.
func besides(lines []benchLine, own benchLine) (out []benchLine) {
	for i, r := range lines {
		if !strings.HasPrefix(r.Name, "ratio to ") || r.Size != own.Size {
			continue
		}
		for k := i - 1; k >= 0; k-- { // The library's line is the last one before the ratios to it.
			if !strings.HasPrefix(lines[k].Name, "ratio to ") {
				if fmt.Sprintf("%.6g", own.Value/lines[k].Value) == fmt.Sprintf("%.6g", r.Value) {
					out = append(out, lines[k])
				}
				break
			}
		}
	}
	return out
}

// ratio returns a recorded ratio of a line to another library's, "" without one.
func ratio(lines []benchLine, own, peer benchLine, kind string) string {
	for _, l := range lines {
		if l.Name == "ratio to "+peer.Name+kind && l.Size == own.Size {
			return fmt.Sprintf("%.2g", l.Value)
		}
	}
	return ""
}

// times writes the median and, of several repetitions, the best.
func (l benchLine) times() string {
	show := func(v float64) string {
		unit := l.Unit
		if unit == "ms" && v >= 1000 {
			v, unit = v/1000, "s"
		}
		if v >= 100 {
			return fmt.Sprintf("%.0f %s", v, unit)
		}
		return fmt.Sprintf("%.3g %s", v, unit)
	}
	if l.Times < 2 {
		return show(l.Value)
	}
	return show(l.Value) + " (" + show(l.Best) + ")"
}

// quickRunSeconds returns how long the recorded quick runs took, as in "16 to 19".
func quickRunSeconds(t *testing.T) string {
	low, high := 0.0, 0.0
	for _, b := range recordedSpeed(t) {
		for _, l := range b.Lines {
			if l.Name == "quick run" {
				if low == 0 || l.Value < low {
					low = l.Value
				}
				high = max(high, l.Value)
			}
		}
	}
	if low == 0 {
		t.Fatalf("%s has no quick run", speedFile)
	}
	return fmt.Sprintf("%.0f to %.0f", low, high)
}
