package datasets

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/datasets/fixtures"
	"github.com/gradient-surgery/dml/datasets/internal/mat5"
)

// fixture makes a set and returns the folder that it lies below.
func fixture(t *testing.T, form string) string {
	t.Helper()
	dir := t.TempDir()
	if err := fixtures.Make(form, dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// setOf is the short name of a form's set.
func setOf(form string) string {
	alias, _, _ := strings.Cut(form, "-")
	return alias
}

func mustList(t *testing.T, name, root string) *Listing {
	t.Helper()
	l, err := List(name, root)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestEveryLayoutIsListed(t *testing.T) {
	t.Parallel()
	for _, form := range fixtures.Forms() {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, form)
			l := mustList(t, setOf(form), dir)
			want := map[string][2]int{"train": {3, 12}, "test": {2, 8}}
			if form == "inshop" {
				want = map[string][2]int{"train": {3, 12}, "query": {2, 4}, "gallery": {2, 4}}
			}
			if len(l.Splits) != len(want) || len(l.Missing) > 0 {
				t.Fatalf("%d splits, missing %v", len(l.Splits), l.Missing)
			}
			for i := range l.Splits {
				s := &l.Splits[i]
				if c, n := s.Count(); [2]int{c, n} != want[s.Name] || len(s.Classes) != c || len(s.Paths) != n {
					t.Errorf("%s has %d classes, %d images", s.Name, c, n)
				}
				if !slices.IsSorted(s.Labels) && form != "cars-devkit" {
					t.Errorf("%s: labels %v", s.Name, s.Labels)
				}
				for _, p := range s.Paths {
					if !isFile(l.Root, filepath.FromSlash(p)) {
						t.Errorf("no file %s", p)
					}
				}
			}
			// It is not the real one, and says so.
			if err := l.Complete(); err == nil || !strings.Contains(err.Error(), "published are") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("complete: %v", err)
			}
			// The same from its own folder as from above, and again.
			for _, root := range []string{l.Root, dir} {
				again := mustList(t, strings.ToUpper(setOf(form)), root)
				if again.Root != l.Root || fmt.Sprint(again.Splits) != fmt.Sprint(l.Splits) {
					t.Errorf("from %s: %+v", root, again)
				}
			}
		})
	}
}

// The two forms of CARS-196 have the same classes, and so has each the same split.
func TestFormsOfCarsAgree(t *testing.T) {
	t.Parallel()
	var first []string
	for _, form := range []string{"cars", "cars-devkit"} {
		l := mustList(t, "cars", fixture(t, form))
		names := slices.Concat(l.Splits[0].Classes, []string{"|"}, l.Splits[1].Classes)
		if first == nil {
			first = names
		}
		if !slices.Equal(names, first) || names[0] != "Acura Model 001 2012" {
			t.Errorf("%s: classes %q, want %q", form, names, first)
		}
	}
}

func TestPublishedCountsAreComplete(t *testing.T) {
	t.Parallel()
	for _, set := range publishedSets {
		l := &Listing{Name: set.Name, Root: t.TempDir()}
		for _, c := range set.counts {
			s := Split{Name: c.split, Classes: make([]string, c.classes), Paths: make([]string, c.images),
				Labels: make([]int64, c.images)}
			for i := range s.Labels {
				s.Labels[i] = int64(i % c.classes)
			}
			l.Splits = append(l.Splits, s)
		}
		if differs := set.compare(l); differs != nil || l.Complete() != nil {
			t.Errorf("%s: %q", set.Name, differs)
		}
		last := &l.Splits[len(l.Splits)-1]
		last.Labels = last.Labels[1:]
		l.Differs = set.compare(l)
		checkError(t, l.Complete(), set.Name, last.Name, fmt.Sprintf("and %d images, published are", len(last.Labels)),
			l.Root, set.by)
	}
}

func TestLostImagesAreExplained(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "cub")
	lost := mustList(t, "cub", dir).Splits[0].Paths[0]
	remove(t, dir, "CUB_200_2011/"+lost)
	l := mustList(t, "cub", dir)
	checkError(t, l.Complete(), "train has 3 classes and 11 images", "1 image of its lists is not there ("+lost+")",
		"in part")
	if !slices.Equal(l.Missing, []string{lost}) {
		t.Errorf("missing %q: %v", l.Missing, l.Complete())
	}
}

