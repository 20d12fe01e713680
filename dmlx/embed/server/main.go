// Command server is an example of an [embed.Embedder] behind net/http: POST an image to /embed, and the answer is its
// row as JSON. An interrupt ends it once all that it has accepted is answered.
//
//	go run ./dmlx/embed/server -weights resnet18.pth
//	curl --data-binary @car.jpg localhost:8080/embed
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla" // Links XLA.
	"github.com/gradient-surgery/dml/dmlx/embed"
	"github.com/gradient-surgery/dml/dmlx/runs"
)

func main() {
	weights := flag.String("weights", "", "file of weights, an ONNX network, or a run of -store")
	store := flag.String("store", "runs", "folder of runs")
	address := flag.String("address", "localhost:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	network := must(embed.Source{Weights: *weights, Store: &runs.Store{Dir: *store}}.Open())
	embedder := must(embed.New(must(backend.Open()).Backend, network))
	if err := serve(ctx, must(net.Listen("tcp", *address)), handler(embedder)); err != nil {
		log.Fatal(err)
	}
}

// handler answers requests by an embedder.
func handler(e *embed.Embedder) http.Handler {
	answer := func(w http.ResponseWriter, r *http.Request) {
		// Read here and not by the embedder, in which a slow upload would hold up all others.
		file, err := io.ReadAll(r.Body)
		var rows [][]float32
		if err == nil {
			rows, err = e.Embed(r.Context(), embed.Bytes(file))
		}
		switch {
		case err == nil:
			_ = json.NewEncoder(w).Encode(rows[0]) // Who no longer listens gets no answer.
		case errors.As(err, new(*http.MaxBytesError)):
			http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		case errors.As(err, new(*embed.ImageError)):
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		default:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("POST /embed", http.MaxBytesHandler(http.HandlerFunc(answer), 20<<20))
	return mux
}

// serve serves requests until ctx is done, and ends once those that were accepted are answered.
func serve(ctx context.Context, at net.Listener, h http.Handler) error {
	s := &http.Server{Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(at) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	return s.Shutdown(last)
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
