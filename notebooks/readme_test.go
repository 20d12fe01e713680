package notebooks

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestReadme checks that the README's Go program compiles, and that the files that the pages link to exist.
func TestReadme(t *testing.T) {
	for _, page := range []string{"README.md", "environment.md", "notebooks/report.md", ".github/CONTRIBUTING.md",
		".github/SECURITY.md", "dmlx/README.md", "dmlx/cmd/dmlx/ADMINISTRATION.md", "dmlx/cmd/dmlx/JSON.md", speedPage} {
		for _, m := range regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`).FindAllStringSubmatch(read(t, page), -1) {
			if _, err := os.Stat(filepath.Join("..", filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
	_, rest, found := strings.Cut(read(t, "README.md"), "```go\n")
	program, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("README.md has no Go program")
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o666); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "vet", file).CombinedOutput(); err != nil {
		t.Errorf("the README's program: %v\n%s", err, out)
	}
}

// read returns a page of the repository.
func read(t *testing.T, page string) string {
	raw, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
