package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gradient-surgery/dml/dmlx"
	"github.com/gradient-surgery/dml/dmlx/backend"
	"github.com/gradient-surgery/dml/dmlx/dissect"
	"github.com/gradient-surgery/dml/dmlx/npy"
)

func TestRule(t *testing.T) {
	code, stdout, stderr := invoke(t, "rule", "cos-orth/lin-ms/cir?tau=2")
	if code != 0 || !strings.Contains(stdout, "P+ = (1-mean(Sap-Rap, 0))*(1-Sap)") ||
		!strings.Contains(stdout, "tau = 2") || !strings.Contains(stdout, "published losses") ||
		!strings.Contains(stdout, "no loss") {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
	code, stdout, stderr = invoke(t, "rule", "cos/[1-Sap, log(San)]/[sigmoid(k*(San-Sap)), k=4]?k=8")
	for _, want := range []string{"[sigmoid(k*(San-Sap)), k=8]", `T=\sigma(k\cdot (S_{an}-S_{ap}))`,
		"P- is NaN at", "k = 8"} {
		if code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("%d %s %s: no %s", code, stdout, stderr, want)
		}
	}
	v := object(t, "rule", "table1-circle")
	first := v["weights"].([]any)[0].(map[string]any) // S_ap = 0.9, S_an = 0.1.
	if got, want := first["triplet_weight"].(float64), 1/(1+math.Exp(0.9*1.1-0.01)); math.Abs(got-want) > 1e-6 {
		t.Errorf("T is %g, want %g", got, want)
	}
	if v["rule"] != "cos/lin/cir" || v["nearest_rules"].([]any)[0].(map[string]any)["name"] == "cos/lin/cir" {
		t.Errorf("%v", v["rule"])
	}
	out := filepath.Join(t.TempDir(), "surgery.py")
	code, module, _ := invoke(t, "rule", "euc/con/con", "--pytorch")
	_, _, _ = invoke(t, "rule", "euc/con/con", "--pytorch", "--out", out)
	if written, err := os.ReadFile(out); code != 0 || err != nil || string(written) != module ||
		!strings.Contains(module, "class Surgery") {
		t.Errorf("%d %v %s", code, err, module)
	}
	if code, jax, _ := invoke(t, "rule", "euc/con/con", "--jax"); code != 0 || !strings.Contains(jax, "import jax.numpy") {
		t.Errorf("%d %s", code, jax)
	}
	for want, args := range map[string][]string{
		"--pytorch and --jax are both": {"rule", "cos/lin/cir", "--jax", "--pytorch"},
		"did you mean cir?":            {"rule", "cos/lin/cirr"}, "add --pytorch": {"rule", "cos/lin/cir", "--out", out},
		"accepts 1 arg": {"rule"},
	} {
		if code, _, stderr := invoke(t, args...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
}

// composed is a rule at a batch, with its gradients.
func composed(t *testing.T, e dissect.Embeddings, name string) *dissect.Dissection {
	t.Helper()
	b, err := backend.Go()
	if err != nil {
		t.Fatal(err)
	}
	rule, err := dmlx.ParseRule(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := dissect.Rule(b, e, rule)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// A gradient at the embeddings as given is recognized as one, and its rule is the nearest.
func TestNearestToGradient(t *testing.T) {
	t.Setenv("GOMLX_BACKEND", "go")
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	e := dissect.Sample(4, 4, 24, 1.2, 3)
	for i := range e.Values { // Of different lengths.
		e.Values[i] *= float32(1 + i/e.Dim)
	}
	if err := npy.WriteFloat32(file("E.npy"), e.Values, e.N, e.Dim); err != nil {
		t.Fatal(err)
	}
	if err := npy.WriteInt64(file("L.npy"), e.Labels, e.N); err != nil {
		t.Fatal(err)
	}
	batch := []string{"--embeddings", file("E.npy"), "--labels", file("L.npy")}
	d := composed(t, e, "cos/sig/cir")
	for _, at := range []string{"raw", "normalized"} {
		g := d.G
		if at == "raw" {
			g = d.Raw
		}
		if err := npy.WriteFloat32(file("G.npy"), g, e.N, e.Dim); err != nil {
			t.Fatal(err)
		}
		v := object(t, append([]string{"dissect", "--gradient", file("G.npy"), "--nearest", "4"}, batch...)...)
		ranked := v["nearest_rules"].([]any)
		name, _ := ranked[0].(map[string]any)["name"].(string)
		if v["at"] != at || len(ranked) != 4 || !strings.HasPrefix(name, "cos/sig/cir") {
			t.Errorf("%s: %v, %v", at, v["at"], ranked)
		}
		if mined, pairs := v["share_of_mined_triplet"].(float64), v["share_of_pairs"].(float64); mined < 0.9999 ||
			pairs < mined-1e-6 || len(v["nearest_losses"].([]any)) != 4 {
			t.Errorf("%s: of the mined pairs %v, of all %v", at, mined, pairs)
		}
	}
	if code, _, stderr := invoke(t, append([]string{"dissect", "--loss", "ms", "--nearest", "2"}, batch...)...); code !=
		exitUsage || !strings.Contains(stderr, "--gradient") {
		t.Errorf("%d %s", code, stderr)
	}
}

// Formulas that are nowhere finite are refused by all commands that train, before they do.
func TestFormulasWithoutAValue(t *testing.T) {
	store := atWork(t)
	for _, args := range [][]string{
		{"train", "--rule"}, {"rates", "--lr", "0.1,0.3", "--rule"}, {"reproduce", "table2", "--add-rule"},
	} {
		args = append(args, "cos/[1/0, San]/con", "--preset", "smoke", "--store", store)
		if code, stdout, stderr := invoke(t, args...); code != exitUsage || stdout != "" ||
			!strings.Contains(stderr, "pair weight [1/0, San]") || !strings.Contains(stderr, "P₊ is +Inf") {
			t.Errorf("%v: %d %s %s", args, code, stdout, stderr)
		}
	}
}
