package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gradient-surgery/dml/dmlx/inspect"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/figures"
)

// newLook shows the retrieval of a finished run on its test images.
func newLook(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "look RUN",
		Short: "Show the retrieval of a run: queries and their neighbors, hard triplets, recall by class, a map",
		Long: `Show the retrieval of a finished run on its test images: queries with their nearest neighbors, failed queries,
the hardest triplets, recall by class, and a map of the embeddings. The command prints a description of each; --out
writes the pictures to a folder, the map also as an HTML page that shows the image under the pointer. RUN is the run's
name or its first digits. Bundled runs have no embeddings, so that they cannot be shown.`,
		Example: "  dmlx runs look 077c9a --out pictures/",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkStyle(out); err != nil {
				return err
			}
			store, hash, err := a.find(args[0])
			if err != nil {
				return err
			}
			r, err := inspect.Look(cmd.Context(), a.backend, store, hash)
			if err != nil {
				return err
			}
			words, files, err := a.pictures(r, out, "look-"+hash)
			if err != nil {
				return err
			}
			v := map[string]any{"run": hash, "dir": store.Path(hash), "recall": r.Results[0].Recall, "parts": words,
				"files": files}
			text := r.Title + "\n" + r.Provenance
			for _, p := range r.Parts {
				text += fmt.Sprintf("\n\n%s\n%s", p.Name, words[p.Name])
			}
			return a.print(v, text+filesText(files))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder for the pictures, as SVG, PDF and PNG, and those of images as HTML")
	a.addStyle(cmd.Flags())
	return cmd
}

// pictures returns the descriptions of a report's parts by name, and writes the parts to the folder out in all formats
// unless it is empty. A part that cannot be shown is left out with a warning.
func (a *app) pictures(r *report.Report, out, prefix string) (words map[string]string, files []string, err error) {
	words, files = make(map[string]string), []string{} // An array in JSON, even if empty.
	for _, p := range r.Parts {
		if err := figures.Failure(p.Of); err != nil {
			words[p.Name] = fmt.Sprintf("not shown: %v", err)
			a.logf("%s: not shown: %v", p.Name, err)
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
		saved, err := a.saveAll(p.Of, filepath.Join(out, prefix+"-"+p.Name))
		if err != nil {
			return nil, nil, err
		}
		files = append(files, saved...)
	}
	return words, files, nil
}

// addStyle adds the flags of how figures are drawn. [app.checkStyle] reads them.
func (a *app) addStyle(f *pflag.FlagSet) {
	f.StringVar(&a.width, "width", "", "width of the figures of --out, with text of the same size, as in 240pt or 3.3in "+
		"(default: each one's own)")
	f.StringVar(&a.typeface, "typeface", "sans", "typeface of the figures of --out: sans or serif")
	f.BoolVar(&a.style.NoProvenance, "no-provenance", false, "leave out the line under the PDF figures of --out that "+
		"says where they are from; SVG and PNG keep it")
}

// checkStyle reads the flags of addStyle, which belong to a folder for the output.
func (a *app) checkStyle(out string) error {
	s, err := figures.ParseStyle(a.width, a.typeface)
	if err != nil {
		return usage(err)
	}
	s.NoProvenance = a.style.NoProvenance
	if a.style = s; out == "" && s != (figures.Style{}) {
		return usagef("--width, --typeface and --no-provenance are for files: add --out DIR")
	}
	return nil
}

// saveAll writes a picture or table to files with the format as extension, in all formats except text, which is
// printed. A figure that is too wide for the width that is asked for keeps its own, with a warning.
func (a *app) saveAll(of figures.Output, name string) (files []string, err error) {
	if drawn, err := a.style.Apply(of); err == nil {
		of = drawn
	} else {
		a.logf("%s: %v", name, err)
		own := a.style
		own.Width = 0
		if of, err = own.Apply(of); err != nil {
			return nil, err
		}
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

// filesText lists the files that were written.
func filesText(files []string) string {
	if len(files) == 0 {
		return ""
	}
	return "\n\nwrote " + strings.Join(files, "\n      ")
}
