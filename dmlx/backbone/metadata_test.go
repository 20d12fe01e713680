package backbone

import (
	"maps"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/ml/model"
)

func TestPreprocessingInMetadata(t *testing.T) {
	want := Preprocessing{Resize: 64, Crop: 56, Mean: [3]float32{0.48735043, 0.5, 1e-7}, Std: [3]float32{0.2, 1.0 / 3, 1},
		Interpolation: "bicubic"}
	store := model.NewStore()
	if err := Init(store, Small, 4, 1); err != nil {
		t.Fatal(err)
	}
	raw, err := EncodeWeights(store, Small, want.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	meta, err := Metadata(raw)
	if err != nil || meta["arch"] != "small" || meta["format"] != "pt" {
		t.Fatal(meta, err)
	}
	if got, found, err := PreprocessingOf(meta); err != nil || !found || got != want {
		t.Errorf("read %v, %v, %v; want %v", got, found, err, want)
	}
	if _, found, err := PreprocessingOf(map[string]string{"format": "pt", "run": "1"}); err != nil || found {
		t.Errorf("found %v in metadata without any, %v", found, err)
	}
	for _, bad := range [][2]string{
		{"resize", "x"}, {"resize", "40"}, {"crop", "0"}, {"crop", ""},
		{"mean", "[123.675, 116.28, 103.53]"}, {"std", "[58.395, 57.12, 57.375]"}, {"mean", "[1, 2]"},
		{"mean", "[1, 2, NaN]"}, {"mean", "[1, 2, 3, 4]"},
		{"std", "[0.1, 0, 0.1]"}, {"std", "[0.1, 0.2, 1e99]"}, {"std", "null"}, {"crop", "\x00"},
		{"interpolation", "lanczos"},
	} {
		m := maps.Clone(meta)
		m[bad[0]] = bad[1]
		if bad[1] == "\x00" {
			delete(m, bad[0])
		}
		if _, _, err := PreprocessingOf(m); err == nil || !strings.Contains(err.Error(), bad[0]) {
			t.Errorf("%s %q: %v", bad[0], bad[1], err)
		}
	}
	if p := Small.Preprocessing(); p.Resize != 32 || p.Crop != 32 || p.Mean != ImageNetMean ||
		p.Std != ImageNetStd || ResNet50.Preprocessing() != Evaluation() {
		t.Errorf("by default small has %v, resnet50 %v", p, ResNet50.Preprocessing())
	}
	if _, err := Metadata(raw[:100]); err == nil {
		t.Error("metadata of a file that is cut off")
	}
}
