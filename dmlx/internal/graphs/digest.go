//go:build !js

// The page identifies no graphs, and hashes would make its program larger.

package graphs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
)

// Digest returns 12 hexadecimal digits that identify what a graph computes: the operations that lead to the outputs,
// with their parameters, shapes and constants. It stops at the leaves, which count by their order and shapes, and at
// parameters. Nodes that no output depends on do not count. A gradient that is not an output does not count either, so
// include those of functions with gradients of their own.
func Digest(leaves []*Node, outputs ...*Node) string {
	number := make(map[NodeId]string)
	sum := sha256.New()
	for i, x := range leaves {
		if x != nil {
			number[x.Id()] = fmt.Sprintf("leaf %d", i)
			fmt.Fprintf(sum, "leaf %d %s\n", i, x.Shape())
		}
	}
	seen := make(map[NodeId]bool)
	var needed []*Node
	var visit func(x *Node)
	visit = func(x *Node) {
		if x == nil || seen[x.Id()] || number[x.Id()] != "" {
			return
		}
		seen[x.Id()] = true
		needed = append(needed, x)
		for _, input := range x.Inputs() {
			visit(input)
		}
	}
	for _, x := range outputs {
		visit(x)
	}
	// The bodies of loops and branches are no inputs of a node. All that there are count.
	if len(needed) > 0 {
		for _, x := range needed[0].Graph().Nodes() {
			if !x.Function().IsMain() {
				visit(x)
			}
		}
	}
	slices.SortFunc(needed, func(a, b *Node) int { return int(a.Id()) - int(b.Id()) })
	for i, x := range needed {
		number[x.Id()] = fmt.Sprint(i)
	}
	for _, x := range needed {
		text := nodeNumber.ReplaceAllStringFunc(x.String(), func(id string) string {
			var n NodeId
			if _, err := fmt.Sscanf(id, "#%d", &n); err != nil || number[n] == "" {
				return id
			}
			return number[n]
		})
		fmt.Fprintf(sum, "%s\n", text)
		if c := x.ConstantValue(); c != nil {
			fmt.Fprintf(sum, "%v\n", c.Value())
		}
	}
	for _, x := range outputs {
		if x != nil {
			fmt.Fprintf(sum, "output %s\n", number[x.Id()])
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

var nodeNumber = regexp.MustCompile(`#[0-9]+`)
