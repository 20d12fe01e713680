package embedding

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"image"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// galleryNetwork says by which network a gallery was embedded. It is in the folder G of the gallery; paths are relative
// to G, so that both can be moved together.
type galleryNetwork struct {
	Images   string `json:"images,omitempty"` // The folder of the images.
	Arch     string `json:"arch,omitempty"`
	Weights  string `json:"weights,omitempty"` // A path, or "pretrained".
	Run      string `json:"run,omitempty"`     // In place of Weights.
	SHA256   string `json:"sha256,omitempty"`
	Features string `json:"features,omitempty"`
}

const galleryFile = "gallery.json"

// NewGallery searches folders of images by images.
func NewGallery(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gallery",
		Short: "Search a folder of images by an image",
		Example: "  dmlx gallery index --weights pretrained --features gap --images photos --out G\n" +
			"  dmlx gallery query G photo.jpg --k 10 --out found.png",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGalleryIndex(a), newGalleryQuery(a))
	return cmd
}

func newGalleryIndex(a *cli.App) *cobra.Command {
	var of galleryNetwork
	var out string
	cmd := &cobra.Command{
		Use:   "index --images DIR --weights W --out G",
		Short: "Keep the embeddings of images to be searched",
		Long: `Embed all images of a folder and write an index into a folder G: rows.npy, float32 [N, D] of length 1, as FAISS
and hnswlib take it, too; rows.names.txt with their paths; rows.labels.npy if sub-folders are classes; and gallery.json,
which says by which network, with paths relative to G. Weights, networks and features are those of dmlx embed, or a
run's name. Images that cannot be read are left out and named. An index that is in G is replaced.`,
		Example: "  dmlx gallery index --weights pretrained --features gap --images photos --out G",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if filepath.Ext(of.Features) == ".npy" {
				return cli.Usagef("--features %s: FAISS and hnswlib search rows of a file; want gap or embedding, of images",
					of.Features)
			}
			images, weights := of.Images, of.Weights
			if of.Images, err = files.RelativeTo(out, images); err != nil {
				return err
			}
			list, err := listImages(a, images)
			if err != nil {
				return err
			}
			if err := cmp.Or(cli.CheckOutDir(out), identify(a, &of, out)); err != nil {
				return err
			}
			f, skipped, err := imageFeatures(cmd.Context(), a, of, list, weights)
			if err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			f.unit, f.about = true, map[string]any{filepath.Join(out, galleryFile): of}
			if err := f.write(cmd.Context(), a, filepath.Join(out, retrieval.IndexRows), "", ""); err != nil {
				return err
			}
			return a.Print(map[string]any{"images": f.rows, "dim": f.width, "out": out, "skipped": skipped},
				fmt.Sprintf("%d images, %d values each, in %s", f.rows, f.width, out))
		},
	}
	ArchFlag(cmd, &of.Arch)
	f := cmd.Flags()
	f.StringVar(&of.Weights, "weights", "", "weights as dmlx embed takes them, or a run's name")
	f.StringVar(&of.Images, "images", "", "folder of JPEG and PNG files, or of a folder of them for each class")
	f.StringVar(&of.Features, "features", "embedding", "gap or embedding")
	f.StringVar(&out, "out", "", "folder to write")
	cli.Require(cmd, "images", "weights", "out")
	return cmd
}

// identify replaces weights by what the gallery in dir keeps of them.
func identify(a *cli.App, of *galleryNetwork, dir string) (err error) {
	weights := of.Weights
	if weights == "" || weights == train.Pretrained {
		return nil
	}
	if of.SHA256, err = durable.FileSum(weights); errors.Is(err, fs.ErrNotExist) {
		raw, name, err := weightsOf(a, weights)
		of.Weights, of.Run, of.SHA256 = "", strings.TrimPrefix(name, "run "), durable.Sum(raw)
		return err
	} else if err == nil {
		of.Weights, err = files.RelativeTo(dir, weights)
	}
	return err
}

// imageFeatures embeds the images of a folder that can be read; skipped is how many cannot.
func imageFeatures(ctx context.Context, a *cli.App, of galleryNetwork, list *datasets.ImageList, weights string) (
	f *featureFile, skipped int, err error) {
	net, err := openNetwork(a, of.Arch, weights, of.Features)
	if err != nil {
		return nil, 0, err
	}
	defer net.Close()
	values, skipped, err := embedFolder(ctx, a, net, list, 1, true)
	return &featureFile{path: list.Dir, values: values, rows: len(list.Paths), width: net.Width, names: list.Paths,
		labels: list.Labels}, skipped, err
}

// galleryHit is an image of a gallery and its cosine similarity to a query.
type galleryHit struct {
	Path       string  `json:"path"`
	Row        int     `json:"row"`
	Similarity float32 `json:"similarity"`
}

type galleryAnswer struct {
	Query string       `json:"query"`
	Found []galleryHit `json:"found"`
}

