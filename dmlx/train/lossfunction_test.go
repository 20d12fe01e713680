package train

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// square is a loss of a user's own: mean (1 − S)² of positive pairs plus mean S² of negative ones.
func square(slope float64) dmlx.LossFunc {
	return func(b *dmlx.LossBatch) *Node {
		mean := func(of, x *Node) *Node {
			of = ConvertDType(of, x.DType())
			return Div(ReduceAllSum(Mul(of, Square(x))), MaxScalar(ReduceAllSum(of), 1))
		}
		return Add(mean(b.Positive, OneMinus(b.S)), MulScalar(mean(b.Negative, b.S), slope))
	}
}

// A loss of the user's own with the function of a published one, miner and proxies included, trains to the same bits,
// and a loss that is in no list trains at all.
func TestTrainLossFunction(t *testing.T) {
	set, err := datasets.Open("minicar", datasets.Options{Size: 16, TrainClasses: 4, TestClasses: 3})
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) dmlx.LossFunc {
		l, err := losses.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		return l.Of
	}
	for _, c := range trainers() {
		for _, l := range []struct {
			named string // "" without a loss to compare with.
			own   LossFunction
		}{
			{"ms", LossFunction{Name: "my-ms", Of: of("ms"), Miner: "ms"}},
			{"proxy-anchor", LossFunction{Name: "my-anchor", Of: of("proxy-anchor"), Proxies: 1}},
			{"", LossFunction{Name: "square", Of: square(1)}},
		} {
			t.Run(c.Name+" "+l.own.Name, func(t *testing.T) {
				t.Parallel()
				weights := func(c *Trainer, config Config) []byte {
					config.ProxyLR = 0.1 * float64(min(1, l.own.Proxies))
					if err := config.Validate(); err != nil {
						t.Fatal(err)
					}
					dir := t.TempDir()
					training := Training{Config: config, ID: "x", Data: samples.Images(set), Dir: dir}
					if _, err := c.Train(t.Context(), training); err != nil {
						t.Fatal(err)
					}
					raw, err := os.ReadFile(filepath.Join(dir, EmbeddingsFile))
					if err != nil {
						t.Fatal(err)
					}
					return raw
				}
				own, err := tinyConfig().by(ByLoss(l.own))
				if err != nil {
					t.Fatal(err)
				}
				got := weights(c, own)
				if l.named == "" {
					if bytes.Equal(got, weights(c, tinyConfig())) {
						t.Error("the loss trains as the rule cos/con/con")
					}
					return
				}
				named, err := tinyConfig().by(ParseLoss(l.named + ", miner " + l.own.Miner))
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, weights(c, named)) {
					t.Errorf("%s trains otherwise than %s", own.Objective.String(), named.Objective.String())
				}
			})
		}
	}
}

func TestLossFunctionIdentity(t *testing.T) {
	c := tinyConfig()
	seen := make(map[string]bool)
	for _, l := range []LossFunction{
		{Name: "square", Of: square(1)}, {Name: "square", Of: square(2)}, {Name: "square", Of: square(1), Proxies: 2},
	} {
		a, errA := ByLoss(l)
		b, errB := ByLoss(l)
		if err := errors.Join(errA, errB); err != nil || a.Loss != b.Loss || seen[a.Loss] ||
			!strings.HasPrefix(a.String(), "loss square#") {
			t.Errorf("%s, then %s, %v", a.Loss, b.Loss, err)
		}
		seen[a.Loss] = true
	}
	for want, l := range map[string]LossFunction{
		"must not be empty":   {Of: square(1)},
		"its function is nil": {Name: "x"},
		"not a scalar":        {Name: "x", Of: func(b *dmlx.LossBatch) *Node { return b.S }},
		"nonsense":            {Name: "x", Of: func(*dmlx.LossBatch) *Node { panic("nonsense") }},
		"want finite values":  {Name: "x", Of: func(b *dmlx.LossBatch) *Node { return ReduceAllSum(Log(Neg(Square(b.S)))) }},
		"another graph each":  {Name: "x"},
		"gradient is zero":    {Name: "x", Of: func(b *dmlx.LossBatch) *Node { return StopGradient(square(1)(b)) }},
		"of which a miner":    {Name: "x", Of: square(1), Proxies: 1, Miner: "ms"},
		"none of that name":   {Name: "x", Of: square(1), Miner: "nonsense"},
	} {
		if want == "another graph each" {
			l.Of = func(b *dmlx.LossBatch) *Node { return square(rand.Float64())(b) }
		}
		if _, err := ByLoss(l); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want …%s…", err, want)
		}
	}
	own, err := c.by(ByLoss(LossFunction{Name: "square", Of: square(1)}))
	if err != nil {
		t.Fatal(err)
	}
	stored := own
	stored.meaning = nil // As it is read from a file.
	if err := stored.Validate(); err == nil || !strings.Contains(err.Error(), "train.ByLoss") {
		t.Errorf("without its function: %v", err)
	}
	if err := stored.WithValuesOf(own).Validate(); err != nil {
		t.Error(err)
	}
}
