package datasets

import (
	"fmt"
	"io/fs"

	"github.com/gradient-surgery/dml/datasets/internal/drawn"
)

// openDrawn returns a drawn set, from the cache if it is there.
func openDrawn(name string, o *Options, splits [][]drawn.Part) (*Set, error) {
	c := cached{name: name, key: drawnKey(sources, name, o.Size, splits...), o: o}
	return c.open(func() (*made, error) {
		images := make([]*Images, len(splits))
		for k, parts := range splits {
			images[k] = drawParts(o.Size, parts...)
		}
		return &made{splits: images}, nil
	})
}

// drawParts draws the parts one after the other as one split, its classes numbered through, on all cores.
func drawParts(size int, parts ...drawn.Part) *Images {
	im := &Images{Size: size}
	var starts []int
	for _, p := range parts {
		starts = append(starts, im.N)
		for c := range p.Classes {
			for range p.PerClass {
				im.Labels = append(im.Labels, int64(len(im.Names)))
			}
			im.Names = append(im.Names, p.Name(c))
		}
		im.N += p.Classes * p.PerClass
	}
	im.Pixels = make([]uint8, im.N*im.stride())
	// Drawing cannot fail.
	_ = forEach(im.N, func() func(int) error {
		paint := make([]func(int, []uint8), len(parts))
		for k, p := range parts {
			paint[k] = p.Painter(size)
		}
		return func(i int) error {
			k := len(parts) - 1
			for starts[k] > i {
				k--
			}
			paint[k](i-starts[k], im.At(i))
			return nil
		}
	})
	return im
}

// drawnKey returns the cache key of drawn splits: a hash of the drawing code, the splits' counts and settings, and a
// few images of each part that are drawn now. So the cache is not used for edited code, nor on a processor or with a
// library that rounds those images differently.
func drawnKey(code fs.FS, name string, size int, splits ...[]drawn.Part) string {
	h := newHash()
	hashSources(h, code)
	probe := make([]uint8, size*size*3)
	for _, parts := range splits {
		for _, p := range parts {
			fmt.Fprintf(h, "%s %d %d %d %d %d %+v\n", name, size, p.Classes, p.PerClass, p.First, p.Seed, p.Nuisance)
			paint := p.Painter(size)
			for _, class := range []int{0, p.Classes / 2, p.Classes - 1} {
				paint(class*p.PerClass, probe)
				h.Write(probe)
			}
		}
	}
	return hexDigest(h)
}