func TestPublishedCountsAddUp(t *testing.T) {
	t.Parallel()
	// The whole sets' counts, from their own pages.
	whole := map[string]int{"CUB": 11788, "CAR": 16185, "SOP": 120053, "In-shop": 52712}
	for _, s := range publishedSets {
		sum := 0
		for _, c := range s.counts {
			sum += c.images
		}
		if sum != whole[s.Name] {
			t.Errorf("%s: %d images, want %d", s.Name, sum, whole[s.Name])
		}
	}
	if got := Published(); !slices.Equal(got, []string{"CUB", "CAR", "SOP", "In-shop"}) {
		t.Errorf("published %v", got)
	}
	for given, want := range map[string]string{"cub": "CUB", "Cars": "CAR", "car": "CAR", "in-shop": "In-shop",
		"INSHOP": "In-shop", "minicar": ""} {
		if got, ok := PublishedName(given); got != want || ok != (want != "") {
			t.Errorf("%s is %q", given, got)
		}
	}
}

// Other sets beside a set are not taken for it.
func TestSetsSideBySide(t *testing.T) {
	t.Parallel()
	dir := tree(t, t.TempDir(), 3, "birds", "cats")
	for _, form := range []string{"cub", "cars-devkit", "sop", "inshop"} {
		if err := fixtures.Make(form, dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, folder := range map[string]string{"CUB": "CUB_200_2011", "CAR": "stanford_cars",
		"SOP": "Stanford_Online_Products", "In-shop": "In-shop Clothes Retrieval Benchmark"} {
		l := mustList(t, name, dir)
		if !strings.HasPrefix(l.Root, filepath.Join(dir, folder)) || l.Splits[0].Classes == nil ||
			len(l.Splits[0].Paths) != 12 {
			t.Errorf("%s is in %s, with %d images", name, l.Root, len(l.Splits[0].Paths))
		}
	}
	_, err := List("cars", tree(t, t.TempDir(), 3, "birds", "cats")) // A folder of the user's own.
	checkError(t, err, "CAR is not in the folder")
}

// replace edits a file of a fixture.
func replace(t *testing.T, dir, name, old, new string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(content), old) {
		t.Fatalf("%s does not have %q", name, old)
	}
	write(t, dir, name, strings.Replace(string(content), old, new, 1))
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
		t.Fatal(err)
	}
}

