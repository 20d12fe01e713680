package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"image"
	"image/jpeg"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/embed"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/mesh"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// galleryNetwork says by which network a gallery was embedded. It is in the folder of the gallery.
type galleryNetwork struct {
	Images   string `json:"images"` // The folder of the images, absolute.
	Arch     string `json:"arch,omitempty"`
	Weights  string `json:"weights"` // An absolute path, or "pretrained".
	SHA256   string `json:"sha256,omitempty"`
	Features string `json:"features"`
}

const (
	galleryFile  = "gallery.json"
	galleryNames = "rows.names.txt"
)

// newGallery searches folders of images by images.
func newGallery(a *app) *cobra.Command {
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

func newGalleryIndex(a *app) *cobra.Command {
	var of galleryNetwork
	var out string
	cmd := &cobra.Command{
		Use:   "index --images DIR --weights W --out G",
		Short: "Embed the images of a folder, and keep their embeddings to be searched",
		Long: `Embed all images of a folder and write an index into a folder G: rows.npy, float32 [N, D] of length 1,
rows.names.txt with their paths, rows.labels.npy if sub-folders are classes, and gallery.json, which says by which
network. Weights, networks and features are those of dmlx embed. Images that cannot be read are left out and named.`,
		Example: "  dmlx gallery index --weights pretrained --features gap --images photos --out G",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if err := checkFeatures(of.Features); err != nil {
				return err
			}
			if of.Images, err = filepath.Abs(of.Images); err != nil {
				return err
			}
			if of.Weights != train.Pretrained {
				if of.SHA256, err = durable.FileSum(of.Weights); err != nil {
					return err
				}
				if of.Weights, err = filepath.Abs(of.Weights); err != nil {
					return err
				}
			}
			store := model.NewStore()
			defer store.Finalize()
			net, err := loadEmbedder(store, of.Arch, of.Weights, of.Features)
			if err != nil {
				return err
			}
			list, values, damaged, err := a.embedFolder(cmd.Context(), 1, store, net, of.Images, true)
			if err != nil {
				return err
			}
			width := net.width
			x, err := retrieval.NewIndex(width)
			if err != nil {
				return err
			}
			if err := x.Add(&retrieval.Embeddings{Values: values, Dim: width, Labels: list.Labels}); err != nil {
				return err
			}
			if err := os.MkdirAll(out, 0o755); err != nil {
				return err
			}
			if list.Labels == nil { // Of an index that this one replaces.
				if err := os.Remove(filepath.Join(out, retrieval.IndexLabels)); err != nil && !os.IsNotExist(err) {
					return err
				}
			}
			if err := x.Save(out); err != nil {
				return err
			}
			if err := files.WriteNames(filepath.Join(out, galleryNames), list.Paths); err != nil {
				return err
			}
			if err := durable.WriteJSON(filepath.Join(out, galleryFile), of); err != nil {
				return err
			}
			return a.print(map[string]any{"images": x.Len(), "dim": width, "out": out, "skipped": damaged},
				fmt.Sprintf("%d images, %d values each, in %s", x.Len(), width, out))
		},
	}
	archFlag(cmd, &of.Arch)
	f := cmd.Flags()
	f.StringVar(&of.Weights, "weights", "", "weights as dmlx embed takes them")
	f.StringVar(&of.Images, "images", "", "folder of JPEG and PNG files, or of a folder of them for each class")
	f.StringVar(&of.Features, "features", "embedding", "gap or embedding")
	f.StringVar(&out, "out", "", "folder to write")
	require(cmd, "weights", "images", "out")
	return cmd
}

// galleryHit is an image of a gallery and its cosine similarity to a query.
type galleryHit struct {
	Path       string  `json:"path"`
	Similarity float32 `json:"similarity"`
}

