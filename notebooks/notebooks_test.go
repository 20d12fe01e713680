package notebooks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"
)

type notebook struct {
	Cells []struct {
		Type    string   `json:"cell_type"`
		ID      string   `json:"id"`
		Source  lines    `json:"source"`
		Outputs []output `json:"outputs"`
	} `json:"cells"`
	Metadata struct {
		Kernel struct {
			Name     string `json:"name"`
			Display  string `json:"display_name"`
			Language string `json:"language"`
		} `json:"kernelspec"`
	} `json:"metadata"`
	Major int `json:"nbformat"`
}

type output struct {
	Type     string                     `json:"output_type"`
	Data     map[string]lines           `json:"data"`
	Text     lines                      `json:"text"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

// lines are text that Jupyter stores as one string or as several.
type lines string

func (l *lines) UnmarshalJSON(raw []byte) error {
	var several []string
	if json.Unmarshal(raw, &several) == nil {
		*l = lines(strings.Join(several, ""))
		return nil
	}
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*l = lines(one)
		return nil
	}
	*l = lines(raw) // Structured data, as of a widget.
	return nil
}

const (
	largestFile = 500_000 // Bytes: a notebook is read in a diff and downloaded by every clone.
	longestCell = 10      // Lines, without imports.
	longestLine = 100     // Characters: more need sideways scrolling in a window 1366 pixels wide.
	longestText = 120     // Words, without the navigation.
)

var (
	// machinePath is a path that only one machine has.
	machinePath = regexp.MustCompile(`(^|[\s"'(=:])(/(home|root|tmp|Users|var|opt|mnt)/[^\s"')]+|[A-Z]:\\)`)
	link        = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	encoded     = regexp.MustCompile(`base64,[A-Za-z0-9+/=]+`)

	imports = regexp.MustCompile(`(?m)^%%.*\n|^import (\((?s:.*?)^\)|.*)\n*`)
	// finished is a way to get a table that was computed elsewhere: pages compute what they show.
	finished = regexp.MustCompile(`\.Part\(|\bpaper\.Make\(`)

	// notProse is what may hold any number: code, formulas, addresses of links, sections of the paper, and the level of
	// an interval.
	notProse = regexp.MustCompile("(?s)```.*?```|`[^`]*`|\\$\\$.*?\\$\\$|\\$[^$]*\\$|\\]\\([^)]*\\)|§[\\d.]+|" +
		"95 % (interval|confidence)")
	// measured is a number that looks like a result.
	measured = regexp.MustCompile(`\d+\.\d+|\d+(?: |\x{a0}|\x{202f})?%`)
)

func TestNotebooks(t *testing.T) {
	paths, err := filepath.Glob("*.ipynb")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no notebooks: %v", err)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, problem := range problems(raw) {
				t.Error(problem)
			}
			if len(raw) > largestFile {
				t.Errorf("%d bytes, at most %d", len(raw), largestFile)
			}
		})
	}
}

// problems lists what is wrong with a notebook.
func problems(raw []byte) (found []string) {
	add := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	var n notebook
	if err := json.Unmarshal(raw, &n); err != nil {
		return []string{err.Error()}
	}
	if k := n.Metadata.Kernel; n.Major != 4 || k.Name != "dmlx" || k.Display != "Go (dmlx)" || k.Language != "go" {
		add("format %d with the kernel %+v", n.Major, k)
	}
	if len(n.Cells) == 0 || n.Cells[0].Type != "markdown" || !strings.HasPrefix(string(n.Cells[0].Source), "# ") {
		add("does not begin with a title")
	}
	ids := make(map[string]bool)
	before := ""
	for _, c := range n.Cells {
		source := strings.TrimRight(string(c.Source), "\n")
		if c.ID == "" || ids[c.ID] {
			add("cell id %q is empty or not unique", c.ID)
		}
		ids[c.ID] = true
		switch c.Type {
		case "code":
			code := strings.TrimSpace(imports.ReplaceAllString(source+"\n", ""))
			if count := strings.Count(code, "\n") + 1; count > longestCell {
				add("cell %s has %d lines, at most %d", c.ID, count, longestCell)
			}
			for line := range strings.Lines(source) {
				if count := utf8.RuneCountInString(strings.TrimRight(line, "\n")); count > longestLine {
					add("cell %s has a line of %d characters, at most %d: %s", c.ID, count, longestLine, strings.TrimSpace(line))
				}
			}
			if m := finished.FindString(source); m != "" {
				add("cell %s has %s: compute what it shows by public functions, step by step", c.ID, m)
			}
		case "markdown":
			if before == "markdown" {
				add("cell %s: two texts in a row", c.ID)
			}
			if count := words(navigationLine.ReplaceAllString(source, "\n\n")); count > longestText && c.ID != contentsCell {
				add("cell %s has %d words, at most %d", c.ID, count, longestText)
			}
			for _, m := range measured.FindAllString(notProse.ReplaceAllString(source, " "), -1) {
				if !printed()[strings.TrimRight(m, "%\u00a0\u202f ")] {
					add("cell %s has the number %s, which the paper does not print: show what is measured by nb.Say", c.ID, m)
				}
			}
			for _, m := range link.FindAllStringSubmatch(source, -1) {
				if _, err := os.Stat(m[1]); err != nil {
					add("cell %s links to %s, which is not there", c.ID, m[1])
				}
			}
		}
		before = c.Type
		if m := machinePath.FindString(source); m != "" {
			add("cell %s names a path of one machine: %s", c.ID, m)
		}
		for _, o := range c.Outputs {
			if o.Type == "error" {
				add("cell %s ended with an error", c.ID)
			}
			texts := []lines{o.Text}
			for _, text := range o.Data {
				texts = append(texts, text)
			}
			for _, text := range texts {
				if m := machinePath.FindString(encoded.ReplaceAllString(string(text), "")); m != "" {
					add("cell %s shows a path of one machine: %s", c.ID, m)
				}
			}
		}
	}
	return found
}

