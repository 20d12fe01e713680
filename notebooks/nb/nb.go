// Package nb shows figures, tables, text and progress in a GoNB cell.
//
// A notebook author uses [Show] for a figure or a table, [Say] for a sentence with numbers, [Must] and [Check] for
// errors, [NewProgress] for a progress line, [Context] to stop with the cell's Stop button, and [Preset] and [Store]
// for the settings of "dmlx lab".
//
// A cell is a main program, and this package acts as its main function: on an error, Show, Check and Must end the
// cell with one line of text. Outside a notebook, output is text on standard error. The package does not link XLA, so
// a cell that draws is built and run within a second.
//
// # Saved outputs
//
// A notebook is read in JupyterLab, on GitHub and nbviewer, in VS Code, and as the HTML, Markdown and LaTeX of
// nbconvert, and each takes one format of an output. Nearly all prefer HTML to an image, but GitHub and Markdown lose
// an image inside HTML, and LaTeX loses all HTML. So
//
//   - a picture is an image without HTML, PNG or, for photographs, JPEG, with its width and its words in the metadata,
//     which JupyterLab and nbconvert of "dmlx lab" show as its alternative text; for other programs the words are
//     folded in the caption;
//   - a table is HTML, Markdown, LaTeX that nbconvert's preamble can set, and text;
//   - a sentence or a caption is Markdown, which JupyterLab shows with formulas, and folds with details elements;
//   - what makes a picture interactive is a script of its own after it, with a line of text for where it may not run.
package nb

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
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
	words := ""
	if f, ok := o.(*figures.Figure); ok {
		words = f.Alt
	}
	text, err := captioned(caption, words)
	Check(err)
	Check(show(o))
	if text != "" {
		say(text)
	}
}

// Caption displays a caption as that of [Show] below an output that another function displays, such as [Live].
func Caption(caption ...string) {
	say(Must(captioned(caption, "")))
}

// captioned returns a caption as Markdown, empty without one. words are the picture in words.
func captioned(caption []string, words string) (string, error) {
	if len(caption) == 0 {
		return "", nil
	}
	if len(caption) > 2 {
		return "", fmt.Errorf("nb: %d captions; want one, and the number of a figure or table of the paper", len(caption))
	}
	text := caption[0]
	if len(caption) == 2 {
		papers, err := paperCaption(caption[1])
		if err != nil {
			return "", err
		}
		text += folded("The paper's caption of "+caption[1], papers)
	}
	if words != "" {
		escaped := regexp.MustCompile("[\\\\`*_$<\\[]").ReplaceAllString(words, `\$0`)
		text += folded("The picture in words", strings.ReplaceAll(escaped, "\n", "\n\n"))
	}
	return text, nil
}

// folded returns Markdown that shows its summary, and text when it is clicked.
func folded(summary, text string) string {
	return fmt.Sprintf("\n\n<details><summary>%s</summary>\n\n> %s\n\n</details>", summary,
		strings.ReplaceAll(text, "\n", "\n> "))
}

// Say displays a paragraph of Markdown, formatted as by fmt.Sprintf. It is for sentences whose numbers come from runs,
// which a text cell must not have. HTML, control characters and pictures from elsewhere in args stay text or go.
func Say(format string, args ...any) { say(sentence(format, args...)) }

func sentence(format string, args ...any) string {
	clean := slices.Clone(args)
	for i, a := range args {
		if _, number := a.(int); !number { // A width or a precision, too.
			clean[i] = cleaned{a}
		}
	}
	return fmt.Sprintf(format, clean...)
}

// cleaned is a value of which nothing is Markdown but formulas.
type cleaned struct{ value any }

func (c cleaned) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, figures.Markdown(fmt.Sprintf(fmt.FormatString(f, verb), c.value))) // It does not fail.
}

func say(text string) {
	display(bundle{"text/markdown": setSymbols(text), "text/plain": plain(text)}, nil)
}

// plain returns Markdown as text: formulas in symbols, and what is folded below its summary.
func plain(markdown string) string {
	unfolded := strings.NewReplacer("<details><summary>", "", "</summary>", ":", "\n\n</details>", "", "\n> ", "\n")
	return symbol.ReplaceAllStringFunc(unfolded.Replace(markdown), func(s string) string {
		if strings.HasPrefix(s, "$") {
			return figures.Plain(s)
		}
		return strings.TrimPrefix(s, "\\")
	})
}

// symbol matches one of the symbols that a PDF would lack, or what may have them as they are: an escaped character,
// code, a formula.
var symbol = regexp.MustCompile("\\\\.|`[^`]*`|\\$[^$]*\\$|[" +
	strings.Join(slices.Collect(maps.Keys(figures.Symbols)), "") + "]")

// setSymbols returns Markdown with its symbols as formulas.
func setSymbols(markdown string) string {
	return symbol.ReplaceAllStringFunc(markdown, func(s string) string { return cmp.Or(figures.Symbols[s], s) })
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
	if f, ok := o.(*figures.Figure); ok {
		kind, content, err := encoded(f)
		if err != nil {
			return nil, nil, err
		}
		// The kernel takes no map with values of several types, and converters look for alt here too.
		alt := figures.Printable(f.Alt)
		metadata = map[string]any{string(kind): map[string]int{"width": width(f)}, "alt": alt}
		if f.Photographs {
			metadata["needs_background"] = "light" // JupyterLab's word for it.
		}
		return bundle{kind: base64.StdEncoding.EncodeToString(content), "text/plain": "[" + alt + "]"}, metadata, nil
	}
	data = bundle{}
	for kind, format := range map[protocol.MIMEType]string{
		"text/html": "html", "text/markdown": "md", "text/plain": "txt", "text/latex": "tex"} {
		content, err := figures.Bytes(o, format)
		if err != nil {
			return nil, nil, err
		}
		data[kind] = string(content)
	}
	return data, nil, nil
}

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
	// Of a line in a cell the text is shown: its number is that in the program that GoNB makes of all cells.
	var located interface {
		Source() (file string, line int)
	}
	if errors.As(err, &located) {
		file, line := located.Source()
		if raw, err := os.ReadFile(file); err == nil {
			if lines := strings.Split(string(raw), "\n"); line > 0 && line <= len(lines) {
				where := fmt.Sprintf(" (%s, line %d)", filepath.Base(file), line)
				first = strings.ReplaceAll(first, where, "") + "; the line is " + strings.TrimSpace(lines[line-1])
			}
		}
	}
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
	for dir, _ := os.Getwd(); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "runs")
		}
		if dir == filepath.Dir(dir) {
			return "runs"
		}
	}
}
