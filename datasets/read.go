package datasets

import "image"

// ReadImage decodes a JPEG or PNG file as the loaders of this package do.
func ReadImage(path string) (image.Image, error) { return decodeFile(path) }
