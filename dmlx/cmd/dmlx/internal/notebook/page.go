package notebook

import (
	"context"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/page"
)

// singleFile is the name of the page as one file.
const singleFile = "dmlx.html"

// NewPage builds the playground's page.
func NewPage(c *cli.Console) *cobra.Command {
	var (
		out    string
		single bool
		open   bool
	)
	cmd := &cobra.Command{
		Use:   "page --open | --out DIR",
		Short: "Build the playground as a page that needs no kernel",
		Long: `Build the playground as a page: what a rule or a loss does to embeddings, computed in the browser by this
library itself. In its workbench a linear layer learns by that rule or loss, on frozen features of minicar. It needs
no kernel and sends nothing anywhere.

With --open, the page is made in the cache folder and opened in your browser.

Without --single-file, DIR gets a folder of files for any web server: index.html and what it refers to. With it, DIR
gets ` + singleFile + `, one file of about 5 MB that works from a disk, in a mail or in a notebook.

For a lesson, "Link" beside a picture copies its address, as in index.html#view=map&rule=cos/lin/cir&embed, or an
<iframe> that shows it alone and live; #story=euclid opens a one-minute story. PROTOCOL.md of package page lists the
fields of an address.

The program in the page is compiled from the checkout around the working directory or, outside one, from what this
program was built from, which takes about a minute the first time.`,
		Example: `  dmlx page --open
  dmlx page --out public
  dmlx page --out . --single-file`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if (out == "") != open || open && single {
				return cli.Usagef("page: want either --open, or --out with the folder for the page")
			}
			if open {
				cache, err := datasets.CacheDir()
				if err != nil {
					return err
				}
				out, single = filepath.Join(cache, "page"), true
			}
			l, err := Lab(c)
			if err != nil {
				return err
			}
			stop := c.Line.Clock("building the page")
			var p *page.Page
			if err = l.Module(cmd.Context()); err == nil {
				p, err = page.Build(cmd.Context(), l.Root)
			}
			stop()
			if err != nil {
				return err
			}
			path := filepath.Join(out, "index.html")
			if single {
				path = filepath.Join(out, singleFile)
				err = p.WriteSingleFile(path)
			} else {
				err = p.Write(out)
			}
			if err != nil {
				return err
			}
			if open {
				startBrowser(path)
			}
			return c.Print(map[string]string{"page": path}, path)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&open, "open", false, "open the page in your browser")
	f.StringVar(&out, "out", "", "folder for the page")
	f.BoolVar(&single, "single-file", false, "write one file, "+singleFile+", in place of a folder of them")
	return cmd
}

// startBrowser opens a file in the user's browser, if there is one.
func startBrowser(page string) {
	opener := "xdg-open"
	if runtime.GOOS == "darwin" {
		opener = "open"
	}
	if cmd := exec.Command(opener, page); cmd.Start() == nil {
		go func() { _ = cmd.Wait() }()
	}
}

// labPage writes the page beside the notebooks, whose cells show it. folder is JupyterLab's, root that of the go.mod.
func labPage(ctx context.Context, c *cli.Console, root, folder string) {
	p, err := page.Build(ctx, root)
	if err == nil {
		err = p.WriteSingleFile(filepath.Join(folder, "notebooks", singleFile))
	}
	if err != nil && ctx.Err() == nil {
		c.Logf("The page of the playground could not be built (%v): the notebooks show pictures instead", err)
	}
}
