package claims

import (
	"testing"

	"github.com/gradient-surgery/dml/dmlx/scores"
)

// The paper's bold is right except for R@10 on SOP. There SCT is the best and not bold, and two numbers of Ours are.
func TestBoldErrors(t *testing.T) {
	results := scores.Printed().Select(scores.Row{Table: 5})
	wrong := BoldErrors(results)
	if len(wrong) != 3 {
		t.Fatalf("%d are wrong: %v", len(wrong), wrong)
	}
	for _, e := range wrong {
		want := "The best of its column, but not printed bold."
		if e.Cell.Method == "Ours" {
			want = "Printed bold, but SCT has 92.6."
		}
		if e.Cell.Data != "SOP" || e.Cell.Measure != "R@10" || e.Best.Method != "SCT" || e.String() != want {
			t.Errorf("%+v: %s", e.Cell, e)
		}
	}
	// If SCT had 92.4, all would be right.
	for i, r := range results {
		if r.Method == "SCT" && r.Data == "SOP" && r.Measure == "R@10" {
			results[i].Value.Mean = 92.4
		}
	}
	if wrong := BoldErrors(results); len(wrong) != 0 {
		t.Errorf("%v", wrong)
	}
}
