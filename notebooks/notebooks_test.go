package notebooks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
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
	Type string           `json:"output_type"`
	Data map[string]lines `json:"data"`
	Text lines            `json:"text"`
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
	longestCell = 12      // Lines, but for a cell of imports.
)

var (
	// machinePath is a path that only one machine has.
	machinePath = regexp.MustCompile(`(^|[\s"'(=:])(/(home|root|tmp|Users|var|opt|mnt)/[^\s"')]+|[A-Z]:\\)`)
	link        = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	encoded     = regexp.MustCompile(`base64,[A-Za-z0-9+/=]+`)
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
			if count := strings.Count(source, "\n") + 1; count > longestCell && !strings.HasPrefix(source, "import (") {
				add("cell %s has %d lines, at most %d", c.ID, count, longestCell)
			}
		case "markdown":
			if before == "markdown" {
				add("cell %s: two texts in a row", c.ID)
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

// The check finds what it looks for.
func TestProblems(t *testing.T) {
	const good = `{"cells": [{"cell_type": "markdown", "id": "a", "source": ["# Title"]},
		{"cell_type": "code", "id": "b", "source": "x := 1", "outputs": []}],
		"metadata": {"kernelspec": {"name": "dmlx", "display_name": "Go (dmlx)", "language": "go"}}, "nbformat": 4}`
	if p := problems([]byte(good)); p != nil {
		t.Errorf("a good notebook: %v", p)
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
		"path as C:\\": {"x := 1", `open(\"C:\\\\x\")`},
	} {
		if p := problems([]byte(strings.Replace(good, change[0], change[1], 1))); len(p) != 1 {
			t.Errorf("%s: %q", name, p)
		}
	}
}
