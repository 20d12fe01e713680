package app

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
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
		for _, format := range p.Of.Formats() {
			if out == "" || format == "txt" { // Text is printed.
				continue
			}
			path := filepath.Join(out, strings.TrimSuffix(prefix+"-"+p.Name, "-")+"."+format)
			if err := figures.Save(p.Of, path); err != nil {
				return nil, nil, err
			}
			files = append(files, path)
		}
	}
	return words, files, nil
}

// CheckPicture checks the name of a picture that a flag writes, if there is one.
func CheckPicture(flag, path string) error {
	if f := strings.TrimPrefix(filepath.Ext(path), "."); path != "" && !slices.Contains(new(figures.Figure).Formats(), f) {
		return cli.Usagef("--%s %s: want a file that ends in .svg, .png or .pdf", flag, path)
	}
	return nil
}

// FilesText lists the files that were written.
func FilesText(files []string) string {
	if len(files) == 0 {
		return ""
	}
	return "\n\nwrote " + strings.Join(files, "\n      ")
}
