package stored

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Settings of runs that differ are rows of their own.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	plain, adam := &runs.Result{Hash: "one"}, &runs.Result{Hash: "two"}
	adam.Spec.Optimizer, adam.Spec.FreezeBN, adam.Spec.MicroBatch, adam.Spec.LR = "adam", train.FreezeAll, 16, 0.25
	body := sideBySide([]*runs.Result{plain, adam})
	rows := make(map[string]bool)
	for line := range strings.Lines(body) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}
	if !rows["optimizer – adam"] || !rows["freeze bn – all"] || !rows["micro-batch – 16"] || !rows["lr 0 0.25"] ||
		strings.Contains(body, "schedule") || strings.Contains(body, "recipe") {
		t.Error(body)
	}
}
