package nb

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/figures"
)

// TestLiveScript sees that the script has the page's address in it and may stand in HTML, as nbconvert has it.
func TestLiveScript(t *testing.T) {
	script := liveScript("view=bench&a=cos/lin/cir?tau=2")
	if !strings.HasSuffix(script, `(element, "view=bench&a=cos/lin/cir?tau=2", "notebooks/dmlx.html")`) {
		t.Errorf("the page's address is not in the script: %s", script)
	}
	if strings.Contains(script, "<") || len(script) > 4000 {
		t.Errorf("a script of %d characters, with markup: %v", len(script), strings.Contains(script, "<"))
	}
	if script != liveScript("view=bench&a=cos/lin/cir?tau=2") || script == liveScript("view=step1") {
		t.Error("the same cell has another output, or another one the same")
	}
	if err := show(figures.Beside(&figures.Figure{}, &figures.Figure{})); err != nil {
		t.Errorf("pictures without content: %v", err)
	}
}
