package inspect

import (
	"context"
	"fmt"
	"image"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/paper"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
	"github.com/gradient-surgery/dml/figures"
)

// The number of queries, of images for each and of triplets that [Look] shows.
const (
	lookQueries  = 8
	lookHits     = 5
	lookTriplets = 12
)

// Look shows how a finished run of the store, given by its hash, sees its test images. Parts: "neighbours", queries in
// equal steps through the test set with the images found for them; "missed", the same for queries whose nearest image
// is wrong, if there are any; "triplets", the hardest; "classes", recall by class; "map", the embeddings in the plane
// of their principal components. open returns the backend that computes similarities. [runs.Store.Inspect] says which
// runs it cannot show.
func Look(ctx context.Context, open func() (*train.Trainer, error), store *runs.Store, hash string) (*paper.Report,
	error) {
	l, err := store.Inspect(hash)
	if err != nil {
		return nil, presets.WithCommand(err)
	}
	trainer, err := open()
	if err != nil {
		return nil, err
	}
	found, err := l.Neighbors(ctx, trainer.Backend, lookHits)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", hash, err)
	}
	r := &paper.Report{Name: "look", Preset: presets.Of(l.Result.Spec),
		Title:      fmt.Sprintf("What run %s sees: %s on %s", hash, l.Result.Spec.Objective(), l.Result.Spec.Data),
		Provenance: RunLine(l.Result), Runs: 1, Results: []*runs.Result{l.Result}}
	for _, part := range []struct {
		name string
		make func(*runs.Inspection, []retrieval.Neighbors, string) (figures.Output, error)
	}{
		{"neighbours", neighborSheet}, {"missed", missedSheet}, {"triplets", hardTriplets}, {"classes", classRecall},
		{"map", embeddingMap},
	} {
		out, err := part.make(l, found, r.Provenance)
		if err != nil {
			return nil, fmt.Errorf("run %s, %s: %w", hash, part.name, err)
		}
		if out != nil {
			r.Parts = append(r.Parts, paper.Part{Name: part.name, Of: out})
		}
	}
	return r, nil
}

// RunLine describes a run in one line.
func RunLine(r *runs.Result) string {
	line := fmt.Sprintf("run %s · %s on %s · seed %d · lr %g · preset %s · %s · %s", r.Hash, r.Spec.Objective(),
		r.Spec.Data, r.Spec.Seed, r.Spec.LR,
		presets.Of(r.Spec), r.BackendText(), r.Date.Format("2006-01-02"))
	if r.Diverged != "" {
		line += " · " + r.Diverged
	}
	return line
}

// thumbs returns a function that gives an image of a split.
func thumbs(of *datasets.Images) func(i int) image.Image {
	return func(i int) image.Image { return of.Thumbnail(i) }
}

// shortNames returns class names for labels under small pictures, without the prefix that all names share up to a
// hyphen, a slash or a space.
func shortNames(l *runs.Inspection) func(label int64) string {
	names := l.Set.Test.Names
	prefix := ""
	if len(names) > 1 {
		prefix = names[0]
		for _, n := range names[1:] {
			for !strings.HasPrefix(n, prefix) {
				prefix = prefix[:len(prefix)-1]
			}
		}
		prefix = prefix[:strings.LastIndexAny(prefix, "-/ ")+1]
	}
	return func(label int64) string { return strings.TrimPrefix(l.ClassName(label), prefix) }
}

func neighborSheet(l *runs.Inspection, found []retrieval.Neighbors, provenance string) (figures.Output, error) {
	return sheet(l, found, runs.Spread(found, lookQueries, false), provenance)
}

func missedSheet(l *runs.Inspection, found []retrieval.Neighbors, provenance string) (figures.Output, error) {
	missed := runs.Spread(found, lookQueries, true)
	if len(missed) == 0 {
		return nil, nil
	}
	return sheet(l, found, missed, provenance)
}

func sheet(l *runs.Inspection, found []retrieval.Neighbors, queries []int, provenance string) (figures.Output, error) {
	items, name := l.Items(), shortNames(l)
	var rows []figures.RetrievalRow
	for _, q := range queries {
		label := l.Queries.Labels[q]
		row := figures.RetrievalRow{Query: l.Set.Test.Thumbnail(q), Class: name(label)}
		for _, n := range found[q].Nearest {
			row.Hits = append(row.Hits, figures.RetrievalHit{Image: items.Thumbnail(n.Index), Class: name(items.Labels[n.Index]),
				Similarity: float64(n.Similarity), Right: items.Labels[n.Index] == label})
		}
		rows = append(rows, row)
	}
	return figures.RetrievalSheet(provenance, rows...)
}

func hardTriplets(l *runs.Inspection, found []retrieval.Neighbors, provenance string) (figures.Output, error) {
	items, name := l.Items(), shortNames(l)
	var triplets []figures.PicturedTriplet
	for _, a := range runs.Hardest(found, lookTriplets) {
		p, n := found[a].Positive, found[a].Negative
		triplets = append(triplets, figures.PicturedTriplet{
			Anchor: l.Set.Test.Thumbnail(a), Positive: items.Thumbnail(p.Index), Negative: items.Thumbnail(n.Index),
			Class: name(l.Queries.Labels[a]), NegativeClass: name(items.Labels[n.Index]), Sap: float64(p.Similarity),
			San: float64(n.Similarity)})
	}
	return figures.HardTriplets(provenance, triplets...)
}

func classRecall(l *runs.Inspection, found []retrieval.Neighbors, provenance string) (figures.Output, error) {
	var classes []figures.ClassScore
	for _, c := range l.Classes(found) {
		classes = append(classes, figures.ClassScore{Name: c.Name, Found: c.Found, Queries: c.Queries})
	}
	return figures.ClassRecall(provenance, classes)
}

func embeddingMap(l *runs.Inspection, found []retrieval.Neighbors, provenance string) (figures.Output, error) {
	plane, err := l.Plane()
	if err != nil {
		return nil, err
	}
	items := l.Items()
	offset := 0 // The items' points follow those of the queries, unless both are the same images.
	if l.Gallery != nil {
		offset = l.Set.Test.N
	}
	var points []figures.MapPoint
	for i, at := range plane.Queries {
		p := figures.MapPoint{X: at[0], Y: at[1], Class: l.ClassName(l.Queries.Labels[i]), Kind: figures.MapWrong,
			Nearest: -1}
		switch {
		case found[i].Positive.Index < 0:
			p.Kind = figures.MapLone
		case runs.Found(found[i]):
			p.Kind = figures.MapRight
		}
		if len(found[i].Nearest) > 0 {
			p.Nearest = offset + found[i].Nearest[0].Index
		}
		points = append(points, p)
	}
	for i, at := range plane.Gallery {
		points = append(points, figures.MapPoint{X: at[0], Y: at[1], Class: l.ClassName(items.Labels[i]),
			Kind: figures.MapGallery, Nearest: -1})
	}
	queries, gallery := thumbs(l.Set.Test), thumbs(items)
	return figures.NewEmbeddingMap(provenance,
		fmt.Sprintf("first principal component (%.0f %% of the variance)", 100*plane.Share[0]),
		fmt.Sprintf("second (%.0f %%)", 100*plane.Share[1]), points, func(i int) image.Image {
			if i < len(plane.Queries) {
				return queries(i)
			}
			return gallery(i - len(plane.Queries))
		})
}
