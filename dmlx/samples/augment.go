package samples

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/internal/query"
)

// Augmentation says how training images are changed at random. [ParseAugmentation] reads one from text. The zero value
// changes nothing. The numbers of an image depend only on the seed, the step and its place in the batch.
type Augmentation struct {
	Crop Crop // None, PadCrop or ResizedCrop.
	Flip bool // Mirrors every second image, at random.

	// Pad is the padding in pixels of PadCrop on each side, in the color [datasets.Images].Pad.
	Pad int

	// Scale and Ratio are those of ResizedCrop: the share of the image that is cut out, and width over height, each with
	// the least and the largest value.
	Scale, Ratio [2]float64
}

// Crop is a way to cut a training image out of an image.
type Crop string

const (
	// None takes the image itself.
	None Crop = ""
	// PadCrop pads the image and cuts a part of the original size out of it.
	PadCrop Crop = "pad-crop"
	// ResizedCrop cuts a rectangle out and scales it to the original size: torchvision's RandomResizedCrop with bilinear
	// interpolation. The image is the square of [datasets.Options].Size pixels, so a small rectangle is magnified.
	ResizedCrop Crop = "resized-crop"
)

const (
	NoAugmentation = "none"
	flipName       = "flip"
)

// resizedScale and resizedRatio are torchvision's defaults.
var resizedScale, resizedRatio = [2]float64{0.08, 1}, [2]float64{3. / 4, 4. / 3}

// ParseAugmentation reads an augmentation: "none", "flip", "pad-crop", "pad-crop+flip?pad=4", "resized-crop",
// "resized-crop+flip?scale=0.2-1&ratio=0.75-1.3333". Without options, resized-crop has torchvision's, a scale of
// 0.08-1 and a ratio of 3/4 to 4/3, and pad-crop the given padding.
func ParseAugmentation(text string, pad int) (a Augmentation, err error) {
	fail := func(format string, args ...any) (Augmentation, error) {
		return Augmentation{}, fmt.Errorf("augmentation %q: "+format, append([]any{text}, args...)...)
	}
	body, options, asked := strings.Cut(text, "?")
	crop, flip, both := strings.Cut(body, "+")
	switch {
	case body == NoAugmentation:
	case body == flipName:
		a.Flip = true
	case both && flip != flipName:
		return fail("%q follows the +; only %s can", flip, flipName)
	case crop == string(PadCrop):
		a = Augmentation{Crop: PadCrop, Flip: both, Pad: pad}
	case crop == string(ResizedCrop):
		a = Augmentation{Crop: ResizedCrop, Flip: both, Scale: resizedScale, Ratio: resizedRatio}
	default:
		return fail("there is no %q; there are %s, %s, %s and %s, the last two also with +%s",
			crop, NoAugmentation, flipName, PadCrop, ResizedCrop, flipName)
	}
	var allowed []query.Option
	switch a.Crop {
	case PadCrop:
		allowed = []query.Option{{Name: "pad", Text: func(value string) (err error) {
			if a.Pad, err = strconv.Atoi(value); err != nil || a.Pad < 1 {
				return errors.New("want a number of pixels, at least 1")
			}
			return nil
		}}}
	case ResizedCrop:
		allowed = []query.Option{
			{Name: "ratio", Text: interval(&a.Ratio, math.MaxFloat64)}, {Name: "scale", Text: interval(&a.Scale, 1)},
		}
	}
	switch {
	case asked && allowed == nil:
		return fail("%s takes no options", body)
	case asked:
		if err := query.Read("option", options, allowed); err != nil {
			return fail("%w", err)
		}
	}
	if a.Crop == PadCrop && a.Pad == 0 {
		return fail("the padding is 0: want a number of pixels, as in %s?pad=4", body)
	}
	return a, nil
}

// interval returns a function that reads a range of positive numbers, as in "0.2-1".
func interval(to *[2]float64, most float64) func(value string) error {
	return func(value string) error {
		low, high, _ := strings.Cut(value, "-")
		var wrong [2]error
		to[0], wrong[0] = strconv.ParseFloat(low, 64)
		to[1], wrong[1] = strconv.ParseFloat(high, 64)
		if errors.Join(wrong[:]...) != nil || !(to[0] > 0) || !(to[0] <= to[1]) || !(to[1] <= most) {
			if most == 1 {
				return errors.New("want two shares of the image above 0, the least and the largest, as in 0.2-1")
			}
			return errors.New("want the least and the largest width over height, as in 0.75-1.3333")
		}
		return nil
	}
}

// String returns the canonical text, which [ParseAugmentation] reads.
func (a Augmentation) String() string {
	if a.Crop == None {
		if a.Flip {
			return flipName
		}
		return NoAugmentation
	}
	name := string(a.Crop)
	if a.Flip {
		name += "+" + flipName
	}
	if a.Crop == PadCrop {
		return query.Join(name, []string{"pad=" + strconv.Itoa(a.Pad)})
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) } // Without the minus of an exponent.
	var fields []string
	for _, f := range []struct {
		name        string
		v, standard [2]float64
	}{{"ratio", a.Ratio, resizedRatio}, {"scale", a.Scale, resizedScale}} {
		if f.v != f.standard {
			fields = append(fields, f.name+"="+number(f.v[0])+"-"+number(f.v[1]))
		}
	}
	return query.Join(name, fields)
}

// cut returns the rectangle of ResizedCrop in a square of size pixels, as torchvision's get_params does: ten attempts
// at a rectangle of a random area and ratio that fits, and then the middle.
func (a Augmentation) cut(rng *rand.Rand, size int) datasets.Rectangle {
	area := float64(size * size)
	low, high := math.Log(a.Ratio[0]), math.Log(a.Ratio[1])
	uniform := func(low, high float64) float64 { return low + (high-low)*rng.Float64() }
	for range 10 {
		area := area * uniform(a.Scale[0], a.Scale[1])
		ratio := math.Exp(uniform(low, high))
		w, h := int(math.RoundToEven(math.Sqrt(area*ratio))), int(math.RoundToEven(math.Sqrt(area/ratio)))
		if 0 < w && w <= size && 0 < h && h <= size {
			return datasets.Rectangle{Top: rng.IntN(size - h + 1), Left: rng.IntN(size - w + 1), Width: w, Height: h}
		}
	}
	return a.middle(size)
}

// middle returns the rectangle in the middle of a square of size pixels that is as large as the ratios allow.
func (a Augmentation) middle(size int) datasets.Rectangle {
	w, h := size, size
	if a.Ratio[0] > 1 {
		h = int(math.RoundToEven(float64(w) / a.Ratio[0]))
	} else if a.Ratio[1] < 1 {
		w = int(math.RoundToEven(float64(h) * a.Ratio[1]))
	}
	h, w = max(h, 1), max(w, 1)
	return datasets.Rectangle{Top: (size - h) / 2, Left: (size - w) / 2, Width: w, Height: h}
}
