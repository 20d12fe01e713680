package nb

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html"
	"path"

	"github.com/gradient-surgery/dml/figures"
)

// LivePage is the page with the playground, beside the notebooks: "dmlx page --out notebooks --single-file" writes it,
// and "dmlx lab" does so at its start.
const LivePage = "notebooks/dmlx.html"

//go:embed live.js
var liveJS string

// Live displays a figure that comes alive: its picture, which stays where scripts may not run, as in a notebook that is
// not trusted, and in its place the page of the playground where they may. The page computes in the browser: it needs
// no kernel, and works again in a notebook that is saved and opened, and in HTML that nbconvert makes beside the page.
// state is what the page shows, as in its address behind the #: "view=bench&a=cos/lin/cir". An error ends the cell.
func Live(f *figures.Figure, state string) {
	markup, err := liveHTML(f, state)
	Check(err)
	display(markup, "["+f.Alt+"]")
}

func liveHTML(f *figures.Figure, state string) (string, error) {
	still, err := Picture(f)
	if err != nil {
		return "", err
	}
	// A notebook that is run again has the same text.
	sum := sha256.Sum256([]byte(still + state))
	id := "dmlx-" + hex.EncodeToString(sum[:6])
	return fmt.Sprintf(`<div class="%s" style="position:relative"><div class="dmlx-still">%s`+
		`<div><a href="%s" target="_blank">Open the live version</a> (<code>dmlx lab</code> makes it)</div></div></div>`+
		"\n<script>(%s)(%q, %q, %q)</script>",
		id, still, html.EscapeString(path.Base(LivePage)+"#"+state), liveJS, id, state, LivePage), nil
}
