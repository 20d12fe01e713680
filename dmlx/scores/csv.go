package scores

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/internal/slice"
)

// Column is a column of a [Table], by its name in CSV.
type Column string

// The columns.
const (
	Whose     Column = "whose"
	OfTable   Column = "table"
	Line      Column = "line"
	Data      Column = "data"
	Role      Column = "role"
	Setting   Column = "setting"
	Preset    Column = "preset"
	Protocol  Column = "protocol"
	Method    Column = "method"
	Rule      Column = "rule"
	Direction Column = "direction"
	Pair      Column = "pair"
	Triplet   Column = "triplet"
	Options   Column = "options"
	Exchange  Column = "exchange"
	Own       Column = "own"
	Label     Column = "label"
	Network   Column = "network"
	Dim       Column = "dim"
	Batch     Column = "batch"
	Times     Column = "times"
	Epochs    Column = "epochs"
	Steps     Column = "steps"
	LR        Column = "lr"
	Seed      Column = "seed"
	Run       Column = "run"
	Measure   Column = "measure"
	Mean      Column = "mean"
	Std       Column = "std"
	N         Column = "n"
	Diverged  Column = "diverged"
	Bold      Column = "bold"
)

// field is a column with its place in a row.
type field struct {
	Column
	index []int
}

// fields are the columns in the order of CSV, which is that of a row's fields.
var fields = fieldsOf(reflect.TypeFor[Row]())

func fieldsOf(t reflect.Type, in ...int) (out []field) {
	for i := range t.NumField() {
		switch f, at := t.Field(i), append(slices.Clone(in), i); {
		case f.Type.Kind() == reflect.Struct:
			out = append(out, fieldsOf(f.Type, at...)...)
		case f.IsExported():
			out = append(out, field{Column(strings.ToLower(f.Name)), at})
		}
	}
	return out
}

// text returns the field of a row, "" if it is zero or NaN.
func (f field) text(r *Row) string {
	v := reflect.ValueOf(*r).FieldByIndex(f.index)
	if text := fmt.Sprint(v); !v.IsZero() && text != "NaN" {
		return text
	}
	return ""
}

// read sets the field of a row.
func (f field) read(r *Row, text string) (err error) {
	if text == "" {
		return nil
	}
	switch v := reflect.ValueOf(r).Elem().FieldByIndex(f.index).Addr().Interface().(type) {
	case *string:
		*v = text
	case *int:
		*v, err = strconv.Atoi(text)
	case *uint64:
		*v, err = strconv.ParseUint(text, 10, 64)
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	case *bool: // A spreadsheet writes TRUE.
		*v, err = strconv.ParseBool(text)
	}
	return err
}

// Of returns the column of a row as text, "" if it is zero or there is no such column.
func (c Column) Of(r Row) string {
	for _, f := range fields {
		if f.Column == c {
			return f.text(&r)
		}
	}
	return ""
}

// Write writes the table as CSV, with all columns. A mean of zero is a zero, and one over no runs is empty.
func (t Table) Write(w io.Writer) error {
	out := csv.NewWriter(w)
	record := columns()
	err := out.Write(record)
	for _, r := range t {
		for i, f := range fields {
			if record[i] = f.text(&r); f.Column == Mean && r.Value.Mean == 0 {
				record[i] = "0"
			}
			record[i] = CellText(record[i])
		}
		err = errors.Join(err, out.Write(record))
	}
	out.Flush()
	return errors.Join(err, out.Error())
}

// CellText returns a text for a cell of CSV that no spreadsheet takes for a formula: with ' before it, where it
// begins as one.
func CellText(s string) string {
	if s == "" || !strings.ContainsRune("=+-@'\t\r", rune(s[0])) {
		return s
	}
	rest := strings.ReplaceAll(s[1:], " to ", "")
	if strings.ContainsRune("+-", rune(s[0])) && strings.Trim(rest, "0123456789.,;+-−±–% []e") == "" {
		return s // A number, perhaps with its interval.
	}
	return "'" + s
}

// Read reads CSV as [Table.Write] writes it. Columns may be missing and in any order; an unknown one is an error. The
// parts of a rule without a name give it one. A number without its count of runs is of one run.
func Read(r io.Reader) (Table, error) {
	records, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("scores: %w", err)
	}
	if len(records) == 0 {
		return nil, errors.New("scores: there is no line with the names of the columns")
	}
	head := make([]field, len(records[0]))
	for i, name := range records[0] {
		at := slices.IndexFunc(fields, func(f field) bool { return string(f.Column) == name })
		if at < 0 {
			return nil, fmt.Errorf("scores: column %q: want one of %s", name,
				strings.Join(columns(), ", "))
		}
		head[i] = fields[at]
	}
	out := make(Table, len(records)-1)
	for i, record := range records[1:] {
		row := &out[i]
		row.Value.Mean = math.NaN()
		for k, f := range head {
			text := record[k]
			if bare, marked := strings.CutPrefix(text, "'"); marked && CellText(bare) == text {
				text = bare
			}
			if err := f.read(row, text); err != nil {
				return nil, fmt.Errorf("scores: line %d, %s: %w", i+2, f.Column, err)
			}
		}
		if row.Rule == "" && row.Direction != "" {
			row.Rule = row.Direction + "/" + row.Pair + "/" + row.Triplet
		}
		if row.Value.N == 0 && !math.IsNaN(row.Value.Mean) {
			row.Value.N = 1
		}
	}
	return out, nil
}

// columns are the names of the columns.
func columns() []string { return slice.Map(fields, func(f field) string { return string(f.Column) }) }
