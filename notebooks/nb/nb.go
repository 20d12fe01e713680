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
	"cmp"
	"encoding/base64"
	"fmt"
	"html"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/gradient-surgery/dml/figures"
)

// Show displays a figure or a table, and below it an optional caption: what to see, as Markdown, and then the number of
// a figure or table of the paper ("Figure 4"), whose own caption is folded beside ours. An error ends the cell, that of
// an unknown number before anything is displayed.
func Show(o figures.Output, caption ...string) {
	text, err := captioned(o, caption)
	Check(err)
	Check(show(o))
	if text != "" {
		Say("%s", text)
	}
}

// picture is a figure, or an output that has one as its still.
type picture interface{ Still() *figures.Figure }

// captioned returns the caption of an output as Markdown, empty without one.
func captioned(o figures.Output, caption []string) (string, error) {
	if len(caption) == 0 {
		return "", nil
	}
	if len(caption) > 2 {
		return "", fmt.Errorf("nb: %d captions; want one, and the number of a figure or table of the paper", len(caption))
	}
	text := caption[0]
	if len(caption) == 2 {
		papers, err := figures.PaperCaption(caption[1])
		if err != nil {
			return "", err
		}
		text += folded("The paper's caption of "+caption[1], papers)
	}
	if p, ok := o.(picture); ok {
		text += folded("The picture in words", p.Still().Alt)
	}
	return text, nil
}

// folded returns Markdown that shows its summary, and text when it is clicked.
func folded(summary, text string) string {
	return fmt.Sprintf("\n\n<details><summary>%s</summary>\n\n%s\n\n</details>", summary, text)
}

// Say displays a paragraph of Markdown, formatted as by fmt.Sprintf. It is for sentences whose numbers come from runs,
// which a text cell must not have.
func Say(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	display(bundle{"text/markdown": text, "text/plain": text}, nil)
}

// bundle is an output in several formats, by MIME type.
type bundle map[protocol.MIMEType]any

func show(o figures.Output) error {
	data, metadata, err := formats(o)
	if err != nil {
		return err
	}
	display(data, metadata)
	return nil
}

// formats returns an output in the formats that front ends and converters choose from, with the metadata of a picture:
// its width in CSS pixels and its description.
func formats(o figures.Output) (data bundle, metadata map[string]any, err error) {
	data = bundle{}
	add := func(kind protocol.MIMEType, content []byte, e error) {
		data[kind] = string(content)
		err = cmp.Or(err, e)
	}
	if p, ok := o.(picture); ok {
		f := p.Still()
		content, e := figures.Bytes(f, "png")
		add("image/png", []byte(base64.StdEncoding.EncodeToString(compact(content))), e)
		data["text/plain"] = "[" + f.Alt + "]"
		// The kernel takes no map with values of several types, and front ends look for alt here too.
		width := map[string]int{"width": int(math.Round(f.Width.Points() * 96 / 72))}
		metadata = map[string]any{"image/png": width, "alt": f.Alt}
	}
	if t, ok := o.(*figures.Table); ok {
		content, e := figures.Inline(t)
		add("text/latex", content, e)
	}
	for kind, format := range map[protocol.MIMEType]string{
		"text/html": "html", "text/markdown": "md", "text/plain": "txt"} {
		if slices.Contains(o.Formats(), format) {
			content, e := figures.Bytes(o, format)
			add(kind, content, e)
		}
	}
	return data, metadata, err
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

// HTML displays HTML markup. Converters to LaTeX lose it: use [Show] where there is a choice.
func HTML(markup string) { display(bundle{"text/html": markup}, nil) }

// display shows an output in a notebook, and its text elsewhere. It returns once the notebook has received it.
func display(data bundle, metadata map[string]any) {
	if !gonbui.IsNotebook {
		fmt.Fprintln(os.Stderr, cmp.Or(data["text/plain"], data["text/html"]))
		return
	}
	gonbui.SendData(&protocol.DisplayData{Data: data, Metadata: metadata})
	gonbui.Sync()
}

// Check ends the cell on an error and prints the first line of it. If the error comes from the Stop button, the cell
// ends without failure and says where it stopped.
func Check(err error) {
	if err == nil {
		return
	}
	if gonbui.IsNotebook && stopped(err) {
		sayStopped(stopLine(err))
		os.Exit(0)
	}
	os.Exit(fail(os.Stderr, err))
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
