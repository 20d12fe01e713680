package train

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/objectives"
	"github.com/gradient-surgery/dml/dmlx/samples"
)

// square is a loss of a user's own: the mean of (1 − S)² of positive pairs and S² of the others.
func square(b *dmlx.LossBatch) *Node {
	return ReduceAllMean(Square(Sub(b.S, ConvertDType(b.Positive, b.S.DType()))))
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
			own   objectives.LossFunction
		}{
			{"ms", objectives.LossFunction{Name: "my-ms", Of: of("ms"), Miner: "ms"}},
			{"proxy-anchor", objectives.LossFunction{Name: "my-anchor", Of: of("proxy-anchor"), Proxies: 1}},
			{"", objectives.LossFunction{Name: "square", Of: square}},
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
				own, err := tinyConfig().by(objectives.ByLoss(l.own))
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
				named, err := tinyConfig().by(objectives.ParseLoss(l.named + ", miner " + l.own.Miner))
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

func TestWithValuesOf(t *testing.T) {
	own, err := tinyConfig().by(objectives.ByLoss(objectives.LossFunction{Name: "square", Of: square}))
	if err != nil {
		t.Fatal(err)
	}
	stored := own
	stored.Objective = objectives.Objective{Loss: own.Loss} // As it is read from a file.
	if err := stored.Validate(); err == nil || !strings.Contains(err.Error(), "objectives.ByLoss") {
		t.Errorf("without its function: %v", err)
	}
	if err := stored.WithValuesOf(own).Validate(); err != nil {
		t.Error(err)
	}
}
