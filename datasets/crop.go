package datasets

// Rectangle is a part of an image, in pixels.
type Rectangle struct{ Left, Top, Width, Height int }

// ResizedCrop writes a part of image i, scaled to the size of the image and mirrored if flip is set, into dst
// [Size·Size·3]. It is torchvision's resized_crop with bilinear interpolation on a Pillow image; see [Raster.Square]
// for its rounding. The part must lie inside the image.
func (im *Images) ResizedCrop(dst []uint8, i int, part Rectangle, flip bool) {
	size := im.Size
	if part.Width == size && part.Height == size {
		im.Augmented(dst, i, 0, 0, flip)
		return
	}
	raster := Raster{Width: part.Width, Height: part.Height, Pix: make([]uint8, 3*part.Width*part.Height)}
	src := im.At(i)
	for y := range part.Height {
		from := ((part.Top+y)*size + part.Left) * 3
		copy(raster.Pix[3*y*part.Width:3*(y+1)*part.Width], src[from:])
	}
	raster.scale(dst, size, size, 0, 0, size, Bilinear)
	if flip {
		mirror(dst, size)
	}
}

// mirror swaps left and right of an image [size, size, 3].
func mirror(pixels []uint8, size int) {
	for ; len(pixels) >= 3*size; pixels = pixels[3*size:] {
		for x := range size / 2 {
			left, right := (*[3]uint8)(pixels[3*x:]), (*[3]uint8)(pixels[3*(size-1-x):])
			*left, *right = *right, *left
		}
	}
}
