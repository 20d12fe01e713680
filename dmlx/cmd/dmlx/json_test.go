package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"

	"github.com/gradient-surgery/dml/dmlx/cmd/dmlx/internal/app"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

// jsonTable describes an object: its keys' types, with "?" for those that may be left out. embedded names another
// type whose keys it has too.
type jsonTable struct {
	keys     map[string]string
	embedded []string
}

// jsonTables reads JSON.md: the tables of each heading, which are alternatives, by the heading without "dmlx ".
var jsonTables = sync.OnceValue(func() map[string][]jsonTable {
	tables, same := map[string][]jsonTable{}, map[string]string{}
	heading, inTable := "", false
	key := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(jsonPage) {
		line = strings.TrimSpace(line)
		if name, is := strings.CutPrefix(strings.TrimPrefix(line, "#"), "## "); is || strings.HasPrefix(line, "## ") {
			heading = strings.TrimSpace(strings.TrimLeft(strings.TrimPrefix(name, "## "), "# "))
		}
		if m := regexp.MustCompile("^`(dmlx[^`]*)` prints the same").FindStringSubmatch(line); m != nil {
			same[m[1]] = heading
		}
		if !strings.HasPrefix(line, "|") {
			inTable = false
			continue
		}
		if cells := strings.Split(line, "|"); strings.HasPrefix(line, "| key ") {
			tables[heading] = append(tables[heading], jsonTable{keys: map[string]string{}})
			inTable = true
		} else if inTable && len(cells) > 3 {
			at := &tables[heading][len(tables[heading])-1]
			if of := strings.TrimSpace(cells[1]); strings.HasPrefix(of, "(") {
				at.embedded = append(at.embedded, strings.Trim(of, "()"))
			}
			for _, m := range key.FindAllStringSubmatch(cells[1], -1) {
				at.keys[m[1]] = strings.TrimSpace(cells[2])
			}
		}
	}
	for name, of := range same {
		tables[name] = tables[of]
	}
	return tables
})

// describedBy checks a value against a type of JSON.md. With all, keys that the page does not have are errors too.
func describedBy(v any, kind, at string, all bool) error {
	kind = strings.TrimSuffix(kind, "?")
	if of, null := strings.CutSuffix(kind, " or null"); null {
		if v == nil {
			return nil
		}
		kind = of
	}
	wrong := fmt.Errorf("%s is %T, want %s", at, v, kind)
	if of, is := strings.CutPrefix(kind, "array of "); is {
		list, ok := v.([]any)
		if !ok {
			return wrong
		}
		for i, x := range list {
			if err := describedBy(x, of, fmt.Sprintf("%s[%d]", at, i), all); err != nil {
				return err
			}
		}
		return nil
	}
	if of, is := strings.CutPrefix(kind, "map of "); is {
		of, _ = strings.CutSuffix(of, "?")
		object, ok := v.(map[string]any)
		if !ok {
			return wrong
		}
		for k, x := range object {
			if err := describedBy(x, of, at+"."+k, all); err != nil {
				return err
			}
		}
		return nil
	}
	ok := false
	switch kind {
	case "string":
		_, ok = v.(string)
	case "number":
		_, ok = v.(float64)
	case "bool":
		_, ok = v.(bool)
	case "object":
		_, ok = v.(map[string]any)
	default:
		object, is := v.(map[string]any)
		if !is {
			return wrong
		}
		return isOneOf(object, kind, at, all)
	}
	if !ok {
		return wrong
	}
	return nil
}

// isOneOf checks an object against the tables of a heading, of which one must describe it.
func isOneOf(object map[string]any, heading, at string, all bool) error {
	tables := jsonTables()[heading]
	if len(tables) == 0 {
		return fmt.Errorf("JSON.md does not describe %s", heading)
	}
	var first error
	for _, table := range tables {
		known := maps.Clone(table.keys)
		for _, of := range table.embedded {
			maps.Copy(known, jsonTables()[of][0].keys)
		}
		err := func() error {
			for _, name := range slices.Sorted(maps.Keys(known)) {
				v, has := object[name]
				if !has && !strings.HasSuffix(known[name], "?") {
					return fmt.Errorf("%s: the key %q is gone, which JSON.md describes", at, name)
				}
				if has {
					if err := describedBy(v, known[name], at+"."+name, all); err != nil {
						return err
					}
				}
			}
			for name := range object {
				if _, has := known[name]; all && !has {
					return fmt.Errorf("%s: the key %q is not in JSON.md: describe it there", at, name)
				}
			}
			return nil
		}()
		if err == nil {
			return nil
		}
		if first == nil {
			first = err
		}
	}
	return first
}

