package embedding

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/internal/slice"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/figures"
)

// NewRecall measures the retrieval of embeddings in files.
func NewRecall(a *app.App) *cobra.Command {
	var embeddings, labels, galleryEmbeddings, galleryLabels, names, k, rates, curve string
	var leaveOut bool
	var by matching
	var devices int
	cmd := &cobra.Command{
		Use:   "recall --embeddings E.npy --labels L.npy",
		Short: "Measure the retrieval of embeddings: Recall@K, MAP@R, R-precision",
		Long: `Measure the retrieval of embeddings [N, D], not necessarily normalized, with labels [N]: integers or names,
as a NumPy array or as a text with one a line. dmlx embed writes such files.

Without a gallery each embedding is a query among all others. Queries without any match are counted and left out of the
means. Of equal similarities the first row counts as nearer; queries of which that decides a measure are counted. Rows
of zeros, which have no direction, are counted. So are queries that are also rows of the gallery: they find themselves
unless --leave-out-queries removes them from the gallery.

An image may have several labels: --labels class.npy,super.npy, or columns of a table, whose first line names them
(.csv, or by blanks as the lists of Stanford Online Products). A row matches a query if they share a label, and its
grade is how many they share: 2 in a class and 1 in the rest of its superclass. --relevance R.npy [N, M], or R.csv with
the columns query, item (rows from 0) and grade, says it in place of labels. With --leave-out the matches of a query's
own group, such as its camera, sequence or near-duplicates, are not ranked. Any of these adds the mean average precision
and nDCG over the whole ranking, as scikit-learn has them, and nDCG at each K.

--fmr 0.1 prints the lowest threshold of similarity that takes at most this share of the pairs that do not match for
matches (the false match rate), and the share of matches that are missed then (the false non-match rate): one threshold
for all classes, with the deviation over classes and the worst of them. --curve draws the one rate over the other.`,
		Example: "  dmlx recall --embeddings E.npy --labels L.npy --fmr 0.1,0.01 --curve errors.svg\n" +
			"  dmlx recall --embeddings E.npy --labels Ebay_test.txt:class_id,Ebay_test.txt:super_class_id\n" +
			"  dmlx recall --embeddings E.npy --labels people.csv:person --leave-out people.csv:camera",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if by.grades == "" {
				labels = files.LabelsOf(embeddings, labels)
			}
			galleryLabels = files.LabelsOf(galleryEmbeddings, galleryLabels)
			if _, err := os.Stat(embeddings); err != nil {
				return err
			} else if labels == "" && by.grades == "" {
				return cli.Usagef("want --labels L.npy: %s is not there", files.Beside(embeddings, files.LabelsFile))
			}
			paths, of := []string{embeddings}, [][]string{listed(labels)}
			at, err := parseRates(rates)
			switch {
			case err != nil:
				return err
			case (galleryEmbeddings == "") != (galleryLabels == "") && (by.grades == "" || galleryEmbeddings == ""):
				return cli.Usagef("a gallery needs both --gallery-embeddings and --gallery-labels")
			case leaveOut && (by != matching{} || len(of[0]) > 1):
				return cli.Usagef("--leave-out-queries takes one label a row: leave out --relevance and --leave-out")
			case leaveOut && galleryEmbeddings == "":
				return cli.Usagef("--leave-out-queries belongs to a gallery: without one no query is ranked against itself")
			case galleryEmbeddings != "":
				paths, of = append(paths, galleryEmbeddings), append(of, listed(galleryLabels))
			}
			err = cmp.Or(cli.CheckOut(append(paths, slices.Concat(of...)...), curve), app.CheckPicture("curve", curve))
			if err != nil {
				return err
			}
			batches, relevance, err := by.read(paths, of)
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
			progress := func(done, total int) {
				a.Line.Show("ranking %d rows for %d queries: %d %%", size, queries.N, 100*done/total)
			}
			r, err := retrieval.EvaluateRelevance(cmd.Context(), choice.Backend, choice.DeviceCount(), queries, gallery,
				relevance, ks, progress)
			var v *retrieval.Verification
			if err == nil && (len(at) > 0 || curve != "") {
				v, err = retrieval.Verify(cmd.Context(), choice.Backend, choice.DeviceCount(), queries, gallery, relevance, at,
					progress)
			}
			a.Line.End()
			if err != nil {
				return err
			}
			if curve != "" {
				f, err := figures.ErrorRates(slice.Map(v.Curve, func(t retrieval.Threshold) figures.ErrorRate {
					return figures.ErrorRate{FMR: t.FMR, FNMR: t.FNMR}
				}), filepath.Base(embeddings))
				if err == nil {
					err = figures.Save(f, curve)
				}
				if err != nil {
					return err
				}
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
			if relevance != nil {
				fmt.Fprintf(&text, "\nover the whole ranking: mAP %.2f, nDCG %.2f", 100*r.MAP, 100*r.NDCG)
				for _, k := range r.Ks() {
					fmt.Fprintf(&text, ", nDCG@%d %.2f", k, 100*r.NDCGAt[k])
				}
			}
			text.WriteString(errorsText(v, queries.Labels, list))
			return a.Print(struct {
				*retrieval.Result
				Zero   int `json:"zero_rows"`
				Within int `json:"queries_in_gallery"`
				Tied   int `json:"tied_queries"`

				Thresholds *retrieval.Verification `json:"thresholds,omitempty"`
			}{r, zero, within, r.Tied, v}, text.String())
		},
	}
	f := cmd.Flags()
	f.StringVar(&embeddings, "embeddings", "", "embeddings [N, D] (.npy)")
	f.StringVar(&labels, "labels", "", "labels, integers or names [N] (.npy, .txt or T.csv:column; default: E.labels.npy "+
		"beside E.npy), or several files: each image has a label of each")
	f.StringVar(&by.grades, "relevance", "", "grades of items for queries, in place of labels: [N, M] (.npy) or a table")
	f.StringVar(&by.leaveOut, "leave-out", "", "groups, as labels: a query's matches in its own are not ranked "+
		"(Q.npy,G.npy with a gallery)")
	f.StringVar(&names, "names", "", "text file with a line for each row: its name in messages")
	f.StringVar(&rates, "fmr", "", "false match rates at which to print the threshold and its errors, as in 0.1,0.01")
	f.StringVar(&curve, "curve", "", "output: the false non-match rate over the false match rate (.svg, .png or .pdf)")
	f.StringVar(&galleryEmbeddings, "gallery-embeddings", "",
		"embeddings of the gallery [M, D] (.npy; default: the queries themselves)")
	f.StringVar(&galleryLabels, "gallery-labels", "", "labels of the gallery [M], as --labels")
	f.BoolVar(&leaveOut, "leave-out-queries", false, "leave rows out of the gallery that are queries, with the same label")
	f.StringVar(&k, "k", "1,2,4,8", "the K of Recall@K, as in 1-4 or 1,2,4,8; by default those up to the gallery's size")
	app.AddDevices(f, &devices)
	cli.Require(cmd, "embeddings")
	return cmd
}

