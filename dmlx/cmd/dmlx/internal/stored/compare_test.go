package stored

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Options of runs that differ are rows of their own.
func TestSideBySide(t *testing.T) {
	t.Parallel()
	plain, adam := &runs.Result{Hash: "one"}, &runs.Result{Hash: "two"}
	adam.Spec.Optimizer, adam.Spec.FreezeBN = "adam", train.FreezeAll
	body := sideBySide([]*runs.Result{plain, adam})
	rows := make(map[string]bool)
	for line := range strings.Lines(body) {
		rows[strings.Join(strings.Fields(line), " ")] = true
	}
	if !rows["optimizer sgd adam"] || !rows["frozen batch normalization – all"] || strings.Contains(body, "schedule") {
		t.Error(body)
	}
}
