package nb

import "github.com/gradient-surgery/dml/figures"

// Picture is a figure as markup with the picture in it, as [Show] displays it: for what is updated in place.
func Picture(f *figures.Figure) (markup string, err error) {
	data, err := figures.Bytes(f, "png")
	if err != nil {
		return "", err
	}
	return imageHTML(compact(data), f.Alt, f.Width.Points()*96/72)
}
