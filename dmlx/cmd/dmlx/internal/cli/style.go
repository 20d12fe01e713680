package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/figures"
)

// Pictures returns the descriptions of a report's parts by name, and writes the parts to the folder out in all formats
// unless it is empty. A part that cannot be shown is left out with a warning.
func (a *App) Pictures(r *report.Report, out, prefix string) (words map[string]string, files []string, err error) {
	words, files = make(map[string]string), []string{} // An array in JSON, even if empty.
	for _, p := range r.Parts {
		if err := figures.Failure(p.Of); err != nil {
			words[p.Name] = fmt.Sprintf("not shown: %v", err)
			a.Logf("%s: not shown: %v", p.Name, err)
			continue
		}
		if f, ok := p.Of.(*figures.Figure); ok {
			words[p.Name] = f.Alt
		} else if text, err := figures.Bytes(p.Of, "txt"); err != nil {
			return nil, nil, err
		} else {
			words[p.Name] = strings.TrimRight(string(text), "\n")
		}
		if out == "" {
			continue
		}
		saved, err := a.SaveAll(p.Of, filepath.Join(out, strings.TrimSuffix(prefix+"-"+p.Name, "-")))
		if err != nil {
			return nil, nil, err
		}
		files = append(files, saved...)
	}
	return words, files, nil
}

// AddStyle adds the flag of how figures are drawn. [App.CheckStyle] reads it.
func (a *App) AddStyle(f *pflag.FlagSet) {
	f.BoolVar(&a.print, "print", false, "draw the figures of --out for a paper: in serif letters, PDF without its source")
}

// CheckStyle reads the flag of [App.AddStyle], which belongs to a folder for the output, and checks the folder as
// [CheckOutDir] does.
func (a *App) CheckStyle(out string) error {
	if out == "" && a.print {
		return Usagef("--print is for files: add --out DIR")
	}
	return CheckOutDir(out)
}

// SaveAll writes a picture or table to files with the format as extension, in all formats except text, which is
// printed, in the style that [App.CheckStyle] has read.
func (a *App) SaveAll(of figures.Output, name string) (files []string, err error) {
	if a.print {
		of = figures.Print(of)
	}
	for _, format := range of.Formats() {
		if format == "txt" {
			continue
		}
		path := name + "." + format
		if err := figures.Save(of, path); err != nil {
			return nil, err
		}
		files = append(files, path)
	}
	return files, nil
}

// FilesText lists the files that were written.
func FilesText(files []string) string {
	if len(files) == 0 {
		return ""
	}
	return "\n\nwrote " + strings.Join(files, "\n      ")
}
