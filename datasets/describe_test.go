package datasets

import (
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestFoldersAreDescribed(t *testing.T) {
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
	if err := os.WriteFile(filepath.Join(dir, "test/a/7.jpg"), []byte("<html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := ListFolder(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	d, err := l.Describe(Options{Progress: func(int, int) { calls++ }})
	if err != nil {
		t.Fatal(err)
	}
	if calls != 11 || d.Smallest != [2]int{8, 9} || d.Largest != [2]int{30, 20} || d.Median != [2]int{8, 9} {
		t.Errorf("%d calls, sizes %v to %v to %v", calls, d.Smallest, d.Median, d.Largest)
	}
	if len(d.Doubles) != 1 || d.Across != 1 ||
		!slices.Equal(d.Doubles[0], []string{"train/a/0.png", "train/a/2.png", "test/b/2.png"}) {
		t.Errorf("doubles %q, %d across", d.Doubles, d.Across)
	}
	if !slices.Equal(d.Unread, []string{"test/a/7.jpg"}) || d.Bytes < 11*6 {
		t.Errorf("unread %q, %d bytes", d.Unread, d.Bytes)
	}
	_, err = ListFolder(filepath.Join(dir, "train", "a"), nil)
	checkError(t, err, "no sub-folders")
}
