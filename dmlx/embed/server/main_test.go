package main

import (
	"bytes"
	"context"
	"encoding/json"
	"image"
	"image/color"
	"image/png"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/embed"
	"github.com/gradient-surgery/dml/dmlx/train"
)

// TestServerUnderLoad has many clients at once, then stops it among their requests: none that it accepted is lost. How
// long they take is logged and not judged.
func TestServerUnderLoad(t *testing.T) {
	network, err := embed.Source{Weights: train.Pretrained, Arch: "small", Features: true}.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer network.Close()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	e, err := embed.New(b, network)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	at, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended, answers := make(chan error, 1), handler(e)
	var accepted atomic.Int64
	counting := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		accepted.Add(1)
		answers.ServeHTTP(w, r)
	})
	go func() { ended <- serve(ctx, at, counting) }()
	url := "http://" + at.Addr().String() + "/embed"
	picture := image.NewNRGBA(image.Rect(0, 0, 48, 32))
	for i := range 48 {
		picture.Set(i, i%32, color.NRGBA{uint8(5 * i), 200, 30, 255})
	}
	var file bytes.Buffer
	if err := png.Encode(&file, picture); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	post := func(body string) (string, int, error) {
		r, err := client.Post(url, "image/png", strings.NewReader(body))
		if err != nil {
			return "", 0, err
		}
		defer r.Body.Close()
		answer, err := io.ReadAll(r.Body)
		return string(answer), r.StatusCode, err
	}

	want, code, err := post(file.String())
	var row []float32
	if err != nil || code != http.StatusOK || json.Unmarshal([]byte(want), &row) != nil || len(row) != network.Width {
		t.Fatalf("%v, %d: %.100s", err, code, want)
	}
	if answer, code, err := post("no picture"); err != nil || code != http.StatusUnprocessableEntity ||
		!strings.Contains(answer, "neither a JPEG nor a PNG") {
		t.Errorf("%v, %d: %s", err, code, answer)
	}
	if answer, code, err := post(strings.Repeat("x", 20<<20+1)); err == nil && code != http.StatusRequestEntityTooLarge {
		t.Errorf("too many bytes: %d: %s", code, answer)
	}
	// Uploads that stop in the middle hold up nobody.
	var halves []net.Conn
	for range runtime.GOMAXPROCS(0) + 1 {
		slow, err := net.Dial("tcp", at.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		halves = append(halves, slow)
		const half = "POST /embed HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n\x89PNG"
		if _, err := io.WriteString(slow, half); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	if _, _, err := post(file.String()); err != nil || time.Since(begun) > 5*time.Second {
		t.Errorf("beside slow uploads: %v after %v", err, time.Since(begun))
	}
	for _, slow := range halves {
		_ = slow.Close()
	}
	var alone []time.Duration
	for range 20 {
		begun := time.Now()
		if _, _, err := post(file.String()); err != nil {
			t.Fatal(err)
		}
		alone = append(alone, time.Since(begun))
	}
	slices.Sort(alone)

	const clients = 64
	each := 2000 / clients
	if testing.Short() {
		each = 3
	}
	load := func(each int, until context.Context) (took []time.Duration, refused int64) {
		var mu sync.Mutex
		var group sync.WaitGroup
		var no atomic.Int64
		for range clients {
			group.Go(func() {
				for range each {
					begun := time.Now()
					_, code, err := post(file.String())
					switch {
					case err == nil && code == http.StatusOK:
						mu.Lock()
						took = append(took, time.Since(begun))
						mu.Unlock()
					case err != nil && until.Err() != nil:
						no.Add(1) // Came too late to be accepted, or is lost: counted below.
						return
					default:
						t.Errorf("%v, %d", err, code)
						return
					}
				}
			})
		}
		group.Wait()
		return took, no.Load()
	}
	memory := func() uint64 {
		runtime.GC()
		runtime.GC() // The first one leaves what is in pools.
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse >> 20
	}
	load(2, t.Context()) // Compiles all sizes.
	before := memory()
	took, _ := load(each, t.Context())
	slices.Sort(took)
	if len(took) != clients*each {
		t.Fatalf("%d of %d answers", len(took), clients*each)
	}
	after := memory()
	t.Logf("alone: median %v; %d clients: median %v, 99 %% within %v; heap %d to %d MB", alone[len(alone)/2], clients,
		took[len(took)/2], took[len(took)*99/100], before, after)
	if after > before+50 {
		t.Errorf("the heap grew from %d to %d MB", before, after)
	}

	// Stopped among requests: Shutdown waits for those that are being answered.
	accepted.Store(0)
	time.AfterFunc(50*time.Millisecond, stop)
	took, refused := load(1000, ctx)
	if refused != clients {
		t.Errorf("%d of %d clients were refused at last", refused, clients)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := accepted.Load(); n == 0 || int(n) != len(took) {
		t.Errorf("%d requests accepted, %d answered", n, len(took))
	}
}
