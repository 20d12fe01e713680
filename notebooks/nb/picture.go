package nb

import (
	"encoding/base64"
	"fmt"
	"html"
	"math"

	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/gradient-surgery/dml/figures"
)

// Picture returns a figure as an image element. Use it for output that is updated in place; what stays in the notebook
// is for [Show], which every converter can read.
func Picture(f *figures.Figure) (markup string, err error) {
	kind, data, err := encoded(f)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`<img src="data:%s;base64,%s" alt="%s" width="%d" style="max-width:100%%;height:auto">`,
		kind, base64.StdEncoding.EncodeToString(data), html.EscapeString(f.Alt), width(f)), nil
}

// encoded returns a figure as a small image file and its type.
func encoded(f *figures.Figure) (kind protocol.MIMEType, data []byte, err error) {
	data, err = figures.Bytes(f, "png")
	if err != nil {
		return "", nil, err
	}
	kind, data = compact(data)
	return kind, data, nil
}

// width returns the width of a figure in CSS pixels.
func width(f *figures.Figure) int { return int(math.Round(f.Width.Points() * 96 / 72)) }
