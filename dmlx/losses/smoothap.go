package losses

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/internal/graphs"
)

var aboutSmoothAP = About{
	Name: "smooth-ap", Title: "Smooth-AP",
	Source: "Brown, Xie, Kalogeiton, Zisserman: Smooth-AP: smoothing the path towards large-scale image retrieval, " +
		"ECCV 2020, §4 (arXiv 2007.12163)",
	Text: "1 − mean over anchors of the mean over p of R_p/(R_p + Σ_n σ((S_an − S_ap)/t)), R_p = 1 + Σ_j σ((S_aj − " +
		"S_ap)/t), j the other positives",
	Peer: "SmoothAPLoss, which in 2.9.0 takes the images of a class for the number of classes, and is right where they " +
		"are equal. Like the authors' code it also ranks the anchor itself, which no query of a test retrieves: itself",
}

// SmoothAP is one minus the average precision of each image's ranking of the others, with sigmoids in place of steps.
// It is the mean over the anchors with a positive.
type SmoothAP struct {
	Temperature float64 // t: 0.01.
	Itself      bool    // The anchor counts as the first of its own positives.
}

// NewSmoothAP has the published parameters.
func NewSmoothAP() *SmoothAP { return &SmoothAP{Temperature: 0.01} }

func (l *SmoothAP) params() []param {
	return []param{temperature(&l.Temperature), {name: "itself", on: &l.Itself}}
}

// Of builds the loss.
func (l *SmoothAP) Of(b *dmlx.LossBatch) *Node {
	positive := b.Positive
	if l.Itself {
		positive = LogicalOr(positive, Equal(graphs.Index(b.S, 0), graphs.Index(b.S, 1)))
	}
	above := Sigmoid(DivScalar(lead(b, aboutSmoothAP.Name), l.Temperature))
	return precisionLoss(positive, b.Negative, above, above)
}

// lead is by how much each image j is more similar to an anchor a than p is, S_aj − S_ap, [B, B, B] by a, p and j. It
// panics, to be caught where the graph is run, if that is too much memory.
func lead(b *dmlx.LossBatch, name string) *Node {
	const most = 512 // 0.5 GB in float32.
	if n := b.S.Shape().Dimensions[0]; n > most {
		panic(fmt.Errorf("loss %s ranks a batch for each of its images: %d images; want at most %d", name, n, most))
	}
	return Sub(InsertAxes(b.S, 1), InsertAxes(b.S, 2))
}

// among is the sum of x [B, B, B] over the j of a mask [B, B], but for p itself: [B, B].
func among(x, mask *Node) *Node {
	mask = BroadcastToDims(InsertAxes(mask, 1), x.Shape().Dimensions...)
	return ReduceSum(graphs.Only(LogicalAnd(mask, NotEqual(graphs.Index(x, 1), graphs.Index(x, 2))), x), 2)
}

// precisionLoss is 1 − the mean average precision, of how far positives and negatives [B, B, B] count as ranked above
// each positive.
func precisionLoss(positive, negative, positives, negatives *Node) *Node {
	right, wrong := AddScalar(among(positives, positive), 1), among(negatives, negative)
	members := ReduceSum(number(positive), 1)
	lost := ReduceSum(graphs.Only(positive, Div(wrong, Add(right, wrong))), 1)
	return mean(over(lost, members), LogicalAny(positive, 1))
}