// checkJSON checks what a command has printed with --json against JSON.md.
func checkJSON(args []string, code int, stdout string, all bool) error {
	var object map[string]any
	if err := json.Unmarshal([]byte(stdout), &object); err != nil {
		return fmt.Errorf("not one object: %w", err)
	}
	cmd, _, err := newRoot(app.New(context.Background(), io.Discard, io.Discard)).Find(args)
	if err != nil {
		cmd = &cobra.Command{Use: "dmlx"}
	}
	if _, failed := object["error"].(map[string]any); failed && code != 0 {
		return isOneOf(object, "error", "error", all)
	}
	return isOneOf(object, cmd.CommandPath(), cmd.CommandPath(), all)
}

// What commands print with --json is described, key by key. The other tests check it too, by invoke.
func TestJSONIsDescribed(t *testing.T) {
	store := atWork(t)
	t.Setenv("DMLX_STORE", store)
	t.Setenv("DMLX_CACHE", t.TempDir())
	withoutSlurm(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	e := dissect.Embeddings{Values: []float32{1, 0, 0, 2, 1, 1, 1, 3}, Labels: []int64{0, 0, 1, 1}, N: 4, Dim: 2}
	if err := errors.Join(npy.WriteFloat32(in("E.npy"), e.Values, 4, 2), npy.WriteInt64(in("L.npy"), e.Labels, 4),
		npy.WriteFloat32(in("G.npy"), composed(t, e, "cos/con/con").G, 4, 2)); err != nil {
		t.Fatal(err)
	}
	batch := []string{"--embeddings", in("E.npy"), "--labels", in("L.npy")}
	train := func(seed string, rule ...string) []string {
		return append(append(slices.Clone(smallRun), "--seeds", seed), rule...)
	}
	var run string
	for _, args := range [][]string{
		{"--version"}, {"doctor"}, train("1"), train("2"), train("1", "--rule", "euc/con/con"),
		train("2", "--rule", "euc/con/con"), {"runs"}, {"runs", "list"}, {"runs", "show", "RUN"},
		{"runs", "compare", "cos", "euc"}, {"runs", "verify"},
		{"runs", "remove", "RUN"},
		{"reproduce", "table2", "--cached-only"},
		{"reproduce", "table2", "--preset", "smoke", "--on", "slurm", "--dry-run"},
		{"data", "list"},
		append([]string{"recall"}, batch...),
		append([]string{"dissect", "--loss", "ms"}, batch...),
		append([]string{"dissect", "--gradient", in("G.npy"), "--rule", "cos/con/con"}, batch...), {"dissect", "--list"},
		{"dissect", "--court"},
		append([]string{"dissect", "--gradient", in("G.npy"), "--nearest", "3"}, batch...),
		{"rule", "cos/lin/cir"}, {"rule", "cos/lin/cir", "--pytorch"},
		{"weights", "info", filepath.Join("..", "..", "onnx", "testdata", "vit_tiny.onnx")},
		{"weights", "onnx", filepath.Join("..", "..", "backbone", "testdata", "small.pth"), "--out", in("net.onnx")},
		{"train", "--bacth"},
	} {
		if slices.Equal(args, []string{"runs", "compare", "cos", "euc"}) {
			entries, err := os.ReadDir(store)
			if err != nil {
				t.Fatal(err)
			}
			args = args[:2]
			for _, e := range entries {
				if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
					args = append(args, e.Name())
				}
			}
		}
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "RUN", run)
		}
		code, stdout, stderr := invoke(t, append(args, "--json")...)
		if code != 0 && args[len(args)-1] != "--bacth" {
			t.Errorf("dmlx %s: code %d, %s", args, code, stderr)
		}
		if err := checkJSON(args, code, stdout, true); err != nil {
			t.Errorf("dmlx %s: %v", args, err)
		}
		var result struct{ Run string }
		if json.Unmarshal([]byte(stdout), &result) == nil && result.Run != "" {
			run = result.Run
		}
	}
	for _, bad := range []string{`{}`, `{"version": 1}`, `{"error": {"message": "x", "kind": "usage"}}`} {
		if checkJSON([]string{"--version"}, 1, bad, false) == nil {
			t.Errorf("%s passes for a version", bad)
		}
	}
}

// Each command has a heading in JSON.md, but for those that print no object.
func TestJSONOfEachCommand(t *testing.T) {
	t.Parallel()
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		_, described := jsonTables()[cmd.CommandPath()]
		printsNone := []string{"dmlx help", "dmlx data", "dmlx weights"}
		if cmd.Name() == "completion" { // Cobra's own.
			return
		}
		if !described && !cmd.Hidden && !cmd.IsAdditionalHelpTopicCommand() &&
			!slices.Contains(printsNone, cmd.CommandPath()) {
			t.Errorf("JSON.md does not describe %s", cmd.CommandPath())
		}
		for _, below := range cmd.Commands() {
			visit(below)
		}
	}
	visit(newRoot(app.New(context.Background(), io.Discard, io.Discard)))
	if text := jsonHelp(); strings.Contains(text, "`") || !strings.Contains(text, "dmlx runs list") {
		t.Error("the help is not the page as text")
	}
}
