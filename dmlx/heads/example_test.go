package heads_test

import (
	"fmt"
	"log"

	"github.com/gradient-surgery/dml/dmlx/heads"
)

// A head on frozen features, as --head names it. Its start is chosen on classes held out, if it names no other.
func ExampleParse() {
	for _, text := range []string{"linear", "mlp?hidden=256", "linear?start=random"} {
		h, err := heads.Parse(text)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s, start %q\n", h, h.Layers(), h.Start)
	}
	// Output:
	// linear: linear, start "chosen-3"
	// mlp?hidden=256: mlp?hidden=256, start "chosen-3"
	// linear?start=random: linear, start ""
}
