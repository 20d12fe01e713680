package paper

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/presets"
	"github.com/gradient-surgery/dml/dmlx/report"
	"github.com/gradient-surgery/dml/dmlx/scores"
	"github.com/gradient-surgery/dml/figures"
)

// studiedLosses are the losses of the study "losses": losses of pairs, of triplets with the miner of their paper, and
// with proxies.
var studiedLosses = []struct{ row, loss string }{
	{"Contrastive", "loss contrastive"}, {"Triplet, semi-hard", "loss triplet, miner semi-hard"},
	{"InfoNCE", "loss info-nce"}, {"Multi-similarity, mined", "loss ms, miner ms"}, {"Circle", "loss circle"},
	{"Proxy-NCA++", "loss proxy-nca++"}, {"Proxy-Anchor", "loss proxy-anchor"},
	{"Normalized softmax", "loss norm-softmax"},
}

// Published is the column for a loss as it is published. The other columns are exchanges for
// [objectives.Objective.WithExchange]: one part of each kind, the paper's choices.
const Published = "as published"

// exchangesOf returns the exchanges of a preset.
func exchangesOf(p presets.Preset) []string {
	if p.Like("smoke") { // Each is a graph to compile: of smoke's there are few.
		return []string{"pair=lin-ms"}
	}
	return []string{"direction=cos-orth", "pair=lin-ms", "triplet=cir"}
}

// WithExchanges returns a loss's cell as published, followed by one cell for each exchange of a part, such as
// "pair=lin-ms", as [figures.Exchanges] compares them.
func WithExchanges(c Cell, exchanges ...string) []Cell {
	c.Column, c.Method = Published, cmp.Or(c.Row, c.Label, c.String())
	out := []Cell{c}
	for _, x := range exchanges {
		o, err := out[0].WithExchange(x)
		if err != nil { // [Specify] says so.
			o.Exchange = x
		}
		c.Column, c.Objective.Objective = x, o
		out = append(out, c)
	}
	return out
}

// lossesStudy is the study "losses": each loss, as published and with one of its parts exchanged.
func lossesStudy() Study {
	return Study{
		Name: "losses", Title: "Losses as published, and with one of their parts exchanged: Recall@1",
		Rows: func(p presets.Preset) []Cell {
			var out []Cell
			for _, l := range studiedLosses {
				c := Cell{Row: l.row, Objective: presets.Named(l.loss)}
				if !p.Like("smoke") || c.Loss == "ms" || c.Loss == "proxy-nca++" {
					out = append(out, c)
				}
			}
			return out
		},
		Expand: expanded(func(p presets.Preset, c Cell) ([]Cell, error) {
			switch {
			case c.IsRule():
				return nil, fmt.Errorf("its rows are losses, of which a part is exchanged: want a loss")
			case c.Exchange != "":
				return nil, fmt.Errorf("its columns exchange parts: want the loss without %s", c.Exchange)
			}
			return WithExchanges(c, exchangesOf(p)...), nil
		}),
	}
}

// losses shows what exchanging one part does to published losses.
func losses(ctx context.Context, q report.Request) (*Report, error) {
	return study(ctx, lossesStudy(), q, func(t *Table, provenance string) ([]report.Part, error) {
		recall := t.Scores().Select(scores.Row{Measure: report.Recall(1)})
		table, err := figures.Exchanges(recall, RateNotes(t), provenance)
		if err != nil {
			return nil, err
		}
		picture, err := figures.ExchangeGains(recall, provenance)
		return []report.Part{{Of: table}, {Name: "gains", Of: picture}}, err
	})
}

// RateNotes returns the learning rates of the losses as notes: parts are compared at these rates, not at the best rate
// of each.
func RateNotes(t *Table) []figures.Markup {
	var out []figures.Markup
	var sets []string
	rates := make(map[string][]string)
	for _, c := range t.Cells {
		if !slices.Contains(sets, c.Data) {
			sets = append(sets, c.Data)
		}
		if c.Exchange != "" {
			continue
		}
		text := fmt.Sprintf("%s %.3g", c.Row, c.LR)
		if p := c.Specs[0].ProxyLR; p != 0 {
			text += fmt.Sprintf(" (proxies %.3g)", p)
		}
		rates[c.Data] = append(rates[c.Data], text)
	}
	for _, data := range sets {
		out = append(out, fmt.Sprintf("Learning rates on %s: %s.", data, strings.Join(rates[data], ", ")))
	}
	return append(out, "A loss has one rate for all its variants, but for a linear pair weight, which has more by as "+
		"much as the paper's rules with one have over "+
		"those with constant weights.")
}
