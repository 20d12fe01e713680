// Package page builds the playground as a page: what a rule or a loss does to embeddings, computed in the browser by
// package dmlx itself, compiled to WebAssembly, on the Go backend. The page needs no kernel and no server of its own,
// and asks for nothing over the network but its own files. It is a folder of files to be served ([Page.Write]) or one
// file that works from a disk ([Page.SingleFile]).
//
// In web are the HTML and JavaScript, in wasm the program; PROTOCOL.md describes what they say to each other.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gradient-surgery/dml/dmlx/durable"
)

//go:embed web
var web embed.FS

// Page is the page, built.
type Page struct {
	// Files are those of the folder, by name: index.html and what it refers to, worker.js, main.wasm.gz, features.gz
	// and cars.png.
	Files map[string][]byte
}

// Build compiles the program from the checkout of this module in a folder, by the go command on PATH, and puts the page
// together. The first time takes about a minute; Go then keeps what it has compiled. Code of the checkout is compiled,
// but not run.
func Build(ctx context.Context, checkout string) (*Page, error) {
	dir, err := os.MkdirTemp("", "dmlx-page-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "main.wasm")
	if _, err := run(ctx, checkout, "build", "-trimpath", "-ldflags=-s -w", "-o", program,
		"github.com/gradient-surgery/dml/dmlx/page/wasm"); err != nil {
		return nil, fmt.Errorf("the page's program does not compile: %w", err)
	}
	raw, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	root, err := run(ctx, checkout, "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	support, err := os.ReadFile(filepath.Join(root, "lib", "wasm", "wasm_exec.js"))
	if err != nil {
		return nil, fmt.Errorf("the Go toolchain has no wasm_exec.js: %w", err)
	}
	return assemble(web, raw, support)
}

// run runs the go command for WebAssembly and returns its output. An error has its first line of complaint.
func run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// The toolchain's experiments are of other processors, and git refuses another user's checkout.
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOEXPERIMENT=", "GOFLAGS=-mod=readonly -buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("there is no go command on PATH")
	}
	if err != nil {
		for line := range strings.Lines(stderr.String()) {
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "go: downloading") {
				return "", errors.New(line)
			}
		}
		return "", err
	}
	return strings.TrimSpace(string(out)), nil
}

// assemble puts the page together from its web files, the program and the JavaScript that Go's programs need.
func assemble(files fs.FS, program, support []byte) (*Page, error) {
	p := &Page{Files: make(map[string][]byte)}
	entries, err := fs.ReadDir(files, "web")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if p.Files[e.Name()], err = fs.ReadFile(files, path.Join("web", e.Name())); err != nil {
			return nil, err
		}
	}
	p.Files["worker.js"] = bytes.Join([][]byte{support, p.Files["worker.js"]}, []byte("\n"))
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(program)
		err = errors.Join(err, w.Close())
	}
	if err != nil {
		return nil, err
	}
	p.Files["main.wasm.gz"] = packed.Bytes()
	return p, nil
}

// WithoutProgram returns the page for a document around it that answers its requests; see package frame.
func WithoutProgram() (*Page, error) {
	p, err := assemble(web, nil, nil)
	if err == nil {
		p.Files["main.wasm.gz"], p.Files["worker.js"] = nil, nil
	}
	return p, err
}

// Write writes the page's files into a folder, which it makes if it is not there. Other files of the folder stay.
func (p *Page) Write(dir string) error {
	for name, data := range p.Files {
		if err := durable.WriteInFolder(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// WriteSingleFile writes the page as one HTML file, [Page.SingleFile], atomically.
func (p *Page) WriteSingleFile(path string) error {
	data, err := p.SingleFile()
	if err != nil {
		return err
	}
	return durable.WriteInFolder(path, data, 0o644)
}

// How index.html refers to its files.
var (
	styleElement  = regexp.MustCompile(`(?m)^[ \t]*<link rel="stylesheet" href="([^"/]+)">[ \t]*\n`)
	scriptElement = regexp.MustCompile(`(?m)^[ \t]*<script src="([^"/]+)" defer></script>[ \t]*\n`)
)

// SingleFile returns the page as one HTML file.
func (p *Page) SingleFile() ([]byte, error) {
	index := p.Files["index.html"]
	var missing error
	file := func(name []byte) []byte {
		data, is := p.Files[string(name)]
		if !is {
			missing = fmt.Errorf("index.html refers to %s, which is not there", name)
		}
		return data
	}
	index = styleElement.ReplaceAllFunc(index, func(element []byte) []byte {
		return fmt.Appendf(nil, "<style>\n%s</style>\n", file(styleElement.FindSubmatch(element)[1]))
	})
	var scripts bytes.Buffer
	for _, f := range [][2]string{{"main.wasm.gz", "dmlx-program"}, {"features.gz", "dmlx-features"},
		{"cars.png", "dmlx-cars"}} {
		fmt.Fprintf(&scripts, "<script type=\"text/plain\" id=\"%s\">%s</script>\n", f[1],
			base64.StdEncoding.EncodeToString(p.Files[f[0]]))
	}
	fmt.Fprintf(&scripts, "<script type=\"text/plain\" id=\"dmlx-worker\">\n%s</script>\n",
		inElement(p.Files["worker.js"]))
	index = scriptElement.ReplaceAllFunc(index, func(element []byte) []byte {
		fmt.Fprintf(&scripts, "<script>\n%s</script>\n", inElement(file(scriptElement.FindSubmatch(element)[1])))
		return nil
	})
	if missing != nil {
		return nil, missing
	}
	before, after, found := bytes.Cut(index, []byte("</body>"))
	if !found {
		return nil, errors.New("index.html has no </body>")
	}
	if bytes.Contains(before, []byte("<script src=")) || bytes.Contains(before, []byte("<link rel=\"stylesheet\"")) {
		return nil, errors.New("index.html refers to a file in another way than package page knows")
	}
	return bytes.Join([][]byte{before, scripts.Bytes(), []byte("</body>"), after}, nil), nil
}

// inElement is a script as it may stand inside an element: nothing in it ends the element or begins a comment.
func inElement(script []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(script, []byte("</script"), []byte(`<\/script`)), []byte("<!--"),
		[]byte(`<\!--`))
}
