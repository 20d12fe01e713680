package datasets

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets/internal/drawn"
)

// open opens a set drawn for this test, in a cache of its own.
func open(t *testing.T, name string, o Options) *Set {
	t.Helper()
	if o.Cache == "" {
		o.Cache = t.TempDir()
	}
	s, err := Open(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestDrawnSetsAreLaidOutAsTheirRecipeSays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name                                 string
		train, test                          int // classes
		trainImages, testImages, galleryEach int
	}{
		{"minicar", 64, 96, 16, 10, 0},
		{"minishop", 240, 240, 6, 3, 3},
	} {
		s := open(t, tc.name, Options{Size: 8})
		if s.Name != tc.name || s.TrainClasses != tc.train || s.TestClasses != tc.test {
			t.Errorf("%s: %q with %d and %d classes, want %d and %d", tc.name, s.Name, s.TrainClasses, s.TestClasses, tc.train,
				tc.test)
		}
		check := func(what string, im *Images, classes, each int) {
			t.Helper()
			if im.N != classes*each || im.Size != 8 || len(im.Pixels) != im.N*8*8*3 || len(im.Labels) != im.N ||
				len(im.Names) != classes {
				t.Errorf("%s %s: %d images of size %d, %d bytes, %d labels, %d names", tc.name, what, im.N, im.Size,
					len(im.Pixels), len(im.Labels), len(im.Names))
			}
			for i, l := range im.Labels {
				if l != int64(i/each) {
					t.Fatalf("%s %s: label %d of image %d, want %d", tc.name, what, l, i, i/each)
				}
			}
		}
		check("train", s.Train, tc.train, tc.trainImages)
		check("test", s.Test, tc.test, tc.testImages)
		if (s.Gallery != nil) != (tc.galleryEach > 0) {
			t.Fatalf("%s: gallery %v", tc.name, s.Gallery != nil)
		}
		if s.Gallery != nil {
			check("gallery", s.Gallery, tc.test, tc.galleryEach)
			if !slices.Equal(s.Gallery.Names, s.Test.Names) {
				t.Errorf("%s: queries and gallery name their classes differently", tc.name)
			}
		}
		for _, name := range s.Test.Names {
			if slices.Contains(s.Train.Names, name) {
				t.Errorf("%s: class %s is both to train and to test on", tc.name, name)
			}
		}
	}
}

