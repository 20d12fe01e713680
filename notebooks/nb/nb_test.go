package nb

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestImageHTML(t *testing.T) {
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 2, 2))); err != nil {
		t.Fatal(err)
	}
	got, err := imageHTML(b.Bytes(), `a "dot" < 1`, 12)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`src="data:image/png;base64,`, `alt="a &#34;dot&#34; &lt; 1"`, `width="12"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
	if got, err := imageHTML([]byte("<?xml version=\"1.0\"?>\n<svg/>"), "", 0); err != nil ||
		!strings.Contains(got, "image/svg+xml") || strings.Contains(got, "width=") {
		t.Errorf("SVG: %q, %v", got, err)
	}
	for _, wrong := range []string{"", "GIF89a", "\x89PNG\r\n\x1a\n"} {
		if _, err := imageHTML([]byte(wrong), "", 0); err == nil {
			t.Errorf("%q was accepted as an image", wrong)
		}
	}
}

// The first update is shown at once, later ones at intervals, and the last one always.
func TestProgressIsThrottled(t *testing.T) {
	var mu sync.Mutex
	var shown []string
	const every = 50 * time.Millisecond
	p := newProgress("run", every, func(fraction float64, text, _ string) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, fmt.Sprintf("%.2f %s", fraction, text))
	})
	start := time.Now()
	for i := range 1000 {
		p.Set(float64(i)/1000, fmt.Sprint(i))
	}
	soon := time.Since(start)
	time.Sleep(2 * every)
	mu.Lock()
	if most := 3 + int(soon/every); len(shown) > most || shown[0] != "0.00 0" || shown[len(shown)-1] != "1.00 999" {
		t.Errorf("shown: %q", shown)
	}
	mu.Unlock()
	p.Set(7, "beyond")
	p.Done("end")
	p.Set(0.5, "too late")
	p.Done("twice")
	time.Sleep(2 * every)
	mu.Lock()
	defer mu.Unlock()
	if last := shown[len(shown)-1]; last != "1.00 end" {
		t.Errorf("last shown: %q", last)
	}
}

func TestProgressHTML(t *testing.T) {
	if got := progressHTML("a<b", 0.25, "c&d"); !strings.Contains(got, `value="0.250"`) ||
		!strings.Contains(got, "a&lt;b: c&amp;d") {
		t.Error(got)
	}
	if got := progressHTML("a", 1, "done"); strings.Contains(got, "<progress") {
		t.Error(got)
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	var b bytes.Buffer
	if code := fail(&b, errors.New("no rule\nstack trace")); code != 1 || b.String() != "no rule\n" {
		t.Errorf("code %d, %q", code, b.String())
	}
}

func TestPresetAndStore(t *testing.T) {
	t.Setenv("DMLX_PRESET", "")
	t.Setenv("DMLX_STORE", "")
	if got := Preset(); got != "quick" {
		t.Errorf("preset %q", got)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if got := Store(); got != filepath.Join(root, "runs") {
		t.Errorf("store %q", got)
	}
	t.Setenv("DMLX_PRESET", "smoke")
	t.Setenv("DMLX_STORE", "elsewhere")
	if Preset() != "smoke" || Store() != "elsewhere" {
		t.Errorf("%q, %q", Preset(), Store())
	}
}

// Linking XLA would make every cell that draws slow.
func TestLinksNoXLA(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	cmd := exec.Command(goTool, "list", "-deps", ".")
	cmd.Env = append(os.Environ(), "GOPROXY=off")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, heavy := range []string{"gomlx/go-xla", "gomlx/gomlx"} {
		if strings.Contains(string(out), heavy) {
			t.Errorf("nb depends on %s", heavy)
		}
	}
}
