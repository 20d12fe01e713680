package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
)

func newRecall(a *app) *cobra.Command {
	var embeddings, labels, galleryEmbeddings, galleryLabels string
	var ks []int
	var devices int
	cmd := &cobra.Command{
		Use:   "recall --embeddings E.npy --labels L.npy",
		Short: "Measure the retrieval of embeddings: Recall@K, MAP@R, R-precision",
		Long: `Measure the retrieval of embeddings [N, D], not necessarily normalized, with labels, integers [N].

Without a gallery each embedding is a query among all others. Queries without any match are counted and left out of the
means.`,
		Example: "  dmlx recall --embeddings E.npy --labels L.npy",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			queries, err := readEmbeddings(embeddings, labels)
			if err != nil {
				return err
			}
			var gallery *retrieval.Embeddings
			if (galleryEmbeddings == "") != (galleryLabels == "") {
				return usagef("a gallery needs both --gallery-embeddings and --gallery-labels")
			}
			if galleryEmbeddings != "" {
				if gallery, err = readEmbeddings(galleryEmbeddings, galleryLabels); err != nil {
					return err
				}
			}
			if !cmd.Flags().Changed("k") { // By default no K is larger than the gallery.
				size := len(queries.Labels) - 1
				if gallery != nil {
					size = len(gallery.Labels)
				}
				ks = slices.DeleteFunc(ks, func(k int) bool { return k > size })
			}
			choice, err := a.backendOn(devices)
			if err != nil {
				return err
			}
			r, err := retrieval.EvaluateOn(cmd.Context(), choice.Backend, choice.DeviceCount(), queries, gallery, ks)
			if err != nil {
				return err
			}
			var text strings.Builder
			for _, k := range r.Ks() {
				fmt.Fprintf(&text, "Recall@%-5d %6.2f\n", k, 100*r.Recall[k])
			}
			fmt.Fprintf(&text, "MAP@R        %6.2f\nR-precision  %6.2f\nin percent, over %d queries; %d more have no match",
				100*r.MAPAtR, 100*r.RPrecision, r.Queries, r.LoneQueries)
			return a.print(r, text.String())
		},
	}
	f := cmd.Flags()
	f.StringVar(&embeddings, "embeddings", "", "embeddings [N, D] (.npy)")
	f.StringVar(&labels, "labels", "", "labels, integers [N] (.npy)")
	f.StringVar(&galleryEmbeddings, "gallery-embeddings", "",
		"embeddings of the gallery [M, D] (.npy; default: the queries themselves)")
	f.StringVar(&galleryLabels, "gallery-labels", "", "labels of the gallery, integers [M] (.npy)")
	f.IntSliceVar(&ks, "k", []int{1, 2, 4, 8}, "the K of Recall@K, as far as the gallery is large enough")
	addDevices(f, &devices)
	_ = cmd.MarkFlagRequired("embeddings") // It fails only for an unknown flag.
	_ = cmd.MarkFlagRequired("labels")
	return cmd
}

// readEmbeddings reads embeddings and their labels.
func readEmbeddings(embeddings, labels string) (*retrieval.Embeddings, error) {
	e, err := files.ReadBatch(embeddings, labels)
	return &e, err
}