func newGalleryQuery(a *app) *cobra.Command {
	var k int
	var page string
	cmd := &cobra.Command{
		Use:   "query G PHOTO...",
		Short: "Find the images of an index that are nearest to photographs",
		Long: `Embed photographs by the network of an index, and find the k nearest images by cosine similarity. All images
are compared, so that the result is exact. --html writes a page with small pictures, which needs no other file.`,
		Example: "  dmlx gallery query G photo.jpg --k 10 --html found.html",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if k < 1 {
				return usagef("--k %d: want at least 1", k)
			}
			dir, photos := args[0], args[1:]
			x, names, err := openGallery(dir)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			var of galleryNetwork
			if err := durable.ReadJSON(filepath.Join(dir, galleryFile), &of); err != nil {
				return err
			}
			if of.Weights != train.Pretrained {
				if sum, err := durable.FileSum(of.Weights); err != nil {
					return err
				} else if sum != of.SHA256 {
					return fmt.Errorf("%s has changed since %s was embedded by it: index the images again", of.Weights, dir)
				}
			}
			values, width, damaged, err := a.embedBy(cmd.Context(), of, photos)
			if err != nil {
				return err
			}
			if len(damaged) > 0 {
				return fmt.Errorf("%s: %w", photos[damaged[0].Index], damaged[0].Err)
			}
			if width != x.Dim() {
				return fmt.Errorf("%s has rows of %d values, its network gives %d: index the images again", dir, x.Dim(), width)
			}
			found, err := x.Search(cmd.Context(), nil, values, k)
			if err != nil {
				return err
			}
			type answer struct {
				Query string       `json:"query"`
				Found []galleryHit `json:"found"`
			}
			var answers []answer
			var text strings.Builder
			for i, photo := range photos {
				one := answer{Query: photo}
				fmt.Fprintf(&text, "%s\n", photo)
				for _, n := range found[i] {
					path := filepath.Join(of.Images, filepath.FromSlash(names[n.Index]))
					one.Found = append(one.Found, galleryHit{path, n.Similarity})
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
				fmt.Fprintf(&text, "with pictures in %s\n", page)
			}
			return a.print(map[string]any{"answers": answers, "images": x.Len(), "page": page},
				strings.TrimSuffix(text.String(), "\n"))
		},
	}
	cmd.Flags().IntVar(&k, "k", 10, "images to find, or all if there are fewer")
	cmd.Flags().StringVar(&page, "html", "", "page with small pictures to write")
	return cmd
}

func newGalleryExport(a *app) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:     "export G --out F.fvecs",
		Short:   "Write the rows of an index as .fvecs, for FAISS; rows.npy in its folder is for NumPy and hnswlib",
		Example: "  dmlx gallery export G --out F.fvecs",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) (err error) {
			if filepath.Ext(out) != ".fvecs" {
				return usagef("--out %q: want a file that ends in .fvecs", out)
			}
			x, _, err := openGallery(args[0])
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, x.Close()) }()
			if err := x.WriteFvecs(out); err != nil {
				return err
			}
			return a.print(map[string]any{"rows": x.Len(), "dim": x.Dim(), "out": out},
				fmt.Sprintf("%d rows, %d values each, in %s", x.Len(), x.Dim(), out))
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "file to write")
	require(cmd, "out")
	return cmd
}

// openGallery opens the index of a folder, with the names of its rows.
func openGallery(dir string) (*retrieval.Index, []string, error) {
	x, err := retrieval.OpenIndex(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: want the folder that dmlx gallery index has written", err)
	}
	names, err := files.ReadNames(filepath.Join(dir, galleryNames), x.Len())
	if err != nil {
		return nil, nil, errors.Join(err, x.Close())
	}
	return x, names, nil
}

// embedBy embeds images by a network, without those that cannot be read.
func (a *app) embedBy(ctx context.Context, of galleryNetwork, paths []string) (values []float32, width int,
	damaged []embed.Damaged, err error) {
	if err := checkFeatures(of.Features); err != nil {
		return nil, 0, nil, err
	}
	store := model.NewStore()
	defer store.Finalize()
	net, err := loadEmbedder(store, of.Arch, of.Weights, of.Features)
	if err != nil {
		return nil, 0, nil, err
	}
	trainer, err := a.backendOn(1)
	if err != nil {
		return nil, 0, nil, err
	}
	values, damaged, _, err = a.embedFiles(ctx, trainer.Backend, 1, store, net, paths, true)
	return values, net.width, damaged, err
}

// embedFiles embeds images by a network that was loaded into a store, as [embed.Files] does.
func (a *app) embedFiles(ctx context.Context, b compute.Backend, devices int, store *model.Store, net *embedder,
	paths []string, skip bool) (values []float32, damaged []embed.Damaged, warnings []string, err error) {
	on, err := mesh.New(devices)
	if err != nil {
		return nil, nil, nil, err
	}
	exec, err := model.NewExec(b, store, net.graph)
	if err != nil {
		return nil, nil, nil, err
	}
	defer exec.Finalize()
	defer a.line.End()
	return embed.Files(b, on, exec, paths, net.prepare, net.width, skip, func(done int) error {
		a.line.Show("%d of %d images", done, len(paths))
		return ctx.Err()
	})
}

// galleryPage shows queries with what they found. Its pictures are in it.
var galleryPage = template.Must(template.New("found").Funcs(template.FuncMap{"thumbnail": thumbnail}).Parse(
	`<!doctype html><html lang="en"><meta charset="utf-8"><title>Nearest images</title>
<style>body{font-family:sans-serif;margin:2em}figure{display:inline-block;margin:.5em;vertical-align:top;width:160px}
figcaption{overflow-wrap:anywhere;font-size:.8em}h2 img{vertical-align:middle}</style><h1>Nearest images</h1>
{{range .}}<h2>{{with thumbnail .Query}}<img src="{{.}}" alt=""> {{end}}{{.Query}}</h2>
{{range .Found}}<figure>{{with thumbnail .Path}}<img src="{{.}}" alt="">{{else}}not there any more{{end}}
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
