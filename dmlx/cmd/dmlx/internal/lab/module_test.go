package lab

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx/internal/buildinfo"
)

// moduleLab returns a lab of a version, and a go command whose module cache has it with the sum h1:abc, or which fails.
func moduleLab(t *testing.T, goMod, failure string) (l *Lab, goTool, log string) {
	t.Helper()
	source, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"go.mod": goMod, "go.sum": "gonum.org/v1/plot v0.17.0 h1:xyz\n"} {
		if err := os.WriteFile(filepath.Join(source, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	goTool, log = filepath.Join(bin, "go"), filepath.Join(bin, "log")
	script := fmt.Sprintf(`#!/bin/sh
echo "$PWD: $@ $GOFLAGS $GONOSUMDB" >>%s
%s
case "$*" in *-json*) echo '{"Dir": "%s", "Sum": "h1:abc", "GoModSum": "h1:def"}' ;; esac
`, log, failure, source)
	if err := os.WriteFile(goTool, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	l = &Lab{Cache: cache, Version: "v0.2.0", Sum: "h1:abc", Root: ModuleRoot(cache, "v0.2.0")}
	if err := os.MkdirAll(l.dir("tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	return l, goTool, log
}

// Cells of an installed program are compiled in a module that requires the program's version and all that it requires.
func TestSetupModule(t *testing.T) {
	goMod := "module " + buildinfo.Module + "\n\ngo 1.26.6\n\nrequire gonum.org/v1/plot v0.17.0\n\ntool example.com/tool\n"
	l, goTool, log := moduleLab(t, goMod, "")
	if missing := l.Status(t.Context()).Missing; missing != "the Python environment" {
		t.Errorf("missing: %s", missing)
	}
	for range 2 {
		if err := l.setupModule(t.Context(), goTool); err != nil {
			t.Fatal(err)
		}
	}
	calls, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	want := "mod download -json " + buildinfo.Module + "@v0.2.0 -mod=mod " + buildinfo.Module + "\n"
	if strings.Count(string(calls), "\n") != 2 || !strings.HasSuffix(string(calls), l.dir("tmp")+": "+want) {
		t.Errorf("go was called with\n%s", calls)
	}
	for name, want := range map[string]string{
		"go.mod": strings.Replace(goMod, "module "+buildinfo.Module+"\n",
			"module dmlx.local/cells\n\nrequire "+buildinfo.Module+" v0.2.0\n", 1),
		"go.sum": "gonum.org/v1/plot v0.17.0 h1:xyz\n" + buildinfo.Module + " v0.2.0 h1:abc\n" + buildinfo.Module +
			" v0.2.0/go.mod h1:def\n",
	} {
		if got, err := os.ReadFile(filepath.Join(l.Root, name)); err != nil || string(got) != want {
			t.Errorf("%s, %v:\n%s\nwant\n%s", name, err, got, want)
		}
	}
	if err := (&Lab{}).setupModule(t.Context(), "/no/go"); err != nil {
		t.Errorf("in a checkout: %v", err)
	}
}

func TestSetupModuleFails(t *testing.T) {
	const ours = "module " + buildinfo.Module + "\n"
	for _, c := range []struct{ goMod, failure, sum, want string }{
		{ours, "echo 'no such host' >&2; exit 1", "h1:abc", "could not be downloaded (no such host)"},
		{ours, "", "h1:other", "its sum is h1:abc, not h1:other"},
		{"module example.com/other\n", "", "h1:abc", "not that of " + buildinfo.Module},
	} {
		l, goTool, _ := moduleLab(t, c.goMod, c.failure)
		l.Sum = c.sum
		if err := l.setupModule(t.Context(), goTool); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want …%s…", err, c.want)
		}
		if stamped(l.Root, l.Version) {
			t.Errorf("%s: the module counts as complete", c.want)
		}
	}
}

// The real go command resolves this module's packages in the module of the cells, without a network: a proxy in a
// folder has this checkout as a version, and Go's module cache is the proxy for all others. There the program of
// dmlx/README.md prints what the page says, and the command has all that it needs to be installed.
func TestCellsResolveTheModule(t *testing.T) {
	if testing.Short() {
		t.Skip("packs the module")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs go")
	}
	const version = "v0.99.0"
	root, err := filepath.Abs("../../../../..")
	if err != nil {
		t.Fatal(err)
	}
	old, err := exec.Command(goTool, "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	proxy := t.TempDir()
	packModule(t, root, filepath.Join(proxy, buildinfo.Module, "@v"), version)
	others := filepath.Join(strings.TrimSpace(string(old)), "cache", "download")
	t.Setenv("GOPROXY", "file://"+proxy+",file://"+others+",off")
	t.Setenv("GOMODCACHE", t.TempDir())
	t.Setenv("GOFLAGS", "-modcacherw") // So that the test can remove it.
	t.Setenv("GONOSUMDB", "*")
	download := exec.Command(goTool, "mod", "download", "-json", buildinfo.Module+"@"+version)
	download.Dir = proxy
	out, err := download.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var got struct{ Sum string }
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GONOSUMDB", "") // The sum that the program knows is enough.
	t.Setenv("GOSUMDB", "sum.golang.org")
	cache := t.TempDir()
	l := &Lab{Cache: cache, Version: version, Sum: got.Sum, Root: ModuleRoot(cache, version)}
	if err := l.Module(t.Context()); err != nil {
		t.Fatal(err)
	}
	list := exec.Command(goTool, "list", "-find", "-f", "{{.ImportPath}} {{.Module.Version}}",
		buildinfo.Module+"/notebooks/nb", buildinfo.Module+"/dmlx/inspect", "gonum.org/v1/plot")
	list.Dir = l.Root
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err = list.Output()
	want := fmt.Sprintf("%[1]s/notebooks/nb %[2]s\n%[1]s/dmlx/inspect %[2]s\ngonum.org/v1/plot ", buildinfo.Module,
		version)
	if err != nil || !strings.HasPrefix(string(out), want) {
		t.Errorf("%v: %s%s", err, out, stderr.String())
	}
	readme, err := os.ReadFile(filepath.Join(root, "dmlx", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```go\n")
	program, rest, _ := strings.Cut(program, "```\n")
	_, printed, _ := strings.Cut(rest, "```text\n")
	printed, _, _ = strings.Cut(printed, "```")
	mine := filepath.Join(l.Root, "mine")
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(mine, "main.go"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOMLX_BACKEND", "go")
	for _, c := range []struct{ do, want string }{
		{"go run ./mine", printed},
		// As go install: all files are there.
		{"go list -deps " + buildinfo.Module + "/dmlx/cmd/dmlx >/dev/null", ""},
		// As dmlx page.
		{"GOOS=js GOARCH=wasm go list -deps " + buildinfo.Module + "/dmlx/page/wasm >/dev/null", ""},
	} {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", c.do)
		cmd.Dir = l.Root
		stderr.Reset()
		cmd.Stderr = &stderr
		if out, err := cmd.Output(); err != nil || string(out) != c.want || printed == "" {
			t.Errorf("%s: %v: %s%s\nwant %s", c.do, err, out, stderr.String(), c.want)
		}
	}
}

// packModule writes a version of a module as a proxy serves it, of the files that git knows.
func packModule(t *testing.T, root, dir, version string) {
	t.Helper()
	files, err := exec.Command("git", "-C", root, "ls-files", "-z", "go.mod", "go.sum", "dmlx", "datasets", "figures",
		"notebooks").Output()
	if err != nil {
		t.Skipf("needs a checkout of git: %v", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for name := range strings.SplitSeq(strings.Trim(string(files), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") {
			continue
		}
		w, err := z.Create(buildinfo.Module + "@" + version + "/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{".zip": packed.Bytes(), ".mod": goMod,
		".info": []byte(`{"Version": "` + version + `"}`)} {
		if err := os.WriteFile(filepath.Join(dir, version+name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
