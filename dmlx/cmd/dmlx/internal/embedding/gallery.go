package embedding

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"io/fs"
	"iter"
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
	"github.com/gradient-surgery/dml/dmlx/heads"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// galleryNetwork says by which network a gallery was embedded. It is in the folder G of the gallery; paths are relative
// to G, so that both can be moved together.
type galleryNetwork struct {
	Images   string `json:"images,omitempty"` // The folder of the images.
	Arch     string `json:"arch,omitempty"`
	Weights  string `json:"weights,omitempty"` // A path, or "pretrained"; none if rows were given as they are.
	Run      string `json:"run,omitempty"`     // In place of Weights.
	SHA256   string `json:"sha256,omitempty"`
	Features string `json:"features,omitempty"` // Of images.
}

const (
	galleryFile  = "gallery.json"
	galleryNames = "rows.names.txt"
)

// NewGallery searches folders of images by images.
func NewGallery(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gallery",
		Short: "Search a folder of images by an image",
		Example: "  dmlx gallery index --weights pretrained --features gap --images photos --out G\n" +
			"  dmlx gallery query G photo.jpg --k 10 --html found.html",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGalleryIndex(a), newGalleryQuery(a), newGalleryExport(a))
	return cmd
}

func newGalleryIndex(a *cli.App) *cobra.Command {
	var of galleryNetwork
	var out string
	var half bool
	cmd := &cobra.Command{
		Use:   "index --images DIR --weights W --out G",
		Short: "Keep the embeddings of images, or of given features, to be searched",
		Long: `Embed all images of a folder and write an index into a folder G: rows.npy, float32 or float16 [N, D] of length
1, rows.names.txt with their paths, rows.labels.npy if sub-folders are classes, and gallery.json, which says by which
network; its paths are relative to G. Weights, networks and features are those of dmlx embed, or a run's name. Images
that cannot be read are left out and named. An index that is in G is replaced, whatever the type of its rows.

--features X.npy keeps the rows [N, F] of a file in place of images; with --weights they are embedded by a head that was
trained on such features. Names and labels are those beside X.npy, if there are any; --images is the folder of names
that are paths of images.`,
		Example: "  dmlx gallery index --weights pretrained --features gap --images photos --out G\n" +
			"  dmlx gallery index --features X.npy --weights 077c9a --out G",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			given := ""
			switch {
			case filepath.Ext(of.Features) == ".npy":
				if given, of.Features = of.Features, ""; of.Arch != "" {
					return cli.Usagef("--arch belongs to images, and --features %s has rows", given)
				}
			case of.Images == "" || of.Weights == "":
				return cli.Usagef("want --images and --weights, or --features X.npy")
			}
			images, weights := of.Images, of.Weights
			if of.Images, err = files.RelativeTo(out, images); err != nil {
				return err
			}
			var list *datasets.ImageList
			if given == "" {
				if list, err = listImages(a, images); err != nil {
					return err
				}
			}
			if err := cmp.Or(cli.CheckOutDir(out), identify(a, &of, out)); err != nil {
				return err
			}
			var f *featureFile
			what, kind, skipped := "images", map[bool]string{false: "float32", true: "float16"}[half], 0
			if given != "" {
				what = "rows"
				f, err = namedFeatures(a, given, weights)
			} else {
				f, skipped, err = imageFeatures(cmd.Context(), a, of, list, weights)
			}
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.close()) }()
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if half {
				if _, _, unmap, err := npy.MapFloat32(filepath.Join(out, retrieval.IndexRows)); err == nil {
					a.Logf("the float32 rows of %s are replaced by float16", out)
					if err := unmap(); err != nil {
						return err
					}
				}
			}
			if err := retrieval.WriteIndex(out, f.rows, f.width, half, f.labels, f.parts(cmd.Context())); err != nil {
				return err
			}
			names := filepath.Join(out, galleryNames)
			if f.names != nil {
				err = files.WriteNames(names, f.names)
			} else if err = os.Remove(names); errors.Is(err, fs.ErrNotExist) { // Of an index before.
				err = nil
			}
			if err = errors.Join(err, durable.WriteJSON(filepath.Join(out, galleryFile), of)); err != nil {
				return err
			}
			return a.Print(map[string]any{what: f.rows, "dim": f.width, "type": kind, "out": out, "skipped": skipped},
				fmt.Sprintf("%d %s, %d %s values each, in %s", f.rows, what, f.width, kind, out))
		},
	}
	ArchFlag(cmd, &of.Arch)
	f := cmd.Flags()
	f.StringVar(&of.Weights, "weights", "", "weights as dmlx embed takes them, or a run's name")
	f.StringVar(&of.Images, "images", "", "folder of JPEG and PNG files, or of a folder of them for each class")
	f.StringVar(&of.Features, "features", "embedding", "gap or embedding; or rows [N, F] (.npy) in place of images")
	f.BoolVar(&half, "half", false, "keep rows as float16, in half of the memory: similarities change by less than 0.0005")
	f.StringVar(&out, "out", "", "folder to write")
	cli.Require(cmd, "out")
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
	net, err := loadEmbedder(a, of.Arch, weights, of.Features)
	if err != nil {
		return nil, 0, err
	}
	defer net.store.Finalize()
	values, skipped, err := net.folder(ctx, a, list, 1, true)
	return &featureFile{path: list.Dir, values: values, rows: len(list.Paths), width: net.width, names: list.Paths,
		labels: list.Labels, close: noClose}, skipped, err
}