func newGalleryQuery(a *cli.App) *cobra.Command {
	var k int
	var out string
	cmd := &cobra.Command{
		Use:   "query G PHOTO...",
		Short: "Find the images of an index that are nearest to photographs",
		Long: `Embed photographs by the network of an index, and find the k nearest images by cosine similarity. All images
are compared, so that the result is exact. --out draws the photographs and what they found.`,
		Example: "  dmlx gallery query G photo.jpg --k 10 --out found.png",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			dir, queries := args[0], args[1:]
			if k < 1 {
				return cli.Usagef("--k %d: want at least 1", k)
			}
			read := slices.Clone(queries)
			own, _ := os.ReadDir(dir) // There may be none, which openGallery reports.
			for _, file := range own {
				read = append(read, filepath.Join(dir, file.Name()))
			}
			if err := cmp.Or(cli.CheckOut(read, out), cli.CheckPicture("out", out)); err != nil {
				return err
			}
			x, names, err := openGallery(dir)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			var of galleryNetwork
			if err := durable.ReadJSON(filepath.Join(dir, galleryFile), &of); err != nil {
				return err
			}
			by := cmp.Or(of.Run, of.Weights)
			if of.Run == "" && by != train.Pretrained {
				by = within(dir, by)
			}
			if of.Features == "" {
				return fmt.Errorf("%s has rows of a file, which FAISS and hnswlib search", dir)
			}
			if of.SHA256 != "" {
				now := galleryNetwork{Weights: by}
				if err := identify(a, &now, dir); err != nil {
					return fmt.Errorf("the network of %s: %w", dir, err)
				} else if now.SHA256 != of.SHA256 {
					return fmt.Errorf("%s has changed since %s was embedded by it: index the images again", by, dir)
				}
			}
			values, width, err := photographs(cmd.Context(), a, of, by, queries)
			if err != nil {
				return err
			}
			if width != x.Dim() {
				return fmt.Errorf("%s has rows of %d values, the queries have %d: ask by the network of its rows", dir, x.Dim(),
					width)
			}
			var b compute.Backend
			if len(queries) >= 64 { // Fewer take less time than the backend's start.
				trainer, err := a.Backend()
				if err != nil {
					return err
				}
				b = trainer.Backend
			}
			found, err := x.Search(cmd.Context(), b, values, k)
			if err != nil {
				return err
			}
			var answers []galleryAnswer
			var text strings.Builder
			for i, query := range queries {
				one := galleryAnswer{Query: query}
				fmt.Fprintf(&text, "%s\n", query)
				for _, n := range found[i] {
					path := within(within(dir, of.Images), names[n.Index])
					one.Found = append(one.Found, galleryHit{path, n.Index, n.Similarity})
					fmt.Fprintf(&text, "  %.4f  %s\n", n.Similarity, path)
				}
				answers = append(answers, one)
			}
			if out != "" {
				if err := drawAnswers(out, dir, answers); err != nil {
					return err
				}
				fmt.Fprintf(&text, "the picture is %s\n", out)
			}
			return a.Print(map[string]any{"answers": answers, "images": x.Len(), "out": out},
				strings.TrimSuffix(text.String(), "\n"))
		},
	}
	f := cmd.Flags()
	f.IntVar(&k, "k", 10, "images to find, or all if there are fewer")
	f.StringVar(&out, "out", "", "picture to write: .svg, .png or .pdf")
	return cmd
}

// within is a path that the gallery in dir keeps.
func within(dir, path string) string {
	if path = filepath.FromSlash(path); path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// photographs returns the embeddings of photographs by the network of a gallery.
func photographs(ctx context.Context, a *cli.App, of galleryNetwork, weights string, photos []string) (
	values []float32, width int, err error) {
	net, err := openNetwork(a, of.Arch, weights, of.Features)
	if err != nil {
		return nil, 0, err
	}
	defer net.Close()
	trainer, err := a.Backend()
	if err != nil {
		return nil, 0, err
	}
	values, damaged, _, err := embedFiles(ctx, a, net, trainer, photos, false)
	if i := slices.IndexFunc(damaged, func(err error) bool { return err != nil }); err == nil && i >= 0 {
		err = fmt.Errorf("%s: %w", photos[i], damaged[i])
	}
	return values, net.Width, err
}

// openGallery opens the index of a folder, with the paths of its images.
func openGallery(dir string) (*retrieval.Index, []string, error) {
	x, err := retrieval.OpenIndex(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: want the folder that dmlx gallery index has written", err)
	}
	names, err := files.ReadNames(files.Beside(filepath.Join(dir, retrieval.IndexRows), files.NamesFile), x.Len())
	if err != nil {
		return nil, nil, errors.Join(err, x.Close())
	}
	return x, names, nil
}

// drawAnswers draws queries with what they found in the gallery dir, under the names of their files.
func drawAnswers(path, dir string, answers []galleryAnswer) error {
	var rows []figures.RetrievalRow
	for _, q := range answers {
		row := figures.RetrievalRow{Query: thumbnail(q.Query), Class: filepath.Base(q.Query)}
		for _, hit := range q.Found {
			row.Hits = append(row.Hits, figures.RetrievalHit{Image: thumbnail(hit.Path), Class: filepath.Base(hit.Path),
				Similarity: float64(hit.Similarity)})
		}
		rows = append(rows, row)
	}
	sheet, err := figures.RetrievalSheet("gallery "+dir, rows...)
	if err != nil {
		return err
	}
	return figures.Save(sheet, path)
}

// thumbnail returns a small picture of a file; of one that is no image it is gray.
func thumbnail(path string) image.Image {
	const side = 128
	small := image.NewRGBA(image.Rect(0, 0, side, side))
	for i := range small.Pix {
		small.Pix[i] = 0xdd
	}
	img, err := datasets.ReadImage(path)
	if err != nil {
		return small
	}
	square, err := img.Square(side, side, "")
	if err != nil {
		return small
	}
	for i := range side * side {
		copy(small.Pix[4*i:], slices.Concat(square[3*i:3*i+3], []uint8{255}))
	}
	return small
}
