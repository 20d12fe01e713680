package embed_test

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"image/png"
	"log"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gradient-surgery/dml/datasets"
	"github.com/gradient-surgery/dml/dmlx/backbone"
	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
	"github.com/gradient-surgery/dml/dmlx/embed"
	"github.com/gradient-surgery/dml/dmlx/runs"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// picture is a colored square of 40 pixels.
func picture(i int) image.Image {
	p := image.NewNRGBA(image.Rect(0, 0, 40, 40))
	for x := range 40 {
		for y := range 40 {
			p.Set(x, y, color.NRGBA{uint8(30 * i), uint8(x * (i + 1)), uint8(6 * y), 255})
		}
	}
	return p
}

func encoded(p image.Image) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, p); err != nil {
		log.Fatal(err)
	}
	return b.Bytes()
}

// small is a pretrained network of the module.
var small = embed.Source{Weights: train.Pretrained, Arch: "small", Features: true}

func open(t *testing.T, of embed.Source) *embed.Embedder {
	t.Helper()
	network, err := of.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(network.Close)
	choice, err := backend.Open()
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed.New(choice.Backend, network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// Rows do not depend on what else is asked for at the same time, nor on how an image is given.
func TestConcurrentEmbed(t *testing.T) {
	e := open(t, small)
	const n = 9
	var alone [n][]float32
	for i := range n {
		rows, err := e.Embed(t.Context(), embed.Picture(picture(i)))
		if err != nil || len(rows) != 1 || len(rows[0]) != e.Width() {
			t.Fatal(rows, err)
		}
		alone[i] = rows[0]
	}
	var group sync.WaitGroup
	for k := range 24 {
		group.Go(func() {
			var images []embed.Image
			for i := range n {
				file := encoded(picture((i + k) % n))
				images = append(images, []embed.Image{embed.Bytes(file), embed.Reader(bytes.NewReader(file), 1<<20),
					embed.Picture(picture((i + k) % n))}[(i+k)%3])
			}
			rows, err := e.Embed(t.Context(), images...)
			if err != nil {
				t.Error(err)
				return
			}
			for i, row := range rows {
				if d := apart(row, alone[(i+k)%n]); d > 1e-5 { // Features are not of length 1.
					t.Errorf("image %d: %g from the row alone", (i+k)%n, d)
				}
			}
		})
	}
	group.Wait()
}

// What cannot be read is named, and the others have their rows.
func TestDamagedImages(t *testing.T) {
	e := open(t, small)
	whole := encoded(picture(1))
	rows, err := e.Embed(t.Context(), embed.Bytes(whole), embed.Bytes(whole[:len(whole)/2]), embed.Path("missing.png"),
		embed.Reader(bytes.NewReader(whole), 10), embed.Bytes(whole), embed.Picture(nil),
		func() (*datasets.Raster, error) { return nil, nil })
	if len(rows) != 7 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, row := range rows {
		if whole := i == 0 || i == 4; (row != nil) != whole {
			t.Errorf("row %d: %v", i, row)
		}
	}
	for _, want := range []string{"image 1: damaged image", "image 2: missing.png: no such file",
		"image 3: more than 10 bytes", "image 5: no image", "image 6: its function returned neither"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	var bad *embed.ImageError
	if !errors.As(err, &bad) || bad.Index != 1 {
		t.Errorf("%v", bad)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if rows, err := e.Embed(ctx, embed.Bytes(whole)); rows != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v, %v", rows, err)
	}
	if rows, err := e.Embed(t.Context()); len(rows) != 0 || err != nil {
		t.Errorf("no image: %v, %v", rows, err)
	}
}

// Close answers all that was accepted; what comes later is refused.
func TestCloseLosesNothing(t *testing.T) {
	e := open(t, small)
	file := encoded(picture(2))
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for {
				rows, err := e.Embed(t.Context(), embed.Bytes(file))
				if errors.Is(err, embed.ErrClosed) {
					return
				}
				if err != nil || rows[0] == nil {
					t.Errorf("%v, %v", rows, err)
					return
				}
			}
		})
	}
	e.Close()
	e.Close()
	group.Wait()
}

func TestOpenFails(t *testing.T) {
	network, err := small.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	network.Prepare.Crop = 0
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := embed.New(b, network); err == nil || !strings.Contains(err.Error(), "set Prepare.Resize") {
		t.Errorf("an unknown size: %v", err)
	}
	for weights, want := range map[string]string{"none.pth": "no such file", "embedder_test.go": "embedder_test.go"} {
		if _, err := (embed.Source{Weights: weights}).Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", weights, err)
		}
	}
}

// trained returns a run of two steps on drawn images, in a store of its own.
func trained(t *testing.T, on *train.Trainer) (*runs.Store, string) {
	t.Helper()
	store, err := runs.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r, err := runs.Run(t.Context(), on, store, tiny, nil)
	if err != nil {
		t.Fatal(err)
	}
	return store, r.Hash
}

// A run's images have the rows that the end of its training wrote, one at a time and in batches.
func TestRowsOfRun(t *testing.T) {
	choice, err := backend.Open()
	if err != nil {
		t.Fatal(err)
	}
	store, hash := trained(t, train.New(choice))
	l, err := store.Inspect(hash)
	if err != nil {
		t.Fatal(err)
	}
	network, err := embed.Source{Weights: hash[:6], Store: store}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	e, err := embed.New(choice.Backend, network)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, at := range []int{1, 2, 3, 7, l.Set.Test.N} {
		var images []embed.Image
		for i := range min(at, l.Set.Test.N) {
			images = append(images, embed.Picture(l.Set.Test.Thumbnail(i)))
		}
		rows, err := e.Embed(t.Context(), images...)
		if err != nil {
			t.Fatal(err)
		}
		for i, row := range rows {
			if want := l.Queries.Values[i*e.Width() : (i+1)*e.Width()]; apart(row, want) > 1e-6 {
				t.Errorf("image %d of %d: %v, want %v", i, at, row, want)
			}
		}
	}
}

// An ONNX file has the rows of the weights that it was written from.
func TestRowsOfONNX(t *testing.T) {
	raw, name, err := small.Read()
	if err != nil {
		t.Fatal(err)
	}
	b, err := small.Backbone(raw, name)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Store.Finalize()
	encoded, err := backbone.EncodeONNX(b.Store, b.Arch, b.Dim, b.Prepare.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "small.onnx")
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	var rows [2][][]float32
	for i, of := range []embed.Source{small, {Weights: file}} {
		e := open(t, of)
		if rows[i], err = e.Embed(t.Context(), embed.Picture(picture(1)), embed.Picture(picture(5))); err != nil {
			t.Fatal(err)
		}
	}
	for i := range rows[0] {
		if d := apart(rows[0][i], rows[1][i]); d > 1e-5 {
			t.Errorf("image %d: %g apart", i, d)
		}
	}
}

// apart returns the largest difference of two rows, infinite where their lengths differ.
func apart(a, b []float32) (most float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		most = max(most, math.Abs(float64(a[i]-b[i])))
	}
	return most
}
