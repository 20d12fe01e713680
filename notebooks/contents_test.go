package notebooks

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/image/draw"
	"gonum.org/v1/plot/cmpimg"

	"github.com/gradient-surgery/dml/dmlx/durable"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

const (
	thumbWidth, thumbHeight = 168, 105
	thumbLevels             = 32 // Of a color.
	secondsFile             = "testdata/seconds.json"
	indexFile               = "index.ipynb"
	contentsCell            = "contents" // Of that page.
	cards                   = 5          // In a row.
)

var secondsFrom = flag.String("seconds", "",
	"record the run times in this output of \"dmlx lab --execute --json NOTEBOOKS…\" in "+secondsFile)

// TestContents checks that each notebook is in [Contents], that its text cells have the navigation that follows from
// the list, and that the contents page is what the list, the notebooks' pictures and the recorded run times make.
// With -regen navigation and contents page are written anew. To record the times first:
//
//	go run ./dmlx/cmd/dmlx lab --execute --json notebooks/*.ipynb >/tmp/seconds.json
//	go test ./notebooks -run Contents -regen -seconds /tmp/seconds.json
func TestContents(t *testing.T) {
	if *secondsFrom != "" {
		if err := recordSeconds(*secondsFrom); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob("*.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	listed := []string{indexFile}
	for _, p := range reading() {
		listed = append(listed, p.File+".ipynb")
	}
	slices.Sort(listed)
	if !slices.Equal(listed, files) && !*cmpimg.GenerateTestData {
		t.Fatalf("Contents lists\n%v\nbut the notebooks are\n%v", listed, files)
	}
	for i, p := range reading() {
		n := readNotebook(t, p.File+".ipynb")
		want := n.navigated(navigation(reading(), i))
		checkNotebook(t, p.File+".ipynb", want)
	}
	times := readSeconds(t)
	index, err := contentsPage(times, func(p Page) []byte { return readNotebook(t, p.File+".ipynb").thumbnail(t, p) })
	if err != nil {
		t.Fatal(err)
	}
	checkNotebook(t, indexFile, index)
}

// reading returns all pages in reading order.
func reading() (all []Page) {
	for _, g := range Contents {
		all = append(all, g.Pages...)
	}
	return all
}

// navigation returns the line that leads from a page to its neighbors in reading order and to the contents page.
func navigation(pages []Page, i int) string {
	links := []string{"[Contents](" + indexFile + ")"}
	if i > 0 {
		links = append([]string{fmt.Sprintf("[← %s](%s.ipynb)", pages[i-1].Title, pages[i-1].File)}, links...)
	}
	if i+1 < len(pages) {
		links = append(links, fmt.Sprintf("[%s →](%s.ipynb)", pages[i+1].Title, pages[i+1].File))
	}
	return strings.Join(links, " · ")
}

// navigationLine finds the paragraph that navigation makes.
var navigationLine = regexp.MustCompile(`\n*(?m:^(\[← [^\]]*\]\([^)]*\) · )?\[Contents\]\(index\.ipynb\).*$)\n*`)

// document is a notebook's file with all that it holds, to be changed and written.
type document map[string]any

func (d document) cells() []map[string]any {
	var all []map[string]any
	cells, _ := d["cells"].([]any)
	for _, c := range cells {
		cell, _ := c.(map[string]any)
		all = append(all, cell)
	}
	return all
}

// navigated returns the notebook with a navigation in its first text and, if its last cell is another text, in that
// one; behind a last cell of code it puts a text of its own. Other navigation is removed.
func (d document) navigated(line string) document {
	cells := d.cells()
	last := len(cells) - 1
	if cells[last]["cell_type"] == "code" {
		cells = append(cells, textCell("navigation", line))
		last++
	}
	var all []any
	for i, c := range cells {
		if c["cell_type"] == "markdown" {
			c = maps.Clone(c)
			text := strings.TrimSpace(navigationLine.ReplaceAllString(joined(c["source"]), "\n\n"))
			if i == 0 || i == last {
				text = strings.TrimSpace(text + "\n\n" + line)
			}
			c["source"] = split(text)
		}
		all = append(all, c)
	}
	d = maps.Clone(d)
	d["cells"] = all
	return d
}

func textCell(id, text string) map[string]any {
	return map[string]any{"cell_type": "markdown", "id": id, "metadata": map[string]any{}, "source": split(text)}
}

// joined returns text that Jupyter stores as one string or as several.
func joined(source any) string {
	raw, err := json.Marshal(source)
	if err != nil {
		return ""
	}
	var l lines
	_ = l.UnmarshalJSON(raw) // It takes anything.
	return string(l)
}

// split returns a text's lines as Jupyter stores them.
func split(text string) []any {
	var all []any
	for line := range strings.Lines(text) {
		all = append(all, line)
	}
	return all
}

// glossary explains what a reader of the paper does not know, where it first stands.
const glossary = "*minicar* and *minishop* are small images that the program draws. They stand for two of the " +
	"paper's data sets: *minicar* for CAR, since its classes look alike, and *minishop* for In-shop, " +
	"since its classes differ clearly. A *preset* sets the size of images and network, the length of " +
	"the training and the number of seeds; each picture names that of its runs. *Compact* is the share " +
	"of test images whose nearest positive and nearest negative are both more similar than 0.9: it is " +
	"high where embeddings crowd together. *The page* is a page in your browser that needs no kernel; " +
	"some cells show a part of it."

// contentsPage makes index.ipynb: for each group a table with cards, whose thumbnails are the cell's attachments.
func contentsPage(times seconds, thumbnail func(Page) []byte) (document, error) {
	cell := textCell(contentsCell, "")
	text := "# Gradient surgery for deep metric learning\n\n" +
		"The paper *Dissecting the impact of different loss functions with gradient surgery*, cell by cell: " +
		"read, change a line, run it again.\n\n" + glossary + "\n"
	attachments := map[string]any{}
	for _, g := range Contents {
		text += fmt.Sprintf("\n## %s\n\n%s\n\n", g.Title, g.About)
		// Without a head, a front end of ours lets cards flow into as many columns as there is room for.
		text += strings.Repeat("| ", cards) + "|\n" + strings.Repeat("|:--", cards) + "|\n"
		for row := range slices.Chunk(g.Pages, cards) {
			for _, p := range row {
				picture := ""
				if thumb := thumbnail(p); thumb != nil {
					kind := http.DetectContentType(thumb)
					file := p.File + "." + path.Base(kind)
					picture = fmt.Sprintf("[![%s](attachment:%s)](%s.ipynb)<br>", p.Title, file, p.File)
					attachments[file] = map[string]any{kind: base64.StdEncoding.EncodeToString(thumb)}
				}
				text += fmt.Sprintf("| %s**[%s](%s.ipynb)**%s<br>%s ", picture, p.Title, p.File, times.of(p), p.About)
			}
			text += strings.Repeat("| ", cards-len(row)) + "|\n"
		}
	}
	text += "\nAll results in one place: [the reproduction report](report.md)." + times.source()
	cell["source"], cell["attachments"] = split(text), attachments
	return document{"cells": []any{cell}, "nbformat": json.Number("4"), "nbformat_minor": json.Number("5"),
		"metadata": map[string]any{
			"kernelspec": map[string]any{"display_name": "Go (dmlx)", "language": "go", "name": "dmlx"},
			// As the kernel tells it: JupyterLab shows a notebook with less as changed. dmlx lab puts Go's version here.
			"language_info": map[string]any{"codemirror_mode": "", "file_extension": ".go", "mimetype": "text/x-go",
				"name": "go", "nbconvert_exporter": "", "pygments_lexer": "", "version": "go1.26.8"},
		}}, nil
}

// seconds are the run times of notebooks from top to bottom, each with the machine and the day.
type seconds map[string]struct {
	Seconds float64 `json:"seconds"`
	Machine string  `json:"machine"`
	Date    string  `json:"date"`
}

// of returns the run time of a page as its card shows it.
func (s seconds) of(p Page) string {
	switch m, there := s[p.File]; {
	case !there:
		return ""
	case m.Seconds < 90:
		return fmt.Sprintf(" · %.0f s", m.Seconds)
	default:
		return fmt.Sprintf(" · %.0f min", m.Seconds/60)
	}
}

// source says what the run times are, in a paragraph; without any it is empty.
func (s seconds) source() string {
	var where []string
	for _, p := range reading() {
		if m, there := s[p.File]; there {
			where = append(where, m.Machine+", "+m.Date)
		}
	}
	if where == nil {
		return ""
	}
	slices.Sort(where)
	return "\n\nTimes are those of Run All at the `quick` preset, with the bundled runs (" +
		strings.Join(slices.Compact(where), "; ") + ")."
}

func readSeconds(t *testing.T) (s seconds) {
	raw, err := os.ReadFile(secondsFile)
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recordSeconds adds run times that "dmlx lab --execute --json" has printed to secondsFile.
func recordSeconds(from string) error {
	var printed struct {
		Notebooks []struct {
			Notebook string
			Seconds  float64
		}
	}
	all := seconds{}
	if raw, err := os.ReadFile(secondsFile); err == nil {
		if err := json.Unmarshal(raw, &all); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(from)
	if err == nil {
		err = json.Unmarshal(raw, &printed)
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	for _, n := range printed.Notebooks {
		name := strings.TrimSuffix(filepath.Base(n.Notebook), ".ipynb")
		entry := all[name]
		entry.Seconds = float64(int(n.Seconds*10+0.5)) / 10
		entry.Machine, entry.Date = runs.Machine(), info.ModTime().UTC().Format(time.DateOnly)
		all[name] = entry
	}
	out, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(secondsFile, append(out, '\n'), 0o644)
}

// encodedPicture returns the file of a cell's output that is a picture, else nil.
func encodedPicture(output any) []byte {
	data, _ := output.(map[string]any)["data"].(map[string]any)
	encoded := ""
	for _, kind := range []string{"image/png", "image/jpeg"} {
		if data[kind] != nil {
			encoded = joined(data[kind])
		}
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || len(raw) == 0 {
		return nil
	}
	return raw
}

// thumbnail returns the picture that stands for the page, from its saved outputs, as a small file: PNG or, for
// photographs, which a dark theme must show in their own colors, JPEG. nil without a picture.
func (d document) thumbnail(t *testing.T, p Page) []byte {
	for _, c := range d.cells() {
		if p.Picture != "" && c["id"] != p.Picture {
			continue
		}
		outputs, _ := c["outputs"].([]any)
		for _, o := range outputs {
			raw := encodedPicture(o)
			if raw == nil {
				continue
			}
			picture, _, err := image.Decode(bytes.NewReader(raw))
			if err == nil {
				said := fmt.Sprint(o)
				raw, err = shrunk(picture, strings.Contains(said, "needs_background") || strings.Contains(said, "image/jpeg"))
			}
			if err != nil {
				t.Fatalf("%s, cell %s: %v", p.File, c["id"], err)
			}
			return raw
		}
	}
	if p.Picture != "" {
		t.Errorf("%s has no picture in cell %s", p.File, p.Picture)
	}
	return nil
}

// shrunk returns a whole picture at the size of a thumbnail, on white, as a JPEG or a PNG file. The colors of this are
// rounded, to make it small.
func shrunk(picture image.Image, photographs bool) ([]byte, error) {
	from := picture.Bounds()
	if photographs { // A dark theme shows their white margin as it is.
		from = withoutMargin(picture)
	}
	scale := min(thumbWidth/float64(from.Dx()), thumbHeight/float64(from.Dy()))
	w, h := int(float64(from.Dx())*scale), int(float64(from.Dy())*scale)
	corner := image.Pt((thumbWidth-w)/2, (thumbHeight-h)/2)
	small := image.NewRGBA(image.Rect(0, 0, thumbWidth, thumbHeight))
	draw.Draw(small, small.Bounds(), image.White, image.Point{}, draw.Src)
	draw.CatmullRom.Scale(small, image.Rectangle{corner, corner.Add(image.Pt(w, h))}, picture, from, draw.Over, nil)
	if photographs {
		var out bytes.Buffer
		whole := small.SubImage(image.Rectangle{corner, corner.Add(image.Pt(w, h))})
		err := jpeg.Encode(&out, whole, &jpeg.Options{Quality: 85})
		return out.Bytes(), err
	}
	const step = 255. / (thumbLevels - 1)
	for i, v := range small.Pix {
		small.Pix[i] = uint8(float64(int(float64(v)/step+0.5))*step + 0.5)
	}
	var out bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, paletted(small))
	return out.Bytes(), err
}

// withoutMargin returns the part of a picture within a margin of white.
func withoutMargin(picture image.Image) image.Rectangle {
	b := picture.Bounds()
	blank := func(r image.Rectangle) bool {
		for y := r.Min.Y; y < r.Max.Y; y++ {
			for x := r.Min.X; x < r.Max.X; x++ {
				if g := color.GrayModel.Convert(picture.At(x, y)).(color.Gray); g.Y < 240 {
					return false
				}
			}
		}
		return !r.Empty()
	}
	for ; blank(image.Rect(b.Min.X, b.Min.Y, b.Max.X, b.Min.Y+1)); b.Min.Y++ {
	}
	for ; blank(image.Rect(b.Min.X, b.Max.Y-1, b.Max.X, b.Max.Y)); b.Max.Y-- {
	}
	for ; blank(image.Rect(b.Min.X, b.Min.Y, b.Min.X+1, b.Max.Y)); b.Min.X++ {
	}
	for ; blank(image.Rect(b.Max.X-1, b.Min.Y, b.Max.X, b.Max.Y)); b.Max.X-- {
	}
	return b
}

// paletted returns a picture with a palette if it has few colors enough.
func paletted(p *image.RGBA) image.Image {
	colors := map[color.Color]bool{}
	for i := 0; i < len(p.Pix); i += 4 {
		colors[color.RGBA{p.Pix[i], p.Pix[i+1], p.Pix[i+2], p.Pix[i+3]}] = true
	}
	if len(colors) > 256 {
		return p
	}
	palette := slices.SortedFunc(maps.Keys(colors), func(a, b color.Color) int {
		x, y := a.(color.RGBA), b.(color.RGBA)
		return bytes.Compare([]byte{x.R, x.G, x.B, x.A}, []byte{y.R, y.G, y.B, y.A})
	})
	out := image.NewPaletted(p.Bounds(), palette)
	draw.Draw(out, out.Bounds(), p, image.Point{}, draw.Src)
	return out
}

func readNotebook(t *testing.T, path string) (d document) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if err := decoder.Decode(&d); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return d
}

// checkNotebook compares a committed notebook with what it should be, which it writes with -regen.
func checkNotebook(t *testing.T, path string, want document) {
	t.Helper()
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ") // As Jupyter writes it.
	if err := encoder.Encode(want); err != nil {
		t.Fatal(err)
	}
	if *cmpimg.GenerateTestData {
		if err := durable.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var texts [2]string // Which do not depend on how a processor rounds thumbnails, nor on how Go packs them.
	for i, d := range []document{readNotebook(t, path), want} {
		for _, c := range d.cells() {
			if runtime.GOARCH != "amd64" {
				c = map[string]any{"source": c["source"]}
			}
			texts[i] += joined(c["source"]) + joined(c["attachments"]) + "\n"
		}
	}
	if unpacked(t, texts[0]) != unpacked(t, texts[1]) {
		t.Errorf("%s is not what pages.go says; if that is right: go test ./notebooks -run Contents -regen", path)
	}
}

// pngInText is a PNG file in base64, in an SVG perhaps on several lines: it begins with the format's signature.
var pngInText = regexp.MustCompile(`iVBORw0KGgo[A-Za-z0-9+/=\s]*`)

// unpacked returns text with digests of pixels in place of its PNG files, which each Go packs in its own way.
func unpacked(t *testing.T, text string) string {
	return pngInText.ReplaceAllStringFunc(text, func(encoded string) string {
		raw, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			t.Fatal(err)
		}
		p, err := png.Decode(bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		pixels := image.NewNRGBA(p.Bounds())
		draw.Draw(pixels, p.Bounds(), p, p.Bounds().Min, draw.Src)
		return fmt.Sprintf("PNG of %v: %s", p.Bounds(), durable.Sum(pixels.Pix))
	})
}
