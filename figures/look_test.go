package figures

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/stats"
	"gonum.org/v1/plot/plotter"
)

// blob returns a picture of a class: a disc in its color, shifted by the variant.
func blob(class, variant int) image.Image {
	img := image.NewNRGBA(image.Rect(0, 0, 32, 32))
	k := flowColors[class%len(flowColors)]
	for y := range 32 {
		for x := range 32 {
			c := color.NRGBA{uint8(200 + x), uint8(210 + y), 230, 255}
			if math.Hypot(float64(x-10-3*variant%11), float64(y-16+variant%5)) < 8+float64(class%3) {
				c = k
			}
			img.SetNRGBA(x, y, c)
		}
	}
	return img
}

func TestRetrievalSheet(t *testing.T) {
	row := func(class int, hits ...int) RetrievalRow {
		r := RetrievalRow{Query: blob(class, 0), Class: fmt.Sprintf("class %d", class)}
		for k, h := range hits {
			name := fmt.Sprintf("class %d", h)
			if h == 4 {
				name = "Chevrolet Silverado 1500 Extended Cab 2012"
			}
			r.Hits = append(r.Hits, RetrievalHit{Image: blob(h, k+1), Class: name, Similarity: 0.99 - 0.031*float64(k),
				Right: h == class})
		}
		return r
	}
	f, err := RetrievalSheet(somewhere, row(0, 0, 0, 3, 0, 0), row(1, 4, 1, 1, 2, 1), row(2, 2, 2, 2, 2, 2))
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "retrievalsheet", f.Figure, nil)
	page, err := Bytes(f, "html")
	if err != nil || bytes.Count(page, []byte("<img ")) != 18 || bytes.Count(page, []byte("✗")) != 3 ||
		bytes.Count(page, []byte(", wrong\"")) != 3 || len(page) > 40_000 {
		t.Errorf("as HTML: %d bytes, %v", len(page), err)
	}
	if want := "12 of 15 are of the query's class, and so is the nearest of 2 queries"; !strings.Contains(f.Alt, want) {
		t.Error(f.Alt)
	}
	bad := row(0, 0)
	bad.Hits[0].Similarity = math.NaN()
	for name, rows := range map[string][]RetrievalRow{"none": nil, "no hit": {row(1)}, "NaN": {bad},
		"no picture": {{Hits: row(0, 0).Hits}}} {
		if _, err := RetrievalSheet("", rows...); err == nil || !strings.HasPrefix(err.Error(), "retrieval sheet: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Large pictures are reduced; 32 pixels are enlarged without new colors.
func TestThumb(t *testing.T) {
	for _, side := range []int{8, 32, 50, 256} {
		img := image.NewNRGBA(image.Rect(5, 5, 5+side, 5+side))
		for i := range img.Pix {
			img.Pix[i] = uint8(255 * (i / 4 % 2))
		}
		out := thumb(img)
		if b := out.Bounds(); b.Dx() != 96 || b.Dy() != 96 {
			t.Errorf("of %d pixels: %v", side, b)
		}
		if side == 32 {
			for x := range 96 {
				if want := img.At(5+x/3, 5+10); out.At(x, 31) != want {
					t.Fatalf("column %d is %v, want %v", x, out.At(x, 31), want)
				}
			}
		}
	}
}

func TestHardTriplets(t *testing.T) {
	var triplets []PicturedTriplet
	for i := range 6 {
		triplets = append(triplets, PicturedTriplet{Anchor: blob(i, 0), Positive: blob(i, 1), Negative: blob(i+1, 2),
			Class: fmt.Sprintf("class %d", i), NegativeClass: fmt.Sprintf("class %d", i+1), Sap: 0.6 + 0.04*float64(i),
			San: 0.79})
	}
	f, err := HardTriplets(somewhere, triplets...)
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "hardtriplets", f.Figure, nil)
	if page, err := Bytes(f, "html"); err != nil || bytes.Count(page, []byte("<img ")) != 18 ||
		!bytes.Contains(page, []byte("0.790")) {
		t.Errorf("as HTML: %v", err)
	}
	if want := "S_an − S_ap is -0.010 to 0.190"; !strings.Contains(f.Alt, want) {
		t.Error(f.Alt)
	}
	triplets[3].San = math.NaN()
	for _, bad := range [][]PicturedTriplet{nil, triplets, {{Anchor: blob(0, 0)}}} {
		if _, err := HardTriplets("", bad...); err == nil {
			t.Errorf("%d triplets: drawn", len(bad))
		}
	}
}

func TestClassRecall(t *testing.T) {
	var classes []ClassScore
	for i := range 30 {
		classes = append(classes, ClassScore{fmt.Sprintf("class %d", i), min(16, (i*7)%30), 16})
	}
	classes[4].Name = "Mercedes-Benz 300-Class Convertible 1993"
	f, err := ClassRecall(somewhere, classes)
	checkGolden(t, "classrecall", f, err)
	if !strings.Contains(f.Alt, "The worst: class 0 0 of 16, class 13 1 of 16") || classes[0].Name != "class 0" ||
		classes[1].Found != 7 {
		t.Error(f.Alt, classes[:2])
	}
	for _, bad := range [][]ClassScore{nil, {{"x", 1, 0}}, {{"x", 3, 2}}} {
		if _, err := ClassRecall("", bad); err == nil {
			t.Errorf("%v: drawn", bad)
		}
	}
}

func mapPoints(n int) []MapPoint {
	points := make([]MapPoint, n)
	for i := range points {
		class := i % 12
		angle := float64(class) * math.Pi / 6
		spread := 0.1 + 0.3*math.Abs(math.Sin(float64(i)*12.9898))
		points[i] = MapPoint{
			X: math.Cos(angle) + spread*math.Cos(float64(i)*1.7), Y: 0.6*math.Sin(angle) + spread*math.Sin(float64(i)*2.3),
			Class: fmt.Sprintf("class <%d> & co", class), Kind: MapRight, Nearest: (i + 12) % n,
		}
		switch {
		case i%7 == 0:
			points[i].Kind, points[i].Nearest = MapWrong, (i+1)%n
		case i%11 == 0:
			points[i].Kind, points[i].Nearest = MapGallery, -1
		case i%97 == 0:
			points[i].Kind, points[i].Nearest = MapLone, (i+1)%n
		}
	}
	return points
}

// tile is the picture of a point.
func tile(i int) image.Image { return blob(i%12, i/12) }

func mapOf(t *testing.T, provenance string) *EmbeddingMap {
	t.Helper()
	m, err := NewEmbeddingMap(provenance, "first", "second", mapPoints(20), tile)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// mapInput returns what the script of a map gets.
func mapInput(t *testing.T, m *EmbeddingMap) (d mapData) {
	t.Helper()
	raw, err := m.input(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The provenance of a map is below its axis, however long it is, and the script finds the points where they are.
func TestMapWithLongProvenance(t *testing.T) {
	t.Parallel()
	var places []float64
	for _, n := range []int{1, 12} {
		m := mapOf(t, strings.Repeat("run 0123456789ab on minicar · ", n))
		if cut := collisions(m.Figure); cut > 0 {
			t.Errorf("%d times the provenance: %d collisions", n, cut)
		}
		d := mapInput(t, m)
		places = append(places, float64(d.Y[0])/1e4*float64(m.height())) // From the top.
	}
	if math.Abs(places[0]-places[1]) > 0.1 {
		t.Errorf("a point is %v below the top", places)
	}
}

func TestEmbeddingMap(t *testing.T) {
	noise := func(i int) image.Image { // Pictures that no codec makes small.
		img := image.NewNRGBA(image.Rect(0, 0, 24, 24))
		s := uint32(i + 1)
		for k := range img.Pix {
			s = s*1664525 + 1013904223
			img.Pix[k] = uint8(s >> 24)
		}
		return img
	}
	points := mapPoints(300)
	m, err := NewEmbeddingMap(somewhere, "first principal component (41 % of variance)", "second (17 %)", points,
		func(i int) image.Image { return blob(i%12, i/12) })
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "embeddingmap", m.Figure, err)
	page, err := Bytes(m, "html")
	if err != nil {
		t.Fatal(err)
	}
	checkMapPage(t, page)
	if bytes.Contains(page, []byte("<0>")) {
		t.Error("a name of a class is markup")
	}
	again, err := Bytes(m, "html")
	if err != nil || !bytes.Equal(page, again) {
		t.Error("the same map is another block")
	}
	large, err := NewEmbeddingMap("", "", "", mapPoints(5000), noise)
	if err != nil {
		t.Fatal(err)
	}
	if page, err = Bytes(large, "html"); err != nil {
		t.Fatal(err)
	}
	checkMapPage(t, page)
	if !bytes.Contains(page, []byte("1200 of the 5000 images")) {
		t.Error("not said that not all pictures are there")
	}
	if words, err := Bytes(m, "txt"); err != nil || !strings.HasPrefix(string(words),
		"Map of 300 embeddings. Of the queries, ") {
		t.Errorf("%s, %v", words, err)
	}
	for name, change := range map[string]func(*MapPoint){
		"NaN": func(p *MapPoint) { p.X = math.NaN() }, "kind": func(p *MapPoint) { p.Kind = 'x' },
		"itself": func(p *MapPoint) { p.Nearest = 1 },
		"beyond": func(p *MapPoint) { p.Nearest = 300 },
	} {
		bad := mapPoints(300)
		change(&bad[1])
		if _, err := NewEmbeddingMap("", "", "", bad, noise); err == nil || !strings.HasPrefix(err.Error(), "map: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewEmbeddingMap("", "", "", nil, noise); err == nil {
		t.Error("a map of nothing")
	}
}

// checkMapPage checks that a block is small and self-contained.
func checkMapPage(t *testing.T, page []byte) {
	t.Helper()
	if len(page) > 250_000 {
		t.Errorf("%d bytes, at most 250000", len(page))
	}
	for _, url := range regexp.MustCompile(`(?i)(src|href)="([^"]{0,20})`).FindAllSubmatch(page, -1) {
		if !bytes.HasPrefix(url[2], []byte("data:")) {
			t.Errorf("loads %s", url[0])
		}
	}
	if i := bytes.Index(page, []byte("//")); i >= 0 && bytes.Contains(page, []byte("https://")) {
		t.Error("names another host")
	}
	if bytes.Count(page, []byte("<script")) != 1 || bytes.Count(page, []byte("<img")) != 1 {
		t.Error("not one picture and one script")
	}
}

func runGroups() []RunGroup {
	curve := func(epochs int, scale float64) []TrainingEpoch {
		out := make([]TrainingEpoch, epochs)
		for i := range out {
			x := math.Exp(-float64(i) / 6)
			out[i] = TrainingEpoch{i + 1, 0.12 + 0.3*x*scale, 0.9 - 0.2*x*scale, 0.6 + 0.2*x - 0.1*scale, scale * (0.3 + x)}
		}
		return out
	}
	return []RunGroup{
		{"euc/con/con", [][]TrainingEpoch{curve(24, 1), curve(24, 1.1), curve(24, 0.94)},
			stats.Mean{Mean: 71.9, Std: 1, N: 3}},
		{"cos/con/con", [][]TrainingEpoch{curve(24, 0.7), curve(24, 0.75), nil}, stats.Mean{Mean: 77.6, Std: 0.8, N: 3}},
		{"cos/lin/cir, lr 0.6", [][]TrainingEpoch{nil}, stats.Mean{Mean: 78.1, N: 1}},
	}
}

func TestRunCurves(t *testing.T) {
	groups := runGroups()
	f, err := RunCurves(somewhere, groups...)
	checkGolden(t, "runcurves", f, err)
	if !strings.Contains(f.Alt, "cos/con/con, Recall@1 77.6 ± 0.8 %, curves of 2 of 3 runs.") {
		t.Error(f.Alt)
	}
	if _, err := RunCurves("", groups[2]); err == nil || !strings.Contains(err.Error(), "no run has its epochs") {
		t.Errorf("without epochs: %v", err)
	}
	if _, err := RunCurves(""); err == nil {
		t.Error("no group was drawn")
	}
	groups[1].Curves[1][3].Sap = math.Inf(1)
	if _, err := RunCurves("", groups...); err == nil || !strings.Contains(err.Error(),
		"cos/con/con has a value in epoch 4") {
		t.Errorf("an infinite similarity: %v", err)
	}
	// A mean ends where the shortest run does.
	if mean := meanCourse([]plotter.XYs{{{X: 1, Y: 1}, {X: 2, Y: 2}}, {{X: 1, Y: 3}}}, true); len(mean) != 1 ||
		mean[0].Y != 2 {
		t.Errorf("mean %v", mean)
	}
}
