package weights_test

import (
	"fmt"
	"path/filepath"

	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/weights"
)

// Pretrained weights belong in the cache. Where a file is missing the error is the command that downloads it.
func ExamplePath() {
	path, err := weights.Path(backbone.ResNet18)
	fmt.Println(filepath.Base(path), err)
	// Output:
	// resnet18.safetensors <nil>
}
