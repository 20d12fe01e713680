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
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gradient-surgery/dml/dmlx/backend"
	_ "github.com/gradient-surgery/dml/dmlx/backend/xla" // Links XLA.
	"github.com/gradient-surgery/dml/dmlx/embed"
)

func main() {
	weights := flag.String("weights", "", "file of weights, or an ONNX network")
	address := flag.String("address", "localhost:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	network := must(embed.Source{Weights: *weights}.Open())
	defer network.Close()
	embedder := must(embed.New(must(backend.Open()).Backend, network))
	defer embedder.Close()
	if err := serve(ctx, must(net.Listen("tcp", *address)), embedder); err != nil {
		log.Print(err)
	}
}

// serve answers requests until ctx is done, and then those that were accepted.
func serve(ctx context.Context, at net.Listener, e *embed.Embedder) error {
	const most = 20 << 20 // Bytes of an image.
	mux := http.NewServeMux()
	mux.HandleFunc("POST /embed", func(w http.ResponseWriter, r *http.Request) {
		rows, err := e.Embed(r.Context(), embed.Reader(http.MaxBytesReader(w, r.Body, most), most))
		switch {
		case err == nil:
			_ = json.NewEncoder(w).Encode(rows[0]) // Who no longer listens gets no answer.
		case errors.As(err, new(*embed.ImageError)):
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		default:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	s := &http.Server{Handler: mux, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 1 << 14}
	ended := make(chan error, 1)
	go func() {
		<-ctx.Done()
		last, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		ended <- s.Shutdown(last)
	}()
	if err := s.Serve(at); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}
