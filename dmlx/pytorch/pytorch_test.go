package pytorch

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/internal/errs"
	"github.com/gradient-surgery/dml/dmlx/npy"
	"github.com/gradient-surgery/dml/dmlx/paper"
)

var regen = flag.Bool("regen", false, "write the module in testdata")

// all are the paper's 168 rules and those with the mask as printed, each with its defaults and with all options that it
// uses; and with each option alone until that has met each direction, pair, triplet and mask.
func all(t *testing.T) []dmlx.Rule {
	t.Helper()
	values := map[string]string{"tau": "tau=3", "alpha": "alpha=1.5", "beta": "beta=7", "lambda": "lambda=0.3",
		"epsilon": "epsilon=0.25"}
	var rules []dmlx.Rule
	for _, name := range paper.GridRules() {
		r, err := dmlx.ParseRule(name)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, r)
	}
	for _, r := range slices.Clone(rules) {
		if r.Mask.Name == dmlx.SC2.Name {
			r.Mask = dmlx.SC2Printed
			rules = append(rules, r)
		}
	}
	var out []dmlx.Rule
	met := map[string]bool{}
	for _, r := range rules {
		var every []string
		add := func(options string) {
			with, err := r.WithOptions(options)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, with)
		}
		out = append(out, r)
		for _, o := range r.UsedOptions() {
			option := o
			if v, number := values[o]; number {
				option = v
			}
			every = append(every, option)
			alone := false
			for i, part := range append(strings.Split(strings.SplitN(r.Name(), "+", 2)[0], "/"), r.Mask.Name) {
				with := fmt.Sprint(o, i, part)
				alone, met[with] = alone || !met[with], true
			}
			if alone {
				add(option)
			}
		}
		add(strings.Join(every, "&"))
	}
	for _, name := range []string{ // Each function, with constants too, which Python has as numbers.
		"cos/[1-Sap, 1]/[max(0, San-Sap+margin), margin=0.5]", "euc/[exp(1), min(2, 3)]/[0.5]+[1 > 2]",
		"cos/[pow(2, Sap), pow(abs(San-1), 3)]/[where(San > Sap || !(Sap <= 0.5), 1, 0)]?sum",
		"euc-orth/[Dap*tanh(Dan), relu(San)]/[softplus(k*(San-Sap))/k, k=4]+[San > Sap && -San < 0.3]",
		"cos-orth/[log(2+Sap), sqrt(Dan)]/[sigmoid(tau*max(Sap, San, 0.2))]?tau=3",
		"cos/[1-mean(Dap*(Sap-Rap), San), 1+mean(where(Ran > 0.1, Ran, 2), 0)]/[mean(pow(Ran, 2), lambda)]?lambda=0.3",
	} {
		r, err := dmlx.ParseRule(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	for _, r := range dmlx.Rules() { // The paper's as formulas.
		if (r.Pair.Name != "lin-ms" && r.Pair.Name != "sig-ms") || r.Direction.Name != "cos" {
			continue
		}
		of, err := dmlx.ParseRule("cos/[" + r.Pair.Formulas().String() + "]/[" + r.Triplet.Formulas().String() + "]")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, of)
	}
	return out
}

// forms are the writers of modules by their framework.
var forms = map[string]func(dmlx.Rule) (string, error){"torch": Module, "jax": JAX}

// Each rule of the library has modules, which are short and have its name and each of its numbers.
func TestModules(t *testing.T) {
	for form, module := range forms {
		t.Run(form, func(t *testing.T) { testModules(t, form, module) })
	}
}

func testModules(t *testing.T, form string, module func(dmlx.Rule) (string, error)) {
	for _, r := range all(t) {
		text, err := module(r)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(text, "\n"); n > 90 || !strings.Contains(text, "The rule "+r.Name()+" as a") {
			t.Errorf("%s: %d lines", r, n)
		}
		for i, line := range strings.Split(text, "\n") {
			if i > 0 && len(line) > 120 || strings.TrimRight(line, " ") != line {
				t.Errorf("%s: line %d is %q", r, i+1, line)
			}
		}
		for _, o := range r.UsedOptions() {
			for _, n := range dmlx.Numbers {
				if value := n.Python + "=" + format(r.Numbers()[n.Name]); n.Name == o && !strings.Contains(text, value) {
					t.Errorf("%s: there is no %s", r, value)
				}
			}
		}
	}
	golden := map[string]string{"torch": "testdata/ours.py", "jax": "testdata/ours_jax.py"}[form]
	text, err := module(dmlx.Rule{Direction: dmlx.DirectionCosOrth, Pair: dmlx.PairLinMS, Triplet: dmlx.TripletCir})
	if err != nil {
		t.Fatal(err)
	}
	if *regen {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("the module differs from %s; -regen writes it", golden)
	}
}

