package nb

import "github.com/gradient-surgery/dml/figures"

// Picture returns a figure as an image element, as [Show] displays it. Use it for output that is updated in place.
func Picture(f *figures.Figure) (markup string, err error) {
	data, err := figures.Bytes(f, "png")
	if err != nil {
		return "", err
	}
	return imageHTML(compact(data), f.Alt, f.Width.Points()*96/72)
}
