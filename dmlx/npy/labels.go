//go:build !js

package npy

import (
	"encoding/csv"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
)

// ReadLabels reads a label for each row from each of some files: a .npy array [N] of integers or of strings (NumPy's
// types U and S), or a .txt with a label a line (see [durable.Names]). Blanks around labels do not count, and labels
// that all are written as integers are integers, in both. Names are numbered 0, 1, 2, … in their sorted order over all
// files, and returned; they are nil if the labels are integers, which stay as they are. An array of another shape or
// type, an empty label, integers in one file beside names in another, and names that look alike are errors. The path
// "F.csv:name" is a column of a table, see [ReadTable].
func ReadLabels(paths ...string) (labels [][]int64, names []string, err error) {
	texts := make([][]string, len(paths))
	numbers := map[string]int64{}
	for i, path := range paths {
		of, text, err := readLabels(path)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if i > 0 && (of == nil) != (labels[0] == nil) {
			return nil, nil, fmt.Errorf("%s and %s: one has names for labels, the other integers: want one kind", paths[0], path)
		}
		labels, texts[i] = append(labels, of), text
		for _, name := range text {
			numbers[name] = 0
		}
	}
	if len(numbers) == 0 {
		return labels, nil, nil
	}
	names = slices.Sorted(maps.Keys(numbers))
	if err := durable.Alike(names); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", strings.Join(paths, ", "), err)
	}
	for i, name := range names {
		numbers[name] = int64(i)
	}
	for i, text := range texts {
		for _, name := range text {
			labels[i] = append(labels[i], numbers[name])
		}
	}
	return labels, names, nil
}

// readLabels reads integers, or else names.
func readLabels(path string) (numbers []int64, names []string, err error) {
	if i := strings.LastIndex(path, ":"); i > 0 && slices.Contains([]string{".csv", ".txt"}, filepath.Ext(path[:i])) {
		columns, err := ReadTable(path[:i], path[i+1:])
		if err != nil {
			return nil, nil, err
		}
		return numbered(columns[0])
	}
	raw, err := durable.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	if strings.ToLower(filepath.Ext(path)) == ".txt" {
		if names, err = durable.Names(raw); err != nil {
			return nil, nil, err
		}
		return numbered(names)
	}
	var shape []int
	if h, body, bad := split(raw); bad == nil && strings.IndexAny(strings.TrimLeft(h.descr, "<|="), "US") == 0 {
		names, err = decodeStrings(h, body)
		shape = h.shape
	} else if numbers, shape, err = decode[int64](raw); err != nil {
		err = foreign(raw, err)
	}
	if err == nil && len(shape) != 1 {
		err = fmt.Errorf("shape %v, want [N]", shape)
	}
	if err != nil || names == nil {
		return numbers, nil, err
	}
	return numbered(names)
}

// ReadTable reads columns of a table whose first line has their names: separated by commas (.csv), or else by blanks,
// as the lists of Stanford Online Products are.
func ReadTable(path string, columns ...string) ([][]string, error) {
	raw, err := durable.ReadAtMost(path, durable.MaxText)
	if err != nil {
		return nil, err
	}
	lines, err := durable.Names(raw)
	if err != nil {
		return nil, err
	}
	comma := strings.ToLower(filepath.Ext(path)) == ".csv"
	out, at := make([][]string, len(columns)), make([]int, len(columns))
	var header []string
	for i, line := range lines {
		cells := strings.Fields(line)
		if comma {
			r := csv.NewReader(strings.NewReader(line))
			r.TrimLeadingSpace = true
			if cells, err = r.Read(); err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
		if i == 0 {
			header = cells
		}
		if len(cells) != len(header) {
			return nil, fmt.Errorf("line %d: %d values, want %d, as in the first line", i+1, len(cells), len(header))
		}
		for k, name := range columns {
			if i == 0 {
				if at[k] = slices.Index(header, name); at[k] < 0 {
					return nil, errs.NoSuch(fmt.Sprintf("no column %q", name), name, header)
				}
				continue
			}
			out[k] = append(out[k], cells[at[k]])
		}
	}
	return out, nil
}

// decodeStrings reads an array of strings: U has 4 bytes a character, S one, filled up with zeros.
func decodeStrings(h header, body []byte) ([]string, error) {
	kind := strings.TrimLeft(h.descr, "<|=")
	width, err := strconv.Atoi(kind[1:])
	character := map[byte]int{'U': 4, 'S': 1}[kind[0]]
	n := size(h.shape)
	if err != nil || character == 0 || width < 1 || n < 0 || width > len(body) || n != len(body)/(width*character) ||
		len(body)%(width*character) != 0 {
		return nil, fmt.Errorf("damaged: %d bytes for the shape %v of %.20q", len(body), h.shape, h.descr)
	}
	out := make([]string, n)
	for i := range out {
		raw := body[i*width*character : (i+1)*width*character]
		if character == 1 {
			out[i] = strings.TrimRight(string(raw), "\x00")
		} else {
			var text strings.Builder
			for ; len(raw) > 0; raw = raw[4:] {
				text.WriteRune(rune(little.Uint32(raw)))
			}
			out[i] = strings.TrimRight(text.String(), "\x00")
		}
	}
	return out, nil
}

// numbered returns labels as integers if all are written as such, and else as names: "7" is one, "07" is not.
func numbered(labels []string) (numbers []int64, names []string, err error) {
	for i, label := range labels {
		if labels[i] = strings.TrimSpace(label); labels[i] == "" {
			return nil, nil, fmt.Errorf("label %d is empty", i)
		}
		if n, err := strconv.ParseInt(labels[i], 10, 64); err == nil && strconv.FormatInt(n, 10) == labels[i] {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == len(labels) {
		return numbers, nil, nil
	}
	return nil, labels, nil
}
