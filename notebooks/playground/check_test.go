package playground

import (
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/figures"
)

func TestCheck(t *testing.T) {
	table, err := Check(mine)
	if err != nil || len(table.Rows) < 6 {
		t.Errorf("%v, %v", table, err)
	}
	table, err = Check(dmlx.Rule{Pair: dmlx.PairWeight{Name: "wide",
		Of: func(b *dmlx.Batch) (*Node, *Node) { return b.S, b.San }}})
	text, failed := figures.Bytes(table, "csv")
	if failed != nil || err == nil || !strings.Contains(err.Error(), "check_test.go, line ") ||
		!strings.Contains(string(text), "check_test.go") || !strings.Contains(string(text), "return b.S, b.San") {
		t.Errorf("%s, %v", text, err)
	}
}
