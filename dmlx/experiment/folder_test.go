package experiment

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
)

// writeClasses makes a folder of n classes with images of one colour each, and noise.
func writeClasses(dir string, n, images int) error {
	for c := range n {
		sub := filepath.Join(dir, fmt.Sprintf("class-%d", c))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			return err
		}
		for i := range images {
			im := image.NewRGBA(image.Rect(0, 0, 20, 18))
			for k := range im.Pix {
				im.Pix[k] = uint8(40*c + (k*(i+3))%31)
			}
			for x := range 20 {
				im.Set(x, i, color.White)
			}
			f, err := os.Create(filepath.Join(sub, fmt.Sprintf("%d.png", i)))
			if err != nil {
				return err
			}
			if err := png.Encode(f, im); err != nil {
				return err
			}
			if err := f.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}
