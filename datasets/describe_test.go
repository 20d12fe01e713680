package datasets

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDoubles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, split := range []string{"train", "test"} {
		for _, class := range []string{"a", "b"} {
			for k, side := range [][2]int{{8, 9}, {30, 20}} {
				shade := color.Gray{uint8(len(split)*20 + 2*int(class[0]) + k)}
				write(t, dir, fmt.Sprintf("%s/%s/%d.png", split, class, k), fill(side[0], side[1], shade))
			}
		}
	}
	one, err := os.ReadFile(filepath.Join(dir, "train", "a", "0.png"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"train/a/2.png", "test/b/2.png"} {
		if err := os.WriteFile(filepath.Join(dir, name), one, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, err := ListFolder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	doubles, across, err := l.Doubles(Options{Progress: func(int, int) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 10 || len(doubles) != 1 || across != 1 ||
		!slices.Equal(doubles[0], []string{"train/a/0.png", "train/a/2.png", "test/b/2.png"}) {
		t.Errorf("%d calls, doubles %q, %d across", calls, doubles, across)
	}
	_, err = ListFolder(filepath.Join(dir, "train", "a"), nil)
	checkError(t, err, "no sub-folders")
}
