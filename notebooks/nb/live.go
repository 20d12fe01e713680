package nb

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/janpfeifer/gonb/gonbui"

	"github.com/gradient-surgery/dml/figures"
)

// LivePage is the page with the playground, beside the notebooks: "dmlx page --out notebooks --single-file" writes it,
// and "dmlx lab" does so at its start.
const LivePage = "notebooks/dmlx.html"

//go:embed live.js
var liveJS string

// asleep says in place of a script, where it may not run, how to wake the picture above it.
const asleep = "Interactive in JupyterLab: run this cell, or trust the notebook " +
	"(View, Activate Command Palette, Trust Notebook)."

// Live displays figures that come alive: their pictures side by side, which stay where scripts may not run, as in a
// notebook that is not trusted, and in their place the page of the playground where they may. The page computes in the
// browser: it needs no kernel, and works again in a notebook that is saved and opened, and in HTML that nbconvert makes
// beside the page. state is what the page shows, as in its address behind the #: "view=bench&a=cos/lin/cir". An error
// ends the cell. A caption is displayed by [Caption].
func Live(state string, of ...*figures.Figure) {
	Check(show(figures.Beside(of...)))
	wake(liveScript(state), asleep)
}

// liveScript returns the script that puts the page in the place of the picture in the output before.
func liveScript(state string) string {
	return fmt.Sprintf("(%s)(element, %q, %q)", strings.TrimSpace(liveJS), state, LivePage)
}

// wake displays a script that makes the outputs before it interactive, and in its place a line of text. In it, element
// is the output's own node. It is no HTML: front ends and converters that run no scripts would take that, and show the
// code or nothing.
func wake(script, asleep string) {
	if gonbui.IsNotebook {
		display(bundle{"application/javascript": script, "text/plain": asleep}, nil)
	}
}
