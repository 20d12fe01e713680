package ledger

import "github.com/gradient-surgery/dml/figures"

// settings are where our training, also at the preset paper, departs from the paper's text or from the first author's
// earlier program for easy-positive hard-negative mining (github.com/littleredxh/EasyPositiveHardNegative, commit
// 436c344a), which the paper cites for its triplets. The paper's own program is not public.
var settings = []struct{ what, paper, earlier, ours figures.Markup }{
	{"Learning rate", "a tenth after 60 % of the epochs", "a tenth after 50 %, a hundredth after 75 %",
		"as the paper"},
	{"Images in training", "scaling not said; random crops padded by 10 pixels on each side",
		"the shorter side to 1.1 times the size, then a random crop of the whole rectangle",
		"the middle square first, then a random crop of it, padded by 10 pixels"},
	{"Padding of the crop", "not said", "none", "with the mean color of the data set: zeros after normalization"},
	{"Images of a batch", "not said",
		"in an epoch each image of a large class is drawn once; small classes are filled up by drawing again",
		"a pass draws some images of each class anew, so that over the epochs some come often and others seldom"},
	{"Positives that are copies", "not said", "similarities above 0.9999 are no positives",
		"they are; option `skip-duplicates`"},
	{"Gradient of a batch", "not said", "the sum over triplets", "the mean over valid triplets; option `sum`"},
	{"Evaluation", "the best learning rate by test recall; mean over seeds", "after each epoch",
		"one rate that no run of the table chose; the last epoch, mean over seeds"},
	{"Precision", "not said", "float32", "float32; option bf16"},
}

// Settings returns the table of the differences in setting that are behind every comparison.
func Settings() *figures.Table {
	t := &figures.Table{
		Columns: []figures.Column{{Title: "Setting", Left: true, Wrap: 20}, {Title: "the paper", Left: true, Wrap: 30},
			{Title: "the first author's earlier program", Left: true, Wrap: 30}, {Title: "ours", Left: true, Wrap: 30}},
		Caption: "Where the training departs from the paper's text, or from its first author's earlier program for EPHN.",
	}
	for _, s := range settings {
		t.Rows = append(t.Rows, figures.Row(s.what, s.paper, s.earlier, s.ours))
	}
	return t
}
