package presets

import (
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// Only trainings that XLA would compile for longer than Go trains are light.
func TestLight(t *testing.T) {
	for _, name := range Names() {
		p, err := Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if p.Light(0) != (name == "smoke") {
			t.Errorf("preset %s is light: %v", name, p.Light(0))
		}
	}
	smoke, err := Parse("smoke")
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Settings{
		"larger network": {Arch: "resnet18", Weights: train.Random}, "larger images": {Size: 224},
		"longer training": {Epochs: 100}, "larger batches": {Batch: 512},
	} {
		if p, err := smoke.With(s); err != nil || p.Light(0) {
			t.Errorf("%s: %v, light: %v", name, err, p.Light(0))
		}
	}
	spec, err := smoke.Spec("minishop", dmlx.Rule{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for devices, want := range map[int]bool{0: true, 1: true, 4: false, train.AllDevices: false} {
		if got := spec.Light(devices); got != want {
			t.Errorf("on %d devices it is light: %v", devices, got)
		}
	}
}
