package lab

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/durable"
)

// ExecuteOptions are the options of [Lab.Execute]. The zero value has no limit.
type ExecuteOptions struct {
	Timeout time.Duration                       // Time limit of a cell; 0 is no limit.
	Cell    func(cell, of int, seconds float64) // Called after each code cell; may be nil.
	Nice    int                                 // By how much others have the processor before it; see nice(1).
}

// CellError says which cell of a notebook failed.
type CellError struct {
	Notebook string
	Cell     int    // Counted over the code cells, from 1.
	Source   string // The cell's.
	Message  string // Of the compiler or the program.
}

func (e *CellError) Error() string {
	return fmt.Sprintf("%s: code cell %d (%s) failed: %s", e.Notebook, e.Cell, excerpt(e.Source), text.OneLine(e.Message))
}

// Execute runs a notebook from top to bottom in this checkout's kernel and saves it with its outputs. After a failure
// the file is unchanged; the error is a *CellError if a cell failed. If the file has changed meanwhile it stays as it
// is, and the error names the file beside it that has the outputs. Call [CheckNotebook] and Setup first.
func (l *Lab) Execute(ctx context.Context, notebook string, o ExecuteOptions) error {
	path, err := filepath.Abs(notebook)
	if err != nil {
		return err
	}
	seconds := int((o.Timeout + time.Second - 1) / time.Second)
	cmd := exec.CommandContext(ctx, "nice", "-n", strconv.Itoa(o.Nice), l.python(), "-I", "-", path, Kernel,
		strconv.Itoa(seconds))
	cmd.Stdin = bytes.NewReader(executeScript)
	cmd.Dir = filepath.Dir(path)
	cmd.Env = l.environ(true)
	var log bytes.Buffer
	cmd.Stderr = &log
	ownGroup(cmd)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var failure error
	saved := false
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event struct {
			Cell, Of int
			Seconds  float64
			Saved    bool
			Beside   string // Where the outputs are, if the notebook has changed meanwhile.
			Failed   *struct {
				Cell            int
				Source, Message string
			}
		}
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			continue
		}
		saved = saved || event.Saved
		if event.Beside != "" {
			failure = fmt.Errorf("%s changed while it ran, and is as it was saved: the outputs are in %s", notebook,
				event.Beside)
		}
		if event.Failed != nil {
			failure = &CellError{notebook, event.Failed.Cell, event.Failed.Source, event.Failed.Message}
		} else if event.Of > 0 && o.Cell != nil {
			o.Cell(event.Cell, event.Of, event.Seconds)
		}
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failure != nil:
		return failure
	case err != nil || !saved:
		return fmt.Errorf("%s: %s", notebook, text.LastLine(log.String(), errors.Join(err, errors.New("not saved"))))
	}
	return nil
}

// CheckNotebook checks that a file is a notebook whose cells this kernel can run.
func CheckNotebook(path string) error {
	data, err := durable.ReadAtMost(path, durable.MaxText)
	if err != nil {
		return err
	}
	var nb struct {
		Cells    []json.RawMessage `json:"cells"`
		Metadata struct {
			Kernel kernelSpec `json:"kernelspec"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(data, &nb); err != nil || nb.Cells == nil {
		return fmt.Errorf("%s is not a notebook: want a .ipynb file of JSON with cells", path)
	}
	if kernel := nb.Metadata.Kernel; !strings.EqualFold(cmp.Or(kernel.Language, "go"), "go") {
		return fmt.Errorf("%s is a notebook for %s, and lab runs only Go", path, cmp.Or(kernel.DisplayName, kernel.Language))
	}
	return nil
}

// excerpt returns the first line of a cell that is not just a bracket, a comment or an import.
func excerpt(source string) string {
	for line := range strings.Lines(source) {
		line = strings.TrimSpace(line)
		if len(line) < 4 || strings.HasPrefix(line, "//") || strings.HasPrefix(line, "import") ||
			strings.HasPrefix(line, `"`) {
			continue
		}
		if r := []rune(line); len(r) > 60 {
			line = string(r[:59]) + "…"
		}
		return line
	}
	return ""
}
