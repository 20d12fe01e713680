package paper

import (
	"context"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/paper/claims"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/figures"
)

func TestClaimsAudited(t *testing.T) {
	r, err := auditClaims(context.Background(), request(t, "quick"))
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := runs.Bundled()
	if err != nil {
		t.Fatal(err)
	}
	if r.Ran != 0 || len(shipped) > 0 && len(r.Results) == 0 {
		t.Errorf("%d runs were made, %d are there", r.Ran, len(r.Results))
	}
	for _, part := range append([]string{"", "summary", "contradicted"}, claimPartNames()...) {
		text, err := figures.Bytes(r.Part(part), "md")
		if err != nil || len(text) == 0 {
			t.Errorf("%s: %v", part, err)
		}
	}
	// What is shipped is measured: Table 2 is, on both sets.
	text, err := figures.Bytes(r.Part("directions"), "csv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "an improvement for both datasets") &&
			(!strings.Contains(line, "minicar") || !strings.Contains(line, "minishop")) {
			t.Errorf("Table 2 is not measured: %s", line)
		}
	}
}

func claimPartNames() []string {
	var out []string
	for _, p := range claims.Parts {
		out = append(out, p.Name)
	}
	return out
}

// At the paper preset no run is there: the audit of the paper's own numbers still is.
func TestClaimsWithoutRuns(t *testing.T) {
	t.Setenv(datasets.DataEnv, t.TempDir())
	r, err := auditClaims(context.Background(), request(t, "paper"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := figures.Bytes(r.Part("triplets"), "md")
	if err != nil || len(r.Results) != 0 || !strings.Contains(string(text), "not run") ||
		!strings.Contains(string(text), "| holds |") {
		t.Errorf("%d runs, %v\n%s", len(r.Results), err, text)
	}
}
