package presets

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/objectives"
)

// An objective that was read from a file is parsed, and the error of a name is that of the rule or loss in it.
func TestParsedObjective(t *testing.T) {
	t.Parallel()
	names := func(o objectives.Objective) Objective { return Objective{Objective: o} }
	for want, o := range map[string]Objective{
		"cos/con/con":             {},
		"cos-orth/lin-ms/cir":     Named("ours"),
		"loss ms, miner ms":       names(objectives.Objective{Loss: "ms", Miner: "ms"}),
		"cos/lin/cir, miner hard": names(objectives.Objective{Rule: "cos/lin/cir", Miner: "hard"}),
	} {
		got, err := o.Parsed()
		if err != nil || got.String() != want || got.Validate() != nil {
			t.Errorf("%s is %s, %v, want %s", o, got, err, want)
		}
	}
	for want, o := range map[string]Objective{
		`loss "nix": there is none of that name`: Named("loss nix"),
		`"x" is neither a miner`:                 Named("loss ms, x"),
		`rule ""`:                                Named(""),
		`no pair weight "lni"`:                   names(objectives.Objective{Rule: "cos/lni/con"}),
		"none of that name":                      names(objectives.Objective{Loss: "nix"}),
		`miner "x"`:                              names(objectives.Objective{Loss: "ms", Miner: "x"}),
	} {
		if got, err := o.Parsed(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %s, %v, want …%s…", o, got, err, want)
		}
	}
}
