package runs

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"
)

// A bundled run is read when it is asked for, and so are its errors found.
func TestBundle(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"a.json": {Data: []byte("[\n{\"run\":\"one\",1},\n{\"run\":\"two\",2}\n]\n")},
		"b.json": {Data: []byte("[\n{\"x\":{\"run\":\"one\",1}},\n{\"run\":\"two\",3},\n{\"run\":\"bad\",4}\n]\n")},
	}
	digit := func(of string, raw []byte) (int, error) {
		if i := strings.IndexAny(string(raw), "123"); i >= 0 && len(of) == len("a 01234567") {
			return int(raw[i] - '0'), nil
		}
		return 0, errors.New("is damaged")
	}
	b, err := openBundle(files, "*.json", digit, func(a, b int) bool { return a == b })
	if err != nil || len(b) != 3 {
		t.Fatal(len(b), err)
	}
	for hash, want := range map[string]struct {
		v   int
		err string
	}{"one": {1, ""}, "none": {0, ""}, "two": {0, "b.json: run two has another result in another file"},
		"bad": {0, "b.json: run bad is damaged"}} {
		v, err := b.get(hash)
		if want.err == "" && (v != want.v || err != nil) || want.err != "" && (err == nil || err.Error() != want.err) {
			t.Errorf("%s: %d, %v, want %v", hash, v, err, want)
		}
	}
	if all, err := b.all(); err == nil {
		t.Errorf("all of them: %v", all)
	}
	delete(b, "two")
	delete(b, "bad")
	if all, err := b.all(); err != nil || len(all) != 1 || all["one"] != 1 {
		t.Error(all, err)
	}
	files["c.json"] = &fstest.MapFile{Data: []byte("[\n{}\n]\n")}
	if _, err := openBundle(files, "*.json", digit, nil); err == nil {
		t.Error("a line without a run")
	}
}
