package gradients

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/cli"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/files"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/miners"
	"github.com/gradient-surgery/dml/figures"
)

// drawnBatches are of 16 classes of 4 images in 64 dimensions, as they lie before, in the midst of and after a
// training: around class centers with noise, all about one vector in common. Both are in lengths of a center.
var drawnBatches = []struct {
	name          string
	noise, common float64
}{{"untrained", 3, 3}, {"half-trained", 1, 1}, {"trained", 0.5, 0.3}}

// holdCourt compares the gradients of all losses on the same batches.
func (d *dissection) holdCourt(a *app.App) error {
	for _, other := range [][2]string{{"loss", d.loss}, {"gradient", d.gradient}, {"similarity-gradient", d.similarity},
		{"rule", d.rule}, {"at", d.at}, {"proxies", d.proxies}, {"classes", d.classes}, {"matrix", d.matrix},
		{"pairs", d.pairs}} {
		if other[1] != "" {
			return cli.Usagef("--court compares all losses with their published parameters: leave out --%s", other[0])
		}
	}
	if d.nearest != 0 {
		return cli.Usagef("--court ranks the rules beside each loss by itself: leave out --nearest")
	}
	if (d.embeddings == "") != (d.labels == "") {
		return cli.Usagef("--court takes --embeddings E.npy and --labels L.npy together, or draws its batches without them")
	}
	if err := cmp.Or(cli.CheckOut([]string{d.embeddings, d.labels}, d.picture), d.parse(),
		app.CheckPicture("map", d.picture)); err != nil {
		return err
	}
	var batches []dissect.CourtBatch
	if d.embeddings == "" {
		common := dissect.Sample(1, 1, 64, 0, 2).Values
		for _, b := range drawnBatches {
			e := dissect.Sample(16, 4, 64, b.noise, 1)
			for i := range e.Values {
				e.Values[i] += float32(b.common) * common[i%e.Dim]
			}
			batches = append(batches, dissect.CourtBatch{Name: b.name, Embeddings: e})
		}
	} else {
		e, err := files.ReadBatch(d.embeddings, d.labels)
		if err != nil {
			return err
		}
		files.SayOdd(a.Logf, &e, d.embeddings, nil, true)
		square := 0.0
		for _, v := range e.Values {
			square += float64(v) * float64(v) / float64(len(e.Values))
		}
		for i := range e.Values { // As long as drawn ones, whose classes' means get noise to be proxies.
			e.Values[i] /= float32(math.Sqrt(max(square, math.SmallestNonzeroFloat32)))
		}
		batches = []dissect.CourtBatch{{Name: d.embeddings, Embeddings: e}}
	}
	var all []dissect.Judged
	for _, name := range losses.Names() {
		l, err := losses.Parse(name)
		if err != nil {
			return err
		}
		of := dissect.Judged{Name: name, Loss: l.Of, PerClass: losses.PerClass(l)}
		if d.by != nil && of.PerClass == 0 {
			of.Loss = miners.With(d.by, of.Loss)
		}
		all = append(all, of)
	}
	c, err := dissect.NewCourt(batches, all, dmlx.Rules())
	if err != nil {
		return err
	}
	var out strings.Builder
	for i, name := range c.Batches {
		fmt.Fprintf(&out, "%s\n%s\n", name, courtText(c.Rows[i]))
	}
	out.WriteString(courtLegend)
	findings, courses := c.Findings(), []dissect.Course{}
	for _, l := range all {
		course, err := dissect.Descend(batches[0].Embeddings, l, 40)
		if err != nil {
			return err
		}
		courses = append(courses, *course)
	}
	findings = append(findings, dissect.CourseFindings(c.Batches[0], courses)...)
	if d.picture != "" {
		f, err := figures.CosineMap(c.Losses, c.Groups(0.95), c.Cosines, "the lowest over "+strings.Join(c.Batches, ", "))
		if err == nil {
			err = figures.Save(f, d.picture)
		}
		if err != nil {
			return err
		}
	}
	for _, f := range findings {
		fmt.Fprintf(&out, "\n%s", f)
	}
	return a.Print(map[string]any{"batches": c.Batches, "losses": c.Losses, "gradients": c.Rows, "cosines": c.Cosines,
		"courses": courses, "miner": d.miner, "findings": findings}, out.String())
}

// courtLegend says what the columns are.
const courtLegend = `norm is over that of cos/con/con. The rest is in percent. Mined, own and pairs are shares of the
squared gradient: what the pairs of each image's nearest positive and negative give, those with the loss's largest
weights, and all pairs of images. Active are the images with at least a hundredth of the longest one's gradient, pull
is the share of weights that pull, and against that of weights that push positives or pull negatives. Steps move the
embeddings of the first batch, each image by 0.05 on average, whatever the gradient's length.
`

// courtText prints what the losses' gradients are like at a batch, a line each.
func courtText(rows []dissect.CourtRow) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-15s %-24s %6s %9s %5s %4s %5s %6s %4s %7s\n", "", "nearest rule", "cosine", "norm", "mined",
		"own", "pairs", "active", "pull", "against")
	for _, r := range rows {
		fmt.Fprintf(&out, "%-15s %-24s %6.3f %9.3g %5.0f %4.0f %5.0f %6.0f %4.0f %7.2g\n", r.Loss, r.Nearest.Name,
			r.Nearest.Cosine, r.Norm, 100*r.Mined, 100*r.Own, 100*r.Pairs, 100*r.Active, 100*r.Pull, 100*r.Against)
	}
	return out.String()
}
