package pytorch_test

import (
	"fmt"
	"strings"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/pytorch"
)

func ExampleModule() {
	rule, err := dmlx.ParseRule("cos/lin/cir?tau=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	module, err := pytorch.Module(rule)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.SplitN(module, "\n", 2)[0])
	fmt.Println(strings.Contains(module, "def __init__(self, tau=2.0)"))
	// Output:
	// """The rule cos/lin/cir?tau=2 as a PyTorch loss: loss = Surgery()(embeddings, labels); loss.backward()
	// true
}
