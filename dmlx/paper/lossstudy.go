package paper

import (
	"slices"

	"github.com/gradient-surgery/dml/dmlx/presets"
)

// studiedLosses are those of the study "losses": of pairs, of triplets with the miner of their paper, and with proxies.
var studiedLosses = []struct{ row, loss, miner string }{
	{"Contrastive", "contrastive", ""}, {"Triplet, semi-hard", "triplet", "semi-hard"}, {"InfoNCE", "info-nce", ""},
	{"Multi-similarity, mined", "ms", "ms"}, {"Circle", "circle", ""},
	{"Proxy-NCA++", "proxy-nca++", ""}, {"Proxy-Anchor", "proxy-anchor", ""}, {"Normalised softmax", "norm-softmax", ""},
}

// Published is the column of the losses study for a loss as it is; the others are what [Spec.WithExchange] takes: one part of
// each kind, the paper's choices.
const Published = "as published"

var studiedExchanges = []string{Published, "direction=cos-orth", "pair=lin-ms", "triplet=cir"}

// lossCells are the cells of the study "losses": each loss, as published and with one of its parts exchanged.
func lossCells(p presets.Preset) []Cell {
	var out []Cell
	for _, set := range onBoth(p, Cell{}) {
		for _, l := range studiedLosses {
			for _, x := range studiedExchanges {
				// Each is a graph to compile: of smoke's there are few.
				if p.Name == "smoke" && (!slices.Contains([]string{"ms", "proxy-nca++"}, l.loss) || !slices.Contains([]string{Published, "pair=lin-ms"}, x)) {
					continue
				}
				c := set
				c.Row, c.Column, c.Loss, c.Miner = l.row, x, l.loss, l.miner
				if x != Published {
					c.Exchange = x
				}
				out = append(out, c)
			}
		}
	}
	return out
}
