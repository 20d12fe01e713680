package datasets

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"image"
	"image/color"
	"image/draw"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// Images is a split of a data set, decoded: N square pictures and their classes.
type Images struct {
	// N is the number of images, Size the side of each in pixels.
	N, Size int
	// Pixels holds the images one after the other: [N, Size, Size, 3], row by row, red, green, blue, 0..255.
	Pixels []uint8
	// Labels [N] are the classes, 0 … len(Names)−1. Each split numbers its own, but queries and their gallery agree.
	Labels []int64
	// Names are the classes' names: Names[label].
	Names []string
	// Pad is the color that [Images.Augmented] puts where there is no image. [Open] sets it to the training set's mean
	// color, so that padding is zero, to within rounding, once colors are normalized.
	Pad [3]uint8
}

// stride is the number of bytes of an image.
func (im *Images) stride() int { return im.Size * im.Size * 3 }

// At returns image i, [Size, Size, 3]: a part of Pixels, not a copy.
func (im *Images) At(i int) []uint8 {
	n := im.stride()
	return im.Pixels[i*n : (i+1)*n : (i+1)*n]
}

// Augmented writes image i into dst [Size·Size·3], mirrored if flip is set, then moved: dst's pixel (x, y) is the
// image's (x + dx, y + dy), and Pad where that lies outside. With dx and dy uniform in −p … p it is the random crop of
// the image padded by p on each side.
func (im *Images) Augmented(dst []uint8, i, dx, dy int, flip bool) {
	src := im.At(i)
	dst = dst[:len(src)]
	size := im.Size
	for y := range size {
		row := dst[y*size*3 : (y+1)*size*3]
		if y+dy < 0 || y+dy >= size {
			im.pad(row)
			continue
		}
		from := src[(y+dy)*size*3 : (y+dy+1)*size*3]
		// Columns lo … hi−1 lie inside the image.
		lo, hi := max(0, min(size, -dx)), max(0, min(size, size-dx))
		im.pad(row[:lo*3])
		im.pad(row[max(lo, hi)*3:])
		if !flip {
			if lo < hi {
				copy(row[lo*3:hi*3], from[(lo+dx)*3:])
			}
			continue
		}
		for x := lo; x < hi; x++ {
			to, of := row[x*3:][:3:3], from[(size-1-x-dx)*3:][:3:3]
			to[0], to[1], to[2] = of[0], of[1], of[2]
		}
	}
}

func (im *Images) pad(pixels []uint8) {
	for k := range pixels {
		pixels[k] = im.Pad[k%3]
	}
}

// Thumbnail returns a copy of image i as an image.Image.
func (im *Images) Thumbnail(i int) image.Image {
	out := image.NewNRGBA(image.Rect(0, 0, im.Size, im.Size))
	for p, k := im.At(i), 0; k < len(p)/3; k++ {
		out.Pix[4*k], out.Pix[4*k+1], out.Pix[4*k+2], out.Pix[4*k+3] = p[3*k], p[3*k+1], p[3*k+2], 255
	}
	return out
}

// ContactSheet returns a picture of the images of these indices side by side, cols in a row, on white. An index that im
// does not have leaves its place blank, so −1 makes a gap.
func ContactSheet(im *Images, indices []int, cols int) image.Image {
	cols = max(1, min(cols, len(indices)))
	gap := max(1, im.Size/16)
	cell := im.Size + gap
	rows := (len(indices) + cols - 1) / cols
	sheet := image.NewNRGBA(image.Rect(0, 0, cols*cell+gap, rows*cell+gap))
	draw.Draw(sheet, sheet.Rect, image.NewUniform(color.White), image.Point{}, draw.Src)
	for k, i := range indices {
		if i < 0 || i >= im.N {
			continue
		}
		at := image.Pt(gap+k%cols*cell, gap+k/cols*cell)
		draw.Draw(sheet, image.Rectangle{Min: at, Max: at.Add(image.Pt(im.Size, im.Size))}, im.Thumbnail(i), image.Point{},
			draw.Src)
	}
	return sheet
}

// Stats returns the mean and the standard deviation of each channel over all pixels, on the scale 0..1. They come from
// exact counts of the 256 values, so they do not depend on order or machine. The deviation of a channel of a single
// value is 1, so that it can be divided by.
func (im *Images) Stats() (mean, std [3]float32) {
	var counts [3][256]int64
	for p := im.Pixels; len(p) >= 3; p = p[3:] {
		counts[0][p[0]]++
		counts[1][p[1]]++
		counts[2][p[2]]++
	}
	n := float64(len(im.Pixels) / 3)
	if n == 0 {
		return mean, [3]float32{1, 1, 1}
	}
	for k := range counts {
		var sum, squares int64
		for v, c := range counts[k] {
			sum += c * int64(v)
			squares += c * int64(v*v)
		}
		m := float64(sum) / n
		mean[k] = float32(m / 255)
		std[k] = float32(math.Sqrt(max(0, float64(squares)/n-m*m)) / 255)
		if std[k] == 0 {
			std[k] = 1
		}
	}
	return mean, std
}

// classes returns the number of classes that have images.
func (im *Images) classes() int { return distinct(im.Labels, len(im.Names)) }

// digest returns the SHA-256 of the splits' sizes, labels, names and pixels, in hexadecimal.
func digest(splits []*Images) string {
	h := newHash()
	for _, im := range splits {
		fmt.Fprintf(h, "%d %d %q\n", im.N, im.Size, im.Names)
		// Writing to a hash does not fail.
		_ = binary.Write(h, binary.LittleEndian, im.Labels)
		h.Write(im.Pixels)
	}
	return hexDigest(h)
}

func newHash() hash.Hash { return sha256.New() }

func hexDigest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// forEach runs do(0) … do(n−1) on all cores; each worker makes a do of its own. After an error no more is begun, and
// the error of the lowest index is returned, as if all had run in order.
func forEach(n int, worker func() (do func(i int) error)) error {
	var next atomic.Int64
	var workers sync.WaitGroup
	errs := make([]error, n)
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			do := worker()
			for i := int(next.Add(1) - 1); i < n; i = int(next.Add(1) - 1) {
				if errs[i] = do(i); errs[i] != nil {
					next.Store(int64(n))
				}
			}
		})
	}
	workers.Wait()
	return cmp.Or(errs...)
}
