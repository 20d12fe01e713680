package backbone

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// Preprocessing is how an image becomes a network's input: its shorter side is scaled to Resize pixels, the middle
// square of Crop pixels is kept, and of its colors, on the scale 0..1, Mean is taken off and Std divided out.
type Preprocessing struct {
	Resize, Crop  int
	Mean, Std     [3]float32
	Interpolation string // Of scaling, as datasets.Filter has it; "" is bilinear.
}

// Evaluation is torchvision's preprocessing for evaluation, with which published ImageNet weights are used.
func Evaluation() Preprocessing {
	return Preprocessing{Resize: EvaluationResize, Crop: EvaluationCrop, Mean: ImageNetMean, Std: ImageNetStd}
}

// Preprocessing is how images are prepared where a weight file does not say it: as torchvision's evaluation does for
// the ResNets, and for [Small] at the size that it is made for.
func (a Arch) Preprocessing() Preprocessing {
	p := Evaluation()
	if a == Small {
		p.Resize, p.Crop = SmallSize, SmallSize
	}
	return p
}

// The names under which a weight file's metadata say how its images are prepared.
const (
	resizeKey = "resize"
	cropKey   = "crop"
	meanKey   = "mean"
	stdKey    = "std"
	filterKey = "interpolation" // Bilinear where it is missing.
)

// Metadata gives the preprocessing as a weight file's metadata: numbers as text, mean and std as JSON arrays.
func (p Preprocessing) Metadata() map[string]string {
	meta := map[string]string{
		resizeKey: strconv.Itoa(p.Resize), cropKey: strconv.Itoa(p.Crop), meanKey: triple(p.Mean), stdKey: triple(p.Std),
	}
	if p.Interpolation != "" {
		meta[filterKey] = p.Interpolation
	}
	return meta
}

func triple(v [3]float32) string {
	out := []byte{'['}
	for i, x := range v {
		if i > 0 {
			out = append(out, ", "...)
		}
		out = strconv.AppendFloat(out, float64(x), 'g', -1, 32)
	}
	return string(append(out, ']'))
}

// PreprocessingOf reads what [Preprocessing.Metadata] wrote; found is false where there is nothing of it. It fails
// where a part is missing or makes no sense.
func PreprocessingOf(meta map[string]string) (p Preprocessing, found bool, err error) {
	for _, key := range []string{resizeKey, cropKey, meanKey, stdKey} {
		if _, there := meta[key]; there {
			found = true
		}
	}
	if !found {
		return p, false, nil
	}
	for _, f := range []struct {
		key string
		to  *int
	}{{resizeKey, &p.Resize}, {cropKey, &p.Crop}} {
		if *f.to, err = strconv.Atoi(meta[f.key]); err != nil {
			return p, true, fmt.Errorf("metadata %s is %q: want a number of pixels", f.key, meta[f.key])
		}
	}
	if p.Crop < 1 || p.Resize < p.Crop {
		return p, true, fmt.Errorf("metadata %s %d of %s %d: want at least 1 pixel and at most %s",
			cropKey, p.Crop, resizeKey, p.Resize, resizeKey)
	}
	for _, f := range []struct {
		key string
		to  *[3]float32
	}{{meanKey, &p.Mean}, {stdKey, &p.Std}} {
		var values []float32
		if err := json.Unmarshal([]byte(meta[f.key]), &values); err != nil || len(values) != 3 {
			return p, true, fmt.Errorf("metadata %s is %q: want three numbers, as in [0.485, 0.456, 0.406]", f.key, meta[f.key])
		}
		*f.to = [3]float32(values)
	}
	if min(p.Std[0], p.Std[1], p.Std[2]) <= 0 {
		return p, true, fmt.Errorf("metadata %s is %s: want deviations above 0", stdKey, meta[stdKey])
	}
	if max(p.Mean[0], p.Mean[1], p.Mean[2], p.Std[0], p.Std[1], p.Std[2]) > 1 {
		return p, true,
			fmt.Errorf("metadata %s and %s are %s and %s: want those of pixels from 0 to 1; divide those of 0 to 255 "+
				"by 255", meanKey, stdKey, meta[meanKey], meta[stdKey])
	}
	switch p.Interpolation = meta[filterKey]; p.Interpolation {
	case "", "bilinear", "bicubic":
	default:
		return p, true, fmt.Errorf("metadata %s is %.40q: want bilinear or bicubic", filterKey, p.Interpolation)
	}
	return p, true, nil
}

// Metadata gives the metadata of a safetensors file; see [EncodeWeights]. A file of torch.save has none.
func Metadata(data []byte) (map[string]string, error) {
	f, err := parseTensors(data)
	if err != nil {
		return nil, err
	}
	return f.meta, nil
}
