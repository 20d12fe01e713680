package nb

import (
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/figures"
)

// TestLiveHasItsStill sees that the pictures are in the HTML, outside the script, so that they show where scripts are
// removed, and that the page is not in it.
func TestLiveHasItsStill(t *testing.T) {
	f, err := figures.Directions(nil)
	if err != nil {
		t.Fatal(err)
	}
	markup, text, err := live("view=bench&a=cos/lin/cir?tau=2", []*figures.Figure{f, f})
	if err != nil {
		t.Fatal(err)
	}
	still, script, found := strings.Cut(markup, "<script>")
	if !found || strings.Count(still, `<img src="data:image/png;base64,`) != 2 || strings.Contains(script, "base64") {
		t.Error("the pictures are not before the script")
	}
	if !strings.Contains(still, `href="dmlx.html#view=bench&amp;a=cos/lin/cir?tau=2"`) ||
		!strings.Contains(script, `"view=bench&a=cos/lin/cir?tau=2", "notebooks/dmlx.html"`) {
		t.Errorf("the page's address is not in the link or not in the script")
	}
	if strings.Contains(script[:strings.Index(script, "</script>")], "<") || strings.Count(markup, "</script>") != 1 {
		t.Error("the script has markup in it")
	}
	if len(script) > 4000 || !strings.Contains(text, f.Alt) {
		t.Errorf("a script of %d characters, the text %q", len(script), text)
	}
	again, _, err := live("view=bench&a=cos/lin/cir?tau=2", []*figures.Figure{f, f})
	if err != nil || again != markup {
		t.Error("the second time it is another")
	}
	if other, _, err := live("view=step1", []*figures.Figure{f}); err != nil || other[:40] == markup[:40] {
		t.Error("two outputs have the same class")
	}
	if _, _, err := live("", []*figures.Figure{{}}); err == nil {
		t.Error("a figure without a size: no error")
	}
}
