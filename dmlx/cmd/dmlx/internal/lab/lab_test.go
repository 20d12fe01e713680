//go:build unix

package lab

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func newLab(t *testing.T) *Lab {
	t.Helper()
	root, err := filepath.Abs("../../../../..")
	if err != nil {
		t.Fatal(err)
	}
	return &Lab{Root: root, Cache: t.TempDir()}
}

func TestKernelSpec(t *testing.T) {
	set := goEnv{Root: "/go", Flags: "-mod=mod -buildvcs=false --mod=vendor", Modules: "/m"}
	l := &Lab{Root: "/some where/dml", Cache: "/c", toolsDir: "/t", goplsDir: "/p"}
	spec := l.newKernelSpec("/c/kernel.sh", set)
	want := []string{"/bin/sh", "/c/kernel.sh", "/t:/go/bin", "/p", "/some where/dml", "{connection_file}", l.cellsFile()}
	if !slices.Equal(spec.Argv, want) {
		t.Errorf("argv %q, want %q", spec.Argv, want)
	}
	env := map[string]string{"GOPROXY": "off", "GOFLAGS": "-buildvcs=false -ldflags=-s", "GOWORK": "", "GOMODCACHE": "/m"}
	for name, want := range env {
		if got := spec.Env[name]; got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
	if spec.InterruptMode != "message" || spec.Language != "go" || spec.DisplayName != "Go (dmlx)" {
		t.Errorf("%+v", spec)
	}
}

func TestWriteKernel(t *testing.T) {
	l := newLab(t)
	l.toolsDir = "/tools"
	if err := l.writeKernel(goEnv{Root: "/go"}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(l.kernelPath(), "kernels", "dmlx", "kernel.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spec kernelSpec
	if err := json.Unmarshal(data, &spec); err != nil {
		t.Fatal(err)
	}
	if spec.Argv[2] != "/tools:/go/bin" || spec.Argv[4] != l.Root {
		t.Errorf("argv %q, environment %q", spec.Argv, spec.Env)
	}
	script := filepath.Join(filepath.Dir(spec.Argv[1]), "bin", "go")
	by := func(flags string) string {
		mode := ""
		if runtime.GOOS == "linux" {
			mode = " -linkmode=internal"
		}
		return "build -ldflags=-s" + mode + " -x -work -o x" + flags + ", GOGC=off\n"
	}
	const declares = "func f() {}\nfunc main() { flag.Parse() }\n"
	for _, tc := range []struct {
		args, cell, want string
		program          bool // A program that does nothing, made without "go build".
	}{
		{"get", "", "", false},
		{"get example.com", "", "get example.com, GOGC=\n", false},
		{"build -o x -race", "func main() {\n\tflag.Parse()\n}\n", by(" -race"), false},
		{"build -o x -race", declares, "", true},
		{"build -o x -race", declares + "var (\n\ta = f()\n)\n", by(" -race"), false},
		{"build -o x", declares + "func init() { f() }\n", by(""), false},
		{"run ./x", declares, "run ./x, GOGC=\n", false},
	} {
		cell := t.TempDir()
		if err := os.WriteFile(filepath.Join(cell, "main.go"), []byte(tc.cell), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cell, "x"), []byte("an earlier cell's"), 0o644); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(script, strings.Fields(tc.args)...)
		cmd.Dir = cell
		fake := filepath.Join(l.Cache, "go")
		if err := os.WriteFile(fake, []byte("#!/bin/sh\necho \"$*, GOGC=$GOGC\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "DMLX_GO=" + fake}
		if out, err := cmd.CombinedOutput(); string(out) != tc.want || err != nil {
			t.Errorf("go %s of %q: %q, %v; want %q", tc.args, tc.cell, out, err, tc.want)
		}
		if out, err := exec.Command(filepath.Join(cell, "x")).CombinedOutput(); err == nil != tc.program || len(out) > 0 {
			t.Errorf("go %s of %q: a program that prints %q, %v; want one: %t", tc.args, tc.cell, out, err, tc.program)
		}
		// Errors of declarations are the compiler's.
		if err := os.WriteFile(fake, []byte("#!/bin/sh\necho undefined: g >&2\nexit 1\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		cmd = exec.Command(script, strings.Fields(tc.args)...)
		cmd.Dir, cmd.Env = cell, []string{"PATH=" + os.Getenv("PATH"), "DMLX_GO=" + fake}
		if out, err := cmd.CombinedOutput(); tc.args != "get" && (err == nil || string(out) != "undefined: g\n") {
			t.Errorf("go %s of %q that fails: %q, %v", tc.args, tc.cell, out, err)
		}
	}
	l.Root = "/a,b"
	if err := l.writeKernel(goEnv{}); err == nil || !strings.Contains(err.Error(), "comma") {
		t.Errorf("a root that GoNB would split: %v", err)
	}
}

// Cells are built without "go build" while nothing but the cell has changed.
func TestCellsBuild(t *testing.T) {
	tool, err := exec.LookPath("go")
	for _, name := range []string{"cksum", "grep", "sed"} { // Without one of them all cells are built by "go build".
		_, missing := exec.LookPath(name)
		err = errors.Join(err, missing)
	}
	if err != nil {
		t.Skip(err)
	}
	script, cell, module := filepath.Join(t.TempDir(), "go"), t.TempDir(), filepath.Join(t.TempDir(), "with space")
	write := func(name, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const declares = "func f() {}\nfunc main() { flag.Parse() }\n"
	shows := func(what string) string { return "func main() {\n\tflag.Parse()\n\tprint(" + what + ")\n}\n" }
	source := func(value string) string { return "package a\n\nvar V = " + value + "\n" }
	write(script, string(goScript))
	write(filepath.Join(cell, "go.mod"), "module gonb\n\ngo 1.26\n")
	write(filepath.Join(cell, "go.work"), "go 1.26\n\nuse (\n\t.\n\t\""+module+"\"\n)\n")
	write(filepath.Join(module, "go.mod"), "module m\n\ngo 1.26\n")
	write(filepath.Join(module, "a", "a.go"), source(`"one"`))
	calls := filepath.Join(t.TempDir(), "calls")
	counting := filepath.Join(t.TempDir(), "counting")
	write(counting, "#!/bin/sh\necho >>'"+calls+"'\nexec '"+tool+"' \"$@\"\n")
	for i, tc := range []struct {
		cell, file, content, want string
		quick                     bool // Without the go command.
	}{
		{cell: shows("2"), want: "2"},
		{cell: shows("3"), want: "3", quick: true},
		{cell: shows("a.V"), want: "one"},
		{cell: shows("4"), want: "4", quick: true},
		{cell: shows("a.V, 2"), want: "one2", quick: true},
		{cell: declares, quick: true},
		{cell: shows("b.V"), want: "undefined: b"},
		{cell: shows("a.V"), want: "one", quick: true},
		{cell: shows("a.V"), file: "a/a.go", content: source(`"two"`), want: "two"},
		{cell: shows("a.V + a.W"), file: "a/b.go", content: "package a\n\nvar W = V\n", want: "twotwo"},
		{cell: shows("a.W, 3"), want: "two3", quick: true},
		{cell: declares + "var _ = f\n", quick: true},
	} {
		if tc.content != "" {
			write(filepath.Join(module, tc.file), tc.content)
		}
		imports := "package main\n\nimport \"flag\"\n"
		if strings.Contains(tc.cell, "a.") {
			imports += "import \"m/a\"\n"
		}
		write(filepath.Join(cell, "main.go"), imports+tc.cell)
		_ = os.Remove(calls)
		cmd := exec.Command(script, "build", "-o", "x")
		cmd.Dir, cmd.Env = cell, append(os.Environ(), "DMLX_GO="+counting, "GOPROXY=off", "GOFLAGS=", "GOWORK=")
		out, err := cmd.CombinedOutput()
		if err == nil {
			out, err = exec.Command(filepath.Join(cell, "x")).CombinedOutput()
		}
		if !strings.Contains(string(out), tc.want) || err == nil && string(out) != tc.want {
			t.Errorf("%d. %q: %q, %v; want %q", i, tc.cell, out, err, tc.want)
		}
		if _, err := os.Stat(calls); (err != nil) != tc.quick {
			t.Errorf("%d. %q: without the go command %t, want %t", i, tc.cell, err != nil, tc.quick)
		}
	}
}

// Processes that this package starts do not see the user's Jupyter and Python.
func TestEnviron(t *testing.T) {
	for _, name := range []string{"JUPYTER_CONFIG_PATH", "JUPYTER_PATH", "JUPYTERLAB_SETTINGS_DIR", "PYTHONPATH",
		"PYTHONHOME", "VIRTUAL_ENV"} {
		t.Setenv(name, "/user")
	}
	t.Setenv("HOME", "/home/user")
	t.Setenv("DMLX_DATA", "sets")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	l := newLab(t)
	l.Store, l.Preset = "/store", "smoke"
	got := map[string]string{}
	for _, kv := range l.environ(false) {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is set twice", name)
		}
		got[name] = value
		if strings.HasPrefix(value, "/user") {
			t.Errorf("%s leads to the user's: %s", name, value)
		}
		if strings.HasPrefix(name, "JUPYTER") && !strings.HasPrefix(value, l.Cache) {
			t.Errorf("%s=%s is outside the cache", name, value)
		}
	}
	for name, want := range map[string]string{"DMLX_STORE": "/store", "DMLX_PRESET": "smoke", "HOME": "/home/user",
		"DMLX_CACHE": l.Cache,
		"DMLX_DATA":  filepath.Join(here, "sets")} {
		if got[name] != want {
			t.Errorf("%s=%q, want %q", name, got[name], want)
		}
	}
}

// The user's settings do not change the Python environment, except pip's package index.
func TestSetupPython(t *testing.T) {
	l := newLab(t)
	log := filepath.Join(t.TempDir(), "log")
	// The first argument of "venv" that is a path is the environment, in which this script then stands for Python too.
	script := `#!/bin/sh
echo "$@" >>` + log + `
env >>` + log + `
case "$*" in
*"-m venv "*) mkdir -p "$5/bin" && cp "$0" "$5/bin/python" ;;
*" -c "*) echo 3.12.1 ;;
esac
`
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, name := range []string{"PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "JUPYTER_PATH", "TMPDIR"} {
		t.Setenv(name, "/user")
	}
	for _, name := range []string{"PIP_USER", "PIP_TARGET", "PIP_PREFIX"} { // Arguments override these.
		t.Setenv(name, "1")
	}
	t.Setenv("PIP_INDEX_URL", "https://index.example/simple")
	if err := os.MkdirAll(l.dir("tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := l.setupPython(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !stamped(l.venv(), "") {
		t.Error("not stamped")
	}
	data, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	_, told, _ := strings.Cut(string(data), "-I -m venv --without-pip "+l.venv()+"\n") // After the search for a Python.
	if told == "" {
		t.Fatalf("no environment was made: %s", data)
	}
	if strings.Contains(told, "=/user\n") {
		t.Errorf("the user's set-up is in reach: %s", told)
	}
	for _, want := range []string{`run_module("pip", run_name="__main__", alter_sys=True) install --quiet `,
		" --no-user --target= --prefix=" + l.venv() + " --no-deps --require-hashes ",
		" --only-binary=:all: -r requirements.txt\n",
		"TMPDIR=" + l.dir("tmp") + "\n", "PIP_INDEX_URL=https://index.example/simple\n"} {
		if !strings.Contains(told, want) {
			t.Errorf("no %q in %s", want, told)
		}
	}
}

// Each package is of one version and has hashes, and no line names an index.
func TestRequirements(t *testing.T) {
	pinned := regexp.MustCompile(`^([a-z0-9][a-z0-9-]*==[0-9][0-9a-z.]*)(?: ; [a-zA-Z_0-9'.=!<> ()]+)?$`)
	hash := regexp.MustCompile(`^--hash=sha256:[0-9a-f]{64}$`)
	packages := map[string]bool{}
	joined := strings.ReplaceAll(strings.TrimSpace(string(requirements)), " \\\n    ", " \\")
	for requirement := range strings.SplitSeq(joined, "\n") {
		parts := strings.Split(requirement, " \\")
		m := pinned.FindStringSubmatch(parts[0])
		if m == nil || len(parts) < 2 {
			t.Errorf("%.80q: want NAME==VERSION and hashes", requirement)
			continue
		}
		packages[m[1]] = true
		for _, h := range parts[1:] {
			if !hash.MatchString(h) {
				t.Errorf("%s: %q", m[1], h)
			}
		}
	}
	asked, err := os.ReadFile("requirements.in")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(asked)) {
		name := strings.ReplaceAll(strings.TrimSpace(line), "_", "-")
		if !strings.HasPrefix(name, "#") && !packages[name] {
			t.Errorf("requirements.txt lacks %s", name)
		}
	}
}

// A file that is not as pinned is named.
func TestHashMismatch(t *testing.T) {
	const pip = `echo "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have
    six==1.17.0 from https://index.example/six-1.17.0.whl (from -r requirements.txt (line 9)):
        Expected sha256 00
             Got        01
" >&2; exit 1`
	_, err := newLab(t).command(t.Context(), "", nil, "sh", "-c", pip)
	if err == nil || !strings.Contains(err.Error(), "SHA-256 requirements.txt has: six==1.17.0 from https") {
		t.Error(err)
	}
}

// The extension and the settings are those of this program.
func TestWriteSettings(t *testing.T) {
	l := newLab(t)
	for range 2 {
		if err := l.writeSettings(); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(l.kernelPath(), "labextensions", extensionName)
	raw, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Name       string
		Jupyterlab struct {
			Build struct{ Load string } `json:"_build"`
		}
	}
	if err := json.Unmarshal(raw, &p); err != nil || p.Name != extensionName {
		t.Fatalf("%+v, %v", p, err)
	}
	script, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p.Jupyterlab.Build.Load)))
	if err != nil || !strings.Contains(string(script), "_JUPYTERLAB["+strconv.Quote(extensionName)+"]") {
		t.Errorf("the extension's script: %v", err)
	}
	var settings map[string]any
	raw, err = os.ReadFile(filepath.Join(l.venv(), "share", "jupyter", "lab", "settings", "overrides.json"))
	if err != nil || json.Unmarshal(raw, &settings) != nil || len(settings) == 0 {
		t.Errorf("settings %s, %v", raw, err)
	}
}

// JupyterLab works without gopls, which may be installed later.
func TestWithoutGopls(t *testing.T) {
	l := newLab(t)
	l.goplsDir = l.goplsFolder("go1")
	var warnings []string
	l.Warn = func(message string) { warnings = append(warnings, message) }
	if err := os.MkdirAll(l.dir("tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	goTool := filepath.Join(t.TempDir(), "go")
	t.Setenv("PATH", filepath.Dir(goTool)+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, c := range []struct {
		script   string
		complete bool
	}{{"echo no such host >&2; exit 1", false}, {"mkdir -p \"$GOBIN\" && test \"$*\" = 'install " + gopls + "'", true}} {
		if err := os.WriteFile(goTool, []byte("#!/bin/sh\n"+c.script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := l.setupGopls(t.Context()); err != nil || stamped(l.goplsDir, "") != c.complete {
			t.Errorf("%s: %v, complete %v", c.script, err, stamped(l.goplsDir, ""))
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "no such host") {
		t.Errorf("warnings %q", warnings)
	}
}

// servedEnv names the folder for a TestNothingLeft that only serves, as the process of a lab that is killed.
const servedEnv = "DMLX_TEST_SERVED"

// TestNothingLeft counts the processes of three kernels with gopls after JupyterLab has been stopped, after it has been
// killed, and after lab has.
func TestNothingLeft(t *testing.T) {
	l := installed(t)
	if !stamped(l.goplsDir, "") || runtime.GOOS != "linux" {
		t.Skip("gopls is not set up, or this is not Linux")
	}
	if err := l.writeKernel(goEnv{}); err != nil {
		t.Fatal(err)
	}
	l.Folder = cmp.Or(os.Getenv(servedEnv), t.TempDir())
	l.Store = filepath.Join(l.Folder, "marked") // In the environment of all processes.
	serve := func(ctx context.Context, ready func(string)) error {
		port, err := FreePort(0)
		if err != nil {
			return err
		}
		return l.Serve(ctx, port, "", ready)
	}
	if os.Getenv(servedEnv) != "" {
		t.Fatal(serve(t.Context(), func(url string) { fmt.Println(url) }))
	}
	running := func() (all []string) {
		found, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, path := range found {
			pid := filepath.Base(filepath.Dir(path))
			command, _ := os.ReadFile("/proc/" + pid + "/cmdline")
			if raw, err := os.ReadFile(path); err == nil && bytes.Contains(raw, []byte(l.Store)) && len(command) > 0 {
				all = append(all, pid+" "+strings.ReplaceAll(string(command), "\x00", " "))
			}
		}
		return all
	}
	wait := func(what string, done func([]string) bool) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); !done(running()); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: %q", what, running())
			}
		}
	}
	count := func(of string) func([]string) bool {
		return func(all []string) bool {
			n := 0
			for _, p := range all {
				if strings.Contains(p, of) {
					n++
				}
			}
			return n >= 3
		}
	}
	none := func(all []string) bool { return len(all) == 0 }
	for _, kill := range []string{"", "JupyterLab", "lab"} {
		ctx, stop := context.WithCancel(t.Context())
		ended, url := make(chan error, 1), make(chan string, 1)
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestNothingLeft$")
		cmd.Env = append(os.Environ(), servedEnv+"="+l.Folder)
		if kill == "lab" {
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				line, _ := bufio.NewReader(out).ReadString('\n')
				url <- strings.TrimSpace(line)
				ended <- cmd.Wait()
			}()
		} else {
			go func() { ended <- serve(ctx, func(u string) { url <- u }) }()
		}
		var at string
		select {
		case err := <-ended:
			t.Fatal(err)
		case at = <-url:
		}
		base, token, _ := strings.Cut(at, "/lab/tree/")
		_, token, _ = strings.Cut(token, "token=")
		for range 3 {
			resp, err := http.Post(base+"/api/kernels?token="+token, "application/json", strings.NewReader(`{"name": "dmlx"}`))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
		}
		wait("kernels with gopls", count("bin/gopls -listen"))
		if kill == "JupyterLab" {
			for _, p := range running() {
				if pid, rest, _ := strings.Cut(p, " "); strings.Contains(rest, "-m jupyterlab") {
					if n, err := strconv.Atoi(pid); err == nil {
						_ = syscall.Kill(n, syscall.SIGKILL)
					}
				}
			}
		} else {
			stop() // It kills a process.
		}
		<-ended
		stop()
		wait("left behind by a kill of "+cmp.Or(kill, "none"), none)
	}
}

// TestConvertedPictures sees that nbconvert of lab's environment gives each picture of the saved notebooks its words.
func TestConvertedPictures(t *testing.T) {
	l := installed(t)
	if err := l.writeSettings(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	notebooks, err := filepath.Glob(filepath.Join(l.Root, "notebooks", "*.ipynb"))
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-m", "nbconvert", "--to", "html", "--output-dir", dir}, notebooks...)
	if out, err := exec.Command(l.python(), args...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	count := 0
	for _, name := range notebooks {
		name = strings.TrimSuffix(filepath.Base(name), ".ipynb")
		page, err := os.ReadFile(filepath.Join(dir, name+".html"))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range regexp.MustCompile(`<img\b[^>]*>`).FindAllString(string(page), -1) {
			alt := regexp.MustCompile(`alt="[^"]+"`).FindString(p)
			short := len(alt) < len(`alt=""`)+20 && name != "index" // Whose pictures have the names of pages.
			if alt == "" || short || strings.Contains(alt, "No description") {
				t.Errorf("%s: a picture without words: %.200s", name, p)
			}
			count++
		}
	}
	if count < len(notebooks) {
		t.Errorf("%d pictures in %d notebooks", count, len(notebooks))
	}
}

// TestOtherPrograms runs a notebook by an nbconvert that knows nothing of lab, without a word of GoNB's log, and
// installs the kernel of the user's Jupyter, which is the same.
func TestOtherPrograms(t *testing.T) {
	l := installed(t)
	t.Setenv("JUPYTER_DATA_DIR", t.TempDir())
	path, err := l.InstallKernel()
	if err != nil {
		t.Fatal(err)
	}
	users, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(kernelFile(filepath.Join(l.venv(), "share", "jupyter")))
	if err != nil || !bytes.Equal(own, users) {
		t.Errorf("the user's Jupyter has another kernel than lab's environment, %v: %s", err, users)
	}
	dir := t.TempDir()
	out, err := exec.Command(l.python(), "-m", "nbconvert", "--to", "html", "--execute", "--output-dir", dir,
		filepath.Join("testdata", "works.ipynb")).CombinedOutput()
	if err != nil || strings.Contains(string(out), "GoNB") || strings.Contains(string(out), "goroutine") {
		t.Fatalf("%v: %s", err, out)
	}
	page, err := os.ReadFile(filepath.Join(dir, "works.html"))
	if err != nil || !strings.Contains(string(page), "seven is 7") {
		t.Errorf("%v: the page lacks the cell's output: %s", err, page)
	}
}

// A part is set up if it has the right stamp; its folder alone is not enough.
func TestStamps(t *testing.T) {
	l := newLab(t)
	dir := filepath.Join(l.Cache, "part")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if stamped(dir, "") {
		t.Error("an interrupted set-up counts as complete")
	}
	if err := stamp(dir, "1"); err != nil {
		t.Fatal(err)
	}
	if !stamped(dir, "1") || stamped(dir, "2") {
		t.Error("the stamp does not tell its key")
	}
	if s := l.Status(t.Context()); s.Ready || s.Missing != "the Python environment" ||
		!strings.HasPrefix(s.Jupyter, "4.6.") {
		t.Errorf("status of an empty cache: %+v", s)
	}
	if l.tools("go1") == l.tools("go2") {
		t.Error("tools of two versions share a folder")
	}
}

// Status names a missing part whenever Setup would install it.
func TestStatus(t *testing.T) {
	l := &Lab{Root: t.TempDir(), Cache: t.TempDir()}
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	want := func(missing string) {
		t.Helper()
		if s := l.Status(t.Context()); s.Missing != missing || s.Ready != (missing == "") {
			t.Errorf("status %+v, want missing %q", s, missing)
		}
	}
	goMod := filepath.Join(l.Root, "go.mod")
	write(goMod, "module m\nrequire (\n\tgithub.com/janpfeifer/gonb v1\n)\n")
	write(filepath.Join(l.Root, "go.sum"), "")
	goTool := fakeGo(t, "go1", "")
	setUp := func() {
		t.Helper()
		versions, _, err := l.goSettings(t.Context(), goTool)
		if err != nil {
			t.Fatal(err)
		}
		l.versions, l.toolsDir = versions, l.tools(versions)
		if err := l.setupCells(t.Context(), goTool); err != nil {
			t.Fatal(err)
		}
		key, err := l.warmKey()
		if err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(l.checkout(), stampName), key)
	}

	want("the Python environment")
	write(filepath.Join(l.venv(), stampName), "")
	want("the Python environment")
	write(l.python(), "")
	want("GoNB and goimports")
	setUp()
	want("")
	write(goMod, "module m\nrequire (\n\tgithub.com/janpfeifer/gonb v1\n\tanother v1\n)\n")
	want("the compiled packages")
	setUp()
	want("")
	write(goMod, "module m\nrequire (\n\tgithub.com/janpfeifer/gonb v2\n)\n")
	want("GoNB and goimports")
	setUp()
	goTool = fakeGo(t, "go2", "")
	want("GoNB and goimports")
	setUp()
	want("")
	t.Setenv("PATH", t.TempDir())
	want("a go command on PATH")
}

func TestSetupSaysWhatToInstall(t *testing.T) {
	l := newLab(t)
	t.Setenv("PATH", t.TempDir())
	if err := l.Setup(t.Context()); err == nil || !strings.Contains(err.Error(), "install Go") {
		t.Errorf("without Go: %v", err)
	}
	if _, _, err := FindPython(t.Context()); err == nil || !strings.Contains(err.Error(), "python3-venv") {
		t.Errorf("without Python: %v", err)
	}
}

// fakeGo puts a go command before the others that answers "go env" and warns, as it does if GOPATH is GOROOT.
func fakeGo(t *testing.T, version, flags string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "go")
	script := "#!/bin/sh\necho warning: GOPATH set to GOROOT has no effect >&2\n" +
		`echo '{"GOVERSION": "` + version + `", "GOFLAGS": "` + flags + `"}'` + "\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(path)+string(os.PathListSeparator)+os.Getenv("PATH"))
	return path
}

func TestGoSettingsWithWarnings(t *testing.T) {
	l := newLab(t)
	versions, set, err := l.goSettings(t.Context(), fakeGo(t, "go1.26.9", "-trimpath"))
	if err != nil || set.Flags != "-trimpath" || !strings.HasPrefix(versions, "go1.26.9\ngithub.com/janpfeifer/gonb v") {
		t.Errorf("%q, %q, %v", versions, set, err)
	}
}

func TestSweep(t *testing.T) {
	l := newLab(t)
	if err := os.MkdirAll(l.dir("tmp", "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{l.dir("tmp", "old"): false, l.dir("tmp", "new"): true, l.logPath(1): false,
		l.logPath(2): true, l.dir("lock"): true}
	old := time.Now().AddDate(0, 0, -8)
	for path, kept := range paths {
		if path != l.dir("tmp", "old") {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !kept || path == l.dir("lock") {
			if err := os.Chtimes(path, old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.sweep()
	for path, kept := range paths {
		if _, err := os.Lstat(path); (err == nil) != kept {
			t.Errorf("%s: kept %v, want %v", path, err == nil, kept)
		}
	}
}

func TestCommandTellsLastLine(t *testing.T) {
	l := newLab(t)
	for script, want := range map[string]string{
		"echo first; echo why >&2; exit 1": "why",
		"echo why; exit 1":                 "why",
		"exit 7":                           "exit status 7",
	} {
		if _, err := l.command(t.Context(), "", nil, "sh", "-c", script); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", script, err, want)
		}
	}
}

func TestFindPythonWithoutVenv(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho has no venv module >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	_, _, err := FindPython(t.Context())
	if err == nil || !strings.Contains(err.Error(), "has no venv module") ||
		!strings.Contains(err.Error(), "python3-venv") {
		t.Error(err)
	}
}

func TestUnwritableCache(t *testing.T) {
	l := newLab(t)
	l.Cache = filepath.Join(l.Cache, "file", "below")
	if err := os.WriteFile(filepath.Dir(l.Cache), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := l.Setup(t.Context()); err == nil || !strings.Contains(err.Error(), "DMLX_CACHE") {
		t.Error(err)
	}
}

// An interrupted set-up says no more than that: it does not ask for a network.
func TestInterruptedSetup(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	l := newLab(t)
	l.Progress = func(string) func(error) { interrupt(); return func(error) {} }
	if err := l.Setup(ctx); err == nil || err.Error() != context.Canceled.Error() {
		t.Error(err)
	}
}

func TestFreePort(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := ln.Addr().(*net.TCPAddr).Port
	if _, err := FreePort(port); err == nil || !strings.Contains(err.Error(), "in use") ||
		strings.Contains(err.Error(), "\n") {
		t.Errorf("a port in use: %v", err)
	}
	ln.Close()
	if got, err := FreePort(port); err != nil || got != port {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := FreePort(0); err != nil || got == 0 {
		t.Errorf("%d, %v", got, err)
	}
	if _, err := FreePort(70000); err == nil {
		t.Error("port 70000 was accepted")
	}
}

func TestCheckNotebook(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.ipynb")
	for _, content := range []string{"", "text", "[]", "{}", `{"cells": [], "metadata": {"kernelspec":
		{"name": "python3", "language": "python"}}}`} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := CheckNotebook(path); err == nil {
			t.Errorf("%q was taken for a notebook", content)
		}
	}
	if err := CheckNotebook("testdata/fails.ipynb"); err != nil {
		t.Error(err)
	}
}

func TestExcerpt(t *testing.T) {
	for source, want := range map[string]string{
		"import \"fmt\"\n%%\n// Why.\nnb.Show(x)\ny()": "nb.Show(x)",
		"import (\n  \"fmt\"\n)\n%%":                   "",
		strings.Repeat("ä", 100):                       strings.Repeat("ä", 59) + "…",
	} {
		if got := excerpt(source); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

// installed returns the lab that "dmlx lab" has set up on this machine, and skips the test if there is none, since the
// set-up takes a network and minutes.
func installed(t *testing.T) *Lab {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles notebook cells")
	}
	l := newLab(t)
	l.Cache = os.Getenv("DMLX_CACHE")
	if l.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			t.Skip(err)
		}
		l.Cache = filepath.Join(dir, "dmlx")
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command")
	}
	versions, set, err := l.goSettings(t.Context(), goTool)
	if err != nil {
		t.Fatal(err)
	}
	l.versions, l.toolsDir, l.goplsDir = versions, l.tools(versions), l.goplsFolder(versions)
	if !l.Status(t.Context()).Ready {
		t.Skip("JupyterLab is not set up: go run ./dmlx/cmd/dmlx/lab sets it up, after which this test runs")
	}
	if l.key, err = l.warmKey(); err != nil {
		t.Fatal(err)
	}
	if err := l.writeKernel(set); err != nil {
		t.Skip(err) // A cache that cannot be written.
	}
	return l
}

func TestExecute(t *testing.T) {
	l := installed(t)
	for _, name := range []string{"fails.ipynb", "panics.ipynb", "works.ipynb"} {
		t.Run(name, func(t *testing.T) {
			before, err := os.ReadFile(filepath.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, before, 0o644); err != nil {
				t.Fatal(err)
			}
			cells := 0
			err = l.Execute(t.Context(), path,
				ExecuteOptions{Timeout: 2 * time.Minute, Cell: func(cell, of int, _ float64) { cells++ }})
			after, readErr := os.ReadFile(path)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if name == "works.ipynb" {
				if err != nil || cells != 2 || !strings.Contains(string(after), "seven is 7") {
					t.Errorf("%v, %d cells, %s", err, cells, after)
				}
				return
			}
			var failed *CellError
			if !errors.As(err, &failed) || failed.Cell != 2 || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Fatalf("%v", err)
			}
			if want := map[string]string{"fails.ipynb": "failed: line 2: cannot use",
				"panics.ipynb": "no such rule"}[name]; !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not tell %q", err, want)
			}
			if string(after) != string(before) {
				t.Error("a notebook that failed was changed")
			}
		})
	}
}

func TestExecuteStops(t *testing.T) {
	l := installed(t)
	path := filepath.Join(t.TempDir(), "waits.ipynb")
	data, err := os.ReadFile("testdata/waits.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	pidFile := filepath.Join(filepath.Dir(path), "pids") // The cell writes the ids of its program and its kernel.

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(pidFile); err == nil {
				cancel()
			}
			time.Sleep(poll)
		}
	}()
	if err := l.Execute(ctx, path, ExecuteOptions{}); !errors.Is(err, context.Canceled) {
		t.Fatalf("an interrupt: %v", err)
	}
	pids, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	checkEnded(t, string(pids))

	if err := os.Remove(pidFile); err != nil {
		t.Fatal(err)
	}
	// The cell is in the build cache by now, so that this is enough time.
	if err := l.Execute(t.Context(), path, ExecuteOptions{Timeout: 4 * time.Second}); err == nil ||
		!strings.Contains(err.Error(), "longer than 4 s") {
		t.Errorf("a cell that takes too long: %v", err)
	}
	if pids, err := os.ReadFile(pidFile); err == nil { // Unless the machine is very busy.
		checkEnded(t, string(pids))
	}
}

// The address that opens JupyterLab has the token, and all users of a machine can read the arguments of a process.
func TestBrowserGetsNoToken(t *testing.T) {
	l := installed(t)
	l.Folder, l.Browser = t.TempDir(), true
	said, browser := filepath.Join(t.TempDir(), "said"), filepath.Join(t.TempDir(), "browser")
	script := "#!/bin/sh\necho \"$@\" >" + said + ".new && mv " + said + ".new " + said + "\n"
	if err := os.WriteFile(browser, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", browser)
	port, err := FreePort(0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	url, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- l.Serve(ctx, port, "a b.ipynb", func(u string) { url <- u }) }()
	var args []byte
	for end := time.Now().Add(time.Minute); len(args) == 0; time.Sleep(10 * time.Millisecond) {
		if args, _ = os.ReadFile(said); time.Now().After(end) {
			t.Fatal("no browser was opened")
		}
	}
	address, token, _ := strings.Cut(<-url, "?token=")
	page := strings.TrimPrefix(strings.TrimSpace(string(args)), "file://")
	if len(token) < 10 || strings.Contains(page, token) {
		t.Fatalf("the browser's arguments have the token %s: %s", token, page)
	}
	if info, err := os.Stat(filepath.Dir(page)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the page's folder: %v, %v", info, err)
	}
	if content, err := os.ReadFile(page); err != nil || !strings.Contains(string(content), address+"?token="+token) {
		t.Errorf("the page does not lead to %s: %s, %v", address, content, err)
	}
	stop()
	<-ended
	if _, err := os.Stat(page); err == nil {
		t.Error("the page is left behind")
	}
}

// JupyterLab answers once it says 200, and one that does not go on with what it says is not waited for for ever.
func TestWaitFor(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "token=x" || asked.Add(1) == 1 {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	if err := get(t.Context(), address, "/api/status?token=x"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("it says that it is not ready: %v", err)
	}
	if err := waitFor(t.Context(), address, "/api/status?token=x"); err != nil {
		t.Error(err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := waitFor(ctx, silent.Addr().String(), "/"); err == nil {
		t.Error("a server that says nothing answers")
	}
}

// A JupyterLab that neither answers nor ends on SIGTERM is killed.
func TestServeWithoutAnswer(t *testing.T) {
	defer func(stop, start time.Duration) { stopWait, startWait = stop, start }(stopWait, startWait)
	stopWait, startWait = 100*time.Millisecond, 300*time.Millisecond
	l := newLab(t)
	pidFile := filepath.Join(t.TempDir(), "pid")
	script := "#!/bin/sh\ntrap '' TERM\necho $$ >" + pidFile + "\nwhile :; do sleep 0.05; done\n"
	if err := os.MkdirAll(filepath.Dir(l.python()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(l.python(), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	port, err := FreePort(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{port, port + 1} {
		if err := os.WriteFile(l.logPath(p), []byte("another's"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		ended <- l.Serve(t.Context(), port, "README.md", func(string) { t.Error("it does not answer, yet is called ready") })
	}()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "does not answer") ||
			!strings.Contains(err.Error(), l.logPath(port)) {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Serve hangs")
	}
	if info, err := os.Stat(l.logPath(port)); err != nil || info.Mode().Perm() != 0o600 { // It has the token.
		t.Errorf("the log: %v, %v", info.Mode(), err)
	}
	if other, err := os.ReadFile(l.logPath(port + 1)); err != nil || string(other) != "another's" {
		t.Errorf("the log of another JupyterLab: %q, %v", other, err)
	}
	pids, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	checkEnded(t, string(pids))
}

// checkEnded checks that the processes of the given ids end soon.
func checkEnded(t *testing.T, pids string) {
	t.Helper()
	fields := strings.Fields(pids)
	if len(fields) == 0 {
		t.Error("no process has told its number")
	}
	for _, field := range fields {
		pid, err := strconv.Atoi(field)
		if err != nil || pid < 2 {
			t.Fatalf("process number %q", field)
		}
		for deadline := time.Now().Add(5 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(20 * time.Millisecond) {
			// In a container without an init, an ended process stays in the process list.
			if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil &&
				strings.Contains(string(stat), ") Z ") {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("left behind: process %d", pid)
				break
			}
		}
	}
}

// The packages that the first cells import are there: they are named in text, which no compiler reads.
func TestWarmupImports(t *testing.T) {
	raw, err := os.ReadFile("warmup.ipynb")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`github\.com/gradient-surgery/dml/([a-z/]+)`).FindAllSubmatch(raw, -1)
	if len(found) < 4 {
		t.Fatalf("%d imports, want at least 4", len(found))
	}
	for _, m := range found {
		if _, err := os.Stat(filepath.Join("../../../../..", string(m[1]))); err != nil {
			t.Error(err)
		}
	}
}
