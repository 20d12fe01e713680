package nb

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Equation returns the line of package dmlx that computes a numbered equation of the paper, as Markdown: the
// declaration whose comment has "(Eq. n)". It is a link in a checkout, and words elsewhere.
func Equation(n int) string {
	root, here := module()
	file, line := equation(filepath.Join(root, "dmlx"), n)
	if root == "" || file == "" {
		return "package `dmlx`"
	}
	to, err := filepath.Rel(here, file)
	if err != nil {
		return filepath.Base(file)
	}
	return fmt.Sprintf("[%s, line %d](%s#L%d)", filepath.Base(file), line, filepath.ToSlash(to), line)
}

// equation returns where a file of a folder has an equation; an empty file if none has.
func equation(folder string, n int) (file string, line int) {
	files, _ := filepath.Glob(filepath.Join(folder, "*.go"))
	mark := regexp.MustCompile(fmt.Sprintf(`^\s*// \S+ .*\(Eq\. %d\)`, n))
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || strings.HasSuffix(file, "_test.go") {
			continue
		}
		lines := strings.Split(string(raw), "\n")
		for i := slices.IndexFunc(lines, mark.MatchString); i >= 0 && i < len(lines); i++ {
			if !strings.HasPrefix(strings.TrimSpace(lines[i]), "//") {
				return file, i + 1
			}
		}
	}
	return "", 0
}

// module returns the nearest folder with a go.mod at the working directory or above it, or "", and that directory.
func module() (root, here string) {
	here, _ = os.Getwd()
	for root = here; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			return root, here
		}
		if root == filepath.Dir(root) {
			return "", here
		}
	}
}
