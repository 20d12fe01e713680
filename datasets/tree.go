package datasets

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

// branch is a folder of images with the folders in it. Names are sorted by their bytes.
type branch struct {
	path    string   // Below the top folder, with slashes; "" is the top.
	images  []string // Names of the JPEG and PNG files.
	folders []*branch
	left    []string // Paths of the images that are left out: of other formats, hidden, or no regular files.
}

// readTree reads a folder and all below it. Links are followed, except to a folder above.
func readTree(dir string) (*branch, error) { return readBranch(dir, "", nil) }

func readBranch(dir, below string, above []fs.FileInfo) (*branch, error) {
	t := &branch{path: below}
	here := filepath.Join(dir, filepath.FromSlash(below))
	info, err := os.Stat(here)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(above, func(f fs.FileInfo) bool { return os.SameFile(f, info) }) {
		return t, nil
	}
	entries, err := os.ReadDir(here)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := path.Join(below, e.Name())
		mode := e.Type()
		if mode&fs.ModeSymlink != 0 {
			if to, err := os.Stat(filepath.Join(here, e.Name())); err == nil { // Otherwise it leads nowhere.
				mode = to.Mode().Type()
			}
		}
		switch {
		case hidden(e.Name()):
			if isImage(e.Name()) && !leftover(e.Name()) {
				t.left = append(t.left, name)
			}
		case mode.IsDir():
			f, err := readBranch(dir, name, append(slices.Clone(above), info))
			if err != nil {
				return nil, err
			}
			t.folders = append(t.folders, f)
		case mode.IsRegular() && isImage(e.Name()):
			t.images = append(t.images, e.Name())
		case isImage(e.Name()) || isOtherImage(e.Name()) || mode.IsRegular() && beginsAsImage(filepath.Join(here, e.Name())):
			t.left = append(t.left, name)
		}
	}
	return t, nil
}

// all calls do for the folder and those below it.
func (t *branch) all(do func(*branch)) {
	do(t)
	for _, f := range t.folders {
		f.all(do)
	}
}

// paths returns the paths of all images, sorted by folder and then by name, as torchvision's ImageFolder has them.
func (t *branch) paths() []string {
	var holders []*branch
	t.all(func(f *branch) { holders = append(holders, f) })
	slices.SortFunc(holders, func(a, b *branch) int { return strings.Compare(a.path, b.path) })
	var out []string
	for _, f := range holders {
		for _, name := range f.images {
			out = append(out, path.Join(f.path, name))
		}
	}
	return out
}

// leftOut returns the paths of all files that are left out.
func (t *branch) leftOut() (out []string) {
	t.all(func(f *branch) { out = append(out, f.left...) })
	return out
}

// endings counts files by their endings and names the first: "12 files (6 .bmp, 6 .webp): a/0.bmp, a/1.bmp and 10
// more". Of none it is "".
func endings(paths []string) string {
	if len(paths) == 0 {
		return ""
	}
	counts := map[string]int{}
	for _, p := range paths {
		counts[cmp.Or(strings.ToLower(path.Ext(p)), "without ending")]++
	}
	kinds := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
	for i, kind := range kinds {
		kinds[i] = fmt.Sprintf("%d %s", counts[kind], kind)
	}
	return fmt.Sprintf("%s (%s): %s", count(len(paths), "image"), list(kinds), list(paths))
}

// deeper says where the images of a folder are that has none in its sub-folders; "" without any.
func (t *branch) deeper(dir string) string {
	var holders, parents []string
	n := 0
	t.all(func(f *branch) {
		if depth := strings.Count(f.path, "/"); f.path != "" && depth > 0 && len(f.images) > 0 {
			holders, n = append(holders, f.path), n+len(f.images)
			if parent := path.Dir(f.path); !slices.Contains(parents, parent) {
				parents = append(parents, parent)
			}
		}
	})
	if n == 0 {
		return ""
	}
	for i, parent := range parents {
		parents[i] = filepath.Join(dir, filepath.FromSlash(parent))
	}
	if len(parents) < len(holders) {
		return fmt.Sprintf("%s are deeper, in folders of %s: name one of these, or rename them to train and test",
			count(n, "image"), list(parents))
	}
	return fmt.Sprintf("%s are deeper, as in %s: move them up into the folders of their classes", count(n, "image"),
		filepath.Join(dir, filepath.FromSlash(holders[0])))
}

// ImageList is the images of a folder, in the order of torchvision's ImageFolder: by class, then by folder and by name.
type ImageList struct {
	Dir   string
	Paths []string // [N], below Dir, with slashes.
	// Classes are the names of the sub-folders with images, sorted, and Labels [N] the class of each image. Both are nil
	// for a folder whose images are in no sub-folder.
	Classes []string
	Labels  []int64
	// LeftOut says what is not in the list, and why, a sentence each.
	LeftOut []string
}

// ListImages lists the JPEG and PNG files of a folder: those in its sub-folders, at any depth, which are its classes;
// or, if there are none, those in the folder itself. Hidden files, files of other formats and, beside classes, images
// in no class are left out and named. A folder without any image is an error.
func ListImages(dir string) (*ImageList, error) {
	top, err := readTree(dir)
	if err != nil {
		return nil, err
	}
	l := &ImageList{Dir: dir}
	for _, class := range top.folders {
		paths := class.paths()
		if len(paths) == 0 {
			continue
		}
		for range paths {
			l.Labels = append(l.Labels, int64(len(l.Classes)))
		}
		l.Paths, l.Classes = append(l.Paths, paths...), append(l.Classes, class.path)
	}
	leave := func(format string, args ...any) { l.LeftOut = append(l.LeftOut, fmt.Sprintf(format, args...)) }
	switch {
	case l.Classes == nil:
		l.Paths = top.images
	case len(top.images) > 0:
		leave("in no class, since other images are in sub-folders: %s", endings(top.images))
	}
	if left := top.leftOut(); len(left) > 0 {
		leave("%s: %s", unread, endings(left))
		if len(l.Paths) == 0 {
			return nil, fmt.Errorf("no JPEG or PNG files in %s, but %s", dir, endings(left))
		}
	}
	if len(l.Paths) == 0 {
		return nil, fmt.Errorf("no JPEG or PNG files in %s", dir)
	}
	if err := durable.Alike(l.Classes); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return l, nil
}

// unread says which images are left out.
const unread = "not named .jpg, .jpeg or .png, hidden, or not a file"

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

func isImage(name string) bool {
	return slices.Contains([]string{".jpg", ".jpeg", ".png"}, strings.ToLower(path.Ext(name)))
}

// leftover tells whether a path is one of the files that macOS and Windows leave: AppleDouble files, thumbnails.
func leftover(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, "._") || part == "__MACOSX" || part == ".DS_Store" || part == "Thumbs.db" {
			return true
		}
	}
	return false
}

// isOtherImage tells whether a file is what its owner, or torchvision's ImageFolder, takes for an image.
func isOtherImage(name string) bool {
	return slices.Contains([]string{".webp", ".bmp", ".gif", ".tif", ".tiff", ".heic", ".heif", ".avif", ".jp2", ".jxl",
		".ppm", ".pgm", ".jfif", ".jpe", ".pjpeg"}, strings.ToLower(path.Ext(name)))
}