// namedFeatures opens a file of features, as [cli.App.openFeatures] does, with the names and labels beside it.
func namedFeatures(a *cli.App, path, weights string) (*featureFile, error) {
	f, err := openFeatures(a, path, weights)
	if err != nil {
		return nil, err
	}
	if labels := files.LabelsOf(path, ""); labels != "" {
		var of [][]int64
		if of, f.classes, err = npy.ReadLabels(labels); err == nil {
			if f.labels = of[0]; len(f.labels) != f.rows {
				err = fmt.Errorf("%s: %d labels, want a label for each of %d rows", labels, len(f.labels), f.rows)
			}
		}
	}
	if err == nil {
		f.names, err = files.ReadNames(files.Beside(path, files.NamesFile), f.rows)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// featureFile is a file of features [rows, _], which may be embedded by a head: [rows, width].
type featureFile struct {
	path        string
	values      []float32
	rows, width int
	names       []string // Nil, or of the rows, as labels.
	labels      []int64
	classes     []string                                                       // Of labels that are names.
	close       func() error                                                   // Of what is mapped.
	embed       func(ctx context.Context, values []float32) ([]float32, error) // Nil if the values are embedded.
}

// noClose closes a file of which nothing is mapped.
func noClose() error { return nil }

// openFeatures opens a file of features for a head, or for none if weights is empty.
func openFeatures(a *cli.App, path, weights string) (*featureFile, error) {
	f := &featureFile{path: path}
	var shape []int
	var err error
	if f.values, shape, f.close, err = npy.MapFloat32(path); err != nil { // Of another type, or not there.
		f.close = noClose
		if f.values, shape, err = npy.ReadFloat32(path); err != nil {
			return nil, err
		}
	}
	fail := func(err error) (*featureFile, error) { return nil, errors.Join(err, f.close()) }
	if len(shape) != 2 || len(f.values) == 0 {
		return fail(fmt.Errorf("%s: shape %v, want [N, F], a row of features for each", path, shape))
	}
	f.rows, f.width = shape[0], shape[1]
	if err := errs.Finite(path+": ", f.values, f.width, 0); err != nil {
		return fail(err)
	}
	if weights == "" {
		return f, nil
	}
	raw, name, err := weightsOf(a, weights)
	if err != nil {
		return fail(err)
	}
	head, err := heads.Read(raw)
	switch {
	case err != nil:
		return fail(fmt.Errorf("%s: %w", name, err))
	case head == nil:
		return fail(fmt.Errorf("%s: its weights are of a network on images: want those of a head, or --images DIR", name))
	case head.Features != f.width:
		return fail(fmt.Errorf("%s: shape %v, want [N, %d], features as the head of %s was trained on", path, shape,
			head.Features, name))
	}
	trainer, err := a.Backend()
	if err != nil {
		return fail(err)
	}
	f.width = head.Dim
	f.embed = func(ctx context.Context, v []float32) ([]float32, error) { return head.Embed(ctx, trainer.Backend, v) }
	return f, nil
}

// parts are the rows, embedded, some at a time.
func (f *featureFile) parts(ctx context.Context) iter.Seq2[[]float32, error] {
	return func(yield func([]float32, error) bool) {
		of := len(f.values) / f.rows
		for some := range slices.Chunk(f.values, max(1<<23/of, 1)*of) {
			var err error
			if f.embed != nil {
				if some, err = f.embed(ctx, some); err != nil {
					err = fmt.Errorf("%s: %w", f.path, err)
				}
			}
			if !yield(some, err) {
				return
			}
		}
	}
}

// all are the rows, embedded.
func (f *featureFile) all(ctx context.Context) (all []float32, err error) {
	for rows, err := range f.parts(ctx) {
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		all = append(all, rows...)
	}
	return all, f.close()
}

// galleryHit is a row of a gallery and its cosine similarity to a query.
type galleryHit struct {
	Path       string  `json:"path"` // Of its image, or the row's name.
	Row        int     `json:"row"`
	Similarity float32 `json:"similarity"`
}

func newGalleryQuery(a *cli.App) *cobra.Command {
	var k int
	var page, features string
	cmd := &cobra.Command{
		Use:   "query G PHOTO...",
		Short: "Find the images or rows of an index that are nearest to photographs or features",
		Long: `Embed photographs by the network of an index, and find the k nearest images by cosine similarity. All images
are compared, so that the result is exact. --html writes a page with small pictures, which needs no other file.

--features Q.npy takes the rows [n, F] of a file instead of photographs: features if the index was embedded by a head,
else embeddings.`,
		Example: "  dmlx gallery query G photo.jpg --k 10 --html found.html\n  dmlx gallery query G --features Q.npy",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			dir, queries := args[0], args[1:]
			switch {
			case k < 1:
				return cli.Usagef("--k %d: want at least 1", k)
			case (len(queries) == 0) == (features == ""):
				return cli.Usagef("want photographs, or --features Q.npy")
			}
			if err := cli.CheckOut(append(args[1:], features, filepath.Join(dir, retrieval.IndexRows)), page); err != nil {
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
			if of.SHA256 != "" && (features == "" || of.Features == "") {
				now := galleryNetwork{Weights: by}
				if err := identify(a, &now, dir); err != nil {
					return fmt.Errorf("the network of %s: %w", dir, err)
				} else if now.SHA256 != of.SHA256 {
					return fmt.Errorf("%s has changed since %s was embedded by it: index the images again", by, dir)
				}
			}
			values, width, err := queriesBy(cmd.Context(), a, of, by, features, queries)
			if err != nil {
				return err
			}
			if width != x.Dim() {
				return fmt.Errorf("%s has rows of %d values, the queries have %d: ask by the network of its rows", dir, x.Dim(),
					width)
			}
			for i := len(queries); i < len(values)/width; i++ {
				queries = append(queries, fmt.Sprintf("%s row %d", features, i))
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
			type answer struct {
				Query string       `json:"query"`
				Found []galleryHit `json:"found"`
			}
			var answers []answer
			var text strings.Builder
			for i, query := range queries {
				one := answer{Query: query}
				fmt.Fprintf(&text, "%s\n", query)
				for _, n := range found[i] {
					path := fmt.Sprintf("row %d", n.Index)
					if names != nil {
						path = within(within(dir, of.Images), names[n.Index])
					}
					one.Found = append(one.Found, galleryHit{path, n.Index, n.Similarity})
					fmt.Fprintf(&text, "  %.4f  %s\n", n.Similarity, path)
				}
				answers = append(answers, one)
			}
			if page != "" {
				var out bytes.Buffer
				if err := galleryPage.Execute(&out, answers); err != nil {
					return err
				}
				if err := durable.WriteFile(page, out.Bytes(), 0o644); err != nil {
					return err
				}
				fmt.Fprintf(&text, "the page is %s\n", page)
			}
			return a.Print(map[string]any{"answers": answers, "images": x.Len(), "page": page},
				strings.TrimSuffix(text.String(), "\n"))
		},
	}
	f := cmd.Flags()
	f.IntVar(&k, "k", 10, "images to find, or all if there are fewer")
	f.StringVar(&page, "html", "", "page with small pictures to write")
	f.StringVar(&features, "features", "", "rows [n, F] to search for instead of photographs (.npy)")
	return cmd
}

// within is a path that the gallery in dir keeps.
func within(dir, path string) string {
	if path = filepath.FromSlash(path); path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// queriesBy returns what a gallery is asked by: photographs embedded by its network, or rows of a file.
func queriesBy(ctx context.Context, a *cli.App, of galleryNetwork, weights, features string, photos []string) (
	values []float32, width int, err error) {
	if features != "" {
		if of.Features != "" { // Of images, whose network takes no features.
			weights = ""
		}
		f, err := openFeatures(a, features, weights)
		if err != nil {
			return nil, 0, err
		}
		values, err := f.all(ctx)
		return values, f.width, err
	}
	if of.Features == "" {
		return nil, 0, errors.New("the gallery has rows of a file, and no network for photographs: ask by --features Q.npy")
	}
	net, err := loadEmbedder(a, of.Arch, weights, of.Features)
	if err != nil {
		return nil, 0, err
	}
	defer net.store.Finalize()
	trainer, err := a.Backend()
	if err != nil {
		return nil, 0, err
	}
	values, damaged, _, err := net.files(ctx, a, trainer, photos, false)
	if i := slices.IndexFunc(damaged, func(err error) bool { return err != nil }); err == nil && i >= 0 {
		err = fmt.Errorf("%s: %w", photos[i], damaged[i])
	}
	return values, net.width, err
}

func newGalleryExport(a *cli.App) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "export G --out F.fvecs",
		Short:   "Write the rows of an index as .fvecs, for FAISS; rows.npy in its folder is for NumPy and hnswlib",
		Example: "  dmlx gallery export G --out F.fvecs",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if filepath.Ext(out) != ".fvecs" {
				return cli.Usagef("--out %q: want a file that ends in .fvecs", out)
			}
			if err := cli.CheckOut(nil, out); err != nil {
				return err
			}
			x, _, err := openGallery(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			if err := x.WriteFvecs(out); err != nil {
				return err
			}
			return a.Print(map[string]any{"rows": x.Len(), "dim": x.Dim(), "out": out},
				fmt.Sprintf("%d rows, %d values each, in %s", x.Len(), x.Dim(), out))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write")
	cli.Require(cmd, "out")
	return cmd
}

// openGallery opens the index of a folder, with the names of its rows, if they have some.
func openGallery(dir string) (*retrieval.Index, []string, error) {
	x, err := retrieval.OpenIndex(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: want the folder that dmlx gallery index has written", err)
	}
	names, err := files.ReadNames(filepath.Join(dir, galleryNames), x.Len())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(err, x.Close())
	}
	return x, names, nil
}

// galleryPage shows queries with what they found. Its pictures are in it.
var galleryPage = template.Must(template.New("found").Funcs(template.FuncMap{"thumbnail": thumbnail}).Parse(
	`<!doctype html><html lang="en"><meta charset="utf-8"><title>Nearest images</title>
<style>body{font-family:sans-serif;margin:2em}figure{display:inline-block;margin:.5em;vertical-align:top;width:160px}
figcaption{overflow-wrap:anywhere;font-size:.8em}h2 img{vertical-align:middle}</style><h1>Nearest images</h1>
{{range .}}<h2>{{with thumbnail .Query}}<img src="{{.}}" alt=""> {{end}}{{.Query}}</h2>
{{range .Found}}<figure>{{with thumbnail .Path}}<img src="{{.}}" alt="">{{else}}no picture{{end}}
<figcaption>{{printf "%.4f" .Similarity}} {{.Path}}</figcaption></figure>
{{end}}{{end}}</html>
`))

// thumbnail returns an image of 160 pixels as a data URL, "" for an image that cannot be read.
func thumbnail(path string) template.URL {
	const side = 160
	img, err := datasets.ReadImage(path)
	if err != nil {
		return ""
	}
	square, err := img.Square(side, side, "")
	if err != nil {
		return ""
	}
	small := image.NewRGBA(image.Rect(0, 0, side, side))
	for i := range side * side {
		copy(small.Pix[4*i:], slices.Concat(square[3*i:3*i+3], []uint8{255}))
	}
	var out bytes.Buffer
	if err := jpeg.Encode(&out, small, nil); err != nil {
		return ""
	}
	return template.URL("data:image/jpeg;base64," + base64.StdEncoding.EncodeToString(out.Bytes()))
}
