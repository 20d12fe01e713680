package nb

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"html"
	"path"
	"strings"

	"github.com/gradient-surgery/dml/figures"
)

// LivePage is the page with the playground, beside the notebooks: "dmlx page --out notebooks --single-file" writes it,
// and "dmlx lab" does so at its start.
const LivePage = "notebooks/dmlx.html"

//go:embed live.js
var liveJS string

// Live displays figures that come alive: their pictures, which stay where scripts may not run, as in a notebook that is
// not trusted, and in their place the page of the playground where they may. The page computes in the browser: it needs
// no kernel, and works again in a notebook that is saved and opened, and in HTML that nbconvert makes beside the page.
// state is what the page shows, as in its address behind the #: "view=bench&a=cos/lin/cir". An error ends the cell.
func Live(state string, figures ...*figures.Figure) {
	markup, text, err := live(state, figures)
	Check(err)
	display(bundle{"text/html": markup, "text/plain": text}, nil)
}

func live(state string, of []*figures.Figure) (markup, text string, err error) {
	var stills strings.Builder
	for _, f := range of {
		still, err := Picture(f)
		if err != nil {
			return "", "", err
		}
		fmt.Fprintf(&stills, `<div style="flex:1 1 290px;min-width:min(290px,100%%)">%s</div>`, still)
		text += "[" + f.Alt + "]\n"
	}
	// A notebook that is run again has the same text.
	sum := sha256.Sum256([]byte(stills.String() + state))
	id := "dmlx-" + hex.EncodeToString(sum[:6])
	return fmt.Sprintf(`<div class="%s" style="position:relative"><div class="dmlx-still">`+
		`<div style="display:flex;flex-wrap:wrap;gap:4px;align-items:flex-start;background:#fff">%s</div>`+
		`<a href="%s" target="_blank">Open the live version</a> (<code>dmlx lab</code> makes it)</div></div>`+
		"\n<script>(%s)(%q, %q, %q)</script>",
		id, stills.String(), html.EscapeString(path.Base(LivePage)+"#"+state), strings.TrimSpace(liveJS), id, state,
		LivePage), strings.TrimSpace(text), nil
}