// words counts the words of a text, without the lines and bullets of Markdown.
func words(text string) int {
	n := 0
	for _, word := range strings.Fields(text) {
		if strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

// printed returns the numbers that the paper prints, as text.
var printed = sync.OnceValue(func() map[string]bool {
	raw, err := os.ReadFile(filepath.Join("..", "dmlx", "scores", "printed.csv"))
	if err != nil {
		panic(err)
	}
	all := make(map[string]bool)
	for _, number := range regexp.MustCompile(`\d+(?:\.\d+)?`).FindAllString(string(raw), -1) {
		all[number] = true
	}
	return all
})

// The check finds what it looks for.
func TestProblems(t *testing.T) {
	const good = `{"cells": [{"cell_type": "markdown", "id": "a", "source": ["# Title"]},
		{"cell_type": "code", "id": "b", "source": "x := 1", "outputs": []}],
		"metadata": {"kernelspec": {"name": "dmlx", "display_name": "Go (dmlx)", "language": "go"}}, "nbformat": 4}`
	if p := problems([]byte(good)); p != nil {
		t.Errorf("a good notebook: %v", p)
	}
	for name, change := range map[string][2]string{
		"code, formula": {"# Title",
			"# Title\\n\\n`0.123` and $\\\\tau = 0.123$ of §3.1, 95 % interval, as the paper's 75.5"},
		"imports": {"x := 1", "import (\\n" + strings.Repeat(`\"fmt\"\\n`, longestCell+1) + ")"},
		"navigation": {"# Title",
			"# Title" + strings.Repeat(" word", longestText-1) + "\\n\\n" + navigation(reading(), 1)},
	} {
		if p := problems([]byte(strings.Replace(good, change[0], change[1], 1))); p != nil {
			t.Errorf("%s is no problem: %q", name, p)
		}
	}
	for name, change := range map[string][2]string{
		"kernel":       {`"name": "dmlx"`, `"name": "python3"`},
		"title":        {"# Title", "Title"},
		"long":         {"x := 1", strings.Repeat(`x++\n`, longestCell+1) + "x--"},
		"error":        {`"outputs": []`, `"outputs": [{"output_type": "error"}]`},
		"path":         {"x := 1", `open(\"/home/ada/x\")`},
		"path shown":   {`"outputs": []`, `"outputs": [{"output_type": "stream", "text": ["in /tmp/gonb_1/main.go"]}]`},
		"id":           {`"id": "b"`, `"id": "a"`},
		"link":         {"# Title", "# [Title](nowhere.ipynb)"},
		"not a file":   {"{", "["},
		"text, text":   {`"cell_type": "code", "id": "b"`, `"cell_type": "markdown", "id": "b"`},
		"format":       {`"nbformat": 4`, `"nbformat": 3`},
		"wide":         {"x := 1", "x := " + strings.Repeat("1", longestLine)},
		"wordy":        {"# Title", "# Title" + strings.Repeat(" word", longestText)},
		"finished":     {"x := 1", `r := paper.Make(\"table2\")`},
		"part":         {"x := 1", `r.Part(\"curves\")`},
		"typed":        {"# Title", "# Title\\n\\nIt gains 3.25 points."},
		"typed share":  {"# Title", "# Title\\n\\nIt gains 123 %."},
		"path as C:\\": {"x := 1", `open(\"C:\\\\x\")`},
	} {
		if p := problems([]byte(strings.Replace(good, change[0], change[1], 1))); len(p) != 1 {
			t.Errorf("%s: %q", name, p)
		}
	}
}
