package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/losses"
	"github.com/gradient-surgery/dml/dmlx/page/internal/engine"
)

// built is the page, built once for all tests.
var built = sync.OnceValues(func() (*Page, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	return Build(context.Background(), root)
})

// TestSize holds the page to the size that people wait for.
func TestSize(t *testing.T) {
	p := build(t)
	total := 0
	for name, data := range p.Files {
		if name != "main.wasm.gz" {
			data = gzipped(t, data)
		}
		total += len(data)
	}
	single, err := p.SingleFile()
	if err != nil {
		t.Fatal(err)
	}
	program := len(p.Files["main.wasm.gz"])
	t.Logf("program %.2f MB, everything %.2f MB, gzipped; single file %.2f MB", float64(program)/1e6, float64(total)/1e6,
		float64(len(single))/1e6)
	if program > 3.3e6 || total > 4e6 || len(single) > 5e6 {
		t.Errorf("too large; want a program of at most 3.3 MB, 4 MB in all, and a single file of at most 5 MB")
	}
}

func gzipped(t *testing.T, data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func build(t testing.TB) *Page {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles the page's program")
	}
	p, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSingleFileIsWhole sees that nothing is left outside the single file.
func TestSingleFileIsWhole(t *testing.T) {
	data, err := build(t).SingleFile()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{`<script src`, `rel="stylesheet"`, `src="http`, `url(http`, `@import`} {
		if bytes.Contains(data, []byte(s)) {
			t.Errorf("the single file has %s", s)
		}
	}
	if n := bytes.Count(data, []byte("<script")); n != bytes.Count(data, []byte("</script>")) || n < 4 {
		t.Errorf("%d script elements begin, %d end", n, bytes.Count(data, []byte("</script>")))
	}
}

// TestSingleFileElements puts a page together from awkward files.
func TestSingleFileElements(t *testing.T) {
	p := &Page{Files: map[string][]byte{
		"index.html": []byte("<head>\n  <link rel=\"stylesheet\" href=\"a.css\">\n<script src=\"a.js\" defer></script>\n" +
			"</head>\n<body>x</body></html>"),
		"a.css": []byte("b{}"), "a.js": []byte("x = '</script><!--$1'"), "worker.js": []byte("w"), "main.wasm.gz": {1},
		"features.gz": {2}, "cars.png": {3},
	}}
	got, err := p.SingleFile()
	want := "<head>\n<style>\nb{}</style>\n</head>\n<body>x" +
		"<script type=\"text/plain\" id=\"dmlx-program\">AQ==</script>\n" +
		"<script type=\"text/plain\" id=\"dmlx-features\">Ag==</script>\n" +
		"<script type=\"text/plain\" id=\"dmlx-cars\">Aw==</script>\n" +
		"<script type=\"text/plain\" id=\"dmlx-worker\">\nw</script>\n" +
		"<script>\nx = '<\\/script><\\!--$1'</script>\n</body></html>"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	for from, to := range map[string]string{"a.css": "b.css", "a.js": "b.js", " defer": "", "</body>": ""} {
		q := &Page{Files: maps.Clone(p.Files)}
		q.Files["index.html"] = []byte(strings.Replace(string(p.Files["index.html"]), from, to, 1))
		if _, err := q.SingleFile(); err == nil {
			t.Errorf("%q for %q: no error", to, from)
		}
	}
}

func TestBuildBadCheckout(t *testing.T) {
	if _, err := Build(t.Context(), t.TempDir()); err == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("an empty folder: %v; want one line", err)
	}
}

// request is one to the program, and answer what it gives: the milliseconds that it took and that the
// processor worked, and digests of its arrays.
type request struct {
	Method string         `json:"method"`
	Args   map[string]any `json:"args"`

	Features string `json:"features,omitempty"` // A file to train on.
}

type answer struct {
	Error  string
	MS     float64
	CPU    float64
	Arrays map[string]string
}

// inNode has the page's program answer requests in Node.
func inNode(t testing.TB, p *Page, requests []request) []answer {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("Node is not installed")
	}
	dir := t.TempDir()
	support, program := filepath.Join(dir, "support.js"), filepath.Join(dir, "main.wasm")
	unpacked, err := gzip.NewReader(bytes.NewReader(p.Files["main.wasm.gz"]))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	goSupport, _, _ := bytes.Cut(p.Files["worker.js"], []byte("// The worker of the page."))
	for path, data := range map[string][]byte{support: goSupport, program: raw} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var input bytes.Buffer
	for _, q := range requests {
		if err := json.NewEncoder(&input).Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), node, "testdata/answer.js", support, program)
	cmd.Stdin = &input
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, stderr.Bytes())
	}
	var answers []answer
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for _, q := range requests {
		if !lines.Scan() {
			t.Fatalf("%v: no answer: %s", q, stderr.Bytes())
		}
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
	}
	return answers
}