// A part of the user's own is written if it is a formula.
func TestOwnParts(t *testing.T) {
	r := dmlx.Rule{Triplet: dmlx.TripletWeight{Name: "hinge", Of: func(b *dmlx.Batch) *graph.Node { return b.San }}}
	const want = `no Python code for its triplet "hinge": write it as a formula`
	if _, err := Module(r); err == nil || !errs.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want …%s…", err, want)
	}
}

// python names a Python with a package, and skips the test if there is none.
func python(t *testing.T, with string) string {
	t.Helper()
	path := os.Getenv("DMLX_PYTHON")
	if path == "" {
		t.Skip("set DMLX_PYTHON to a Python with " + with)
	}
	if out, err := exec.CommandContext(t.Context(), path, "-c", "import "+with).CombinedOutput(); err != nil {
		t.Skipf("%s has no %s: %s", path, with, out)
	}
	return path
}

// batch is random classes of several images and a lone image; one image is nearly there twice, if asked for.
func batch(twice bool) dissect.Embeddings {
	rng := rand.New(rand.NewPCG(40, 1))
	e := dissect.Embeddings{Dim: 8}
	for class, images := range []int{4, 4, 4, 3, 5, 4, 1} {
		var center [8]float64
		for j := range center {
			center[j] = rng.NormFloat64()
		}
		for i := range images {
			for j := range e.Dim {
				v := center[j] + 0.9*rng.NormFloat64()
				if twice && class == 2 && i == 3 {
					v = float64(e.Values[(e.N-1)*e.Dim+j]) + 0.01*rng.NormFloat64()
				}
				e.Values = append(e.Values, float32(v))
			}
			e.Labels = append(e.Labels, int64(class))
			e.N++
		}
	}
	return e
}

// The modules' gradients are those of dissect.Rule, at the normalized embeddings and at those given, in float32 and
// float64. PyTorch's work as losses of pytorch-metric-learning and over several processes, JAX's over several devices.
func TestAgainstPyTorchAndJAX(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 30 seconds")
	}
	if os.Getenv("DMLX_PYTHON") == "" {
		t.Skip("set DMLX_PYTHON to a Python with torch or jax")
	}
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	dir, e, twice := t.TempDir(), batch(false), batch(true)
	var want []float32
	rules := all(t)
	compiled := make(map[string]*dissect.Compiled)
	for i, r := range rules {
		plain := r
		plain.Options = dmlx.Options{}
		c := compiled[plain.Name()]
		if c == nil {
			c = dissect.Compile(b, plain)
			compiled[plain.Name()] = c
			defer c.Close()
		}
		of := e
		if r.Options.SkipDuplicates { // Else the direction of a pair so near would be rounding.
			of = twice
		}
		d, err := c.Rule(of, r.Options)
		if err != nil {
			t.Fatal(err)
		}
		want = append(append(want, d.G...), d.Raw...)
		for form, module := range forms {
			text, err := module(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s%d.py", form, i)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, write := range map[string]func(string) error{
		"x.npy": func(p string) error { return npy.WriteFloat32(p, e.Values, e.N, e.Dim) },
		"z.npy": func(p string) error { return npy.WriteFloat32(p, twice.Values, e.N, e.Dim) },
		"y.npy": func(p string) error { return npy.WriteInt64(p, e.Labels, e.N) },
		"g.npy": func(p string) error { return npy.WriteFloat32(p, want, len(rules), 2, e.N, e.Dim) },
	} {
		if err := write(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for form := range forms {
		t.Run(form, func(t *testing.T) {
			path := python(t, form)
			script, err := filepath.Abs("testdata/compare_" + form + ".py")
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd := exec.CommandContext(t.Context(), path, script)
			cmd.Dir, cmd.Stderr = dir, &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, out, stderr.String())
			}
			t.Logf("%d modules:\n%s", len(rules), out)
			if lines := strings.Fields(string(out)); !slices.Contains(lines, "agreed") {
				t.Errorf("the script did not come to its end: %s", out)
			}
		})
	}
}
