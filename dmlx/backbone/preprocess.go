package backbone

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// ImageNetMean and ImageNetStd are the means and standard deviations of ImageNet's colors, on the scale 0..1, that the
// published weights of ResNet-18 and ResNet-50 expect.
var (
	ImageNetMean = [3]float32{0.485, 0.456, 0.406}
	ImageNetStd  = [3]float32{0.229, 0.224, 0.225}
)

// Sizes of torchvision's evaluation: the shorter side is scaled to the first, and the middle square of the second kept.
const (
	EvaluationResize = 256
	EvaluationCrop   = 224
)

// SmallSize is the side in pixels of the images that [Small] is made for.
const SmallSize = 32

// Normalized makes pixels, uint8 [N, H, W, 3], into float32 with the mean taken off and divided by the standard
// deviation, both on the scale 0..1.
func Normalized(pixels *Node, mean, std [3]float32) *Node {
	g := pixels.Graph()
	row := func(v [3]float32) *Node { return Reshape(Const(g, v[:]), 1, 1, 1, 3) }
	x := MulScalar(ConvertDType(pixels, dtypes.Float32), 1.0/255)
	return Div(Sub(x, row(mean)), row(std))
}
