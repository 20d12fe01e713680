package playground

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/figures"
)

// board is a leaderboard in a file, which several cells and kernels may use.
type board struct{ path string }

// place returns the run store, which others may write to, and the file's name in it.
func (b board) place() (store, name string) {
	folder := filepath.Dir(b.path)
	return filepath.Dir(folder), filepath.Join(filepath.Base(folder), filepath.Base(b.path))
}

func (b board) parse(raw []byte, err error) (rows []tried, _ error) {
	if errors.Is(err, fs.ErrNotExist) || err == nil && raw == nil {
		return nil, nil
	}
	if err == nil {
		err = durable.ParseJSON(raw, &rows)
	}
	if err != nil {
		return nil, fmt.Errorf("the leaderboard %s cannot be read: %w; remove it to start a new one", b.path, err)
	}
	return rows, nil
}

func (b board) read() ([]tried, error) { return b.parse(durable.ReadBelow(b.place())) }

// clear removes all rows.
func (b board) clear() error {
	store, name := b.place()
	return durable.Update(store, name, func([]byte) ([]byte, error) { return []byte("[]"), nil })
}

// add adds a row, in place of an older one of the same spec. Several processes may add rows at once.
func (b board) add(row tried) error {
	store, name := b.place()
	return durable.Update(store, name, func(raw []byte) ([]byte, error) {
		rows, err := b.parse(raw, nil)
		if err != nil {
			return nil, err
		}
		rows = slices.DeleteFunc(rows, func(t tried) bool { return t.Hash == row.Hash })
		return json.Marshal(append(rows, row))
	})
}

// table returns the leaderboard, best first for each data set and kind of training, or nil if it is empty.
func (b board) table() (*figures.Table, error) {
	rows, err := b.read()
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	slices.SortStableFunc(rows, func(x, y tried) int {
		return cmp.Or(strings.Compare(x.Data, y.Data), strings.Compare(x.Trained, y.Trained),
			cmp.Compare(y.mean().Mean, x.mean().Mean))
	})
	t := &figures.Table{Caption: "Leaderboard: Recall@1 of the test set",
		Columns: []figures.Column{{Title: "data", Left: true, Merged: true}, {Title: "trained", Left: true, Merged: true},
			{Title: "rule", Left: true}, {Title: "R@1, %"}, {Title: "seeds"}, {Title: "lr"}, {Title: "backend", Left: true}}}
	for i, r := range rows {
		if i > 0 && (rows[i-1].Data != r.Data || rows[i-1].Trained != r.Trained) {
			t.Rules = append(t.Rules, i)
		}
		t.Rows = append(t.Rows, figures.Row(plainCell(r.Data), r.Trained, plainCell(r.Rule), r.mean(), r.Seeds,
			fmt.Sprintf("%g", r.LR), r.Backend))
	}
	return t, nil
}

// html returns the leaderboard as HTML, with a link that saves it as CSV; empty without rows.
func (b board) html() (string, error) {
	t, err := b.table()
	if err != nil || t == nil {
		return "", err
	}
	shown, err := figures.Bytes(t, "html")
	csv, failed := figures.Bytes(t, "csv")
	return fmt.Sprintf(`%s<a download="leaderboard.csv" href="data:text/csv;base64,%s">`+
		`Save the leaderboard as CSV</a>`, shown, base64.StdEncoding.EncodeToString(csv)), errors.Join(err, failed)
}
