package stored

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/inspect"
)

// newLook shows the retrieval of a finished run on its test images.
func newLook(a *cli.App) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "look RUN",
		Short: "Show the retrieval of a run: queries and their neighbors",
		Long: `Show the retrieval of a finished run on its test images: queries with their nearest neighbors, and failed
queries. The command prints a description of each; --out writes the pictures to a folder. RUN is the run's name or its
first digits. Bundled runs have no embeddings, so that they cannot be shown.`,
		Example: "  dmlx runs look 077c9a --out pictures/",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := cli.CheckOutDir(out); err != nil {
				return err
			}
			store, hash, err := a.Find(args[0])
			if err != nil {
				return err
			}
			r, err := inspect.Look(cmd.Context(), a.Backend, store, hash)
			if err != nil {
				return err
			}
			words, files, err := a.Pictures(r, out, "look-"+hash)
			if err != nil {
				return err
			}
			v := map[string]any{"run": hash, "dir": store.Path(hash), "recall": r.Results[0].Recall, "parts": words,
				"files": files}
			text := r.Title + "\n" + r.Provenance
			for _, p := range r.Parts {
				text += fmt.Sprintf("\n\n%s\n%s", p.Name, words[p.Name])
			}
			return a.Print(v, text+cli.FilesText(files))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "folder for the pictures, as SVG, PDF and PNG")
	return cmd
}