func TestNoTwoImagesAreTheSame(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	add := func(what string, im *Images) {
		for i := range im.N {
			key := string(im.At(i))
			if other, ok := seen[key]; ok {
				t.Fatalf("image %d of %s is also in %s", i, what, other)
			}
			seen[key] = what
		}
	}
	for _, name := range Names() {
		s := open(t, name, Options{Size: 16, TrainClasses: 20, TestClasses: 20})
		add(name+" train", s.Train)
		add(name+" test", s.Test)
		if s.Gallery != nil {
			add(name+" gallery", s.Gallery)
		}
	}
	pre, err := Pretraining(Options{Size: 16, TrainClasses: 10, Cache: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	add("pretraining", pre)
}

// A smaller set is the beginning of the whole one: same images, same names.
func TestFewerClassesAreTheFirst(t *testing.T) {
	t.Parallel()
	for _, name := range Names() {
		small := open(t, name, Options{Size: 8, TrainClasses: 3, TestClasses: 5})
		whole := open(t, name, Options{Size: 8})
		if small.TrainClasses != 3 || small.TestClasses != 5 {
			t.Errorf("%s: %d and %d classes", name, small.TrainClasses, small.TestClasses)
		}
		pairs := [][2]*Images{{small.Train, whole.Train}, {small.Test, whole.Test}}
		if small.Gallery != nil {
			pairs = append(pairs, [2]*Images{small.Gallery, whole.Gallery})
		}
		for _, p := range pairs {
			if !slices.Equal(p[0].Pixels, p[1].Pixels[:len(p[0].Pixels)]) ||
				!slices.Equal(p[0].Names, p[1].Names[:len(p[0].Names)]) {
				t.Errorf("%s: the first classes differ from the whole set's", name)
			}
		}
		if small.Digest == whole.Digest {
			t.Errorf("%s: different sets, one digest", name)
		}
	}
}

// Not parallel: it changes the number of cores that drawing sees.
func TestDrawingDoesNotDependOnCores(t *testing.T) {
	parts := drawn.Sets[1].Splits(12, 0)[0]
	saved := runtime.GOMAXPROCS(1)
	one := drawParts(16, parts...)
	runtime.GOMAXPROCS(7)
	seven := drawParts(16, parts...)
	runtime.GOMAXPROCS(saved)
	if !slices.Equal(one.Pixels, seven.Pixels) {
		t.Error("one core and seven draw different images")
	}
}

// Results in the run store belong to these very pixels. If a change of the drawing is meant, put the new digests here,
// and run again what was trained on the old pictures.
func TestDrawnPixelsAreAsEver(t *testing.T) {
	t.Parallel()
	if !unfused() {
		t.Skip("fused multiply-add rounds otherwise")
	}
	for name, want := range map[string]string{
		"minicar":     "bcf99bc2138ae7ad",
		"minishop":    "e7f058e8fd8a5d16",
		"pretraining": "4070deb6e318f49e",
	} {
		var splits []*Images
		o := Options{TrainClasses: 4, TestClasses: 4, Cache: t.TempDir()}
		if name == "pretraining" {
			im, err := Pretraining(o)
			if err != nil {
				t.Fatal(err)
			}
			splits = []*Images{im}
		} else {
			s := open(t, name, o)
			splits = []*Images{s.Train, s.Test}
			if s.Gallery != nil {
				splits = append(splits, s.Gallery)
			}
			if s.Digest != digest(splits) {
				t.Errorf("%s: Digest is not the content's", name)
			}
		}
		if got := digest(splits)[:16]; got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
}

// unfused is whether the compiler keeps x*y + z as two roundings, as it does on amd64 before v3.
func unfused() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok || runtime.GOARCH != "amd64" {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "GOAMD64" && s.Value >= "v3" {
			return false
		}
	}
	return true
}

// The same scene is drawn at every size: a large picture, box-reduced, is nearly the small one. Noise is each size's
// own, so the mean over all pixels is what can be compared closely.
func TestSizesShowTheSameScene(t *testing.T) {
	t.Parallel()
	cars := drawn.Sets[0].Splits(4, 0)[0]
	small, large := drawParts(32, cars...), drawParts(96, cars...)
	var sum float64
	for i := range small.N {
		a, b := small.At(i), large.At(i)
		for y := range 32 {
			for x := range 32 {
				for k := range 3 {
					mean := 0
					for s := range 9 {
						mean += int(b[((y*3+s/3)*96+x*3+s%3)*3+k])
					}
					sum += math.Abs(float64(a[(y*32+x)*3+k]) - float64(mean)/9)
				}
			}
		}
	}
	if mean := sum / float64(len(small.Pixels)); mean > 6 {
		t.Errorf("32² and 96² differ by %.1f gray values on average", mean)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		o    Options
		want []string
	}{
		{"minicab", Options{}, []string{`no data set "minicab"`, "minicar, minishop", "folder"}},
		{"cup", Options{}, []string{`no data set "cup"`, "minicar, minishop"}},
		{"", Options{}, []string{`no data set ""`, "minicar"}},
		{"./no/such", Options{}, []string{"no folder ./no/such"}},
		{"datasets_test.go", Options{}, []string{"is a file", "folder"}},
		{"minicar", Options{Size: 7}, []string{"image size 7", "8 to 1024"}},
		{"minicar", Options{Size: -1}, []string{"image size -1"}},
		{"minicar", Options{TrainClasses: 65}, []string{"65 training classes", "has 64"}},
		{"minishop", Options{TestClasses: 241}, []string{"241 test classes", "has 240"}},
		{"minishop", Options{TestClasses: 1}, []string{"1 classes", "at least 2"}},
		{"minishop", Options{TrainClasses: -3}, []string{"-3 classes"}},
	} {
		tc.o.Cache = t.TempDir()
		_, err := Open(tc.name, tc.o)
		checkError(t, err, tc.want...)
	}
}

// checkError wants a one-line error of this package that says all of what.
func checkError(t *testing.T, err error, what ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want one about %q", what)
		return
	}
	for _, w := range append(what, "datasets: ") {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q does not say %q", err, w)
		}
	}
	if strings.Contains(err.Error(), "\n") || strings.Count(err.Error(), "datasets: ") != 1 {
		t.Errorf("%q is not one plain line", err)
	}
}
