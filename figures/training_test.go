package figures

import (
	"math"
	"strings"
	"testing"
)

func TestTraining(t *testing.T) {
	curve := func(name string, epochs int, scale float64) TrainingCurve {
		c := TrainingCurve{Name: name, Recall: math.NaN()}
		for i := range epochs {
			x := math.Exp(-float64(i) / 4)
			c.Epochs = append(c.Epochs, TrainingEpoch{i + 1, 0.1 + 0.4*x*math.Min(scale, 1.6), 1 - 0.3*x - 0.03*scale/(1+scale),
				0.5 + 0.4*x - 0.05*scale/(1+scale), scale * (0.02 + x)})
		}
		return c
	}
	done, under, failed := curve("cos/con/con", 8, 1), curve("cos-orth/lin/hinge", 5, 0.3), curve("cos/mine/con", 2, 20)
	done.Recall, failed.Failed = 63.14, "diverged in epoch 3"
	f, err := Training(8, done, under, failed, TrainingCurve{Name: "cos-orth/lin-ms/cir", Recall: math.NaN()})
	checkGolden(t, "training", f, err)
	for _, want := range []string{"cos/con/con: R@1 63.1 %.", "hinge: epoch 5 of 8.", "mine/con: diverged in epoch 3.",
		"cir: waiting."} {
		if !strings.Contains(f.Alt, want) {
			t.Errorf("%q lacks %q", f.Alt, want)
		}
	}
	if _, err := Training(8); err == nil {
		t.Error("no curve was drawn")
	}
	under.Epochs[1].ViolationRate = 40
	if _, err := Training(8, under); err == nil || !strings.Contains(err.Error(), "0 to 1") {
		t.Errorf("a rate of 40: %v", err)
	}
	done.Epochs[2].GradientNorm = math.Inf(1)
	if _, err := Training(8, done); err == nil || !strings.Contains(err.Error(), "epoch 3") {
		t.Errorf("an infinite gradient: %v", err)
	}
}
