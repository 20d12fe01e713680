package embed_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"log"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla"
	"github.com/gradient-surgery/dml/dmlx/embed"
	"github.com/gradient-surgery/dml/dmlx/retrieval"
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

func open(t *testing.T) *embed.Embedder {
	t.Helper()
	network, err := embed.Source{Weights: train.Pretrained, Arch: "small", Features: true}.Open()
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
	e := open(t)
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
				for j, v := range row {
					if want := alone[(i+k)%n][j]; math.Abs(float64(v-want)) > 1e-5 {
						t.Errorf("image %d, value %d: %v, alone %v", (i+k)%n, j, v, want)
						return
					}
				}
			}
		})
	}
	group.Wait()
}

// What cannot be read is named, and the others have their rows.
func TestDamagedImages(t *testing.T) {
	e := open(t)
	whole := encoded(picture(1))
	rows, err := e.Embed(t.Context(), embed.Bytes(whole), embed.Bytes(whole[:len(whole)/2]), embed.Path("missing.png"),
		embed.Reader(bytes.NewReader(whole), 10), embed.Bytes(whole))
	if len(rows) != 5 || rows[0] == nil || rows[1] != nil || rows[2] != nil || rows[3] != nil || rows[4] == nil {
		t.Errorf("rows %v", rows)
	}
	for _, want := range []string{"image 1: damaged image", "image 2: no such file", "image 3: more than 10 bytes"} {
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
	e := open(t)
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
	for weights, want := range map[string]string{"none.pth": "no such file", "embedder_test.go": "embedder_test.go"} {
		if _, err := (embed.Source{Weights: weights}).Open(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", weights, err)
		}
	}
}

// Images that look like a new one. Weights may also name a run of Store, a checkpoint of torch.save or an ONNX file;
// after a restart the same lines open them again.
func Example() {
	network, err := embed.Source{Weights: train.Pretrained, Arch: "small", Features: true}.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer network.Close()
	b, err := backend.Go()
	if err != nil {
		log.Fatal(err)
	}
	embedder, err := embed.New(b, network)
	if err != nil {
		log.Fatal(err)
	}
	defer embedder.Close()
	ctx := context.Background()
	gallery := &retrieval.Embeddings{Dim: network.Width}
	for i := range 5 {
		rows, err := embedder.Embed(ctx, embed.Picture(picture(i)))
		if err != nil {
			log.Fatal(err)
		}
		gallery.Values, gallery.Labels = append(gallery.Values, rows[0]...), append(gallery.Labels, int64(i))
	}
	index, err := retrieval.NewIndex(gallery)
	if err != nil {
		log.Fatal(err)
	}
	query, err := embedder.Embed(ctx, embed.Bytes(encoded(picture(3))))
	if err != nil {
		log.Fatal(err)
	}
	found, err := index.Search(ctx, b, query[0], 1)
	fmt.Println(found[0][0].Index, err)
	// Output: 3 <nil>
}
