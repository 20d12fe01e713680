package nb

import (
	"encoding/base64"
	"fmt"
	"html"
	"math"

	"github.com/janpfeifer/gonb/gonbui"
	"github.com/janpfeifer/gonb/gonbui/protocol"

	"github.com/gradient-surgery/dml/figures"
)

// Picture returns a figure as an image element. Use it for output that is updated in place; what stays in the notebook
// is for [Show] and [Update], which every converter can read.
func Picture(f *figures.Figure) (markup string, err error) {
	kind, data, err := encoded(f)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(`<img src="data:%s;base64,%s" alt="%s" width="%d" style="max-width:100%%;height:auto">`,
		kind, base64.StdEncoding.EncodeToString(data), html.EscapeString(f.Alt), width(f)), nil
}

// Update displays a figure, as [Show] does, in place of the output that has an ID: that of gonbui.UpdateHTML, or of an
// earlier call. It is for the last picture of what was updated in place, and does nothing outside a notebook.
func Update(id string, f *figures.Figure) error {
	if !gonbui.IsNotebook {
		return nil
	}
	data, metadata, err := formats(f)
	if err == nil {
		gonbui.SendData(&protocol.DisplayData{Data: data, Metadata: metadata, DisplayID: id})
	}
	return err
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