// listed are the paths of a list, or the one that a name with commas has.
func listed(paths string) []string {
	if _, err := os.Stat(paths); err == nil {
		return []string{paths}
	}
	return strings.Split(paths, ",")
}

// matching says which rows match beyond one label each.
type matching struct{ grades, leaveOut string }

// read reads embeddings and the files of their labels, of queries and of a gallery if there is one. The relevance is
// nil if a row has one label, and that is all.
func (m matching) read(embeddings []string, labels [][]string) ([]retrieval.Embeddings, retrieval.Relevance, error) {
	var pairs []string
	last := len(embeddings) - 1
	for i, path := range embeddings {
		if len(labels[i]) != len(labels[0]) {
			return nil, nil, cli.Usagef("%d files of labels for the queries, %d for the gallery: want as many",
				len(labels[0]), len(labels[i]))
		}
		pairs = append(pairs, path, labels[i][0])
	}
	sets, err := files.ReadBatches(pairs...)
	if err != nil {
		return nil, nil, err
	}
	read := func(k int, labels [][]string) ([][]int64, error) { // The k-th of each set.
		paths := slice.Map(labels, func(of []string) string { return of[k] })
		out, _, err := npy.ReadLabels(paths...)
		for i := 0; i < len(out) && err == nil; i++ {
			if len(out[i]) != sets[i].N {
				err = fmt.Errorf("%s: %d labels, want one for each of %d rows", paths[i], len(out[i]), sets[i].N)
			}
		}
		return out, err
	}
	r, several := retrieval.Relevance(nil), int64(len(labels[0]))
	if m.grades != "" {
		r, err = files.ReadGrades(m.grades, sets[0].N, sets[last].N)
	} else if several > 1 || m.leaveOut != "" {
		all := [][][]int64{make([][]int64, sets[0].N), make([][]int64, sets[last].N)}
		for k := range several {
			of, err := read(int(k), labels)
			if err != nil {
				return nil, nil, err
			}
			for side, to := range all {
				for i, label := range of[side*last] {
					to[i] = append(to[i], label*several+k) // Labels of one kind are not those of another.
				}
			}
		}
		r = retrieval.ByLabels(all[0], all[1])
	}
	if err != nil || m.leaveOut == "" {
		return sets, r, err
	}
	of := slice.Map(listed(m.leaveOut), func(path string) []string { return []string{path} })
	if len(of) != len(sets) {
		return nil, nil, cli.Usagef("--leave-out %s: want a file of groups, and with a gallery two: Q.txt,G.txt", m.leaveOut)
	}
	groups, err := read(0, of)
	if err != nil {
		return nil, nil, err
	}
	return sets, r.LeaveOut(groups[0], groups[last]), nil
}

// errorsText prints the errors at thresholds; a class is named by a row of it.
func errorsText(v *retrieval.Verification, labels []int64, names []string) string {
	if v == nil || len(v.AtFMR) == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "\n\nerrors of one threshold in percent, of %d pairs that match and %d that do not, over %d classes",
		v.Matches, v.Others, v.Classes)
	for _, e := range v.AtFMR {
		fmt.Fprintf(&out, "\nFMR at most %-6.4g threshold %.6f   FMR %.2f ± %.2f   FNMR %.2f ± %.2f", 100*e.Asked,
			e.Similarity, 100*e.FMR, 100*e.FMRDeviation, 100*e.FNMR, 100*e.FNMRDeviation)
		if v.Classes > 1 {
			row := slices.Index(labels, e.HighestClass)
			fmt.Fprintf(&out, "   worst %.2f: class of %s", 100*e.HighestFNMR, files.FirstOf([]int{row}, names))
		}
	}
	return out.String()
}

// parseRates reads shares.
func parseRates(text string) (out []float64, err error) {
	for _, part := range strings.Split(text, ",") {
		v, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if text != "" && (err != nil || !(v >= 0 && v <= 1)) {
			return nil, cli.Usagef("--fmr %s: want shares of 0 to 1, as in 0.1,0.01", text)
		} else if text != "" {
			out = append(out, v)
		}
	}
	return out, nil
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
