// Package nb shows figures, tables, text and progress in a GoNB cell.
//
// A notebook author uses [Show] for a figure or a table, [Must] and [Check] for errors, [NewProgress] for a progress
// line, [Context] to stop with the cell's Stop button, and [Preset] and [Store] for the settings of "dmlx lab".
//
// A cell is a main program, and this package acts as its main function: on an error, Show, Check and Must end the
// cell with one line of text. Outside a notebook, output is text on standard error. The package does not link XLA, so
// a cell that draws is built and run within a second.
package nb

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"html"
	"image/png"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/janpfeifer/gonb/gonbui"

	"github.com/gradient-surgery/dml/figures"
)

// Show displays a figure as a picture, or a table, with an optional caption below it: what to see, as Markdown, and
// then the number of a figure or table of the paper ("Figure 4"), whose own caption is folded beside ours. An error
// ends the cell.
func Show(o figures.Output, caption ...string) {
	Check(show(o))
	if len(caption) > 0 {
		Say("%s", caption[0])
	}
}

// Say displays a paragraph of Markdown, formatted as by fmt.Sprintf. It is for sentences whose numbers come from runs,
// which a text cell must not have.
func Say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !gonbui.IsNotebook {
		fmt.Fprintln(os.Stderr, text)
		return
	}
	gonbui.DisplayMarkdown(text)
	gonbui.Sync()
}

func show(o figures.Output) error {
	if f, ok := o.(*figures.Figure); ok {
		data, err := figures.Bytes(f, "png")
		if err != nil {
			return err
		}
		return showImage(compact(data), f.Alt, f.Width.Points()*96/72)
	}
	format := "html"
	if !gonbui.IsNotebook {
		format = textFormat(o.Formats())
	}
	data, err := figures.Bytes(o, format)
	if err != nil {
		return err
	}
	display(string(data), string(data))
	return nil
}

// textFormat picks the best format for a terminal.
func textFormat(formats []string) string {
	for _, f := range []string{"txt", "text", "md", "csv"} {
		if slices.Contains(formats, f) {
			return f
		}
	}
	return formats[0]
}

// showImage displays a PNG or SVG file, with the given width in CSS pixels unless it is 0.
func showImage(data []byte, alt string, width float64) error {
	out, err := imageHTML(data, alt, width)
	if err != nil {
		return err
	}
	display(out, "["+alt+"]")
	return nil
}

// imageHTML returns an image element with embedded data, its size and its description. Unlike an inline SVG,
// JupyterLab shows it in a notebook that is not trusted yet.
func imageHTML(data []byte, alt string, width float64) (string, error) {
	kind := ""
	if _, err := png.DecodeConfig(bytes.NewReader(data)); err == nil {
		kind = "image/png"
	} else if start := data[:min(len(data), 1024)]; bytes.Contains(start, []byte("<svg")) {
		kind = "image/svg+xml"
	} else {
		return "", fmt.Errorf("nb: the image is neither PNG nor SVG; want one of them")
	}
	size := ""
	if width > 0 {
		size = fmt.Sprintf(` width="%.0f"`, width)
	}
	return fmt.Sprintf(`<img src="data:%s;base64,%s" alt="%s"%s style="max-width:100%%;height:auto">`,
		kind, base64.StdEncoding.EncodeToString(data), html.EscapeString(alt), size), nil
}

// HTML displays HTML markup.
func HTML(markup string) { display(markup, markup) }

// display shows markup in a notebook, and text elsewhere. It returns once the notebook has received it.
func display(markup, text string) {
	if !gonbui.IsNotebook {
		fmt.Fprintln(os.Stderr, text)
		return
	}
	gonbui.DisplayHTML(markup)
	gonbui.Sync()
}

// Check ends the cell on an error and prints the first line of it.
func Check(err error) {
	if err != nil {
		os.Exit(fail(os.Stderr, err))
	}
}

// Must returns the value, or ends the cell on an error as [Check] does:
//
//	nb.Show(nb.Must(figures.Directions(nil)))
func Must[T any](value T, err error) T {
	Check(err)
	return value
}

func fail(w io.Writer, err error) (code int) {
	first, _, _ := strings.Cut(err.Error(), "\n")
	fmt.Fprintln(w, first)
	return 1
}

// Context returns a context that ends when the cell's Stop button is pressed. GoNB kills the cell five seconds later.
var Context = sync.OnceValue(func() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
})

// Preset returns the name of the notebook's preset: DMLX_PRESET, which "dmlx lab --preset" sets, or else quick.
func Preset() string {
	if p := os.Getenv("DMLX_PRESET"); p != "" {
		return p
	}
	return "quick"
}

// Store returns the folder of the run store: DMLX_STORE, which "dmlx lab" sets; or else runs beside the nearest
// go.mod above the working directory; or else runs.
func Store() string {
	if dir := os.Getenv("DMLX_STORE"); dir != "" {
		return dir
	}
	if dir, err := os.Getwd(); err == nil {
		for ; ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
				return filepath.Join(dir, "runs")
			}
			if dir == filepath.Dir(dir) {
				break
			}
		}
	}
	return "runs"
}