func TestBrokenSetsAreRefused(t *testing.T) {
	t.Parallel()
	const shop = "In-shop Clothes Retrieval Benchmark/"
	for _, tc := range []struct {
		name, form string
		spoil      func(t *testing.T, dir string)
		want       []string
	}{
		{"nothing", "cub", func(t *testing.T, dir string) { remove(t, dir, "CUB_200_2011") },
			[]string{"the data set CUB is not in the folder", "curl -C - -O https://", "CUB_200_2011.tgz",
				"vision.caltech.edu"}},
		{"of 2010", "cub", func(t *testing.T, dir string) {
			remove(t, dir, "CUB_200_2011")
			write(t, dir, "lists/files.txt", "001.Black_footed_Albatross/x.jpg\n")
		}, []string{"CUB-200 of 2010"}},
		{"as many as in 2010", "cub", func(t *testing.T, dir string) {
			var b strings.Builder
			for i := range cub2010Images {
				fmt.Fprintf(&b, "%d x/%d.jpg\n", i+1, i)
			}
			write(t, dir, "CUB_200_2011/images.txt", b.String())
		}, []string{"6033 images", "CUB-200 of 2010"}},
		{"no labels", "cub", func(t *testing.T, dir string) { remove(t, dir, "CUB_200_2011/image_class_labels.txt") },
			[]string{"no file image_class_labels.txt"}},
		{"no classes", "cub", func(t *testing.T, dir string) { remove(t, dir, "CUB_200_2011/classes.txt") },
			[]string{"no file classes.txt"}},
		{"empty list", "cub", func(t *testing.T, dir string) { write(t, dir, "CUB_200_2011/images.txt", "") },
			[]string{"images.txt", "empty"}},
		{"number twice", "cub", func(t *testing.T, dir string) {
			replace(t, dir, "CUB_200_2011/images.txt", "\n2 ",
				"\n1 ")
		}, []string{"images.txt", "line 2", "number 1 occurs twice"}},
		{"no number", "cub", func(t *testing.T, dir string) { replace(t, dir, "CUB_200_2011/images.txt", "\n2 ", "\nx ") },
			[]string{"line 2", "want a number and a value"}},
		{"no class of an image", "cub", func(t *testing.T, dir string) {
			replace(t, dir, "CUB_200_2011/image_class_labels.txt", "\n2 ", "\n777 ")
		}, []string{"no class for image 2"}},
		{"odd class", "cub", func(t *testing.T, dir string) {
			replace(t, dir, "CUB_200_2011/image_class_labels.txt", "2 1\n", "2 x\n")
		}, []string{"class \"x\" of image 2"}},
		{"unknown class", "cub", func(t *testing.T, dir string) {
			replace(t, dir, "CUB_200_2011/image_class_labels.txt", "2 1\n", "2 201\n")
		}, []string{"no class 201"}},
		{"a path out", "cub", func(t *testing.T, dir string) {
			replace(t, dir, "CUB_200_2011/images.txt", "1 001", "1 ../../001")
		}, []string{"inside the data set's folder"}},
		{"an image twice", "sop", func(t *testing.T, dir string) {
			replace(t, dir, "Stanford_Online_Products/Ebay_train.txt", "111085122001_1.JPG", "111085122001_0.JPG")
		}, []string{"Ebay_train.txt", "listed twice"}},
		{"no header", "sop", func(t *testing.T, dir string) {
			replace(t, dir, "Stanford_Online_Products/Ebay_test.txt", "image_id class_id super_class_id path\n", "")
		}, []string{"Ebay_test.txt", "line 1", "want the header"}},
		{"a short row", "sop", func(t *testing.T, dir string) {
			replace(t, dir, "Stanford_Online_Products/Ebay_train.txt", "\n1 1 2 ", "\n1 1 ")
		}, []string{"line 2", "want image_id, class_id"}},
		{"one list", "sop", func(t *testing.T, dir string) { remove(t, dir, "Stanford_Online_Products/Ebay_test.txt") },
			[]string{"no file Ebay_test.txt"}},
		{"a class in both", "sop", func(t *testing.T, dir string) {
			replace(t, dir, "Stanford_Online_Products/Ebay_test.txt", " 11319 ", " 1 ")
		}, []string{"class 1 is in Ebay_train.txt and in Ebay_test.txt"}},
		{"no annotations", "cars", func(t *testing.T, dir string) { remove(t, dir, "cars196/cars_annos.mat") },
			[]string{"images but neither cars_annos.mat"}},
		{"cut short", "cars", func(t *testing.T, dir string) {
			content, err := os.ReadFile(filepath.Join(dir, "cars196", "cars_annos.mat"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "cars196/cars_annos.mat", string(content[:len(content)/3]))
		}, []string{"cars_annos.mat", "ends early"}},
		{"not MATLAB", "cars", func(t *testing.T, dir string) {
			write(t, dir, "cars196/cars_annos.mat", strings.Repeat("<html>not found</html>", 20))
		}, []string{"cars_annos.mat", "not a MATLAB file"}},
		{"no test list", "cars-devkit", func(t *testing.T, dir string) {
			remove(t, dir, "stanford_cars/cars_test_annos_withlabels.mat")
		}, []string{"cars_test_annos_withlabels.mat"}},
		{"no list", "inshop", func(t *testing.T, dir string) { remove(t, dir, shop+"Eval") },
			[]string{"no Eval/list_eval_partition.txt", "agreement", "Img/img.zip", "InShopRetrieval"}},
		{"lists below", "inshop", func(t *testing.T, dir string) {
			remove(t, dir, strings.TrimSuffix(shop, "/"))
			write(t, dir, "In-shop/more/list_eval_partition.txt", "0\n")
			write(t, dir, "inshop/readme.txt", "a text")
		}, []string{"its lists are not in ", "In-shop, ", "Eval/list_eval_partition.txt"}},
		{"another name", "inshop", func(t *testing.T, dir string) {
			if err := os.Rename(filepath.Join(dir, shop), filepath.Join(dir, "my In-Shop set")); err != nil {
				t.Fatal(err)
			}
		}, []string{"as inshop or under its archive's name"}},
		{"no images", "inshop", func(t *testing.T, dir string) { remove(t, dir, shop+"Img") },
			[]string{"no folder Img/img", "img.zip"}},
		{"no count", "inshop", func(t *testing.T, dir string) {
			replace(t, dir, shop+"Eval/list_eval_partition.txt", "20\n",
				"")
		}, []string{"line 1", "want the number of images"}},
		{"an odd status", "inshop", func(t *testing.T, dir string) {
			replace(t, dir, shop+"Eval/list_eval_partition.txt", "gallery", "galery")
		}, []string{`"galery"; want train, query or gallery`}},
		{"an item in both", "inshop", func(t *testing.T, dir string) {
			replace(t, dir, shop+"Eval/list_eval_partition.txt", "id_00000004    query", "id_00000001    query")
		}, []string{"item id_00000001 is to train and to test on"}},
	} {
		t.Run(tc.form+" "+tc.name, func(t *testing.T) {
			t.Parallel()
			dir := fixture(t, tc.form)
			tc.spoil(t, dir)
			_, err := List(setOf(tc.form), dir)
			checkError(t, err, tc.want...)
		})
	}
	_, err := List("mnist", t.TempDir())
	checkError(t, err, `no published set "mnist"`, "CUB, CAR, SOP, In-shop")
	_, err = List("cub", filepath.Join(t.TempDir(), "none"))
	checkError(t, err, "there is no folder", "none")
	if dir, err := Find("sop", fixture(t, "sop")); err != nil ||
		filepath.Base(dir) != "Stanford_Online_Products" {
		t.Errorf("found %s, %v", dir, err)
	}
	_, err = Find("mnist", "")
	checkError(t, err, `no published set "mnist"`)
}

func TestDamagedCarsAreRefused(t *testing.T) {
	t.Parallel()
	car := func(class float64) *mat5.Array {
		return &mat5.Array{Structs: []map[string]*mat5.Array{{"relative_im_path": {Text: "a.jpg"},
			"class": {Numbers: []float64{class}}}}}
	}
	for want, a := range map[string]*mat5.Array{"no structure annotations": nil, "class 197; want 1 to 196": car(197),
		"class 1.5": car(1.5)} {
		if _, err := carsOf(a, "relative_im_path"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// What is only in part there is listed as it is.
func TestPartialSets(t *testing.T) {
	t.Parallel()
	const shop = "In-shop Clothes Retrieval Benchmark/"
	dir := fixture(t, "inshop")
	replace(t, dir, shop+"Eval/list_eval_partition.txt", "20\n", "52712\n")
	remove(t, dir, shop+"Img/img/WOMEN/Dresses/id_00000001")
	l := mustList(t, "inshop", dir)
	checkError(t, l.Complete(), "announces 52712 images and lists 20",
		"4 images of its lists are not there", "unpacked in part")
	if c, n := l.Splits[0].Count(); c != 2 || n != 8 || len(l.Splits[0].Classes) != 3 {
		t.Errorf("%d classes, %d images", c, n)
	}
}

// fuzzLists feeds a parser lines; whatever it is given, it returns rows or an error.
func fuzzLists(f *testing.F, parse func(io.Reader) (rows int, err error), seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		rows, err := parse(bytes.NewReader(list))
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of two lines: %q", err)
		}
		if lines := bytes.Count(list, []byte{'\n'}) + 1; err == nil && rows > lines {
			t.Errorf("%d rows of %d lines", rows, lines)
		}
	})
}

func FuzzParsePairs(f *testing.F) {
	fuzzLists(f, func(in io.Reader) (int, error) {
		pairs, err := parsePairs(in)
		return len(pairs), err
	}, "1 001.Black_footed_Albatross/x.jpg\n2 y\n", "1\n", "", "1 a\n1 b\n", "-1 a\n", "1 \x00\n",
		"99999999999999999999 a")
}

func FuzzParseSOP(f *testing.F) {
	const header = "image_id class_id super_class_id path\n"
	fuzzLists(f, func(in io.Reader) (int, error) {
		rows, err := parseSOP(in)
		return len(rows), err
	}, header+"1 1 1 bicycle_final/1_0.JPG\n", header, "x", header+"1 1 1\n", header+"1 x 1 y\n")
}

func FuzzParseInshop(f *testing.F) {
	const header = "image_name item_id evaluation_status\n"
	fuzzLists(f, func(in io.Reader) (int, error) {
		_, rows, err := parseInshop(in)
		return len(rows), err
	}, "1\n"+header+"img/a.jpg    id_1  train\n", "1\n", "x\n"+header, "1\n"+header+"a b c\n",
		"2\n"+header+"img/a b gallery\n")
}

// What a list of cars holds makes a listing or an error, whatever it is.
func FuzzCars(f *testing.F) {
	dir := f.TempDir()
	if err := fixtures.Make("cars", dir); err != nil {
		f.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, "cars196", carsAll))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(content)
	f.Fuzz(func(t *testing.T, file []byte) {
		m, err := mat5.Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		images, err := carsOf(m["annotations"], "relative_im_path")
		if err != nil {
			return
		}
		s := newSplitter(t.TempDir(), "train", "test")
		if err := s.addCars(images, m["class_names"], ""); err != nil {
			return
		}
		if l := s.listing(); len(l.Missing)+len(l.Splits[0].Paths)+len(l.Splits[1].Paths) != len(images) {
			t.Errorf("%d images became %+v", len(images), l)
		}
	})
}

func TestSourcesAreSaid(t *testing.T) {
	t.Parallel()
	all := Sources()
	if len(all) != len(Published()) {
		t.Fatalf("%d sources", len(all))
	}
	for _, s := range all {
		if name, ok := PublishedName(s.Alias); !ok || name != s.Name || s.Page == "" || s.Want == "" ||
			(s.URL == "") != (s.Terms != "") {
			t.Errorf("%+v", s)
		}
		if s.MD5 != "" && len(s.MD5) != 32 {
			t.Errorf("%s: MD5 %q", s.Name, s.MD5)
		}
	}
}
