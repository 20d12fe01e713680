package embedding

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

// NewRecall measures the retrieval of embeddings in files.
func NewRecall(a *cli.App) *cobra.Command {
	var embeddings, labels, galleryEmbeddings, galleryLabels, names, k string
	var leaveOut bool
	var devices int
	cmd := &cobra.Command{
		Use:   "recall --embeddings E.npy --labels L.npy",
		Short: "Measure the retrieval of embeddings: Recall@K, MAP@R, R-precision",
		Long: `Measure the retrieval of embeddings [N, D], not necessarily normalized, with labels [N]: integers or names,
as a NumPy array or as a text with one a line. dmlx embed writes such files.

Without a gallery each embedding is a query among all others. Queries without any match are counted and left out of the
means. Of equal similarities the first row counts as nearer; queries of which that decides a measure are counted. Rows
of zeros, which have no direction, are counted. So are queries that are also rows of the gallery: they find themselves
unless --leave-out-queries removes them from the gallery.`,
		Example: "  dmlx recall --embeddings E.npy --labels L.npy",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			labels = files.LabelsOf(embeddings, labels)
			galleryLabels = files.LabelsOf(galleryEmbeddings, galleryLabels)
			if _, err := os.Stat(embeddings); err != nil {
				return err
			} else if labels == "" {
				return cli.Usagef("want --labels L.npy: %s is not there", files.Beside(embeddings, files.LabelsFile))
			}
			pairs := []string{embeddings, labels}
			switch {
			case (galleryEmbeddings == "") != (galleryLabels == ""):
				return cli.Usagef("a gallery needs both --gallery-embeddings and --gallery-labels")
			case leaveOut && galleryEmbeddings == "":
				return cli.Usagef("--leave-out-queries belongs to a gallery: without one no query is ranked against itself")
			case galleryEmbeddings != "":
				pairs = append(pairs, galleryEmbeddings, galleryLabels)
			}
			batches, err := files.ReadBatches(pairs...)
			if err != nil {
				return err
			}
			queries, gallery := &batches[0], (*retrieval.Embeddings)(nil)
			size := queries.N - 1
			var list []string
			if names != "" {
				if list, err = files.ReadNames(names, queries.N); err != nil {
					return err
				}
			}
			zero := files.SayOdd(a.Logf, queries, embeddings, list, false)
			within := 0
			if galleryEmbeddings != "" {
				gallery = &batches[1]
				size = gallery.N
				files.SayOdd(a.Logf, gallery, galleryEmbeddings, nil, false)
				there, rest := files.InGallery(queries, gallery)
				if within = len(there); leaveOut {
					if gallery, size = rest, rest.N; size == 0 {
						return fmt.Errorf("%s has only rows that are queries: nothing is left as a gallery", galleryEmbeddings)
					}
					a.Logf("left %d rows that are queries out of the gallery", batches[1].N-rest.N)
				} else if within > 0 {
					a.Logf("%d of %d queries are in the gallery themselves, with the same label, and find themselves; "+
						"--leave-out-queries takes them out: %s", within, queries.N, files.FirstOf(there, list))
				}
			}
			ks, err := parseKs(k)
			if err != nil {
				return err
			}
			if !cmd.Flags().Changed("k") { // By default no K is larger than the gallery.
				ks = slices.DeleteFunc(ks, func(k int) bool { return k > size })
			}
			choice, err := a.BackendOn(devices, false)
			if err != nil {
				return err
			}
			a.Line.Show("ranking %d rows for %d queries", size, queries.N)
			r, err := retrieval.EvaluateOn(cmd.Context(), choice.Backend, choice.DeviceCount(), queries, gallery, ks,
				func(done, total int) {
					a.Line.Show("ranking %d rows for %d queries: %d %%", size, queries.N, 100*done/total)
				})
			a.Line.End()
			if err != nil {
				return err
			}
			if r.Tied > 0 {
				a.Logf("ties: of %d of %d queries a match and a row of another class have the same similarity, so that the order "+
					"of the rows decides which comes first, and with it a measure", r.Tied, queries.N)
			}
			var text strings.Builder
			for _, k := range r.Ks() {
				fmt.Fprintf(&text, "Recall@%-5d %6.2f\n", k, 100*r.Recall[k])
			}
			fmt.Fprintf(&text, "MAP@R        %6.2f\nR-precision  %6.2f\nin percent, over %d queries; %d more have no match",
				100*r.MAPAtR, 100*r.RPrecision, r.Queries, r.LoneQueries)
			return a.Print(struct {
				*retrieval.Result
				Zero   int `json:"zero_rows"`
				Within int `json:"queries_in_gallery"`
				Tied   int `json:"tied_queries"`
			}{r, zero, within, r.Tied}, text.String())
		},
	}
	f := cmd.Flags()
	f.StringVar(&embeddings, "embeddings", "", "embeddings [N, D] (.npy)")
	f.StringVar(&labels, "labels", "", "labels, integers or names [N] (.npy or .txt; default: E.labels.npy beside E.npy)")
	f.StringVar(&names, "names", "", "text file with a line for each row: its name in messages")
	f.StringVar(&galleryEmbeddings, "gallery-embeddings", "",
		"embeddings of the gallery [M, D] (.npy; default: the queries themselves)")
	f.StringVar(&galleryLabels, "gallery-labels", "", "labels of the gallery [M] (.npy or .txt)")
	f.BoolVar(&leaveOut, "leave-out-queries", false, "leave rows out of the gallery that are queries, with the same label")
	f.StringVar(&k, "k", "1,2,4,8", "the K of Recall@K, as in 1-4 or 1,2,4,8; by default those up to the gallery's size")
	cli.AddDevices(f, &devices)
	cli.Require(cmd, "embeddings")
	return cmd
}

// parseKs reads the K of Recall@K.
func parseKs(text string) ([]int, error) {
	numbers, err := presets.ParseNumbers(text)
	if err != nil {
		return nil, cli.Usagef("--k: %w", err)
	}
	var ks []int
	for _, n := range numbers {
		if n < 1 || n > math.MaxInt32 {
			return nil, cli.Usagef("--k %s: want numbers from 1", text)
		}
		ks = append(ks, int(n))
	}
	return ks, nil
}
