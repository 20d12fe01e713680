package stored

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/inspect"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// PrintComparison prints the report on runs, with its pictures if out names a folder. head, if not nil, adds to the
// JSON and returns a line that comes before the text.
func PrintComparison(ctx context.Context, a *app.App, store *runs.Store, results []*runs.Result, out string,
	now *runs.Spec, head func(v map[string]any) string) error {
	groups := runs.SameButSeed(results)
	v, body := map[string]any{"runs": results}, ""
	if head != nil {
		body = head(v) + "\n\n"
	}
	references, err := References(ctx, a, store, results, now, 0)
	if err != nil {
		return err
	}
	if references != nil {
		v["references"] = references
		body += HeadsText(groups)
	}
	c := inspect.CompareResults(store, results)
	c.References = references
	r, err := c.Report()
	if err != nil {
		return err
	}
	if out == "" { // The other parts are pictures, and one seed a group is no test.
		tested := len(groups) > 1 && len(groups) < len(results) || references != nil
		r.Parts = slices.DeleteFunc(r.Parts, func(p report.Part) bool {
			return p.Name != "metrics" && !(p.Name == "tests" && tested)
		})
	}
	words, files, err := a.Pictures(r, out, "compare")
	if err != nil {
		return err
	}
	v["parts"], v["files"] = words, files
	for _, p := range r.Parts {
		if body != "" && !strings.HasSuffix(body, "\n\n") {
			body += "\n\n"
		}
		body += words[p.Name]
	}
	return a.Print(v, body+app.FilesText(files))
}

// References measures what the features of runs reach without training, and whitened: features that were given, or
// those of the network of a run on images that was trained now, nil if none was, whose initial weights are not random.
// It returns nil for runs without such features or on several data sets, and with a warning if the files are gone. keep
// is that of the training.
func References(ctx context.Context, a *app.App, store *runs.Store, results []*runs.Result, now *runs.Spec, keep int64,
) ([]train.Reference, error) {
	first := results[0].Spec
	if now != nil {
		first = *now
	}
	bundled := first.NetworkFile == "" && (first.Weights != train.Pretrained || first.Arch == "small")
	if !first.HasFeatures() && (now == nil || bundled) {
		return nil, nil
	}
	for _, r := range results {
		if s := r.Spec; s.HasFeatures() != first.HasFeatures() || s.DataDigest != first.DataDigest ||
			s.HeldOut != first.HeldOut {
			return nil, nil
		}
	}
	data, _, err := runs.TrainingData(first, store.DataOptions)
	if err != nil {
		a.Warn("without the features themselves: " + err.Error())
		return nil, nil
	}
	trainer, err := a.Backend()
	if err != nil {
		return nil, err
	}
	if now != nil && !first.HasFeatures() {
		a.Logf("measuring the network's features themselves, to compare with: %d images",
			len(data.Train.Labels())+len(data.Test.Labels()))
	}
	return trainer.Keeping(keep).References(ctx, train.Training{Config: first.Config, Data: data, HeldOut: first.HeldOut})
}

// Gained says whether a run's network is better than the features that it started from, in a line after its result.
func Gained(r *runs.Result, references []train.Reference) string {
	if references == nil || r.Recall == nil {
		return ""
	}
	best := slices.MaxFunc(references, func(a, b train.Reference) int { return cmp.Compare(a.Recall[1], b.Recall[1]) })
	points, p := 100*(r.Recall[1]-best.Recall[1]), best.Recall[1]
	se := 100 * math.Sqrt(p*(1-p)/float64(max(best.Queries, 1)))
	of := "training"
	if r.Head != nil && r.Head.Steps == 0 {
		of = "last layer, which was not trained,"
	}
	switch text := fmt.Sprintf("\nRecall@1 is %.1f points %%s the %s (%.1f): ", math.Abs(points), best.Name, 100*p); {
	case points > se:
		return fmt.Sprintf(text, "above") + "the " + of + " made it better."
	case points >= -se:
		return fmt.Sprintf("\nRecall@1 is that of the %s (%.1f) within a standard error of the test set, %.1f points.",
			best.Name, 100*p, se)
	default:
		return fmt.Sprintf(text, "below") + "the " + of + " made it worse. What may help: a lower --lr, fewer trained " +
			"weights (--set train_only=…, dmlx weights info lists their names), more steps, or a head alone (dmlx embed, " +
			"then dmlx train --features)."
	}
}

// HeadsText says what was chosen for the heads of groups of runs, a line each.
func HeadsText(groups [][]*runs.Result) string {
	var out strings.Builder
	for _, g := range groups {
		if g[0].Head != nil {
			fmt.Fprintf(&out, "%s, %s\n", g[0].Spec.Objective, g[0].Head)
		}
	}
	return out.String()
}
