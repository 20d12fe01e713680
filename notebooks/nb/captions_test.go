package nb

import (
	"fmt"
	"strings"
	"testing"
)

// TestPaperCaption sees that every figure and table of the paper has its caption, in Markdown.
func TestPaperCaption(t *testing.T) {
	for kind, last := range map[string]int{"Figure": 6, "Table": 8} {
		for i := range last {
			number := fmt.Sprintf("%s %d", kind, i+1)
			caption, err := paperCaption(number)
			if err != nil {
				t.Error(err)
			}
			if len(caption) < 40 || strings.Count(caption, "$")%2 != 0 || caption != strings.Join(strings.Fields(caption), " ") {
				t.Errorf("%s: %q", number, caption)
			}
			text := strings.Split(caption, "$")
			for j := 0; j < len(text); j += 2 {
				if strings.ContainsAny(text[j], `\{}~`) {
					t.Errorf("%s: LaTeX outside a formula: %q", number, text[j])
				}
			}
		}
	}
	for _, wrong := range []string{"Figure 7", "Table 0", "figure 1", ""} {
		if _, err := paperCaption(wrong); err == nil || !strings.Contains(err.Error(), "Figure 1, Figure 2") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