// BenchmarkProgram measures the program in Node: the milliseconds of an answer when a slider moves, and of a frame of a
// flow. The graphs have been built.
func BenchmarkProgram(b *testing.B) {
	p := build(b)
	for _, k := range []struct {
		name   string
		method string
		args   map[string]any
		scale  float64
	}{
		{"rule/B=32", "compute", map[string]any{"sample": sample(8, 4, 32)}, 1},
		{"rule/B=64", "compute", map[string]any{"sample": sample(16, 4, 64)}, 1},
		{"diagram", "diagram", map[string]any{}, 1},
		{"flow/48", "flow", map[string]any{"sample": sample(8, 6, 3), "frames": 10}, 10},
		{"flow/256", "flow", map[string]any{"sample": sample(16, 16, 3), "frames": 3}, 3},
	} {
		b.Run(k.name, func(b *testing.B) {
			const warm = 10
			var requests []request
			for i := range warm + max(b.N, 30) {
				args := maps.Clone(k.args)
				args["rule"] = map[string]any{"direction": "cos-orth", "pair": "lin-ms", "triplet": "cir",
					"options": map[string]any{"tau": 1 + float64(i)/100}}
				requests = append(requests, request{Method: k.method, Args: args})
			}
			b.ResetTimer()
			var times, work []float64
			for _, a := range inNode(b, p, requests)[warm:] {
				if a.Error != "" {
					b.Fatal(a.Error)
				}
				times, work = append(times, a.MS/k.scale), append(work, a.CPU/k.scale)
			}
			slices.Sort(times)
			slices.Sort(work)
			b.ReportMetric(times[len(times)/2], "p50-ms")
			b.ReportMetric(times[len(times)*95/100], "p95-ms")
			b.ReportMetric(work[len(work)/2], "p50-cpu-ms") // Of a busy machine, too.
			b.ReportMetric(0, "ns/op")                      // It has Node's start in it.
		})
	}
}

func sample(classes, images, dim int) map[string]any {
	return map[string]any{"classes": classes, "images": images, "dim": dim, "noise": 1, "seed": 1}
}

// TestSameBits holds the page's program in WebAssembly against the same code compiled for this machine, bit for bit:
// all rules and losses on three batches, and diagrams.
func TestSameBits(t *testing.T) {
	p := build(t)
	samples := []map[string]any{
		sample(8, 4, 32),
		{"classes": 3, "images": 3, "dim": 2, "noise": 0.6, "seed": 2},
		{"classes": 5, "images": 2, "dim": 65, "noise": 2.5, "seed": 3},
	}
	var requests []request
	for i, s := range samples {
		for _, r := range dmlx.Rules() {
			options := map[string]any{}
			if i == 2 {
				options = map[string]any{"tau": 7.3, "alpha": 3.1, "beta": 41.5, "lambda": 0.37, "epsilon": 0.21}
			}
			mask := r.Mask.Name
			requests = append(requests, request{Method: "compute", Args: map[string]any{"sample": s, "rule": map[string]any{
				"direction": r.Direction.Name, "pair": r.Pair.Name, "triplet": r.Triplet.Name, "mask": mask, "options": options}}})
		}
		for _, l := range losses.Names() {
			requests = append(requests, request{Method: "compute", Args: map[string]any{"sample": s, "loss": l}})
		}
	}
	for _, r := range []string{"ours", "cos/sig-ms/cos+sc1?tau=3"} {
		requests = append(requests, request{Method: "diagram", Args: map[string]any{"rule": r}},
			request{Method: "flow", Args: map[string]any{"rule": r, "frames": 3, "sample": samples[1]}})
	}
	requests = append(requests, request{Method: "diagram", Args: map[string]any{"loss": "ms", "side": 5}},
		request{Method: "field", Args: map[string]any{"rule": "ours", "side": 5}},
		request{Method: "flow", Args: map[string]any{"loss": "proxy-anchor", "frames": 3, "sample": samples[1]}})

	requests = append(requests, request{Method: "learnFrom", Args: map[string]any{}, Features: featuresFile})
	for _, s := range []map[string]any{{"rule": "ours"}, {"rule": "euc/con/con", "seed": 2}, {"loss": "ms"}} {
		maps.Copy(s, map[string]any{"dim": 16, "steps": 20, "rate": 0.5, "measure": true})
		requests = append(requests, request{Method: "learn", Args: s})
	}

	features, _, _ := readFeatures(t)
	got := inNode(t, p, requests)
	native, err := engine.New()
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i, q := range requests {
		got := got[i]
		args, err := json.Marshal(q.Args)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := native.Answer(q.Method, args, map[string][]byte{"features": features})
		if err != nil || got.Error != "" {
			t.Fatalf("%s %s: %v; in the page: %s", q.Method, args, err, got.Error)
		}
		want := make(map[string]string)
		digests(t, answer, "", want)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if compared++; got.Arrays[name] != want[name] {
				t.Errorf("%s %s: other bits of %s", q.Method, args, name)
			}
		}
		if q.Method == "compute" && (want["M"] == "" || want["G"] == "") {
			t.Fatalf("%s %s has no M or G", q.Method, args)
		}
	}
	t.Logf("%d requests, %d arrays", len(requests), compared)
}

// digests are the SHA-256 of an answer's arrays, by name.
func digests(t *testing.T, o engine.Object, prefix string, out map[string]string) {
	for name, v := range o {
		switch v := v.(type) {
		case engine.Object:
			digests(t, v, prefix+name+".", out)
		case []float32, []int32, []uint8:
			var b bytes.Buffer
			if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(b.Bytes())
			out[prefix+name] = hex.EncodeToString(sum[:])
		}
	}
}
