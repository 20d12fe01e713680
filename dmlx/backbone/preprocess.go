package backbone

import (
	"fmt"
	"image"
	"image/color"
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
)

// ImageNetMean and ImageNetStd are the means and standard deviations of ImageNet's colours, on the scale 0..1, that the
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

// EvaluationPixels scales an image so that its shorter side has resize pixels and cuts the middle square of crop pixels
// out: uint8 [crop, crop, 3], as torchvision's Resize and CenterCrop do with an image of PIL's, value for value. (Pillow
// 13 takes columns before rows for some tall images, which moves a value by one here and there.) Alpha is dropped as
// PIL's convert("RGB") drops it.
func EvaluationPixels(img image.Image, resize, crop int) ([]uint8, error) {
	b := img.Bounds()
	w, h := b.Dx(), b.Dy()
	if w < 1 || h < 1 {
		return nil, fmt.Errorf("an image of %d×%d pixels", w, h)
	}
	if err := CheckEvaluation(resize, crop); err != nil {
		return nil, err
	}
	toW, toH := resize, resize
	if w <= h {
		toH = resize * h / w
	} else {
		toW = resize * w / h
	}
	pixels := resample(rgb(img), w, h, toW, toH)
	left, top := int(math.RoundToEven(float64(toW-crop)/2)), int(math.RoundToEven(float64(toH-crop)/2))
	out := make([]uint8, 0, crop*crop*3)
	for y := top; y < top+crop; y++ {
		out = append(out, pixels[(y*toW+left)*3:(y*toW+left+crop)*3]...)
	}
	return out, nil
}

// CheckEvaluation tells what is wrong with the sizes for [EvaluationPixels].
func CheckEvaluation(resize, crop int) error {
	if crop < 1 || resize < crop || resize > 1<<14 {
		return fmt.Errorf("a square of %d pixels out of an image whose shorter side has %d: want at least 1, no more than there are, and those at most %d",
			crop, resize, 1<<14)
	}
	return nil
}

// rgb are an image's colours, uint8 [H, W, 3], without regard to alpha.
func rgb(img image.Image) []uint8 {
	b := img.Bounds()
	out := make([]uint8, 0, b.Dx()*b.Dy()*3)
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.NRGBAModel.Convert(img.At(x, y)).(color.NRGBA)
			out = append(out, c.R, c.G, c.B)
		}
	}
	return out
}

// resample scales pixels [h, w, 3] to [toH, toW, 3] as PIL's Image.resize with BILINEAR does: a triangle that widens as
// the image shrinks, along rows and then along columns, with weights of 22 bits and values rounded to 8 bits in between.
func resample(pixels []uint8, w, h, toW, toH int) []uint8 {
	if toW != w {
		taps := triangle(w, toW)
		out := make([]uint8, h*toW*3)
		for y := range h {
			row := pixels[y*w*3:]
			for x, t := range taps {
				for c := range 3 {
					out[(y*toW+x)*3+c] = t.apply(row, 3, c)
				}
			}
		}
		pixels, w = out, toW
	}
	if toH != h {
		taps := triangle(h, toH)
		out := make([]uint8, toH*w*3)
		for y, t := range taps {
			for x := range w * 3 {
				out[y*w*3+x] = t.apply(pixels, 3*w, x)
			}
		}
		pixels = out
	}
	return pixels
}

// resampleBits are the bits of a weight behind the point, PIL's PRECISION_BITS.
const resampleBits = 32 - 8 - 2

// tap is how one value of the result is made: of the values from first on, each times its weight.
type tap struct {
	first   int
	weights []int32
}

// apply takes the values at from, from + stride, ….
func (t tap) apply(values []uint8, stride, from int) uint8 {
	sum := int32(1) << (resampleBits - 1)
	at := from + t.first*stride
	for _, w := range t.weights {
		sum += int32(values[at]) * w
		at += stride
	}
	return uint8(min(max(sum>>resampleBits, 0), 255))
}

// triangle gives the taps that make n values into m.
func triangle(n, m int) []tap {
	scale := float64(n) / float64(m)
	support := max(scale, 1)
	out := make([]tap, m)
	for i := range out {
		centre := (float64(i) + 0.5) * scale
		first := max(int(centre-support+0.5), 0)
		last := min(int(centre+support+0.5), n)
		weights := make([]float64, last-first)
		total := 0.0
		for k := range weights {
			weights[k] = max(1-math.Abs((float64(k+first)-centre+0.5)*(1/support)), 0)
			total += weights[k]
		}
		out[i] = tap{first: first, weights: make([]int32, len(weights))}
		for k, w := range weights {
			if total != 0 {
				w /= total
			}
			out[i].weights[k] = int32(0.5 + w*(1<<resampleBits))
		}
	}
	return out
}

// Normalized makes pixels, uint8 [N, H, W, 3], into float32 with the mean and standard deviation taken off that they are
// given on the scale 0..1.
func Normalized(pixels *Node, mean, std [3]float32) *Node {
	g := pixels.Graph()
	row := func(v [3]float32) *Node { return Reshape(Const(g, v[:]), 1, 1, 1, 3) }
	x := MulScalar(ConvertDType(pixels, dtypes.Float32), 1.0/255)
	return Div(Sub(x, row(mean)), row(std))
}
