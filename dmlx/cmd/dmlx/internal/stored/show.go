package stored

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/text"
	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Trained is the JSON of train: the result and the folder of the run.
type Trained struct {
	*runs.Result
	Dir        string            `json:"dir"`
	References []train.Reference `json:"references,omitempty"`
}

// ResultText returns a result as text.
func ResultText(r *runs.Result, dir string) string {
	var b strings.Builder
	if r.Diverged != "" {
		fmt.Fprintf(&b, "diverged: %s\n", r.Diverged)
		if strings.HasPrefix(r.Diverged, "collapsed") {
			b.WriteString("All images are embedded in one place. What may help: a lower --lr, a rule whose weights fade " +
				"(cos/lin/con) or that masks (cos/con/con+sc1), or fewer trained weights (--set train_only=…).\n")
		}
	}
	if r.Recall != nil {
		for _, k := range []int{1, 2, 4, 8} {
			if v, ok := r.Recall[k]; ok {
				fmt.Fprintf(&b, "Recall@%d %.1f   ", k, 100*v)
			}
		}
		fmt.Fprintf(&b, "MAP@R %.1f   (in percent, %d queries", 100*r.MAPAtR, r.Queries)
		if r.LoneQueries > 0 {
			fmt.Fprintf(&b, ", %d more without a match", r.LoneQueries)
		}
		b.WriteString(")\n")
	}
	if v, ok := r.HeldOutRecall[1]; ok {
		fmt.Fprintf(&b, "held-out training classes, one in %d: Recall@1 %.1f\n", r.Spec.HeldOut, 100*v)
	}
	if r.Skipped > 0 {
		fmt.Fprintf(&b, "unreadable images left out: %d\n", r.Skipped)
	}
	fmt.Fprintf(&b, "run %s, %s, backend %s, %.1f s: %s", r.Hash, presets.Of(r.Spec), r.BackendText(), r.Seconds, dir)
	return b.String()
}

func showRun(a *app.App, prefix string) error {
	store, hash, err := a.Find(prefix)
	if err != nil {
		return err
	}
	epochs, err := store.Metrics(hash)
	if err != nil {
		return err
	}
	var body strings.Builder
	var shown any
	if e := store.Entry(hash); e.Bad != "" && !bundled(store, hash) {
		return fmt.Errorf("run %s cannot be used: %s (%s)", hash, e.Bad, store.Path(hash))
	} else if e.Result == nil && e.Bad == "" {
		fmt.Fprintf(&body, "%s\n\nrun %s is not finished: %s, in %s\n\n", e.Spec.Canonical(), hash, stage(store, e),
			store.Path(hash))
		shown = struct {
			Run    string        `json:"run"`
			Dir    string        `json:"dir"`
			State  string        `json:"state"`
			Spec   runs.Spec     `json:"spec"`
			Epochs []train.Epoch `json:"epochs"`
		}{hash, store.Path(hash), "unfinished", e.Spec, epochs}
	} else {
		r, err := store.Get(hash)
		if err != nil {
			return err
		}
		dir, where := store.Path(hash), store.Path(hash)
		if r.Bundled {
			dir, where = "", "bundled with the program"
		}
		fmt.Fprintf(&body, "%s\n%s\n\n", r.Spec.Canonical(), ResultText(r, where))
		if r.Recall != nil {
			fmt.Fprintf(&body, "overlap of nearest-positive and nearest-negative similarities %.2f, compact anchors %.2f\n",
				r.Overlap, r.Compact)
		}
		if r.Head != nil {
			fmt.Fprintln(&body, r.Head)
		}
		fmt.Fprintf(&body, "%s, version %s, %s\n\n", r.Machine, r.Version, r.Date.Format("2006-01-02 15:04 MST"))
		shown = struct {
			Trained
			Epochs []train.Epoch `json:"epochs"`
		}{Trained{Result: r, Dir: dir}, epochs}
	}
	if len(epochs) > 0 {
		rows := []string{"epoch\tlr\tviolations %\tS_ap\tS_an\t|gradient|\tempty batches\t"}
		measured := slices.ContainsFunc(epochs, func(e train.Epoch) bool { return e.Recall > 0 })
		if measured {
			rows[0] += "R@1 %\t"
		}
		for _, e := range epochs {
			row := fmt.Sprintf("%d\t%g\t%.1f\t%.3f\t%.3f\t%.4f\t%d\t", e.Epoch, e.LR, 100*e.ViolationRate, e.Sap, e.San,
				e.GradientNorm, e.EmptyBatches)
			switch {
			case e.Recall > 0:
				row += fmt.Sprintf("%.1f\t", 100*e.Recall)
			case measured:
				row += "\t"
			}
			rows = append(rows, row)
		}
		body.WriteString(text.Right(rows...))
	}
	return a.Print(shown, strings.TrimRight(body.String(), "\n"))
}
